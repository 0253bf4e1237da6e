//! The house rules, one a file. Each check is a function from the workspace to the problems it finds; a check that
//! can't look fails too.

mod examples;
mod length;
mod licences;
mod links;
mod manifests;
mod modules;
mod purity;
mod rooms;
mod traces;

use std::path::Path;
use std::process::ExitCode;

use crate::problem::{CheckError, Problem};
use crate::workspace::Workspace;

type Check = fn(&Workspace) -> Result<Vec<Problem>, CheckError>;

/// All checks: name, rule, function.
const CHECKS: &[(&str, &str, Check)] = &[
    ("rooms", "a crate depends only on the crates that its room allows", rooms::check),
    ("purity", "the core has no async runtime, client or system calls below it", purity::check),
    ("modules", "every Rust file is part of a module tree", modules::check),
    ("manifests", "lints, metadata and versions are the workspace's; what is declared is used", manifests::check),
    ("length", "no file over 500 lines without its tests, unless listed with a reason", length::check),
    (
        "licences",
        "dependencies have allowed licences, come once and from crates.io, and are not too many",
        licences::check,
    ),
    ("traces", "no path of the machine in tracked files", traces::check),
    ("links", "relative links in documents lead somewhere", links::check),
    ("examples", "examples are read strictly and need no registry; bad ones are refused", examples::check),
];

/// Runs the named checks, or all.
pub(crate) fn run(root: &Path, names: &[&str]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| !CHECKS.iter().any(|(known, ..)| known == *name)) {
        let known: Vec<&str> = CHECKS.iter().map(|(name, ..)| *name).collect();
        eprintln!("no check {unknown}; there are: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let workspace = match Workspace::load(root) {
        Ok(workspace) => workspace,
        Err(error) => {
            eprintln!("{}", chain(&error));
            return ExitCode::FAILURE;
        }
    };
    let mut broken = 0;
    for (name, rule, check) in CHECKS.iter().filter(|(name, ..)| names.is_empty() || names.contains(name)) {
        match check(&workspace) {
            Ok(problems) if problems.is_empty() => println!("ok      {name}: {rule}"),
            Ok(mut problems) => {
                broken += 1;
                println!("BROKEN  {name}: {rule}");
                problems.sort();
                for problem in problems {
                    println!("        {problem}");
                }
            }
            Err(error) => {
                broken += 1;
                println!("BROKEN  {name}: {}", chain(&error));
            }
        }
    }
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn chain(error: &CheckError) -> String {
    minke_core::runtime::error_chain(error)
}

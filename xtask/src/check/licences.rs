//! What the workspace stands on: allowed licences only, from crates.io only, each crate once, and not too much of it.
//! The lists are `deny.toml`'s, so that cargo-deny, where it is installed, and this check agree.

use std::collections::BTreeMap;

use serde_json::Value;
use toml_edit::{DocumentMut, Item, TableLike};

use crate::problem::{CheckError, Problem, read};
use crate::spdx;
use crate::workspace::{Workspace, metadata};

/// The most packages the lock file may hold.
const MOST_PACKAGES: usize = 450;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let deny = parse("deny.toml", workspace)?;
    let lock = parse("Cargo.lock", workspace)?;
    // Dependencies of other platforms are not built, and not downloaded for this check.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = metadata(&workspace.root, &["--locked", "--filter-platform", &host])?;
    let packages: Vec<Licensed> = metadata["packages"].as_array().into_iter().flatten().map(Licensed::of).collect();
    let mut problems = judge_licences(&packages, &Policy::of(&deny));
    problems.extend(judge_duplicates(&packages, &skipped(&deny)));
    problems.extend(judge_lock(&lock));
    Ok(problems)
}

fn parse(name: &str, workspace: &Workspace) -> Result<DocumentMut, CheckError> {
    let path = workspace.root.join(name);
    let text = read(&path)?;
    text.parse().map_err(|error: toml_edit::TomlError| CheckError::Format { path, message: error.to_string() })
}

struct Licensed {
    name: String,
    expression: Option<String>,
}

impl Licensed {
    fn of(package: &Value) -> Self {
        let text = |field: &str| package[field].as_str().map(str::to_owned);
        Self { name: text("name").unwrap_or_default(), expression: text("license") }
    }
}

/// The `[licenses]` table of `deny.toml`.
#[derive(Debug, Default)]
struct Policy {
    allow: Vec<String>,
    /// More licences for one crate.
    exceptions: Vec<(String, Vec<String>)>,
    /// Expressions of crates that state none.
    clarified: Vec<(String, String)>,
}

impl Policy {
    fn of(deny: &DocumentMut) -> Self {
        let Some(table) = deny.get("licenses") else { return Self::default() };
        let crates = |name: &str| entries(table.get(name));
        Self {
            allow: strings(table.get("allow")),
            exceptions: crates("exceptions").iter().map(|e| (crate_name(*e), strings(e.get("allow")))).collect(),
            clarified: crates("clarify").iter().map(|e| (crate_name(*e), string(e.get("expression")))).collect(),
        }
    }
}

/// The tables of an array of tables, in either of TOML's two ways to write one.
fn entries(item: Option<&Item>) -> Vec<&dyn TableLike> {
    match item {
        Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        Some(Item::Value(toml_edit::Value::Array(array))) => {
            array.iter().filter_map(|value| value.as_inline_table().map(|table| table as &dyn TableLike)).collect()
        }
        _ => Vec::new(),
    }
}

fn string(item: Option<&Item>) -> String {
    item.and_then(Item::as_str).unwrap_or_default().to_owned()
}

/// cargo-deny's `crate = "name"` or `crate = "name@version"`.
fn crate_name(table: &dyn TableLike) -> String {
    let specification = string(table.get("crate"));
    specification.split('@').next().unwrap_or_default().to_owned()
}

fn strings(item: Option<&Item>) -> Vec<String> {
    let values = item.and_then(Item::as_array).into_iter().flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn judge_licences(packages: &[Licensed], policy: &Policy) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let clarified = policy.clarified.iter().find(|(name, _)| *name == package.name).map(|(_, text)| text);
        let Some(expression) = package.expression.as_ref().or(clarified) else {
            problems.push(Problem::of("Cargo.lock", format!("{} states no licence", package.name)));
            continue;
        };
        let mut allowed = policy.allow.clone();
        for (_, more) in policy.exceptions.iter().filter(|(name, _)| *name == package.name) {
            allowed.extend(more.iter().cloned());
        }
        match spdx::satisfied(expression, &allowed) {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("{} has licence {expression}, which deny.toml does not allow", package.name);
                problems.push(Problem::of("Cargo.lock", text));
            }
            Err(error) => problems.push(Problem::of("Cargo.lock", format!("licence of {}: {error}", package.name))),
        }
    }
    problems
}

/// The crates that `deny.toml` lets be there twice.
fn skipped(deny: &DocumentMut) -> Vec<String> {
    entries(deny.get("bans").and_then(|bans| bans.get("skip"))).into_iter().map(crate_name).collect()
}

fn judge_duplicates(packages: &[Licensed], skipped: &[String]) -> Vec<Problem> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for package in packages {
        *counts.entry(&package.name).or_default() += 1;
    }
    let twice = |name: &str| counts.get(name).is_some_and(|count| *count > 1);
    let known = |name: &str| skipped.iter().any(|skipped| skipped == name);
    let unknown = counts.keys().filter(|name| twice(name) && !known(name));
    let stale = skipped.iter().filter(|name| !twice(name));
    unknown
        .map(|name| {
            Problem::of(
                "Cargo.lock",
                format!("{name} is there in several versions: unite them, or say why in deny.toml"),
            )
        })
        .chain(stale.map(|name| Problem::of("deny.toml", format!("{name} is there once: remove it from bans.skip"))))
        .collect()
}

fn judge_lock(lock: &DocumentMut) -> Vec<Problem> {
    let packages = entries(lock.get("package"));
    let mut problems = Vec::new();
    if packages.len() > MOST_PACKAGES {
        let text = format!("{} packages, {MOST_PACKAGES} are the most", packages.len());
        problems.push(Problem::of("Cargo.lock", text));
    }
    for package in packages {
        let source = string(package.get("source"));
        if !source.is_empty() && source != CRATES_IO {
            let text = format!("{} comes from {source}, not from crates.io", string(package.get("name")));
            problems.push(Problem::of("Cargo.lock", text));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::texts;

    fn package(name: &str, expression: Option<&str>) -> Licensed {
        Licensed { name: name.to_owned(), expression: expression.map(str::to_owned) }
    }

    #[test]
    fn licences_are_judged_by_deny_toml() {
        let deny = "[licenses]\nallow = [\"MIT\"]\nexceptions = [{ crate = \"paths@1\", allow = [\"MPL-2.0\"] }]\n[[licenses.clarify]]\ncrate = \"silent\"\nexpression = \"MIT\"\n";
        let policy = Policy::of(&deny.parse().unwrap());
        let packages = [
            package("good", Some("MIT OR GPL-3.0")),
            package("paths", Some("MPL-2.0")),
            package("other", Some("MPL-2.0")),
            package("silent", None),
            package("mute", None),
            package("odd", Some("MIT AND")),
        ];
        assert_eq!(
            texts(&judge_licences(&packages, &policy)),
            [
                "Cargo.lock: other has licence MPL-2.0, which deny.toml does not allow",
                "Cargo.lock: mute states no licence",
                "Cargo.lock: licence of odd: the expression ends where a licence should be",
            ]
        );
        assert_eq!(
            judge_licences(&packages, &Policy::default()).len(),
            packages.len(),
            "an empty policy allows nothing"
        );
    }

    #[test]
    fn a_crate_in_two_versions_needs_a_reason_and_loses_it_with_the_need() {
        let packages = ["a", "a", "b", "c", "c"].map(|name| package(name, None));
        let deny = "[bans]\nskip = [{ crate = \"a@1\", reason = \"x\" }, { crate = \"b\", reason = \"y\" }]\n";
        assert_eq!(
            texts(&judge_duplicates(&packages, &skipped(&deny.parse().unwrap()))),
            [
                "Cargo.lock: c is there in several versions: unite them, or say why in deny.toml",
                "deny.toml: b is there once: remove it from bans.skip",
            ]
        );
    }

    #[test]
    fn the_lock_file_is_small_and_from_crates_io() {
        let entry =
            |name: &str, source: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{source}\n");
        let good = entry("own", "") + &entry("a", &format!("source = \"{CRATES_IO}\""));
        assert_eq!(judge_lock(&good.parse().unwrap()), []);
        let git = good + &entry("b", "source = \"git+https://example.org/b#1\"");
        let problems = texts(&judge_lock(&git.parse().unwrap()));
        assert_eq!(problems, ["Cargo.lock: b comes from git+https://example.org/b#1, not from crates.io"]);
        let many: String = (0..=MOST_PACKAGES).map(|n| entry(&format!("p{n}"), "")).collect();
        assert_eq!(texts(&judge_lock(&many.parse().unwrap())), ["Cargo.lock: 451 packages, 450 are the most"]);
    }
}

//! `minke completion SHELL`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::{Exit, Outcome};
use crate::output::stdout;

/// Print a completion script
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// For this shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "minke", &mut script);
    stdout::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Reached)
}

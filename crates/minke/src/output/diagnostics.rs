//! Problems of manifests, as people read them: with the source line on a terminal, one line each otherwise.

use std::io::IsTerminal;

use minke_core::manifest::Diagnostic;
use minke_core::runtime::error_chain;
use minke_kubelet::source::LoadError;

use crate::exit::Failure;

/// Prints findings to standard error.
pub(crate) fn print(diagnostics: &[Diagnostic]) {
    let terminal = std::io::stderr().is_terminal();
    for diagnostic in diagnostics {
        if terminal {
            eprintln!("{}", diagnostic.render());
        } else {
            eprintln!("{}", line(diagnostic));
        }
    }
}

/// One line with its severity in front.
fn line(diagnostic: &Diagnostic) -> String {
    match diagnostic.severity {
        minke_core::manifest::Severity::Error => format!("error: {diagnostic}"),
        minke_core::manifest::Severity::Warning => format!("warning: {diagnostic}"),
    }
}

/// Prints all that keeps manifests from being used, and gives the failure that ends the command.
pub(crate) fn fail(error: &LoadError) -> Failure {
    match error {
        LoadError::Invalid(invalid) => {
            print(&invalid.warnings);
            print(&invalid.errors);
            if invalid.unlisted > 0 {
                eprintln!("and {} more", invalid.unlisted);
            }
            Failure::usage(format!("{invalid}; nothing was started"))
        }
        LoadError::Read(errors) => {
            for error in errors {
                eprintln!("error: {}", error_chain(error));
            }
            Failure::usage(format!("{error}; nothing was started"))
        }
        LoadError::Empty { .. } => Failure::usage(error.to_string()),
        LoadError::Interrupted(_) => Failure::from_error(error),
    }
}

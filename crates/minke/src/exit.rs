//! How the program ends: exit codes, and failures as people read them.
//!
//! Every command returns [`Outcome`]; `main` prints a [`Failure`] and turns both into the process's exit code. The
//! codes are documented in `docs/exit-codes.md` and never change their meaning.

use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use minke_core::runtime::error_chain;
use serde::Serialize;

/// Why the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Exit {
    /// 0: the goal was reached.
    Reached,
    /// 1: a container failed.
    ContainerFailed,
    /// 1, of `minke doctor`: the machine can't run Pods.
    Unfit,
    /// 2: bad usage or manifest; nothing was started.
    Usage,
    /// 3: the goal was not reached in time.
    Timeout,
    /// 4: a Pod was rejected by admission.
    Rejected,
    /// 5: the runtime or the system failed.
    System,
    /// 6: the Pod asks for something that can't be.
    Configuration,
    /// 7: something outside of the cluster failed.
    External,
    /// 8: the Pod was taken away by somebody who does not want it any more.
    Cancelled,
    /// 128 + signal: interrupted before the goal.
    Interrupted(u8),
    /// The code of the container that `--exit-code-from` names.
    Container(u8),
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Reached => 0,
            Self::ContainerFailed | Self::Unfit => 1,
            Self::Usage => 2,
            Self::Timeout => 3,
            Self::Rejected => 4,
            Self::System => 5,
            Self::Configuration => 6,
            Self::External => 7,
            Self::Cancelled => 8,
            Self::Interrupted(signal) => 128_u8.saturating_add(signal),
            Self::Container(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What a command ends with.
pub(crate) type Outcome = Result<Exit, Failure>;

/// A failure as it is shown: what failed, on which thing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What failed, on which thing.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure of the user's making: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), hint: None }
    }

    /// A failure of the machine's making: exit code 5.
    pub(crate) fn system(message: impl Into<String>) -> Self {
        Self { exit: Exit::System, message: message.into(), hint: None }
    }

    /// An error with its causes, as a failure of the machine's making.
    pub(crate) fn from_error(error: &(dyn StdError + 'static)) -> Self {
        Self::system(error_chain(error))
    }

    /// What could not be done, and why: a failure of the machine's making.
    pub(crate) fn because(what: impl fmt::Display, error: &(dyn StdError + 'static)) -> Self {
        Self::system(format!("{what}: {}", error_chain(error)))
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_documented_ones() {
        let codes = [
            (Exit::Reached, 0),
            (Exit::ContainerFailed, 1),
            (Exit::Unfit, 1),
            (Exit::Usage, 2),
            (Exit::Timeout, 3),
            (Exit::Rejected, 4),
            (Exit::System, 5),
            (Exit::Configuration, 6),
            (Exit::External, 7),
            (Exit::Cancelled, 8),
            (Exit::Interrupted(2), 130),
            (Exit::Interrupted(15), 143),
            (Exit::Container(42), 42),
        ];
        for (exit, code) in codes {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn a_failure_says_what_to_do_on_a_line_of_its_own() {
        let failure = Failure::usage("no pod \"wbe\"").hint("did you mean \"web\"?");
        assert_eq!(failure.to_string(), "error: no pod \"wbe\"\n  hint: did you mean \"web\"?");
    }
}

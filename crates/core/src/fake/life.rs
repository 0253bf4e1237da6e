//! How long a scripted container lives, and how it ends.

use std::time::Duration;

use crate::runtime::ExitCode;

/// How a container ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Exit code.
    pub code: ExitCode,
    /// The runtime's reason; empty is `Completed` for 0, else `Error`.
    pub reason: String,
}

impl Ending {
    /// An exit with this code.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self { code: ExitCode::Known(code), reason: String::new() }
    }

    /// Killed for memory.
    #[must_use]
    pub fn oom() -> Self {
        Self { code: ExitCode::Known(137), reason: "OOMKilled".to_owned() }
    }

    /// Nobody saw how.
    #[must_use]
    pub fn lost() -> Self {
        Self { code: ExitCode::Lost, reason: "ContainerStatusUnknown".to_owned() }
    }
}

/// What a container does when it gets the stop signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnStop {
    /// It ends after this time, if the grace lasts that long.
    Obeys {
        /// The time.
        after: Duration,
        /// How.
        ending: Ending,
    },
    /// It ignores the signal: SIGKILL ends it after the grace, with 137.
    Ignores,
}

/// The life of one attempt of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// How long it runs by itself; `None`: until stopped.
    pub runs_for: Option<Duration>,
    /// How it ends by itself.
    pub ending: Ending,
    /// What it does when stopped.
    pub on_stop: OnStop,
    /// It can't be started (command not found): exit code 128, reason `StartError`.
    pub start_fails: bool,
}

impl Life {
    /// Runs until stopped, and then ends at once with 0.
    #[must_use]
    pub fn forever() -> Self {
        let on_stop = OnStop::Obeys { after: Duration::ZERO, ending: Ending::code(0) };
        Self { runs_for: None, ending: Ending::code(0), on_stop, start_fails: false }
    }

    /// Runs for this long and ends with this code.
    #[must_use]
    pub fn exits(after: Duration, code: i32) -> Self {
        Self { runs_for: Some(after), ending: Ending::code(code), ..Self::forever() }
    }

    /// Can't be started.
    #[must_use]
    pub fn start_fails() -> Self {
        Self { start_fails: true, ..Self::forever() }
    }

    /// Ignores the stop signal.
    #[must_use]
    pub fn ignoring_stop(self) -> Self {
        Self { on_stop: OnStop::Ignores, ..self }
    }

    /// Takes this long to end when stopped.
    #[must_use]
    pub fn stopping_after(self, after: Duration, code: i32) -> Self {
        Self { on_stop: OnStop::Obeys { after, ending: Ending::code(code) }, ..self }
    }

    /// Ends by itself like this.
    #[must_use]
    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::forever()
    }
}

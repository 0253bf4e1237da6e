//! Why an agent ends.

use std::fmt;

use crate::exit::Failure;

/// Why an agent ends that was ready.
#[derive(Debug)]
pub(super) enum End {
    /// By SIGTERM: a service manager, perhaps because the machine goes down.
    Terminated,
    /// By SIGINT: somebody at its terminal.
    Interrupted,
    /// By a command: another agent takes its place, or the instance goes down.
    Asked,
    /// It was started on demand, and nobody needs it.
    Idle,
    /// What goes on beside it can't.
    Companion(Failure),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminated => "SIGTERM",
            Self::Interrupted => "SIGINT",
            Self::Asked => "asked to",
            Self::Idle => "nothing to supervise",
            Self::Companion(_) => "its companion ended",
        })
    }
}

//! The steps of attaching and detaching, and a way for tests to stop at each.

use super::error::NetworkError;

/// A point after which a failure or a crash leaves something to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The machine's side is ready.
    HostReady,
    /// Addresses are claimed.
    AddressClaimed,
    /// Host ports are claimed.
    PortsClaimed,
    /// The record is on disk.
    Recorded,
    /// Host ports are open.
    PortsOpen,
    /// The veth pair exists, or the plugins have done their part.
    Linked,
    /// The Pod's interface is configured.
    Configured,
    /// Host ports are closed again, or the plugins have undone their part.
    PortsClosed,
    /// The veth pair is gone.
    Unlinked,
    /// Claims are given up.
    Released,
    /// The record is gone.
    Forgotten,
}

/// What goes wrong where; nothing outside of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fault {
    #[default]
    None,
    /// The step fails, as any call on the kernel may.
    #[cfg(test)]
    Fail(Step),
    /// Nothing more is done, as after `kill -9`.
    #[cfg(test)]
    Crash(Step),
}

impl Fault {
    /// Goes on, unless this is the step.
    pub(super) fn passed(self, step: Step) -> Result<(), NetworkError> {
        let _ = step;
        match self {
            Self::None => Ok(()),
            #[cfg(test)]
            Self::Fail(at) if at == step => Err(NetworkError::state("testing", "here", std::io::Error::other("fault"))),
            #[cfg(test)]
            Self::Crash(at) if at == step => Err(NetworkError::Stopped { source: None }),
            #[cfg(test)]
            Self::Fail(_) | Self::Crash(_) => Ok(()),
        }
    }

    /// Whether an error is the crash of a test, after which nothing is cleaned up.
    pub(super) fn is_crash(self, error: &NetworkError) -> bool {
        let _ = error;
        match self {
            Self::None => false,
            #[cfg(test)]
            Self::Fail(_) => false,
            #[cfg(test)]
            Self::Crash(_) => matches!(error, NetworkError::Stopped { source: None }),
        }
    }
}

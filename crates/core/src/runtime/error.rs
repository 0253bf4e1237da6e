//! Why a call on the runtime failed, in the few ways that a caller tells apart.

use std::error::Error as StdError;
use std::time::Duration;

/// What was asked of the runtime when it failed; appears in messages.
pub type Operation = &'static str;

/// A failed call on sandboxes, containers or events. Image pulls have their own, richer [`super::PullError`].
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The named thing does not exist. Stop and remove never return this.
    #[error("{operation}: no {what} {id}")]
    NotFound {
        /// The call.
        operation: Operation,
        /// "sandbox", "container" or "image".
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// There is one already (same sandbox, name and attempt).
    #[error("{operation}: {what} {id} exists already")]
    AlreadyExists {
        /// The call.
        operation: Operation,
        /// "sandbox" or "container".
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The configuration can't be carried out, whatever the state of the machine: trying again is pointless until
    /// the Pod or the machine's set-up changes.
    #[error("{operation}: {message}")]
    Invalid {
        /// The call.
        operation: Operation,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// The container has no such program, or can't execute it.
    #[error("{operation}: {message}")]
    NotExecutable {
        /// The call.
        operation: Operation,
        /// What a shell would return for it: 127 for a program that is not there, 126 for one that can't be executed.
        exit_code: i32,
        /// In upstream's words: `exec: "foo": executable file not found in $PATH`.
        message: String,
    },
    /// This runtime can't do that. A feature flag, not a fault.
    #[error("{operation}: not supported by this runtime: {feature}")]
    Unsupported {
        /// The call.
        operation: Operation,
        /// The missing feature.
        feature: String,
    },
    /// The machine refuses: a missing capability, namespace, cgroup controller. `message` says what is missing and
    /// how to get it.
    #[error("{operation}: not permitted on this machine: {message}")]
    NotPermitted {
        /// The call.
        operation: Operation,
        /// What is missing and how to get it.
        message: String,
    },
    /// The runtime does not answer (daemon gone, shim dead). Nothing is known about what runs.
    #[error("{operation}: {}", RuntimeError::UNANSWERED)]
    Unavailable {
        /// The call.
        operation: Operation,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// No answer in time; the call may have taken effect.
    #[error("{operation}: no answer within {} ms", after.as_millis())]
    TimedOut {
        /// The call.
        operation: Operation,
        /// How long was waited.
        after: Duration,
    },
    /// Everything else.
    #[error("{operation} failed")]
    Failed {
        /// The call.
        operation: Operation,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl RuntimeError {
    /// How [`RuntimeError::Unavailable`] says it. Whoever has only its text, as in an event, tells it apart by this.
    pub const UNANSWERED: &'static str = "the runtime does not answer";

    /// Wraps any error as [`RuntimeError::Failed`].
    pub fn failed(operation: Operation, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed { operation, source: source.into() }
    }

    /// Whether the thing asked about does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// An error with all its causes on one line, `a: b: c`; the one adapter from error chains to text.
#[must_use]
pub fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

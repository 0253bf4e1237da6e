//! What admission says of a Pod.

use minke_core::identity::PodUid;

/// Why a Pod may not run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Rejection {
    /// `OutOfcpu`, `OutOfmemory`, `OutOfpods`, `NodePorts`, `AlreadyExists`, `SysctlForbidden`, …
    pub reason: String,
    /// For people, in upstream's words where it has some. Begins `Pod was rejected: ` in the status.
    pub message: String,
}

impl Rejection {
    pub(super) fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }

    /// The message of the Pod's status.
    #[must_use]
    pub fn status_message(&self) -> String {
        format!("Pod was rejected: {}", self.message)
    }
}

/// A critical Pod fits once these Pods are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// Who has to make room, in upstream's order: BestEffort, Burstable, Guaranteed. Never empty.
    pub victims: Vec<PodUid>,
    /// The resources that are short: `cpu`, `memory`, `pods`, …
    pub short_of: Vec<String>,
    /// What would be said if nobody made room.
    pub otherwise: Rejection,
}

/// What admission says of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Admit,
    /// It may not.
    Reject(Rejection),
    /// It may, in the place of others.
    Preempt(Preemption),
}

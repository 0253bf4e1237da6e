//! The stages of a Pod's life, the steps within them, and what of it all a checkpoint keeps.

use std::time::Duration;

use minke_core::status::FailureOverride;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{PodStage, StopRequest};

/// Why a Pod ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Someone wants it stopped.
    Stopped,
    /// Its containers have ended, and none is to be started again.
    Completed,
    /// It failed as a whole: past its deadline, rejected.
    Failed(FailureOverride),
    /// The machine needs its place: evicted, preempted. Its volumes go as soon as nothing runs.
    Evicted(FailureOverride),
}

impl Cause {
    /// What its status says instead of what its containers made of the stop signal.
    #[must_use]
    pub fn failure(&self) -> Option<&FailureOverride> {
        match self {
            Self::Failed(failure) | Self::Evicted(failure) => Some(failure),
            Self::Stopped | Self::Completed => None,
        }
    }

    /// Whether the Pod was disrupted by the machine.
    #[must_use]
    pub fn is_eviction(&self) -> bool {
        matches!(self, Self::Evicted(_))
    }
}

impl Cause {
    /// In a word, for people.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Stopped => "Stopped",
            Self::Completed => "Completed",
            Self::Failed(failure) | Self::Evicted(failure) => &failure.reason,
        }
    }
}

/// What happens to a Pod that has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// It stays to be looked at.
    Keep,
    /// It is forgotten, with its logs and volumes.
    Remove,
}

impl Then {
    pub(super) fn and(self, request: StopRequest) -> Self {
        if request.remove { Self::Remove } else { self }
    }
}

/// A step of teardown, as a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Stop all containers, sidecars last, with this grace period.
    StopContainers {
        /// Zero kills at once.
        grace: Duration,
    },
    /// Stop all sandboxes: the network goes.
    StopSandboxes,
    /// Read the runtime directly: nothing runs. Keep exit codes in the final status, durably.
    Confirm,
    /// Unmount and remove the Pod's volumes.
    Volumes,
    /// Remove containers and sandboxes from the runtime.
    Sandboxes,
    /// Remove logs.
    Logs,
    /// Remove the checkpoint.
    Checkpoint,
}

/// How far the stopping of a Pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminating {
    /// [`Step::StopContainers`].
    Containers,
    /// [`Step::StopSandboxes`].
    Sandboxes,
    /// [`Step::Confirm`].
    Confirm,
}

impl Terminating {
    pub(super) fn job(self, grace: Duration) -> Step {
        match self {
            Self::Containers => Step::StopContainers { grace },
            Self::Sandboxes => Step::StopSandboxes,
            Self::Confirm => Step::Confirm,
        }
    }
}

/// How far the cleaning up of a Pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminated {
    /// [`Step::Volumes`].
    Volumes,
    /// [`Step::Sandboxes`].
    Sandboxes,
}

impl Terminated {
    pub(super) fn job(self) -> Step {
        match self {
            Self::Volumes => Step::Volumes,
            Self::Sandboxes => Step::Sandboxes,
        }
    }
}

/// How far the forgetting of a Pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removing {
    /// [`Step::Logs`].
    Logs,
    /// [`Step::Checkpoint`].
    Checkpoint,
}

impl Removing {
    pub(super) fn job(self) -> Step {
        match self {
            Self::Logs => Step::Logs,
            Self::Checkpoint => Step::Checkpoint,
        }
    }
}

/// Whether the step's job runs, or waits to be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It runs.
    Working {
        /// Failures in a row before.
        failures: u32,
    },
    /// It failed and is tried again.
    Waiting {
        /// When.
        until: Instant,
        /// Failures in a row.
        failures: u32,
    },
}

/// Keeping a Pod as its spec wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncing {
    /// A sync runs.
    Working {
        /// What happened since it began.
        news: News,
        /// Syncs that failed in a row before.
        failures: u32,
        /// What it may do.
        mode: Mode,
        /// When to act again, if this sync only observes.
        due: Option<Instant>,
    },
    /// Nothing runs.
    Idle {
        /// The next sync.
        due: Instant,
        /// Syncs that failed in a row.
        failures: u32,
        /// Until then news is published but not acted on: a failing Pod must not spin on the events of its own
        /// failures.
        paced_until: Option<Instant>,
    },
}

/// What happened while a sync ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// Nothing.
    None,
    /// The runtime changed something.
    Changed,
    /// Something else is wanted.
    Updated,
}

/// What a sync may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Change what runs.
    Act,
    /// Only publish what is.
    Observe,
}

/// Where a Pod is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifecycle {
    /// Kept as its spec wants it.
    Syncing(Syncing),
    /// Must stop; containers may run.
    Terminating {
        /// Why.
        cause: Cause,
        /// What its containers get to end by themselves; it only shrinks.
        grace: Duration,
        /// How far.
        step: Terminating,
        /// The step's job.
        turn: Turn,
        /// What comes after.
        then: Then,
    },
    /// Nothing runs, nothing will.
    Terminated {
        /// Why.
        cause: Cause,
        /// How far.
        step: Terminated,
        /// The step's job.
        turn: Turn,
        /// What comes after.
        then: Then,
    },
    /// Cleaned up.
    Finished {
        /// Why.
        cause: Cause,
    },
    /// Being forgotten.
    Removing {
        /// Why it had ended.
        cause: Cause,
        /// How far.
        step: Removing,
        /// The step's job.
        turn: Turn,
    },
    /// Forgotten.
    Removed,
}

impl Lifecycle {
    /// The stage as reports show it.
    #[must_use]
    pub fn stage(&self) -> PodStage {
        match self {
            Self::Syncing(_) => PodStage::Syncing,
            Self::Terminating { .. } => PodStage::Terminating,
            Self::Terminated { .. } => PodStage::Terminated,
            Self::Finished { .. } | Self::Removing { .. } | Self::Removed => PodStage::Finished,
        }
    }

    /// Why it ends or ended; `None` while it is kept.
    #[must_use]
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Syncing(_) | Self::Removed => None,
            Self::Terminating { cause, .. }
            | Self::Terminated { cause, .. }
            | Self::Finished { cause }
            | Self::Removing { cause, .. } => Some(cause),
        }
    }

    /// What is kept of it on disk.
    #[must_use]
    pub fn saved(&self) -> SavedLifecycle {
        match self {
            Self::Syncing(_) => SavedLifecycle::Syncing,
            Self::Terminating { cause, grace, then, .. } => {
                SavedLifecycle::Terminating { cause: cause.clone(), grace: *grace, then: *then }
            }
            Self::Terminated { cause, then, .. } => SavedLifecycle::Terminated { cause: cause.clone(), then: *then },
            Self::Finished { cause } => SavedLifecycle::Finished { cause: cause.clone() },
            Self::Removing { cause, .. } => SavedLifecycle::Terminated { cause: cause.clone(), then: Then::Remove },
            Self::Removed => SavedLifecycle::Terminated { cause: Cause::Stopped, then: Then::Remove },
        }
    }
}

/// [`Lifecycle`] as a checkpoint keeps it. Steps are not kept: they are idempotent, and a new agent begins its stage
/// from the first one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedLifecycle {
    /// See [`Lifecycle::Syncing`].
    Syncing,
    /// See [`Lifecycle::Terminating`].
    Terminating {
        /// Why.
        cause: Cause,
        /// Grace period.
        grace: Duration,
        /// What comes after.
        then: Then,
    },
    /// See [`Lifecycle::Terminated`].
    Terminated {
        /// Why.
        cause: Cause,
        /// What comes after.
        then: Then,
    },
    /// See [`Lifecycle::Finished`].
    Finished {
        /// Why.
        cause: Cause,
    },
}

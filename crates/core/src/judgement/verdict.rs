//! What a judgement says.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{Budget, Cause};

/// Which part a container plays in its Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs to its end before the others start.
    Init,
    /// An init container with restart policy `Always`: it runs beside the others, and its ends mean nothing.
    Sidecar,
    /// A container of the spec's `containers`.
    Main,
    /// A main container that the caller has declared a helper: its end is told and does not fail the Pod.
    Service,
}

/// What was seen, as the cluster says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The container to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its image as the spec names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The reason, verbatim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message, verbatim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The Pod's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When the cluster says that it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The container's memory limit, where memory is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
    /// How often the container was started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i32>,
}

/// How grave a finding is by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing heals it.
    Permanent,
    /// It may heal by itself, and has this budget.
    Transient(Budget),
    /// It waits for something else to happen, and has this budget.
    Waiting(Budget),
    /// It is announced and has not happened: never the end by itself.
    Foretold,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub cause: Cause,
    /// How grave.
    pub severity: Severity,
    /// What was seen.
    pub evidence: Evidence,
}

/// Where a Pod is on its way while nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// No node yet.
    Scheduling,
    /// Its containers are being created, images pulled.
    Creating,
    /// Init containers run.
    Initializing,
    /// Containers run, and something is not ready.
    Unready,
    /// A container ended and is started again.
    Restarting,
}

/// A Pod that does what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healthy {
    /// It says `Ready`.
    pub ready: bool,
    /// Ends of containers that don't fail the Pod, for people.
    pub notes: Vec<Finding>,
}

/// The end of a Pod: its first root cause, and what was seen after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The first root cause.
    pub cause: Cause,
    /// What was seen of it.
    pub evidence: Evidence,
    /// What else was seen, in order, each cause and container once.
    pub later: Vec<Finding>,
    /// The caller's moment at which it was first seen.
    pub since: Duration,
}

/// What becomes of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Healthy(Healthy),
    /// Not yet. `until` is the moment at which the patience ends; `None`: never.
    Waiting {
        /// What it is at.
        stage: Stage,
        /// What holds it up, if something is wrong.
        why: Option<Finding>,
        /// When the budget ends.
        until: Option<Duration>,
    },
    /// Its end is announced: save what it has. May be taken back.
    Doomed {
        /// What is coming.
        why: Finding,
        /// When it is taken for the end, or, with a foretold cause, when it should have come.
        until: Option<Duration>,
    },
    /// It will never work. Never taken back.
    Failed(Failure),
    /// It ended as it should. Never taken back.
    Succeeded,
}

impl Verdict {
    /// Whether it can't change any more.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Succeeded)
    }

    /// The moment at which the same sight would be judged differently.
    #[must_use]
    pub fn until(&self) -> Option<Duration> {
        match self {
            Self::Waiting { until, .. } | Self::Doomed { until, .. } => *until,
            Self::Healthy(_) | Self::Failed(_) | Self::Succeeded => None,
        }
    }
}

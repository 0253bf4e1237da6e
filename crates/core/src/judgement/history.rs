//! What a judge remembers of one uid.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Cause, Failure, Finding};

/// The memory of one Pod's judgements. A new uid or attempt begins with a new one: nothing leaks from one to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The end, once there is one.
    pub(super) end: Option<End>,
    /// A terminal finding that waits for a deeper one.
    pub(super) settling: Option<Settling>,
    /// Since when each trouble lasts.
    pub(super) troubles: BTreeMap<Trouble, Began>,
    /// The last known reason why a container's image could not be pulled. Older kubelets don't repeat it in the back-off.
    pub(super) pulls: BTreeMap<String, (Cause, String)>,
}

/// See [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Failed(Box<Failure>),
    Succeeded,
}

/// See [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settling {
    pub(super) since: Duration,
    pub(super) best: Finding,
    pub(super) others: Vec<Finding>,
}

/// What a budget runs for: a kind of trouble, and whose. Pull errors of one container share one, however they alternate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trouble {
    pub(super) budget: super::Budget,
    pub(super) container: Option<String>,
}

/// When a trouble began, and how long it had lasted before anybody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Began {
    pub(super) at: Duration,
    pub(super) credit: Duration,
}

impl History {
    /// Whether the Pod's end is sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.end.is_some()
    }
}

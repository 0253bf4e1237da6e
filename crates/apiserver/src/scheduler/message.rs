//! kube-scheduler's words.

use std::collections::BTreeMap;

use super::fit::Misfit;

/// The scheduler's name: that of Pods that name none.
pub const SCHEDULER: &str = "default-scheduler";

/// What a Pod's condition `PodScheduled` says while it is False.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `Unschedulable` or `SchedulingGated`.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Report {
    pub(super) fn unschedulable(message: impl Into<String>) -> Self {
        Self { reason: "Unschedulable".to_owned(), message: message.into() }
    }

    pub(super) fn gated() -> Self {
        let message = "Scheduling is blocked due to non-empty scheduling gates".to_owned();
        Self { reason: "SchedulingGated".to_owned(), message }
    }
}

/// For a cluster that has none.
pub(super) const NO_NODES: &str = "no nodes available to schedule pods";

/// `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.`
pub(super) fn unavailable<'a>(misfits: impl Iterator<Item = &'a Misfit>) -> String {
    let (mut nodes, mut histogram) = (0_usize, BTreeMap::<&str, usize>::new());
    for misfit in misfits {
        nodes += 1;
        for reason in &misfit.reasons {
            *histogram.entry(reason).or_default() += 1;
        }
    }
    // Sorted as texts with their numbers, as upstream: 10 comes before 2.
    let mut reasons: Vec<String> = histogram.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" {}.", reasons.join(", ")) };
    format!("0/{nodes} nodes are available:{reasons}")
}

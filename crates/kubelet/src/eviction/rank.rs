//! Whom an eviction meets first.
//!
//! Upstream source: `pkg/kubelet/eviction/helpers.go`. First who uses more than it asked for, then who matters less,
//! then who is further above what it asked for. Of process ids nothing can be asked for, so there priority comes
//! first. Pods of which nothing is known come before all others.

use std::cmp::Reverse;

use minke_core::priority::pod_priority;
use minke_core::resources::pod_requests;

use super::candidate::{Candidate, Used};
use super::signal::Signal;

/// The candidates in the order in which they would be evicted for want of this. `separate_imagefs`: no Pod uses any
/// of it.
#[must_use]
pub fn rank(candidates: &[Candidate], signal: Signal, separate_imagefs: bool) -> Vec<&Candidate> {
    let mut ranked: Vec<&Candidate> = candidates.iter().collect();
    let used = |used: &Used| -> u64 {
        match signal {
            Signal::Memory => used.memory_bytes,
            Signal::Imagefs | Signal::ImagefsInodes if separate_imagefs => 0,
            Signal::Nodefs | Signal::Imagefs => used.storage().bytes,
            Signal::NodefsInodes | Signal::ImagefsInodes => used.storage().inodes,
            Signal::Pid => used.pids,
        }
    };
    // Nothing can be asked for of inodes and process ids.
    let asked = |candidate: &Candidate| -> i128 {
        let amount = pod_requests(&candidate.pod).get(signal.resource()).map_or(0, |a| a.value());
        i128::from(amount)
    };
    ranked.sort_by_cached_key(|candidate| {
        let over = candidate.used.as_ref().map(|u| i128::from(used(u)) - asked(candidate));
        let exceeds = over.is_some_and(|over| over > 0);
        let within = match signal {
            Signal::Pid => false,
            Signal::Memory | Signal::Nodefs | Signal::NodefsInodes | Signal::Imagefs | Signal::ImagefsInodes => {
                !exceeds
            }
        };
        (over.is_some(), within, pod_priority(&candidate.pod), Reverse(over))
    });
    ranked
}

//! What the PLEG has done, in numbers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::period::StreamState;

/// Counts since the start, and a few facts of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlegStats {
    /// Full relists that succeeded.
    pub relists: u64,
    /// Full relists that failed.
    pub relist_errors: u64,
    /// Relists of single Pods.
    pub pod_relists: u64,
    /// Inspections that failed.
    pub inspection_errors: u64,
    /// Events that the runtime sent.
    pub events_received: u64,
    /// Relists on a hint that found a change.
    pub hints_useful: u64,
    /// Changes that only a full relist found although the stream was up.
    pub events_missed: u64,
    /// Streams opened.
    pub stream_connects: u64,
    /// Streams that failed to open, erred or ended.
    pub stream_errors: u64,
    /// The stream now.
    pub stream: StreamState,
    /// Pods with a ready sandbox.
    pub running_pods: usize,
    /// Containers that run.
    pub running_containers: usize,
    /// Inspections that last longer than they should, now.
    pub hanging: usize,
}

#[derive(Debug)]
struct Facts {
    stream: StreamState,
    last_relist: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) relists: AtomicU64,
    pub(super) relist_errors: AtomicU64,
    pub(super) pod_relists: AtomicU64,
    pub(super) inspection_errors: AtomicU64,
    pub(super) events_received: AtomicU64,
    pub(super) hints_useful: AtomicU64,
    pub(super) events_missed: AtomicU64,
    pub(super) stream_connects: AtomicU64,
    pub(super) stream_errors: AtomicU64,
    pub(super) running_pods: AtomicUsize,
    pub(super) running_containers: AtomicUsize,
    pub(super) hanging: AtomicUsize,
    facts: Mutex<Facts>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            relists: AtomicU64::new(0),
            relist_errors: AtomicU64::new(0),
            pod_relists: AtomicU64::new(0),
            inspection_errors: AtomicU64::new(0),
            events_received: AtomicU64::new(0),
            hints_useful: AtomicU64::new(0),
            events_missed: AtomicU64::new(0),
            stream_connects: AtomicU64::new(0),
            stream_errors: AtomicU64::new(0),
            running_pods: AtomicUsize::new(0),
            running_containers: AtomicUsize::new(0),
            hanging: AtomicUsize::new(0),
            facts: Mutex::new(Facts { stream: StreamState::Down, last_relist: None }),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stream(&self) -> StreamState {
        self.facts().stream
    }

    pub(super) fn set_stream(&self, stream: StreamState) {
        self.facts().stream = stream;
    }

    pub(super) fn last_relist(&self) -> Option<Instant> {
        self.facts().last_relist
    }

    pub(super) fn relisted(&self, begun: Instant) {
        count(&self.relists);
        self.facts().last_relist = Some(begun);
    }

    pub(super) fn read(&self) -> PlegStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PlegStats {
            relists: get(&self.relists),
            relist_errors: get(&self.relist_errors),
            pod_relists: get(&self.pod_relists),
            inspection_errors: get(&self.inspection_errors),
            events_received: get(&self.events_received),
            hints_useful: get(&self.hints_useful),
            events_missed: get(&self.events_missed),
            stream_connects: get(&self.stream_connects),
            stream_errors: get(&self.stream_errors),
            stream: self.stream(),
            running_pods: self.running_pods.load(Ordering::Relaxed),
            running_containers: self.running_containers.load(Ordering::Relaxed),
            hanging: self.hanging.load(Ordering::Relaxed),
        }
    }
}

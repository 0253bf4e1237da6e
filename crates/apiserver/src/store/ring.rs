//! The recent changes of one resource, bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry::Event;

/// How much history a resource keeps. Whichever bound is reached first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Most changes.
    pub events: usize,
    /// Most bytes of objects in them.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// 10,000 changes or 16 MiB: minutes of a busy machine.
    fn default() -> Self {
        Self { events: 10_000, bytes: 16 << 20 }
    }
}

/// Changes in the order of their revisions, without gaps above the floor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The newest revision that was forgotten: a watch from below it would miss something.
    floor: u64,
}

impl Ring {
    pub(crate) fn new(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.entry.bytes.len();
        self.events.push_back(event);
    }

    /// How many of the oldest changes go if `added` more changes of `bytes` together come. A tenth more than needed goes, so
    /// that not every write has to forget something.
    pub(crate) fn surplus(&self, added: usize, bytes: usize, limits: HistoryLimits) -> usize {
        let (mut count, mut size) = (self.events.len() + added, self.bytes + bytes);
        if count <= limits.events && size <= limits.bytes {
            return 0;
        }
        let (target_count, target_size) = (limits.events - limits.events / 10, limits.bytes - limits.bytes / 10);
        let mut go = 0;
        while (count > target_count || size > target_size) && go < self.events.len() {
            size -= self.events[go].entry.bytes.len();
            count -= 1;
            go += 1;
        }
        go
    }

    /// The revisions of the `count` oldest changes.
    pub(crate) fn oldest(&self, count: usize) -> impl Iterator<Item = u64> {
        self.events.iter().take(count).map(|event| event.revision())
    }

    /// Forgets all changes up to this revision.
    pub(crate) fn forget(&mut self, floor: u64) {
        while self.events.front().is_some_and(|event| event.revision() <= floor) {
            if let Some(event) = self.events.pop_front() {
                self.bytes -= event.entry.bytes.len();
            }
        }
        self.floor = self.floor.max(floor);
    }

    /// The changes after a revision.
    pub(crate) fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision() <= revision);
        self.events.range(start..)
    }
}

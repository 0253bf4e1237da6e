//! Which events of a stream are from before it. Pure.
//!
//! Runtimes keep events while nobody listens and hand them out with the next stream, minutes old. Whoever opens a stream
//! lists everything anyway, so these only cost looks at Pods. They are told by their time, and only in the beginning:
//! later, an event that seems old tells of a clock that was set back.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// How long a backlog may take to come.
const LONGEST: Duration = Duration::from_secs(5);

/// What is known of a stream's beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlog {
    opened: Timestamp,
    until: Instant,
}

impl Backlog {
    pub(super) fn new(opened: Timestamp, now: Instant) -> Self {
        Self { opened, until: now + LONGEST }
    }

    /// Whether an event of this time is from before the stream.
    pub(super) fn is_old(&self, created_at: Timestamp, now: Instant) -> bool {
        // A runtime that gives no time says nothing.
        now < self.until && created_at > Timestamp::UNIX_EPOCH && created_at < self.opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_replayed_backlog_is_dropped_by_time_and_only_in_the_beginning() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let now = Instant::now();
        let backlog = Backlog::new(at(100), now);
        assert!(backlog.is_old(at(48), now), "52 s old");
        assert!(!backlog.is_old(at(100), now));
        assert!(!backlog.is_old(at(101), now));
        assert!(!backlog.is_old(Timestamp::UNIX_EPOCH, now), "no time");
        assert!(!backlog.is_old(at(48), now + LONGEST), "the clock was set back");
    }
}

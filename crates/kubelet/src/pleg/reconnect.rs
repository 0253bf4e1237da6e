//! When a broken event stream is opened again, and what is done until then. Pure.
//!
//! ```text
//!            ┌── opened ──────────────────────────────────────────┐
//!            ▼                                                    │
//!  Up ──broke──► Down ──failed, fewer than the limit──► Down ──limit──► Polling ──failed──► Polling
//! ```
//! Both `Down` and `Polling` mean that full relists are frequent. In `Down` each failure also forces one at once; in
//! `Polling` nothing but the rare attempt to connect is left of the stream.

use std::time::Duration;

use super::period::StreamState;

/// The delay after the first failure; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// So many failures in a row, and polling takes over. Upstream's number; there it is for good, and no connection ever
/// makes it count anew.
pub(super) const RETRY_LIMIT: u32 = 5;
/// A connection that lasted this long, or brought an event, was a good one: counting begins anew.
pub(super) const GOOD_AFTER: Duration = Duration::from_secs(10);
/// A runtime without events is asked again this rarely: it may be upgraded under a running agent.
pub(super) const UNSUPPORTED_DELAY: Duration = Duration::from_secs(300);

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Reconnect {
    failures: u32,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// How the stream is until it is opened again.
    pub(super) state: StreamState,
    /// Before the next attempt.
    pub(super) delay: Duration,
    /// Whether everything is listed at once.
    pub(super) relist: bool,
    /// Whether polling has just taken over.
    pub(super) gave_up: bool,
}

impl Reconnect {
    /// The stream could not be opened, or broke; `good`: it had been of use.
    pub(super) fn failed(&mut self, good: bool) -> Next {
        self.failures = if good { 1 } else { self.failures.saturating_add(1) };
        let doublings = (self.failures - 1).min(16);
        let delay = FIRST_DELAY.saturating_mul(1 << doublings).min(LONGEST_DELAY);
        let state = if self.failures < RETRY_LIMIT { StreamState::Down } else { StreamState::Polling };
        let (relist, gave_up) = (self.failures <= RETRY_LIMIT, self.failures == RETRY_LIMIT);
        Next { state, delay, relist, gave_up }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_and_a_good_connection_starts_over() {
        let mut reconnect = Reconnect::default();
        let delays: Vec<u128> = (0..11).map(|_| reconnect.failed(false).delay.as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(reconnect.failed(true).delay, FIRST_DELAY);
        assert_eq!(reconnect.failed(false).delay, FIRST_DELAY * 2);
    }

    #[test]
    fn polling_takes_over_at_the_limit_and_only_then() {
        let mut reconnect = Reconnect::default();
        for n in 1..=8 {
            let next = reconnect.failed(false);
            assert_eq!(next.state == StreamState::Polling, n >= RETRY_LIMIT, "failure {n}");
            assert_eq!(next.gave_up, n == RETRY_LIMIT, "told once");
            assert_eq!(next.relist, n <= RETRY_LIMIT, "a poll a second needs no extra relists");
        }
        let next = reconnect.failed(true);
        assert_eq!((next.state, next.relist), (StreamState::Down, true), "a good connection resets the count");
    }

    #[test]
    fn the_count_has_no_end() {
        let mut reconnect = Reconnect { failures: u32::MAX };
        assert_eq!(reconnect.failed(false).delay, LONGEST_DELAY);
    }
}

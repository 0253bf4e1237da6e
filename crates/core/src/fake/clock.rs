//! A wall clock that follows tokio's (paused) time, and jumps when told to.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::clock::Clock;

/// A [`Clock`] for tests. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct FakeClock {
    origin: Instant,
    start: Timestamp,
    skew: Arc<Mutex<SignedDuration>>,
}

impl FakeClock {
    /// A clock that starts at a fixed time in 2026.
    #[must_use]
    pub fn new() -> Self {
        let start = Timestamp::from_second(1_790_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        Self { origin: Instant::now(), start, skew: Arc::default() }
    }

    /// Makes the clock jump, ahead or back.
    pub fn jump(&self, by: SignedDuration) {
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        *skew = skew.saturating_add(by);
    }

    /// What the clock shows at this moment of tokio's time.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        let elapsed =
            SignedDuration::try_from(instant.saturating_duration_since(self.origin)).unwrap_or(SignedDuration::MAX);
        let skew = *self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        self.start.checked_add(elapsed.saturating_add(skew)).unwrap_or(Timestamp::MAX)
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }
}

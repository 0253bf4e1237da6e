//! The runtime calls that are under way: one that hangs is seen while it hangs, not once it has ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When each began, by number.
#[derive(Debug, Default)]
pub(super) struct Calls {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    begun: BTreeMap<u64, Instant>,
}

/// A call under way; ends when dropped.
#[derive(Debug)]
pub(super) struct Call {
    calls: Arc<Calls>,
    number: u64,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins.
    pub(super) fn begin(self: &Arc<Self>) -> Call {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.begun.insert(number, Instant::now());
        Call { calls: self.clone(), number }
    }

    /// How many have lasted longer than `patience`.
    pub(super) fn hanging(&self, patience: Duration) -> usize {
        let now = Instant::now();
        self.lock().begun.values().filter(|begun| now.saturating_duration_since(**begun) > patience).count()
    }

    /// How long the oldest has lasted; zero when there is none.
    pub(super) fn oldest(&self) -> Duration {
        // Numbers are given in the order of time.
        self.lock().begun.first_key_value().map_or(Duration::ZERO, |(_, begun)| begun.elapsed())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.lock().begun.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_shows_while_it_hangs() {
        let calls = Arc::new(Calls::default());
        let patience = Duration::from_secs(1);
        assert_eq!((calls.hanging(patience), calls.oldest()), (0, Duration::ZERO));
        let old = calls.begin();
        advance(Duration::from_secs(5)).await;
        let young = calls.begin();
        advance(Duration::from_millis(500)).await;
        assert_eq!((calls.hanging(patience), calls.oldest()), (1, Duration::from_millis(5500)));
        drop(old);
        assert_eq!((calls.hanging(patience), calls.oldest()), (0, Duration::from_millis(500)));
        drop(young);
        assert_eq!(calls.oldest(), Duration::ZERO);
    }
}

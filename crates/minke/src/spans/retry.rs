//! When a batch that could not be delivered is sent again, and when it is given up. Pure.

use std::time::Duration;

/// The first pause; each is twice the one before.
const FIRST: Duration = Duration::from_secs(1);
/// Longest pause of our own.
const LONGEST: Duration = Duration::from_secs(15);
/// As long as a batch is tried for: what comes meanwhile fills the queue, and newer spans are worth more than older ones.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pauses of one batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry {
    next: Duration,
    spent: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { next: FIRST, spent: Duration::ZERO }
    }
}

impl Retry {
    /// It failed once more: how long to wait before it is sent again; `None`: not any more. `at_least` is what the collector
    /// asked for.
    pub(super) fn pause(&mut self, at_least: Duration) -> Option<Duration> {
        let pause = self.next.max(at_least);
        self.next = (self.next * 2).min(LONGEST);
        self.spent = self.spent.saturating_add(pause);
        (self.spent <= PATIENCE).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_end() {
        let mut retry = Retry::default();
        let pauses: Vec<u64> = std::iter::from_fn(|| retry.pause(Duration::ZERO)).map(|d| d.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15, 15]);
    }

    #[test]
    fn a_collectors_wish_counts_and_no_endless_one_is_waited_for() {
        let mut retry = Retry::default();
        assert_eq!(retry.pause(Duration::from_secs(30)), Some(Duration::from_secs(30)));
        assert_eq!(retry.pause(Duration::MAX), None);
    }
}

//! Which key is worked on next: a pure queue; the caller says what time it is.
//!
//! ```text
//!   add ──► waiting (due) ──take──► running ──finish──► gone, or waiting again
//!             ▲   │ add: earlier, never later    │ add: once again afterwards
//!             └───┘                              ▼
//!           held back after a failure: first · 2ⁿ, at most `longest`, for ever
//! ```
//!
//! The rules, each with a test:
//! - A key is in the queue once and runs once at a time; it is never dropped, however often it fails.
//! - Keys that are due come out in the order in which they became due; ties in the order in which they were added.
//! - There is no limit over all keys. A failure holds back its own key only.
//! - What may cure a failure ([`Urgency::Cure`]: the Pod was changed) runs at once, back-off or not. What is only more to do
//!   ([`Urgency::News`]: a newer status, while the server asks for patience) waits for the back-off to end. It makes no
//!   difference whether it comes while the key waits or while it runs.
//! - Both keep the count of failures; only a success or [`WorkQueue::forget`] clears it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// How long a key that fails is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure; doubles with each in a row.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(5), longest: Duration::from_secs(300) }
    }
}

impl Backoff {
    /// The wait after so many failures in a row.
    #[must_use]
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// What a key is added for. The greater one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// More to do; a back-off in force is kept.
    News,
    /// What made it fail may be over; runs although it is held back.
    Cure,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// Badly: again after its back-off, and not before so long.
    Retry {
        /// As the other side asked for (`Retry-After`), or zero.
        at_least: Duration,
    },
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Waiting {
        due: Instant,
        sequence: u64,
        held_until: Option<Instant>,
    },
    /// With the wish to run once again, if there is one.
    Running {
        again: Option<(Instant, Urgency)>,
    },
}

/// The queue. See the module for its rules.
#[derive(Debug)]
pub struct WorkQueue<K> {
    backoff: Backoff,
    places: HashMap<K, Place>,
    order: BTreeMap<(Instant, u64), K>,
    failures: HashMap<K, u32>,
    sequence: u64,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        let (places, order, failures) = (HashMap::new(), BTreeMap::new(), HashMap::new());
        Self { backoff, places, order, failures, sequence: 0 }
    }

    /// Wants the key to run at `at`, or as soon after as it may.
    pub fn add(&mut self, key: K, urgency: Urgency, at: Instant) {
        match self.places.get_mut(&key) {
            None => self.wait(key, at, None),
            Some(Place::Running { again }) => {
                let (before, strongest) = again.unwrap_or((at, urgency));
                *again = Some((before.min(at), strongest.max(urgency)));
            }
            Some(&mut Place::Waiting { due, sequence, held_until }) => {
                let at = match (urgency, held_until) {
                    (Urgency::News, Some(held)) => at.max(held),
                    (Urgency::Cure, _) | (Urgency::News, None) => at,
                };
                if at < due {
                    self.order.remove(&(due, sequence));
                    self.wait(key, at, held_until);
                }
            }
        }
    }

    /// The next key that is due; it runs until [`Self::finish`].
    pub fn take(&mut self, now: Instant) -> Option<K> {
        let entry = self.order.first_entry().filter(|entry| entry.key().0 <= now)?;
        let key = entry.remove();
        self.places.insert(key.clone(), Place::Running { again: None });
        Some(key)
    }

    /// The run of this key has ended.
    pub fn finish(&mut self, key: &K, outcome: Outcome, now: Instant) {
        let Some(Place::Running { again }) = self.places.get(key).copied() else { return };
        self.places.remove(key);
        match outcome {
            Outcome::Done => {
                self.failures.remove(key);
                if let Some((at, _)) = again {
                    self.wait(key.clone(), at, None);
                }
            }
            Outcome::Retry { at_least } => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let held = now + self.backoff.after(*failures).max(at_least);
                let due = match again {
                    Some((at, Urgency::Cure)) => at.min(held),
                    Some((_, Urgency::News)) | None => held,
                };
                self.wait(key.clone(), due, Some(held));
            }
        }
    }

    /// The key is of no interest any more: it does not wait, its failures are forgotten, and if it runs it does not run
    /// again, unless it is added anew.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
        match self.places.get_mut(key) {
            Some(Place::Running { again }) => *again = None,
            Some(&mut Place::Waiting { due, sequence, .. }) => {
                self.order.remove(&(due, sequence));
                self.places.remove(key);
            }
            None => {}
        }
    }

    /// When the first key that waits is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.order.first_key_value().map(|((due, _), _)| *due)
    }

    /// Keys that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.order.len()
    }

    /// Keys that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.places.len() - self.order.len()
    }

    /// How often in a row the key has failed.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    fn wait(&mut self, key: K, due: Instant, held_until: Option<Instant>) {
        self.sequence += 1;
        self.places.insert(key.clone(), Place::Waiting { due, sequence: self.sequence, held_until });
        self.order.insert((due, self.sequence), key);
    }
}

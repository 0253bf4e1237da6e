//! Pods whose absence is doubted: a list lacked them.

use std::collections::HashMap;
use std::time::Duration;

use minke_core::identity::PodKey;
use tokio::time::Instant;

/// How much absence is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caution {
    /// How long a Pod may be absent before the API is asked for it directly.
    pub grace: Duration,
    /// So few may be missing whatever their share.
    pub few: usize,
    /// Believe that any number may be missing at once.
    pub any_number: bool,
}

impl Default for Caution {
    fn default() -> Self {
        Self { grace: Duration::from_secs(10), few: 10, any_number: false }
    }
}

/// More than half of a node's Pods are missing at once: that is rather a fault of the API or of the list than a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{missing} of {all} pods are missing from the API's list; none of them is ended. If they are really to go, allow any number to be removed"
)]
pub struct Implausible {
    /// How many are missing.
    pub missing: usize,
    /// Of how many.
    pub all: usize,
}

#[derive(Debug)]
pub(super) struct Doubts {
    caution: Caution,
    since: HashMap<PodKey, Instant>,
}

impl Doubts {
    pub(super) fn new(caution: Caution) -> Self {
        Self { caution, since: HashMap::new() }
    }

    pub(super) fn raise(&mut self, key: &PodKey, now: Instant) {
        self.since.entry(key.clone()).or_insert(now);
    }

    pub(super) fn settle(&mut self, key: &PodKey) {
        self.since.remove(key);
    }

    pub(super) fn keep(&mut self, keep: impl Fn(&PodKey) -> bool) {
        self.since.retain(|key, _| keep(key));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.since.values().min().map(|since| *since + self.caution.grace)
    }

    pub(super) fn due(&self, now: Instant, all: usize) -> Result<Vec<PodKey>, Implausible> {
        let missing = self.since.len();
        if missing > self.caution.few && missing > all / 2 && !self.caution.any_number {
            return Err(Implausible { missing, all });
        }
        let due = self.since.iter().filter(|(_, since)| **since + self.caution.grace <= now);
        let mut due: Vec<PodKey> = due.map(|(key, _)| key.clone()).collect();
        due.sort();
        Ok(due)
    }
}

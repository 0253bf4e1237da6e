//! What holds back a template whose runners fail before their first job.
//!
//! ```text
//!          3 failures in a row          the wait is over           another failure
//! Closed ─────────────────────► Open ─────────────────► Half-open ─────────────────► Open, twice as long
//!    ▲                                                      │ one canary at a time
//!    └──────────────────────────────────────────────────────┘ a runner gets a job, or stays idle
//! ```
//! What the cluster did to a Pod (evicted, preempted, out of something) is no failure of the template
//! ([`EndClass::of`](crate::life::EndClass::of)). The newest failure that the core's judgement has a name for is kept, for
//! whoever asks why.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::ids::Slot;
use crate::life::{Fault, Life, Runner};

/// So many failures in a row are bad luck.
pub const TOLERATED: u32 = 2;
/// The first wait.
pub const FIRST: SignedDuration = SignedDuration::from_secs(10);
/// The longest.
pub const LONGEST: SignedDuration = SignedDuration::from_mins(10);
/// A runner that is idle for so long works.
pub const PROVEN: SignedDuration = SignedDuration::from_secs(30);

/// What is remembered of a template's failures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Breaker {
    template: String,
    failures: u32,
    last: Option<Timestamp>,
    /// Those that were counted and can still be seen: their slots, and the Pod of each once it was seen.
    counted: BTreeMap<Slot, Option<String>>,
    /// What was wrong with the Pod that failed last, of those that say it.
    fault: Option<Fault>,
}

/// How many may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Any number.
    Closed,
    /// None until then.
    Open(Timestamp),
    /// One, to try.
    Canary,
    /// The one that tries is on its way; look again then.
    Waiting(Timestamp),
}

impl Breaker {
    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// What was wrong with the Pod that failed last, while there are failures in a row.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Takes in what can be seen. The same runners change nothing a second time.
    pub(super) fn observe(&mut self, runners: &[Runner], template: &str, now: Timestamp) {
        if self.template != template {
            *self = Self { template: template.to_owned(), ..Self::default() };
        }
        let own = || runners.iter().filter(|runner| runner.template == template);
        let mut seen = BTreeMap::new();
        for (runner, failed) in own().filter_map(|runner| Some((runner, failed_at(runner)?))) {
            let pod = runner.pod.as_ref().map(|pod| pod.uid.clone());
            let before = self.counted.get(&runner.slot);
            // Its Pod may come after its failure. Another Pod is another runner.
            let known = before.is_some_and(|before| before.is_none() || pod.is_none() || *before == pod);
            if !known {
                self.failures = self.failures.saturating_add(1);
                self.last = self.last.max(Some(failed));
                self.fault = runner.fault().or(self.fault.as_ref()).cloned();
            }
            seen.insert(runner.slot, pod.or_else(|| before.cloned().flatten()));
        }
        self.counted = seen;
        if own().any(|runner| self.works(runner, now)) {
            self.failures = 0;
            self.last = None;
            self.fault = None;
        }
    }

    /// It has come further than those that failed.
    fn works(&self, runner: &Runner, now: Timestamp) -> bool {
        let after = self.last.is_none_or(|last| runner.since >= last);
        match runner.life {
            Life::Busy { .. } => after,
            Life::Idle { .. } => after && runner.available() && now.duration_since(runner.since) >= PROVEN,
            Life::Requested
            | Life::Registered { .. }
            | Life::Draining { .. }
            | Life::Deregistered { .. }
            | Life::Gone => false,
        }
    }

    pub(super) fn verdict(&self, runners: &[Runner], now: Timestamp) -> Verdict {
        let Some(last) = self.last.filter(|_| self.failures > TOLERATED) else { return Verdict::Closed };
        let doublings = (self.failures - TOLERATED - 1).min(6);
        let until = last + (FIRST * (1 << doublings)).min(LONGEST);
        if now < until {
            return Verdict::Open(until);
        }
        let tries = |runner: &&Runner| runner.template == self.template && runner.available() && runner.since >= last;
        if runners.iter().any(|runner| tries(&runner)) { Verdict::Waiting(now + PROVEN) } else { Verdict::Canary }
    }
}

/// When a runner failed without a job, by its own fault.
fn failed_at(runner: &Runner) -> Option<Timestamp> {
    let failed = runner.life.why().is_some_and(|why| why.is_failure());
    let ended = runner.pod.as_ref().and_then(|pod| pod.ended).map_or(runner.since, |ended| ended.at);
    failed.then_some(ended)
}

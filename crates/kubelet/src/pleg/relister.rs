//! Owns every record: decides whom to look at, compares, writes the cache, tells the workers. Synchronous; the task
//! performs the looks it asks for and brings back what they found.
//!
//! For each Pod:
//! ```text
//!  Idle ──hint, or a full list that differs──► Busy{again: no} ──look done──► Idle
//!                                                │        ▲
//!                                        hint    ▼        │ look done: start over
//!                                              Busy{again: yes}
//! ```
//! A record is promoted only together with the cache entry made from it, so a failed inspection is tried again and
//! finds the same change again. A Pod is held in the cache from the moment that something may have changed until
//! that is known, so a full relist that overtakes a look answers nobody with the status from before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::{PodRuntimeStatus, RuntimeError, error_chain};
use tokio::time::Instant;

use super::hints::Want;
use super::period::{Period, StreamState};
use super::record::Record;
use super::stats::Counters;
use super::tally::Tally;
use super::{EventSink, LifecycleEvent, diff, preserve_ips};
use crate::cache::{CacheWriter, Stamp};

/// An event may be so much later than the list that shows what it tells, before it counts as missed.
const EVENT_GRACE: Duration = Duration::from_secs(1);

/// What is known of one Pod.
#[derive(Debug, Default)]
struct Tracked {
    /// As of the newest cache entry.
    record: Record,
    /// When the newest look ended. A list that began before may be the older of the two, although its stamp is greater
    /// than the look's: it has nothing to add.
    read: Stamp,
    /// The newest inspection failed, or one was asked for: inspect even without a change.
    reinspect: bool,
    job: Job,
}

#[derive(Debug, Default)]
enum Job {
    #[default]
    Idle,
    Busy {
        again: Option<Want>,
    },
}

/// A Pod to be looked at. Exactly one [`Found`] comes back for each.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) uid: PodUid,
    /// Taken before anything is read for it.
    pub(super) stamp: Stamp,
    /// As a full list shows it; `None`: to be listed by itself.
    pub(super) listed: Option<Record>,
    /// What is known; a list that shows the same needs no inspection.
    pub(super) known: Record,
    /// Inspect in any case.
    pub(super) inspect: bool,
}

/// What a look found out about a Pod.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) uid: PodUid,
    pub(super) stamp: Stamp,
    /// It was listed by itself.
    pub(super) alone: bool,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// The list shows what is known, and nobody wanted more.
    Unchanged,
    /// Listed and inspected.
    Inspected { record: Record, status: Result<PodRuntimeStatus, RuntimeError> },
    /// It could not even be listed.
    NotListed(RuntimeError),
}

pub(super) struct Relister {
    cache: CacheWriter,
    sink: Arc<dyn EventSink>,
    counters: Arc<Counters>,
    period: Period,
    pods: HashMap<PodUid, Tracked>,
    /// Idle Pods that are to be inspected again.
    failing: HashSet<PodUid>,
    /// Sandboxes and containers that a full list showed to have changed, and no event told of; since when.
    suspects: HashMap<String, Instant>,
    /// When the newest look ended that found its Pod gone.
    gone: Stamp,
    tally: Tally,
    /// Whether everything was ever listed.
    begun: bool,
    /// Events that had been received when everything was last listed.
    events: u64,
}

impl Relister {
    pub(super) fn new(cache: CacheWriter, sink: Arc<dyn EventSink>, counters: Arc<Counters>, period: Period) -> Self {
        Self {
            cache,
            sink,
            counters,
            period,
            pods: HashMap::new(),
            failing: HashSet::new(),
            suspects: HashMap::new(),
            gone: Stamp::ZERO,
            tally: Tally::default(),
            begun: false,
            events: 0,
        }
    }

    /// The next stamp: taken before anything is read.
    pub(super) fn stamp(&self) -> Stamp {
        self.cache.stamp()
    }

    pub(super) fn set_periods(&mut self, short: Duration, long: Duration) {
        self.period.set(short, long);
    }

    /// How long until everything is listed again.
    pub(super) fn gap(&self, now: Instant) -> Duration {
        // Whether something was missed shows at the next relist.
        if self.suspects.is_empty() { self.period.gap(self.counters.stream(), now) } else { self.period.retry() }
    }

    /// How long until what failed is tried again.
    pub(super) fn retry_gap(&self) -> Duration {
        self.period.retry()
    }

    /// Whether Pods wait for another inspection.
    pub(super) fn is_failing(&self) -> bool {
        !self.failing.is_empty()
    }

    #[cfg(test)]
    pub(super) fn tracked(&self) -> usize {
        self.pods.len()
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> super::tally::Counts {
        self.tally.total()
    }

    /// The runtime answers again.
    pub(super) fn returned(&self) {
        self.sink.returned();
    }

    /// Somebody wants these Pods looked at; events told of these sandboxes and containers.
    pub(super) fn hinted(&mut self, pods: HashMap<PodUid, Want>, events: &HashSet<String>) -> Vec<Look> {
        if !self.suspects.is_empty() {
            self.suspects.retain(|id, _| !events.contains(id));
        }
        pods.into_iter().filter_map(|(uid, want)| self.start(uid, want, None)).collect()
    }

    /// Everything was listed, from `stamp` on. Asks for looks at the Pods that changed.
    pub(super) fn listed(&mut self, mut listed: HashMap<PodUid, Record>, stamp: Stamp, now: Instant) -> Vec<Look> {
        let first = !std::mem::replace(&mut self.begun, true);
        self.judge_suspects(now);
        let mut uids: Vec<PodUid> = listed.keys().cloned().collect();
        uids.sort();
        let vanished = self.pods.iter().filter(|(uid, pod)| !listed.contains_key(*uid) && !pod.record.is_empty());
        let vanished: Vec<PodUid> = vanished.map(|(uid, _)| uid.clone()).collect();
        listed.extend(vanished.into_iter().map(|uid| (uid, Record::default())));
        let suspicious = !first && self.counters.stream() == StreamState::Up;
        let mut looks = Vec::new();
        for (uid, record) in listed {
            let known = self.pods.contains_key(&uid);
            let tracked = self.pods.entry(uid.clone()).or_default();
            let outdated = tracked.read > stamp || (!known && self.gone > stamp);
            if !outdated {
                self.tally.listed(&uid, &record);
            }
            if tracked.record == record && !tracked.reinspect {
                continue;
            }
            if outdated {
                looks.extend(self.start(uid, Want::List, None));
                continue;
            }
            if suspicious && matches!(tracked.job, Job::Idle) {
                for id in diff(&tracked.record, &record).iter().filter_map(LifecycleEvent::told_id) {
                    self.suspects.entry(id.to_owned()).or_insert(now);
                }
            }
            looks.extend(self.start(uid, Want::List, Some((stamp, record))));
        }
        self.tally.show(&self.counters);
        // Last, so that every Pod that is about to be looked at is held.
        self.cache.update_time(stamp);
        self.sink.listed(&uids);
        looks
    }

    /// A change is missed when no event told of it in time.
    fn judge_suspects(&mut self, now: Instant) {
        let before = self.suspects.len();
        self.suspects.retain(|_, since| now.saturating_duration_since(*since) < EVENT_GRACE);
        let missed = before - self.suspects.len();
        let events = self.counters.events_received.get();
        if missed > 0 {
            self.counters.events_missed.inc_by(missed as u64);
            self.period.missed(now);
        } else if self.suspects.is_empty() && events > self.events {
            self.period.calm(now);
        }
        self.events = events;
    }

    /// Looks again at the Pods that could not be inspected.
    pub(super) fn retry(&mut self) -> Vec<Look> {
        let failing = std::mem::take(&mut self.failing);
        failing.into_iter().filter_map(|uid| self.start(uid, Want::List, None)).collect()
    }

    /// Asks for a look at this Pod, unless one is under way: then another follows.
    fn start(&mut self, uid: PodUid, want: Want, listed: Option<(Stamp, Record)>) -> Option<Look> {
        let tracked = self.pods.entry(uid.clone()).or_default();
        match &mut tracked.job {
            Job::Busy { again } => {
                *again = (*again).max(Some(want));
                return None;
            }
            job @ Job::Idle => *job = Job::Busy { again: None },
        }
        tracked.reinspect |= want == Want::Inspect;
        let (known, inspect) = (tracked.record.clone(), tracked.reinspect);
        self.failing.remove(&uid);
        self.cache.hold(&uid);
        let (stamp, listed) = match listed {
            Some((stamp, record)) => (stamp, Some(record)),
            None => {
                self.counters.pod_relists.inc();
                (self.cache.stamp(), None)
            }
        };
        Some(Look { uid, stamp, listed, known, inspect })
    }

    /// A look ended. Returns the next one at the same Pod if somebody has asked for it meanwhile.
    pub(super) fn found(&mut self, found: Found) -> Option<Look> {
        let Found { uid, stamp, alone, outcome } = found;
        let now = self.cache.stamp();
        let tracked = self.pods.get_mut(&uid)?;
        tracked.read = now;
        match outcome {
            Outcome::Unchanged => {
                self.tally.listed(&uid, &tracked.record);
                self.cache.set_observed(&uid, stamp);
            }
            Outcome::NotListed(error) => {
                self.counters.inspection_errors.inc();
                tracing::debug!(pod = %uid, error = error_chain(&error), "can't list the pod");
                tracked.reinspect = true;
                self.cache.set_error(&uid, error, stamp);
            }
            Outcome::Inspected { record, status: Err(error) } => {
                self.counters.inspection_errors.inc();
                tracing::debug!(pod = %uid, error = error_chain(&error), "can't inspect the pod");
                tracked.reinspect = true;
                self.tally.listed(&uid, &record);
                self.cache.set_error(&uid, error, stamp);
            }
            Outcome::Inspected { record, status: Ok(mut status) } => {
                let mut events = diff(&tracked.record, &record);
                let asked = std::mem::take(&mut tracked.reinspect);
                if asked && !events.iter().any(LifecycleEvent::is_told) {
                    events.push(LifecycleEvent::Sync);
                }
                tracked.record = record;
                self.tally.listed(&uid, &tracked.record);
                if tracked.record.is_empty() {
                    self.gone = tracked.read;
                    self.cache.delete(&uid);
                    self.cache.set_observed(&uid, stamp);
                } else {
                    status.ips = preserve_ips(&status, &self.cache.get(&uid).status.ips);
                    self.cache.set(&uid, status, stamp);
                }
                events.retain(LifecycleEvent::is_told);
                if !events.is_empty() {
                    if alone {
                        self.counters.hints_useful.inc();
                    }
                    self.sink.deliver(&uid, &events);
                }
            }
        }
        self.tally.show(&self.counters);
        self.rest(uid)
    }

    /// The look at this Pod is over; what now?
    fn rest(&mut self, uid: PodUid) -> Option<Look> {
        let tracked = self.pods.get_mut(&uid)?;
        match std::mem::take(&mut tracked.job) {
            Job::Busy { again: Some(want) } => return self.start(uid, want, None),
            Job::Busy { again: None } | Job::Idle => {}
        }
        self.cache.release(&uid);
        if tracked.reinspect {
            self.failing.insert(uid);
        } else if tracked.record.is_empty() {
            self.pods.remove(&uid);
            self.tally.forget(&uid);
        }
        None
    }
}

#[cfg(test)]
mod tests;

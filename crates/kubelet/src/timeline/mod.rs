//! The lifecycle timeline: every transition of every Pod, with monotonic time, in bounded memory.
//!
//! [`Timeline`] is the one port. The worker and its job record what they do ([`Timeline::record`]), the observer what
//! it sees ([`Timeline::observe`], [`Timeline::status`]); whoever asks gets a copy ([`Timeline::snapshot`]). It
//! travels with the [`crate::sync::Recorder`], so whatever tells events can record. Nothing waits for it and
//! nothing depends on it: a Pod that was never [begun](Timeline::begin) (as in run-once mode) is not recorded.
//!
//! A Pod keeps its first transitions and its newest ones ([`ring`]); Pods that were forgotten are kept for a while,
//! the newest few.

mod ring;
mod tracker;
mod transition;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use minke_core::identity::{PodKey, PodUid};
use minke_core::resources::is_sidecar;
use minke_core::runtime::PodRuntimeStatus;
use tokio::time::Instant;

use self::ring::Ring;
use self::tracker::{Seen, Tracker};
pub use self::transition::{Entry, Lane, LaneKind, PodTimeline, Step, Timelines, Transition};

/// Forgotten Pods whose timelines are kept.
const GONE: usize = 32;

#[derive(Debug)]
struct Log {
    key: PodKey,
    lanes: Vec<Lane>,
    ring: Ring,
    tracker: Tracker,
}

impl Log {
    fn of(key: &PodKey, pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let inits = spec.into_iter().flat_map(|s| s.init_containers.iter().flatten());
        let inits = inits.map(|c| (c, if is_sidecar(c) { LaneKind::Sidecar } else { LaneKind::Init }));
        let mains = spec.into_iter().flat_map(|s| &s.containers).map(|c| (c, LaneKind::Main));
        let lanes = inits.chain(mains).map(|(c, kind)| Lane { name: c.name.as_str().into(), kind }).collect();
        Self { key: key.clone(), lanes, ring: Ring::default(), tracker: Tracker::default() }
    }

    fn push(&mut self, at: i64, container: Option<&str>, attempt: u32, transition: Transition) {
        let container = match container {
            None => None,
            Some(name) => match self.lanes.iter().find(|lane| *lane.name == *name) {
                Some(lane) => Some(lane.name.clone()),
                None => return,
            },
        };
        self.ring.push(Entry { at, container, attempt, transition });
    }

    /// What was seen now and happened a while ago, but not before what is known of the same attempt.
    fn push_seen(&mut self, now: i64, seen: Vec<Seen>) {
        for Seen { container, attempt, ago, transition } in seen {
            let before = self.ring.last(container.as_deref()).filter(|e| e.attempt == attempt).map(|e| e.at);
            let at = now.saturating_sub(ago).clamp(before.unwrap_or(i64::MIN).min(now), now);
            self.push(at, container.as_deref(), attempt, transition);
        }
    }

    fn copy(&self) -> PodTimeline {
        let mut entries: Vec<Entry> = self.ring.iter().cloned().collect();
        entries.sort_by_key(|e| e.at);
        PodTimeline { pod: self.key.clone(), lanes: self.lanes.clone(), entries, dropped: self.ring.dropped() }
    }
}

#[derive(Debug, Default)]
struct State {
    pods: BTreeMap<PodUid, Log>,
    gone: VecDeque<Log>,
}

/// The timelines of all Pods of an agent. Cheap to clone; clones are the same.
#[derive(Debug, Clone)]
pub struct Timeline {
    zero: Instant,
    state: Arc<Mutex<State>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { zero: Instant::now(), state: Arc::default() }
    }
}

impl Timeline {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        i64::try_from(self.zero.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// A Pod comes: taken on, taken over, or refused, as `how` says. An earlier life of its uid is forgotten.
    pub fn begin(&self, key: &PodKey, pod: &Pod, how: Transition) {
        let now = self.now();
        let mut log = Log::of(key, pod);
        log.push(now, None, 0, how);
        let mut state = self.lock();
        state.gone.retain(|log| log.key.uid != key.uid);
        state.pods.insert(key.uid.clone(), log);
    }

    /// Something happened to a Pod, or to this attempt of a container of it.
    pub fn record(&self, pod: &PodUid, container: Option<(&str, u32)>, transition: Transition) {
        let now = self.now();
        let mut state = self.lock();
        let Some(log) = state.pods.get_mut(pod) else { return };
        let (name, attempt) = container.map_or((None, 0), |(name, attempt)| (Some(name), attempt));
        // A container in back-off is looked at more than once.
        if matches!(transition, Transition::BackOff { .. })
            && log.ring.last(name).is_some_and(|e| matches!(e.transition, Transition::BackOff { .. }))
        {
            return;
        }
        log.push(now, name, attempt, transition);
    }

    /// The newest attempt of a container that anything was recorded of.
    #[must_use]
    pub fn attempt(&self, pod: &PodUid, container: &str) -> u32 {
        let state = self.lock();
        state.pods.get(pod).and_then(|log| log.ring.last(Some(container))).map_or(0, |e| e.attempt)
    }

    /// The containers of a Pod are seen to be like this, at this time of the wall clock.
    pub fn observe(&self, runtime: &PodRuntimeStatus, wall: Timestamp) {
        let now = self.now();
        let mut state = self.lock();
        let Some(log) = state.pods.get_mut(&runtime.uid) else { return };
        let seen = log.tracker.processes(runtime, wall);
        log.push_seen(now, seen);
    }

    /// The Pod's status was computed anew.
    pub fn status(&self, pod: &PodUid, status: &PodStatus) {
        let now = self.now();
        let mut state = self.lock();
        let Some(log) = state.pods.get_mut(pod) else { return };
        let seen = log.tracker.status(status);
        log.push_seen(now, seen);
    }

    /// The Pod was forgotten. Its timeline is kept while there is room.
    pub fn gone(&self, pod: &PodUid) {
        let now = self.now();
        let mut state = self.lock();
        let Some(mut log) = state.pods.remove(pod) else { return };
        log.push(now, None, 0, Transition::Gone);
        if state.gone.len() == GONE {
            state.gone.pop_front();
        }
        state.gone.push_back(log);
    }

    /// A copy of what is known of these Pods (`None`: of all), with the wall-clock time for people.
    #[must_use]
    pub fn snapshot(&self, pods: Option<&[PodUid]>, wall: Timestamp) -> Timelines {
        let now = self.now();
        let state = self.lock();
        let wanted = |log: &&Log| pods.is_none_or(|uids| uids.contains(&log.key.uid));
        let mut found: Vec<PodTimeline> = state.pods.values().filter(wanted).map(Log::copy).collect();
        found.sort_by(|a, b| a.pod.cmp(&b.pod));
        found.extend(state.gone.iter().filter(wanted).map(Log::copy));
        let origin = wall.saturating_sub(SignedDuration::from_micros(now)).unwrap_or(wall);
        Timelines { origin, now, pods: found }
    }
}

#[cfg(test)]
mod tests;

//! The pod cache: what the runtime was last seen to do with each Pod.
//!
//! One writer (the PLEG, which alone holds the [`CacheWriter`]), many readers. A worker that has just changed
//! something asks for a status [newer than](PodCache::newer_than) its change, so it never decides on an observation
//! that was made before.
//!
//! "Newer" is decided by [`Stamp`]s, a counter that both sides draw from, and by no clock: a stamp is taken *before*
//! the runtime is listed, so an observation with a greater stamp than a worker's has seen everything that the
//! worker did. Runtime timestamps, which upstream's evented PLEG compared here, play no part.
//!
//! A Pod that is being inspected is *held*: a full relist that overtakes the inspection does not release the Pod's
//! waiters with the old status.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::{PodRuntimeStatus, RuntimeError};
use tokio::sync::oneshot;

use crate::metrics::Metrics;

/// A point in the order of observations and actions. Later stamps are greater; no two are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    /// Before everything: any observation at all is newer.
    pub const ZERO: Self = Self(0);

    #[cfg(test)]
    pub(crate) fn at(n: u64) -> Self {
        Self(n)
    }
}

/// What the cache knows of a Pod.
#[derive(Debug, Clone)]
pub struct CacheRead {
    /// The newest status that could be read; empty for a Pod that the runtime does not have.
    pub status: Arc<PodRuntimeStatus>,
    /// The newest inspection failed with this; `status` is from before.
    pub error: Option<Arc<RuntimeError>>,
}

/// No observation came in time. The Pod's state is unknown, not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the runtime was not observed within {} ms", .0.as_millis())]
pub struct WaitExpired(pub Duration);

#[derive(Debug)]
struct Entry {
    read: CacheRead,
    modified: Stamp,
    observed: Stamp,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    min: Stamp,
    answer: oneshot::Sender<CacheRead>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<PodUid, Entry>,
    /// Pods without an entry that were looked for after the last full relist, and when.
    absent: HashMap<PodUid, Stamp>,
    /// Pods under inspection; the global stamp says nothing about them.
    held: HashSet<PodUid>,
    waiters: HashMap<PodUid, Vec<Waiter>>,
    global: Option<Stamp>,
    next_waiter: u64,
    /// The writer is gone: nothing will be observed any more.
    closed: bool,
}

impl State {
    fn read(&self, uid: &PodUid) -> CacheRead {
        match self.entries.get(uid) {
            Some(entry) => entry.read.clone(),
            None => CacheRead { status: Arc::new(PodRuntimeStatus::empty(uid.clone())), error: None },
        }
    }

    fn ready(&self, uid: &PodUid, min: Stamp) -> Option<CacheRead> {
        let global = if self.held.contains(uid) { None } else { self.global };
        let by_global = global.is_some_and(|g| g > min);
        let ready = match self.entries.get(uid) {
            // Until the first relist nothing is known to be complete.
            _ if self.global.is_none() => false,
            None => by_global || self.absent.get(uid).is_some_and(|seen| *seen > min),
            Some(entry) => by_global || entry.modified > min || entry.observed > min,
        };
        ready.then(|| self.read(uid))
    }

    /// Answers whoever waits for this observation, and whoever would be answered if they asked now: an earlier one may
    /// not have counted yet when it was made.
    fn notify(&mut self, uid: &PodUid, observed: Option<Stamp>) {
        // Before the first relist waiters stay: an answer for one Pod would be right, but "nothing runs" is only
        // known once everything was listed.
        if self.global.is_none() {
            return;
        }
        let Some(waiters) = self.waiters.remove(uid) else { return };
        let answer = self.read(uid);
        let mut others = Vec::new();
        for waiter in waiters {
            if observed.is_some_and(|stamp| waiter.min <= stamp) || self.ready(uid, waiter.min).is_some() {
                // A waiter that has gone away needs no answer.
                drop(waiter.answer.send(answer.clone()));
            } else {
                others.push(waiter);
            }
        }
        if !others.is_empty() {
            self.waiters.insert(uid.clone(), others);
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    stamps: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock; a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of the cache. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PodCache {
    shared: Arc<Shared>,
}

/// The one writer of the cache.
#[derive(Debug)]
pub struct CacheWriter {
    shared: Arc<Shared>,
}

/// Makes an empty cache.
#[must_use]
pub fn pod_cache() -> (PodCache, CacheWriter) {
    let shared = Arc::new(Shared::default());
    (PodCache { shared: Arc::clone(&shared) }, CacheWriter { shared })
}

/// Takes its waiter out of the cache when the wait ends, whichever way.
struct WaiterGuard<'a> {
    shared: &'a Shared,
    uid: &'a PodUid,
    id: u64,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(waiters) = state.waiters.get_mut(self.uid) {
            waiters.retain(|w| w.id != self.id);
            if waiters.is_empty() {
                state.waiters.remove(self.uid);
            }
        }
    }
}

impl PodCache {
    /// The next stamp. Taken at the end of a worker's actions; observations that begin later are newer.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp(self.shared.stamps.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// What is known now, however old.
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> CacheRead {
        self.shared.lock().read(uid)
    }

    /// What is known, if it is newer than `min`.
    #[must_use]
    pub fn get_newer_than(&self, uid: &PodUid, min: Stamp) -> Option<CacheRead> {
        self.shared.lock().ready(uid, min)
    }

    /// Waits for an observation that is newer than `min`, at most `bound`.
    ///
    /// Cancel-safe: a dropped wait leaves nothing behind.
    ///
    /// # Errors
    /// [`WaitExpired`] after `bound`, or as soon as the writer is gone.
    pub async fn newer_than(&self, uid: &PodUid, min: Stamp, bound: Duration) -> Result<CacheRead, WaitExpired> {
        let (receiver, _guard) = {
            let mut state = self.shared.lock();
            if let Some(read) = state.ready(uid, min) {
                return Ok(read);
            }
            if state.closed {
                return Err(WaitExpired(bound));
            }
            let (answer, receiver) = oneshot::channel();
            state.next_waiter += 1;
            let id = state.next_waiter;
            state.waiters.entry(uid.clone()).or_default().push(Waiter { id, min, answer });
            (receiver, WaiterGuard { shared: &self.shared, uid, id })
        };
        match tokio::time::timeout(bound, receiver).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(_)) | Err(_) => Err(WaitExpired(bound)),
        }
    }

    /// How many waits are going on; for tests and metrics.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiters.values().map(Vec::len).sum()
    }

    /// Shows its size in the agent's metrics.
    pub(crate) fn register(&self, metrics: &Metrics) {
        let number = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        let cache = self.clone();
        metrics.computed("minke_pod_cache_entries", "Pods in the pod cache", move || number(cache.len()));
        let cache = self.clone();
        metrics.computed(
            "minke_pod_cache_waiters",
            "Waits for an observation of a Pod that are under way",
            move || number(cache.waiting()),
        );
    }

    /// How many Pods have an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().entries.len()
    }

    /// Whether no Pod has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiters.clear();
    }
}

impl CacheWriter {
    /// The next stamp. Taken before the runtime is listed.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp(self.shared.stamps.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The status that is cached, for what must be carried over into the next.
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> CacheRead {
        self.shared.lock().read(uid)
    }

    /// An inspection of the Pod began: until [`CacheWriter::release`], full relists say nothing about it.
    pub fn hold(&self, uid: &PodUid) {
        self.shared.lock().held.insert(uid.clone());
    }

    /// The inspection ended and nothing newer is known to have happened; whoever waited for the last full relist
    /// is answered.
    pub fn release(&self, uid: &PodUid) {
        let mut state = self.shared.lock();
        state.held.remove(uid);
        let global = state.global;
        state.notify(uid, global);
    }

    /// A status observed from `stamp` on.
    pub fn set(&self, uid: &PodUid, status: PodRuntimeStatus, stamp: Stamp) {
        self.write(uid, CacheRead { status: Arc::new(status), error: None }, stamp);
    }

    /// The inspection that began at `stamp` failed. Readers see the error beside the status from before.
    pub fn set_error(&self, uid: &PodUid, error: RuntimeError, stamp: Stamp) {
        let status = self.get(uid).status;
        self.write(uid, CacheRead { status, error: Some(Arc::new(error)) }, stamp);
    }

    fn write(&self, uid: &PodUid, read: CacheRead, stamp: Stamp) {
        let mut state = self.shared.lock();
        state.absent.remove(uid);
        state.entries.insert(uid.clone(), Entry { read, modified: stamp, observed: stamp });
        state.notify(uid, Some(stamp));
    }

    /// The Pod was listed from `stamp` on and is as cached.
    pub fn set_observed(&self, uid: &PodUid, stamp: Stamp) {
        let mut state = self.shared.lock();
        match state.entries.get_mut(uid) {
            Some(entry) => entry.observed = stamp,
            // Whoever asks a moment later is answered as well.
            None => drop(state.absent.insert(uid.clone(), stamp)),
        }
        state.notify(uid, Some(stamp));
    }

    /// The runtime no longer has the Pod. Answers nobody: the observation that found this does.
    pub fn delete(&self, uid: &PodUid) {
        self.shared.lock().entries.remove(uid);
    }

    /// Everything was listed from `stamp` on, and every Pod that is not held is as cached.
    pub fn update_time(&self, stamp: Stamp) {
        let mut state = self.shared.lock();
        state.global = Some(stamp);
        state.absent.retain(|_, seen| *seen > stamp);
        let waiting: Vec<PodUid> = state.waiters.keys().cloned().collect();
        for uid in waiting {
            let observed = (!state.held.contains(&uid)).then_some(stamp);
            state.notify(&uid, observed);
        }
    }
}

#[cfg(test)]
mod tests;

//! The workers by uid, and what may be asked of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minke_core::identity::{PodKey, PodUid};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::mailbox::Mailbox;
use super::questions::{Answers, PodFacts};
use crate::{DesiredPod, PodStage};

/// A worker, seen from outside. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WorkerHandle {
    pub(crate) key: PodKey,
    pub(crate) mailbox: Arc<Mailbox>,
    facts: Arc<watch::Sender<PodFacts>>,
    desired: Arc<Mutex<DesiredPod>>,
    ended: CancellationToken,
}

impl WorkerHandle {
    pub(crate) fn new(key: &PodKey, desired: DesiredPod) -> Self {
        let facts = Arc::new(watch::Sender::new(PodFacts::new()));
        let desired = Arc::new(Mutex::new(desired));
        Self { key: key.clone(), mailbox: Arc::default(), facts, desired, ended: CancellationToken::new() }
    }

    /// Where the Pod is, by its worker's word.
    pub(crate) fn stage(&self) -> PodStage {
        self.facts().stage
    }

    /// What is wanted, by the newest wish.
    pub(crate) fn desired(&self) -> DesiredPod {
        self.desired.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the worker that something else is wanted.
    pub(crate) fn update(&self, desired: DesiredPod) {
        // Under the lock, so that of two updates the later one is the newest for everyone.
        let mut newest = self.desired.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = desired.clone();
        self.mailbox.update(desired);
    }

    /// What its worker says of the Pod.
    pub(crate) fn facts(&self) -> PodFacts {
        *self.facts.borrow()
    }

    pub(super) fn set_facts(&self, facts: PodFacts) {
        self.facts.send_if_modified(|before| std::mem::replace(before, facts) != facts);
    }

    /// Returns when nothing of the Pod runs any more, nor will. Cancel-safe.
    pub(crate) async fn stopped(&self) {
        self.until(|stage| matches!(stage, PodStage::Terminated | PodStage::Finished)).await;
    }

    /// Returns when the Pod is cleaned up as well, or forgotten. Cancel-safe.
    pub(crate) async fn finished(&self) {
        self.until(|stage| stage == PodStage::Finished).await;
    }

    async fn until(&self, holds: impl Fn(PodStage) -> bool) {
        let mut facts = self.facts.subscribe();
        tokio::select! {
            // The sender lives in this handle, so this can't fail.
            _ = facts.wait_for(|facts| holds(facts.stage)) => {}
            () = self.ended() => {}
        }
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns when the Pod is forgotten.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// An orphan that is being ended, until dropped.
#[derive(Debug)]
pub(crate) struct EndingOrphan {
    uid: PodUid,
    orphans: Arc<Mutex<HashMap<PodUid, CancellationToken>>>,
    _ended: DropGuard,
}

impl Drop for EndingOrphan {
    fn drop(&mut self) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uid);
    }
}

/// All workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    workers: Arc<Mutex<HashMap<PodUid, WorkerHandle>>>,
    /// Orphans that are being ended.
    orphans: Arc<Mutex<HashMap<PodUid, CancellationToken>>>,
    /// All Pods that the runtime has were seen once.
    synced: Arc<AtomicBool>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<PodUid, WorkerHandle>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, handle: WorkerHandle) {
        self.lock().insert(handle.key.uid.clone(), handle);
    }

    pub(super) fn remove(&self, uid: &PodUid) {
        self.lock().remove(uid);
    }

    pub(crate) fn get(&self, uid: &PodUid) -> Option<WorkerHandle> {
        self.lock().get(uid).cloned()
    }

    /// Marks a Pod without a worker as being ended; `None` if it has one, or is being ended already.
    pub(crate) fn begin_orphan(&self, uid: &PodUid) -> Option<EndingOrphan> {
        let workers = self.lock();
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.contains_key(uid) || orphans.contains_key(uid) {
            return None;
        }
        let ended = CancellationToken::new();
        orphans.insert(uid.clone(), ended.clone());
        Some(EndingOrphan { uid: uid.clone(), orphans: self.orphans.clone(), _ended: ended.drop_guard() })
    }

    /// Returns when no orphan of this uid is being ended. Cancel-safe.
    pub(crate) async fn orphan_ended(&self, uid: &PodUid) {
        let ended = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
        if let Some(ended) = ended {
            ended.cancelled().await;
        }
    }

    /// What may be told of a Pod, known or not.
    pub(crate) fn answers(&self, uid: &PodUid) -> Answers {
        Answers { known: self.get(uid).map(|h| h.facts()), synced: self.synced.load(Ordering::Relaxed) }
    }

    /// Everything that the runtime has was listed: from now on, a Pod without a worker is nobody's.
    pub(crate) fn set_synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<WorkerHandle> {
        self.lock().values().cloned().collect()
    }

    /// The Pods of this namespace and name.
    pub(crate) fn named(&self, key: &PodKey) -> Vec<WorkerHandle> {
        let same = |h: &&WorkerHandle| h.key.namespace == key.namespace && h.key.name == key.name;
        self.lock().values().filter(same).cloned().collect()
    }

    /// Whether every Pod is finished.
    pub(crate) fn idle(&self) -> bool {
        self.lock().values().all(|h| h.stage() == PodStage::Finished)
    }
}

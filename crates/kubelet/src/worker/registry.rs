//! The workers by uid, and what may be asked of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minke_core::identity::{PodKey, PodUid};
use tokio_util::sync::CancellationToken;

use super::mailbox::Mailbox;
use crate::PodStage;

/// A worker, seen from outside. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WorkerHandle {
    pub(crate) key: PodKey,
    pub(crate) mailbox: Arc<Mailbox>,
    stage: Arc<Mutex<PodStage>>,
    ended: CancellationToken,
}

impl WorkerHandle {
    pub(crate) fn new(key: &PodKey) -> Self {
        let (mailbox, stage) = (Arc::default(), Arc::new(Mutex::new(PodStage::Syncing)));
        Self { key: key.clone(), mailbox, stage, ended: CancellationToken::new() }
    }

    /// Where the Pod is, by its worker's word.
    pub(crate) fn stage(&self) -> PodStage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_stage(&self, stage: PodStage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns when the Pod is forgotten.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// All workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    workers: Arc<Mutex<HashMap<PodUid, WorkerHandle>>>,
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

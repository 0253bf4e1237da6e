//! Checkpoints in memory, for simulations: they survive agents, not processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use minke_core::identity::PodUid;

use super::{CheckpointError, Checkpoints, Loaded, SavedPod, SavedState};
use crate::DesiredPod;

/// Checkpoints in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryCheckpoints {
    pods: Arc<Mutex<BTreeMap<PodUid, (DesiredPod, SavedState)>>>,
    writes: Arc<AtomicUsize>,
}

impl MemoryCheckpoints {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, (DesiredPod, SavedState)>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The uids that are kept.
    #[must_use]
    pub fn uids(&self) -> Vec<PodUid> {
        self.lock().keys().cloned().collect()
    }

    /// How often states were written.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// All that is kept of a Pod.
    #[must_use]
    pub fn desired(&self, uid: &PodUid) -> Option<(DesiredPod, SavedState)> {
        self.lock().get(uid).cloned()
    }

    /// How far a Pod is.
    #[must_use]
    pub fn state(&self, uid: &PodUid) -> Option<SavedState> {
        self.lock().get(uid).map(|(_, state)| state.clone())
    }
}

#[async_trait]
impl Checkpoints for MemoryCheckpoints {
    async fn load(&self) -> Result<Loaded, CheckpointError> {
        let pods = self.lock();
        let saved = pods.iter().map(|(uid, (desired, state))| SavedPod {
            uid: uid.clone(),
            desired: desired.clone(),
            state: state.clone(),
        });
        Ok(Loaded { pods: saved.collect(), unreadable: Vec::new() })
    }

    async fn save_pod(&self, uid: &PodUid, desired: &DesiredPod) -> Result<(), CheckpointError> {
        self.lock().entry(uid.clone()).or_default().0 = desired.clone();
        Ok(())
    }

    async fn save_state(&self, uid: &PodUid, state: &SavedState) -> Result<(), CheckpointError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if let Some(pod) = self.lock().get_mut(uid) {
            pod.1 = state.clone();
        }
        Ok(())
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), CheckpointError> {
        self.lock().remove(uid);
        Ok(())
    }
}

//! Pods that are being taken on: each once, whoever asks and however often, and to the end, whoever stops waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use minke_core::identity::PodUid;

use crate::{Admission, DesiredPod, Kubelet};

/// What became of a Pod; `None`: the agent went down before.
pub(super) type Taking = Shared<BoxFuture<'static, Option<Admission>>>;

type Takings = HashMap<PodUid, Taking>;

/// The Pods that are being taken on. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    taking: Arc<Mutex<Takings>>,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, Takings> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The taking on of this Pod, if there is one in hand.
    pub(super) fn of(&self, uid: &PodUid) -> Option<Taking> {
        self.lock().get(uid).cloned()
    }

    /// Takes a Pod on, or joins whoever does; `None`: it is held already.
    pub(super) fn take_on(
        &self,
        kubelet: &Kubelet,
        uid: &PodUid,
        held: impl FnOnce() -> bool,
        desired: impl FnOnce() -> DesiredPod,
    ) -> Option<Taking> {
        let mut taking = self.lock();
        if let Some(joined) = taking.get(uid) {
            return Some(joined.clone());
        }
        // Looked at under the lock: whoever is done is registered before it leaves.
        if held() {
            return None;
        }
        let (arrivals, own, uid_of_task, desired) = (self.clone(), kubelet.clone(), uid.clone(), desired());
        let workers = kubelet.workers();
        let task = async move {
            let admission = own.apply(vec![desired]).await.pop();
            arrivals.lock().remove(&uid_of_task);
            admission
        };
        let task = workers.tasks.spawn(workers.cancel.clone().run_until_cancelled_owned(task));
        let shared = task.map(|ended| ended.ok().flatten().flatten()).boxed().shared();
        taking.insert(uid.clone(), shared.clone());
        Some(shared)
    }
}

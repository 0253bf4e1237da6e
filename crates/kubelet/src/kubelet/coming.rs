//! Pods that come in: each is decided about in its turn, kept, and given a worker. Those whose uid or name is taken wait
//! for its way out, or update what is here; those that have ended elsewhere are only cleaned up.

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::error_chain;
use minke_core::status::FailureOverride;
use tokio::time::timeout;

use super::Kubelet;
use super::room::active;
use crate::admission::{Rejection, Verdict};
use crate::cache::Stamp;
use crate::checkpoint::{CheckpointError, SavedState};
use crate::timeline::Transition;
use crate::worker::grace::effective_grace;
use crate::worker::lifecycle::{Cause, SavedLifecycle};
use crate::worker::machine::first_seen;
use crate::worker::{NewPod, WorkerHandle, differs};
use crate::{Admission, DesiredPod, PodStage, StopRequest};

/// How long a Pod of the same uid or name that ends may take to be forgotten before its successor is refused.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for what the runtime has of a Pod that is to end at once.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// A Pod that was decided about.
pub(super) struct Coming {
    pub(super) key: PodKey,
    desired: DesiredPod,
    /// How its life begins if it is not rejected.
    first: SavedLifecycle,
    pub(super) rejection: Option<Rejection>,
}

impl Kubelet {
    /// Takes Pods on, in order. Durable before it returns.
    pub async fn apply(&self, pods: Vec<DesiredPod>) -> Vec<Admission> {
        self.make_way(&pods).await;
        let _one_at_a_time = self.shared.admission.lock().await;
        let mut decided = Vec::with_capacity(pods.len());
        let mut coming: Vec<Coming> = Vec::new();
        for desired in pods {
            match self.decide(desired, &mut coming).await {
                Ok(new) => {
                    decided.push(Ok(coming.len()));
                    coming.push(new);
                }
                Err(answer) => decided.push(Err(answer)),
            }
        }
        // All at once: each write waits for the disk.
        let answers = join_all(coming.into_iter().map(|new| self.take_on(new))).await;
        decided.into_iter().map(|d| d.map_or_else(|answer| answer, |at| answers[at].clone())).collect()
    }

    /// Decides about one Pod, given those that come with it.
    async fn decide(&self, desired: DesiredPod, coming: &mut [Coming]) -> Result<Coming, Admission> {
        let workers = &self.shared.workers;
        let key = PodKey::of(&desired.pod).map_err(|error| refused("InvalidPod", error.to_string()))?;
        let removal =
            |key: &PodKey| refused("AlreadyExists", format!("pod {key} has ended and is still being removed"));
        if coming.iter().any(|c| c.key.uid == key.uid) {
            return Err(Admission::Unchanged);
        }
        if let Some(existing) = workers.registry.get(&key.uid) {
            if !self.is_ending(&existing) {
                return Err(self.update(&existing, desired).await);
            }
            if !self.forget(&key.uid, REMOVAL_TIMEOUT).await {
                return Err(removal(&key));
            }
        }
        let exists =
            |uid: &PodUid| refused("AlreadyExists", format!("pod {} exists already with uid {uid}", key.full_name()));
        let namesake =
            |c: &&Coming| c.rejection.is_none() && c.key.namespace == key.namespace && c.key.name == key.name;
        if let Some(other) = coming.iter().find(namesake) {
            return Err(exists(&other.key.uid));
        }
        for other in workers.registry.named(&key) {
            if !self.is_ending(&other) {
                return Err(exists(&other.key.uid));
            }
            // A name is one Pod's at a time.
            if !self.forget(&other.key.uid, REMOVAL_TIMEOUT).await {
                return Err(removal(&other.key));
            }
        }
        let first = self.first_seen(&key.uid, &desired.pod).await;
        let rejection = match first {
            SavedLifecycle::Syncing => match self.admission(&desired, coming).await {
                Verdict::Admit => None,
                Verdict::Reject(rejection) => Some(rejection),
                Verdict::Preempt(preemption) => {
                    self.preempt(&preemption, coming).await;
                    None
                }
            },
            // Nothing of it will run, so it needs no place.
            SavedLifecycle::Terminating { .. }
            | SavedLifecycle::Terminated { .. }
            | SavedLifecycle::Finished { .. } => None,
        };
        Ok(Coming { key, desired, first, rejection })
    }

    /// Keeps a Pod that was decided about, and gives it a worker.
    async fn take_on(&self, new: Coming) -> Admission {
        let workers = &self.shared.workers;
        let Coming { key, desired, first, rejection } = new;
        if let Err(error) = workers.checkpoints.save_pod(&key.uid, &desired).await {
            let message = format!("can't keep the pod: {}", error_chain(&error));
            return refused("CheckpointFailed", message);
        }
        let now = workers.sync.clock.now();
        let how = match &rejection {
            None => Transition::Admitted,
            Some(rejection) => Transition::Rejected { reason: rejection.reason.clone() },
        };
        workers.sync.recorder.timeline().begin(&key, &desired.pod, how);
        let mut state = SavedState { lifecycle: first, ..SavedState::default() };
        if state.lifecycle != SavedLifecycle::Syncing {
            // How it ended elsewhere is not ours to change.
            state.status = desired.pod.status.clone().unwrap_or_default();
        }
        state.timings.admitted_at = Some(now);
        if let Some(rejection) = &rejection {
            let (reason, message) = (&rejection.reason, rejection.status_message());
            workers.sync.recorder.warning(&key.uid, None, reason, message.clone());
            state.status.phase = Some("Failed".to_owned());
            state.status.reason = Some(reason.clone());
            state.status.message = Some(message.clone());
            state.timings.finished_at = Some(now);
            let cause = Cause::Failed(FailureOverride { reason: reason.clone(), message });
            state.lifecycle = SavedLifecycle::Finished { cause };
            if let Err(error) = workers.checkpoints.save_state(&key.uid, &state).await {
                tracing::warn!(pod = %key, error = error_chain(&error), "can't keep a rejection");
            }
        }
        // What an earlier agent left of it may be on its way out.
        drop(timeout(REMOVAL_TIMEOUT, workers.registry.orphan_ended(&key.uid)).await);
        let newer_than = self.first_look(&key.uid);
        workers.start(NewPod { key, desired, state, newer_than });
        match rejection {
            None => Admission::Accepted,
            Some(Rejection { reason, message }) => Admission::Rejected { reason, message },
        }
    }

    /// What the first sync of a Pod must be newer than. A uid that the cache has never heard of can't have anything
    /// that is older; one that it knows may have been removed and not be observed to be gone.
    fn first_look(&self, uid: &PodUid) -> Stamp {
        let workers = &self.shared.workers;
        let known = workers.cache.get(uid);
        let empty = known.status.sandboxes.is_empty() && known.status.containers.is_empty() && known.error.is_none();
        if empty { Stamp::ZERO } else { workers.cache.stamp() }
    }

    async fn admission(&self, desired: &DesiredPod, coming: &[Coming]) -> Verdict {
        let workers = &self.shared.workers;
        let mut active: Vec<_> = active(workers).into_iter().map(|(_, pod)| pod).collect();
        active.extend(coming.iter().filter(|c| c.rejection.is_none()).map(|c| c.desired.pod.clone()));
        self.shared.admit.admit(&desired.pod, &active, &self.shared.room.node.pressure()).await
    }

    /// Whether the Pod has ended or is on its way there: who asks for it again means a new run, and does not have to
    /// know how far the clean-up of the last one is.
    fn is_ending(&self, handle: &WorkerHandle) -> bool {
        match handle.stage() {
            PodStage::Terminating | PodStage::Terminated | PodStage::Finished => true,
            PodStage::Syncing => {
                let report = self.shared.workers.hub.get(&handle.key.uid);
                let phase = report.as_ref().and_then(|r| r.pod.status.as_ref()).and_then(|s| s.phase.as_deref());
                matches!(phase, Some("Succeeded" | "Failed"))
            }
        }
    }

    /// Removes a Pod that has ended or is about to, and waits until it is forgotten.
    async fn forget(&self, uid: &PodUid, bound: Duration) -> bool {
        let Some(handle) = self.shared.workers.registry.get(uid) else { return true };
        handle.mailbox.stop(StopRequest { grace: None, remove: true });
        timeout(bound, handle.ended()).await.is_ok()
    }

    /// Waits for Pods that end and whose uid or name is wanted again. Before the turn to admit: their grace is theirs,
    /// and others are not to wait for it.
    async fn make_way(&self, pods: &[DesiredPod]) {
        let registry = &self.shared.workers.registry;
        let in_the_way = |desired: &DesiredPod| {
            let Ok(key) = PodKey::of(&desired.pod) else { return Vec::new() };
            match registry.get(&key.uid) {
                Some(same) if !self.is_ending(&same) => Vec::new(),
                Some(same) => registry.named(&key).into_iter().chain([same]).collect(),
                None => registry.named(&key),
            }
        };
        let ending = pods.iter().flat_map(in_the_way).filter(|handle| self.is_ending(handle));
        let forgotten = ending.map(|handle| async move {
            let own = effective_grace(&handle.desired().pod, None, None);
            self.forget(&handle.key.uid, REMOVAL_TIMEOUT.saturating_add(own)).await
        });
        join_all(forgotten).await;
    }

    /// Lets a Pod that is here become what is wanted now; durable before it returns.
    async fn update(&self, existing: &WorkerHandle, desired: DesiredPod) -> Admission {
        if !differs(&existing.desired(), &desired) {
            return Admission::Unchanged;
        }
        match self.amend(existing, desired).await {
            Ok(()) => Admission::Updated,
            Err(error) => refused("CheckpointFailed", format!("can't keep the pod: {}", error_chain(&error))),
        }
    }

    /// Tells a Pod's worker that something else is wanted, durably. One that has ended for good keeps what it had.
    pub(crate) async fn amend(&self, existing: &WorkerHandle, desired: DesiredPod) -> Result<(), CheckpointError> {
        match existing.stage() {
            PodStage::Syncing | PodStage::Terminating => {}
            PodStage::Terminated | PodStage::Finished => return Ok(()),
        }
        let (workers, uid) = (&self.shared.workers, &existing.key.uid);
        workers.checkpoints.save_pod(uid, &desired).await?;
        existing.update(desired);
        if workers.registry.get(uid).is_none() {
            // It was forgotten meanwhile, and must not come back with the next agent.
            workers.checkpoints.remove(uid).await?;
        }
        Ok(())
    }

    /// How the life of a Pod begins.
    async fn first_seen(&self, uid: &PodUid, pod: &Pod) -> SavedLifecycle {
        let blind = first_seen(pod, None);
        if blind == SavedLifecycle::Syncing {
            return blind;
        }
        let cache = &self.shared.workers.cache;
        match cache.newer_than(uid, self.first_look(uid), FIRST_LOOK).await {
            Ok(read) if read.error.is_none() => first_seen(pod, Some(&read.status)),
            Ok(_) | Err(_) => blind,
        }
    }
}

fn refused(reason: &str, message: String) -> Admission {
    Admission::Rejected { reason: reason.to_owned(), message }
}

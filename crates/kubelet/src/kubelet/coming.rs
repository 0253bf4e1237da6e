//! Pods that come in beside others of their uid or name: making way, updating, and those that have ended elsewhere.

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::error_chain;

use super::{Kubelet, REMOVAL_TIMEOUT, refused};
use crate::worker::grace::effective_grace;
use crate::worker::lifecycle::SavedLifecycle;
use crate::worker::machine::first_seen;
use crate::worker::{WorkerHandle, differs};
use crate::{Admission, DesiredPod};

/// Longest wait for what the runtime has of a Pod that is to end at once.
const FIRST_LOOK: Duration = Duration::from_secs(10);

impl Kubelet {
    /// Waits for Pods that end and whose uid or name is wanted again. Before the turn to admit: their grace is theirs,
    /// and others are not to wait for it.
    pub(super) async fn make_way(&self, pods: &[DesiredPod]) {
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
    pub(super) async fn update(&self, existing: &WorkerHandle, desired: DesiredPod) -> Admission {
        if !differs(&existing.desired(), &desired) {
            return Admission::Unchanged;
        }
        let uid = &existing.key.uid;
        match self.shared.workers.checkpoints.save_pod(uid, &desired).await {
            Ok(()) => {
                existing.update(desired);
                Admission::Updated
            }
            Err(error) => refused("CheckpointFailed", format!("can't keep the pod: {}", error_chain(&error))),
        }
    }

    /// How the life of a Pod begins.
    pub(super) async fn first_seen(&self, uid: &PodUid, pod: &Pod) -> SavedLifecycle {
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

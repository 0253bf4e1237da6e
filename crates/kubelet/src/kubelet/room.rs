//! Room on the machine: Pods of earlier agents are admitted again, critical ones take the place of others, and
//! whoever the machine can't bear goes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{ListFilter, RuntimeError, error_chain};
use minke_core::status::FailureOverride;
use tokio::time::timeout;

use super::coming::Coming;
use super::{Admit, Kubelet};
use crate::admission::{Preemption, Rejection, Verdict};
use crate::checkpoint::SavedPod;
use crate::eviction::state::Verdict as Evicted;
use crate::eviction::{self, EvictionConfig, Evictor, Gauge, NodeState, RoomMetrics};
use crate::housekeeping::Housekeeping;
use crate::metrics::Metrics;
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;
use crate::worker::WorkerContext;
use crate::worker::grace::effective_grace;
use crate::worker::lifecycle::{Cause, SavedLifecycle, Then};
use crate::{Eviction, NodeReport, PodStage, PodUse};

const PREEMPTING: &str = "Preempting";
const PREEMPTED: &str = "Preempted in order to admit critical pod";
/// How long an evicted Pod's clean-up is waited for.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// What is known of the room on the machine, and counted. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Room {
    pub(super) node: NodeState,
    pub(super) metrics: RoomMetrics,
}

impl Room {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self { node: NodeState::default(), metrics: RoomMetrics::new(metrics) }
    }
}

/// Admits the Pods of an earlier agent again, in the order in which they came: the machine, its labels and what is
/// reserved may have changed. One that does not fit any more ends, with the reason; those that end anyway count as
/// long as they may run.
pub(super) async fn admit_again(mut pods: Vec<SavedPod>, admit: &dyn Admit) -> Vec<SavedPod> {
    pods.sort_by_key(|p| (p.state.timings.admitted_at.unwrap_or(Timestamp::UNIX_EPOCH), p.uid.clone()));
    let ending = pods.iter().filter(|p| matches!(p.state.lifecycle, SavedLifecycle::Terminating { .. }));
    let mut active: Vec<Arc<Pod>> = ending.map(|p| p.desired.pod.clone()).collect();
    for at in 0..pods.len() {
        if pods[at].state.lifecycle != SavedLifecycle::Syncing {
            continue;
        }
        let pod = pods[at].desired.pod.clone();
        match admit.admit_again(&pod, &active).await {
            Verdict::Admit => active.push(pod),
            Verdict::Reject(rejection) => {
                tracing::warn!(pod = %pods[at].uid, %rejection, "a pod of an earlier agent does not fit any more");
                let message = rejection.status_message();
                let failure = FailureOverride { reason: rejection.reason, message };
                end(&mut pods[at], Cause::Failed(failure));
            }
            Verdict::Preempt(preemption) => {
                active.retain(|p| !p.metadata.uid.as_ref().is_some_and(|uid| is_among(uid, &preemption.victims)));
                active.push(pod);
                for victim in pods.iter_mut().filter(|p| preemption.victims.contains(&p.uid)) {
                    let failure = FailureOverride { reason: PREEMPTING.to_owned(), message: PREEMPTED.to_owned() };
                    end(victim, Cause::Evicted(failure));
                }
            }
        }
    }
    pods
}

fn is_among(uid: &str, victims: &[PodUid]) -> bool {
    victims.iter().any(|victim| victim.as_str() == uid)
}

fn end(pod: &mut SavedPod, cause: Cause) {
    if pod.state.lifecycle == SavedLifecycle::Syncing {
        let grace = effective_grace(&pod.desired.pod, None, None);
        pod.state.lifecycle = SavedLifecycle::Terminating { cause, grace, then: Then::Keep };
    }
}

/// Starts the eviction manager.
pub(super) fn keep(
    ctx: &Arc<WorkerContext>,
    housekeeping: &Housekeeping,
    config: EvictionConfig,
    gauge: Arc<dyn Gauge>,
    room: &Room,
) {
    let (housekeeping, metrics) = (housekeeping.clone(), room.metrics.clone());
    let evictor = Arc::new(WorkerEvictor { ctx: ctx.clone(), housekeeping, metrics });
    let node = room.node.clone();
    let manager = eviction::run(config, gauge, ctx.sync.runtime.clone(), evictor, node);
    ctx.tasks.spawn(ctx.cancel.clone().run_until_cancelled_owned(manager));
}

impl Kubelet {
    /// Makes room for a critical Pod: ends the victims and waits for them, all at a time. One that does not end in
    /// time is told of, and the Pod comes in all the same, as upstream.
    pub(super) async fn preempt(&self, preemption: &Preemption, coming: &mut [Coming]) {
        let workers = &self.shared.workers;
        tracing::warn!(victims = ?preemption.victims, short_of = ?preemption.short_of, "making room for a critical pod");
        for resource in &preemption.short_of {
            self.shared.room.metrics.preempted(resource);
        }
        let kill = |uid: PodUid| async move {
            workers.sync.recorder.warning(&uid, None, PREEMPTING, PREEMPTED.to_owned());
            let (reason, message) = (PREEMPTING.to_owned(), PREEMPTED.to_owned());
            let eviction = Eviction { reason, message, grace: None, disrupts: true };
            if let Err(error) = workers.evict_now(&uid, eviction).await {
                tracing::warn!(pod = %uid, error = error_chain(&error), "a preempted pod did not end in time");
            }
        };
        let (new, running): (Vec<_>, Vec<_>) =
            preemption.victims.iter().cloned().partition(|uid| coming.iter().any(|c| c.key.uid == *uid));
        for victim in coming.iter_mut().filter(|c| new.contains(&c.key.uid)) {
            let (reason, message) = (PREEMPTING.to_owned(), PREEMPTED.to_owned());
            victim.rejection = Some(Rejection { reason, message });
        }
        join_all(running.into_iter().map(kill)).await;
    }

    /// What the machine is short of, and what was left at the last look.
    #[must_use]
    pub fn node(&self) -> NodeReport {
        let (node, workers) = (&self.shared.room.node, &self.shared.workers);
        NodeReport {
            pressure: node.pressure(),
            levels: node.observations().levels,
            runtime_silence: workers.pleg.silence(&*workers.sync.runtime),
        }
    }

    /// What Pods use, as the runtime and the disk say now.
    ///
    /// # Errors
    /// The runtime can't say.
    pub async fn usage(&self) -> Result<Vec<PodUse>, RuntimeError> {
        let workers = &self.shared.workers;
        let at = workers.sync.epoch.elapsed();
        let all = ListFilter::default();
        let usage = bounded("pod usage", CALL_TIMEOUT, workers.sync.runtime.pod_usage(&all)).await?;
        let mut pods = Vec::new();
        for (key, pod) in active(workers) {
            let own: Vec<_> = usage.iter().filter(|u| u.pod == key.uid).collect();
            let Some(newest) = own.first() else { continue };
            let disk = self.shared.gauge.pod_disk(&key, &pod).await;
            let logs = |name: &str| disk.logs.get(name).map_or(0, |space| space.bytes);
            let volumes = disk.volumes.iter().filter(|v| !v.in_memory).map(|v| v.space.bytes).sum();
            let containers = own.iter().flat_map(|u| &u.containers).cloned();
            let containers: Vec<_> = containers.map(|c| (logs(&c.name), c)).collect();
            pods.push(PodUse { key, at, cgroup: newest.cgroup, containers, volume_bytes: volumes });
        }
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(pods)
    }
}

/// The Pods that run or may.
pub(super) fn active(ctx: &WorkerContext) -> Vec<(PodKey, Arc<Pod>)> {
    let workers = ctx.registry.all();
    let live = workers.iter().filter(|h| match h.stage() {
        PodStage::Syncing | PodStage::Terminating => true,
        PodStage::Terminated | PodStage::Finished => false,
    });
    live.filter_map(|h| Some((h.key.clone(), ctx.hub.get(&h.key.uid)?.pod))).collect()
}

/// Evicts by the workers.
#[derive(Debug)]
struct WorkerEvictor {
    ctx: Arc<WorkerContext>,
    metrics: RoomMetrics,
    housekeeping: Housekeeping,
}

#[async_trait]
impl Evictor for WorkerEvictor {
    fn pods(&self) -> Vec<(PodKey, Arc<Pod>)> {
        active(&self.ctx)
    }

    async fn reclaim(&self) {
        // A dead container keeps its image, so containers go first.
        self.housekeeping.reclaim_containers().await;
        if let Err(error) = self.housekeeping.reclaim_images().await {
            tracing::warn!(error = error_chain(&error), "can't remove images to make room");
        }
    }

    async fn evict(&self, verdict: Evicted) {
        let Evicted { uid, grace, message, cause } = verdict;
        self.metrics.evicted(cause.as_str());
        const REASON: &str = "Evicted";
        // It may have gone by itself meanwhile.
        let Some(worker) = self.ctx.registry.get(&uid) else { return };
        self.ctx.sync.recorder.warning(&uid, None, REASON, message.clone());
        let disrupts = cause.is_for_others();
        let eviction = Eviction { reason: REASON.to_owned(), message, grace: Some(grace), disrupts };
        if let Err(error) = self.ctx.evict_now(&uid, eviction).await {
            tracing::warn!(pod = %uid, error = error_chain(&error), "an evicted pod did not end in time");
        }
        if timeout(CLEAN_UP, worker.finished()).await.is_err() {
            tracing::warn!(pod = %uid, "an evicted pod is not cleaned up yet");
            return;
        }
        // Logs are part of what it used. Where memory was short they stay, to be read.
        if cause.is_about_disk()
            && let Err(error) = self.ctx.sync.host.remove_logs(&worker.key).await
        {
            tracing::warn!(pod = %uid, %error, "the logs of an evicted pod can't be removed");
        }
    }
}

#[cfg(test)]
mod tests;

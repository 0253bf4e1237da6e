//! The task that looks, decides by [`super::state`] and acts.
//!
//! Memory is polled, as everything is: a Pod that fills the machine between two looks meets the kernel's OOM killer,
//! in the order of `oom_score_adj`, which follows the same ranks. After an eviction the next look comes a whole
//! period later, because what a Pod used is free only a moment after it ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use minke_core::runtime::{ListFilter, PodUsage, Runtime, error_chain};
use tokio::time::Instant;

use super::candidate::{Candidate, ContainerUsed, Space, Used};
use super::gauge::{Gauge, PodDisk};
use super::limits::has_limits;
use super::signal::Observations;
use super::state::{Action, Event, EvictionState, Verdict};
use super::threshold::EvictionConfig;
use crate::admission::Pressure;
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;

/// What eviction does to Pods and to what nobody needs.
#[async_trait]
pub(crate) trait Evictor: std::fmt::Debug + Send + Sync + 'static {
    /// The Pods that run or may: not terminated.
    fn pods(&self) -> Vec<(PodKey, Arc<Pod>)>;
    /// Removes dead containers and images that nobody needs.
    async fn reclaim(&self);
    /// Ends a Pod; returns when nothing of it runs and its volumes are gone, or when that takes too long.
    async fn evict(&self, verdict: Verdict);
}

/// What the machine has and is short of, as last seen. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeState {
    state: Arc<Mutex<(Vec<Pressure>, Observations)>>,
}

impl NodeState {
    fn lock(&self) -> MutexGuard<'_, (Vec<Pressure>, Observations)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is short.
    pub(crate) fn pressure(&self) -> Vec<Pressure> {
        self.lock().0.clone()
    }

    /// What was left.
    pub(crate) fn observations(&self) -> Observations {
        self.lock().1.clone()
    }

    fn set(&self, state: &EvictionState) {
        let mut now = self.lock();
        let (before, after) = (now.0.clone(), state.pressure().to_vec());
        if before != after {
            tracing::warn!(?before, ?after, "what the machine is short of changed");
        }
        *now = (after, state.observations().clone());
    }
}

/// Looks every period, for ever.
pub(crate) async fn run(
    config: EvictionConfig,
    gauge: Arc<dyn Gauge>,
    runtime: Arc<dyn Runtime>,
    evictor: Arc<dyn Evictor>,
    node: NodeState,
) {
    let mut manager = Manager { config, gauge, runtime, evictor, node, state: EvictionState::default() };
    loop {
        manager.look().await;
        tokio::time::sleep(manager.config.period).await;
    }
}

struct Manager {
    config: EvictionConfig,
    gauge: Arc<dyn Gauge>,
    runtime: Arc<dyn Runtime>,
    evictor: Arc<dyn Evictor>,
    node: NodeState,
    state: EvictionState,
}

impl Manager {
    async fn look(&mut self) {
        let observations = self.gauge.observe().await;
        let limited = self.measure(&|pod| has_limits(pod)).await.unwrap_or_default();
        let event = Event::Observed { observations: &observations, limited: &limited };
        let mut actions = self.state.step(&self.config, event, Instant::now());
        self.node.set(&self.state);
        while !actions.is_empty() {
            let mut next = Vec::new();
            for action in actions {
                next.extend(self.act(action).await);
            }
            actions = next;
        }
    }

    async fn act(&mut self, action: Action) -> Vec<Action> {
        match action {
            Action::Reclaim(signal) => {
                tracing::warn!(%signal, "attempting to reclaim {}", signal.resource());
                self.evictor.reclaim().await;
                let observations = self.gauge.observe().await;
                let actions = self.state.step(&self.config, Event::Reclaimed(&observations), Instant::now());
                self.node.set(&self.state);
                actions
            }
            Action::Measure(signal) => {
                tracing::warn!(%signal, "a pod has to make room");
                // Nobody goes blindly: the next look tries again.
                let Some(candidates) = self.measure(&|_| true).await else { return vec![] };
                self.state.step(&self.config, Event::Measured(&candidates), Instant::now())
            }
            Action::Evict(verdict) => {
                tracing::warn!(pod = %verdict.uid, cause = verdict.cause.as_str(), message = verdict.message, "evicting a pod");
                self.evictor.evict(verdict).await;
                vec![]
            }
        }
    }

    /// Measures these Pods; `None` when the runtime can't say. One alone is asked for by itself; for several, one call
    /// for all is cheaper. A Pod of which the runtime has nothing uses what it has on disk, and no more.
    async fn measure(&self, wanted: &(dyn Fn(&Pod) -> bool + Sync)) -> Option<Vec<Candidate>> {
        let pods: Vec<(PodKey, Arc<Pod>)> = self.evictor.pods().into_iter().filter(|(_, pod)| wanted(pod)).collect();
        let filter = match pods.as_slice() {
            [] => return Some(Vec::new()),
            [(only, _)] => ListFilter::pod(&only.uid),
            _ => ListFilter::default(),
        };
        let usage = bounded("pod usage", CALL_TIMEOUT, self.runtime.pod_usage(&filter)).await;
        let usage = match usage {
            Ok(usage) => usage,
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "can't see what pods use");
                return None;
            }
        };
        let mut candidates = Vec::with_capacity(pods.len());
        for (key, pod) in pods {
            let disk = self.gauge.pod_disk(&key, &pod).await;
            let own: Vec<&PodUsage> = usage.iter().filter(|u| u.pod == key.uid).collect();
            let used = Some(used(&own, disk));
            candidates.push(Candidate { uid: key.uid, pod, used });
        }
        Some(candidates)
    }
}

/// What a Pod uses, from what the runtime says and what is on disk. Writable layers of earlier instances of a
/// container count as its own.
fn used(usage: &[&PodUsage], disk: PodDisk) -> Used {
    let mut containers: BTreeMap<&str, ContainerUsed> = BTreeMap::new();
    for container in usage.iter().flat_map(|u| &u.containers) {
        let entry = containers.entry(&container.name).or_default();
        entry.name.clone_from(&container.name);
        if let Some(cgroup) = container.cgroup {
            entry.memory_bytes = Some(entry.memory_bytes.unwrap_or(0).saturating_add(cgroup.memory_working_set_bytes));
        }
        let (bytes, inodes) = (container.writable_bytes.unwrap_or(0), container.writable_inodes.unwrap_or(0));
        entry.writable = entry.writable + Space { bytes, inodes };
    }
    for (name, logs) in &disk.logs {
        let entry = containers.entry(name).or_default();
        entry.name.clone_from(name);
        entry.logs = *logs;
    }
    let cgroups = || usage.iter().filter_map(|u| u.cgroup);
    Used {
        memory_bytes: cgroups().map(|c| c.memory_working_set_bytes).fold(0, u64::saturating_add),
        pids: cgroups().map(|c| c.pids).fold(0, u64::saturating_add),
        containers: containers.into_values().collect(),
        volumes: disk.volumes,
    }
}

//! What a worker remembers of its Pod between syncs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use minke_core::backoff::CrashLoops;
use minke_core::containers::all_containers;
use minke_core::runtime::{ContainerId, ContainerState, PodRuntimeStatus};
use minke_core::status::{ProbeResults, WaitingReason};

use crate::spec::container_hash;
use crate::{ContainerTimings, DesiredPod, PodTimings};

/// The hash of each container's spec, by name.
type Hashes = Arc<BTreeMap<String, String>>;

/// The memory of one Pod. Only its worker and that worker's job touch it, one at a time.
#[derive(Debug, Default)]
pub struct PodMemory {
    /// The newest status that was published.
    pub status: Option<Arc<PodStatus>>,
    /// When steps happened.
    pub timings: PodTimings,
    /// Why containers could not be started.
    pub waiting: BTreeMap<String, WaitingReason>,
    /// Crash loops.
    pub crashes: CrashLoops,
    /// What ended containers left to say.
    pub messages: BTreeMap<ContainerId, String>,
    /// What probes say.
    pub probes: BTreeMap<String, ProbeResults>,
    /// What the volumes were set up for by this agent.
    set_up: Option<DesiredPod>,
    /// What the newest status was computed from, of a Pod with probes.
    pub observed: Option<Arc<PodRuntimeStatus>>,
    /// The status is newer than the checkpoint.
    pub unsaved: bool,
    /// The timings when the status was computed last.
    pub(super) told: PodTimings,
    /// Hashes are dear, and asked for in every sync.
    hashes: Option<(Arc<Pod>, Hashes)>,
}

impl PodMemory {
    /// The memory of a Pod that an earlier agent knew, or of a new one.
    #[must_use]
    pub fn new(pod: &Pod, status: Option<PodStatus>, timings: PodTimings) -> Self {
        let mut memory = Self { status: status.map(Arc::new), timings, ..Self::default() };
        memory.time_containers(pod);
        memory
    }

    /// Something else is wanted. What is known of containers that stay is kept.
    pub fn wanted(&mut self, pod: &Pod) {
        self.time_containers(pod);
        let times = &self.timings.containers;
        self.waiting.retain(|name, _| times.iter().any(|t| t.name == *name));
    }

    /// The volumes are as this wants them.
    pub fn volumes_set_up(&mut self, desired: &DesiredPod) {
        self.set_up = Some(desired.clone());
    }

    /// Whether the volumes may not be as this wants them: they were set up for something else, in vain, or by an agent
    /// that may have known less.
    #[must_use]
    pub fn has_stale_volumes(&self, desired: &DesiredPod) -> bool {
        let same = |of: &DesiredPod| Arc::ptr_eq(&of.pod, &desired.pod) && Arc::ptr_eq(&of.objects, &desired.objects);
        !self.set_up.as_ref().is_some_and(same)
    }

    /// The hashes of this Pod's containers.
    pub(super) fn hashes(&mut self, pod: &Arc<Pod>) -> Hashes {
        match &self.hashes {
            Some((of, hashes)) if Arc::ptr_eq(of, pod) => hashes.clone(),
            Some(_) | None => {
                let hashes = all_containers(pod).map(|c| (c.name.clone(), container_hash(c))).collect();
                let hashes = Hashes::new(hashes);
                self.hashes = Some((pod.clone(), hashes.clone()));
                hashes
            }
        }
    }

    /// One entry a container, in the spec's order.
    fn time_containers(&mut self, pod: &Pod) {
        let mut before = std::mem::take(&mut self.timings.containers);
        let timing = |name: &String| match before.iter().position(|t| t.name == *name) {
            Some(known) => before.swap_remove(known),
            None => ContainerTimings { name: name.clone(), ..ContainerTimings::default() },
        };
        self.timings.containers = all_containers(pod).map(|c| &c.name).map(timing).collect();
    }

    /// The timings of this container's newest start.
    pub fn timing(&mut self, name: &str) -> Option<&mut ContainerTimings> {
        self.timings.containers.iter_mut().find(|t| t.name == name)
    }

    /// Forgets messages of containers that the runtime no longer has.
    pub fn prune(&mut self, runtime: &PodRuntimeStatus) {
        self.messages.retain(|id, _| runtime.containers.iter().any(|c| c.id == *id));
    }

    /// Containers that ended and have not been asked what they have to say.
    #[must_use]
    pub fn unread(&self, runtime: &PodRuntimeStatus) -> Vec<usize> {
        let ended = |state: &ContainerState| matches!(state, ContainerState::Exited { .. });
        let unread = runtime.containers.iter().enumerate();
        unread.filter(|(_, c)| ended(&c.state) && !self.messages.contains_key(&c.id)).map(|(i, _)| i).collect()
    }
}

/// The memory, shared between the worker and its job. Locked for moments, never across an await.
#[derive(Debug, Clone, Default)]
pub struct SharedMemory(Arc<Mutex<PodMemory>>);

impl SharedMemory {
    /// Shares a memory.
    #[must_use]
    pub fn new(memory: PodMemory) -> Self {
        Self(Arc::new(Mutex::new(memory)))
    }

    /// Looks at it or changes it.
    pub fn lock(&self) -> MutexGuard<'_, PodMemory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

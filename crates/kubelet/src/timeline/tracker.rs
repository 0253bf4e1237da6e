//! From what is seen of a Pod's containers to transitions that are told once.
//!
//! The runtime says when a process started and ended by the wall clock, and it is seen a little later. The moment on
//! the timeline is the runtime's, carried over to monotonic time by its distance from now; a clock that jumped can
//! move it neither into the future nor before what was recorded of the same attempt.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use minke_core::runtime::{ContainerId, ContainerState, ExitCode, PodRuntimeStatus};

use super::Transition;

/// What was told of a Pod's containers.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    running: BTreeSet<ContainerId>,
    exited: BTreeSet<ContainerId>,
    /// By container name; the Pod itself is the empty name.
    ready: BTreeMap<String, bool>,
    phase: String,
}

/// A transition of a container, and how long ago it happened by the wall clock, in microseconds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) container: Option<String>,
    pub(super) attempt: u32,
    pub(super) ago: i64,
    pub(super) transition: Transition,
}

impl Tracker {
    /// What is new about the processes of a Pod, oldest attempt first.
    pub(super) fn processes(&mut self, runtime: &PodRuntimeStatus, now: Timestamp) -> Vec<Seen> {
        let ago = |at: Timestamp| i64::try_from(now.duration_since(at).as_micros()).unwrap_or(0);
        let mut seen = Vec::new();
        for container in runtime.containers.iter().rev() {
            let mut tell = |ago, transition| {
                let (container, attempt) = (Some(container.name.clone()), container.attempt);
                seen.push(Seen { container, attempt, ago, transition });
            };
            let (started, exit) = match &container.state {
                ContainerState::Running { started_at } => (Some(*started_at), None),
                ContainerState::Exited { started_at, exit } => (*started_at, Some(exit)),
                ContainerState::Created | ContainerState::Unknown => (None, None),
            };
            if let Some(at) = started
                && self.running.insert(container.id.clone())
            {
                tell(ago(at), Transition::Running);
            }
            if let Some(exit) = exit
                && self.exited.insert(container.id.clone())
            {
                let code = match exit.code {
                    ExitCode::Known(code) => Some(code),
                    ExitCode::Lost => None,
                };
                tell(ago(exit.finished_at), Transition::Exited { code, reason: exit.reason.clone() });
            }
        }
        let there = |id: &ContainerId| runtime.containers.iter().any(|c| c.id == *id);
        self.running.retain(there);
        self.exited.retain(there);
        seen
    }

    /// What is new about readiness and phase.
    pub(super) fn status(&mut self, status: &PodStatus) -> Vec<Seen> {
        let mut seen = Vec::new();
        let phase = status.phase.as_deref().unwrap_or_default();
        if self.phase != phase {
            phase.clone_into(&mut self.phase);
            let transition = Transition::Phase { phase: phase.to_owned() };
            seen.push(Seen { container: None, attempt: 0, ago: 0, transition });
        }
        let pod = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").map(|c| ("", 0, c.status == "True"));
        let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        let containers = all.map(|c| (c.name.as_str(), u32::try_from(c.restart_count).unwrap_or(0), c.ready));
        for (name, attempt, ready) in containers.chain(pod) {
            if self.ready.get(name).copied().unwrap_or(false) == ready {
                continue;
            }
            self.ready.insert(name.to_owned(), ready);
            let container = (!name.is_empty()).then(|| name.to_owned());
            let transition = if ready { Transition::Ready } else { Transition::NotReady };
            seen.push(Seen { container, attempt, ago: 0, transition });
        }
        seen
    }
}

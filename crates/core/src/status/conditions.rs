//! Pod conditions: what of the way to "ready" is reached.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use super::StatusInput;
use super::containers::api_time;
use super::phase::{Phase, has_initialized};
use crate::resources::is_sidecar;
use crate::runtime::SandboxState;

/// A condition before its transition time is known.
struct Condition {
    kind: &'static str,
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Condition {
    fn holds(kind: &'static str) -> Self {
        Self { kind, holds: true, reason: None, message: None }
    }

    fn fails(kind: &'static str, reason: &'static str, message: Option<String>) -> Self {
        Self { kind, holds: false, reason: Some(reason), message }
    }
}

/// The conditions of a Pod with this phase and these container statuses; those of others are kept, and a transition
/// time only changes with its condition.
pub(super) fn conditions(input: &StatusInput<'_>, status: &PodStatus, phase: Phase) -> Vec<PodCondition> {
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let regular = status.container_statuses.as_deref().unwrap_or_default();
    let containers_ready = containers_ready(input.pod, init, regular, phase);
    let own = [
        sandbox_ready(input, phase),
        initialized(input.pod, init, regular, phase),
        ready(input, &containers_ready, phase),
        containers_ready,
        Condition::holds("PodScheduled"),
    ];
    let previous = input.previous.and_then(|p| p.conditions.as_deref()).unwrap_or_default();
    let foreign = previous.iter().filter(|old| own.iter().all(|c| c.kind != old.type_)).cloned();
    let foreign: Vec<_> = foreign.collect();
    let with_time = |condition: Condition| {
        let value = if condition.holds { "True" } else { "False" };
        let same = previous.iter().find(|old| old.type_ == condition.kind && old.status == value);
        PodCondition {
            type_: condition.kind.to_owned(),
            status: value.to_owned(),
            reason: condition.reason.map(str::to_owned),
            message: condition.message,
            last_transition_time: same
                .and_then(|old| old.last_transition_time.clone())
                .or_else(|| Some(api_time(input.now))),
            ..PodCondition::default()
        }
    };
    own.into_iter().map(with_time).chain(foreign).collect()
}

/// The newest sandbox can hold containers: it is ready, the only ready one, and has an address unless the network is
/// the host's.
fn sandbox_ready(input: &StatusInput<'_>, phase: Phase) -> Condition {
    const KIND: &str = "PodReadyToStartContainers";
    let host_network = input.pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
    let ready = input.runtime.sandboxes.iter().filter(|s| s.info.state == SandboxState::Ready).count();
    let newest = input.runtime.sandboxes.first();
    let usable = newest.is_some_and(|s| s.info.state == SandboxState::Ready && (host_network || !s.ips.is_empty()));
    if usable && ready == 1 && !phase.is_terminal() {
        Condition::holds(KIND)
    } else {
        Condition { kind: KIND, holds: false, reason: None, message: None }
    }
}

fn initialized(pod: &Pod, init: &[ContainerStatus], regular: &[ContainerStatus], phase: Phase) -> Condition {
    const KIND: &str = "Initialized";
    let Some(spec) = pod.spec.as_ref() else { return Condition::holds(KIND) };
    if phase == Phase::Succeeded {
        return Condition { reason: Some("PodCompleted"), ..Condition::holds(KIND) };
    }
    if has_initialized(&spec.containers, regular) {
        return Condition::holds(KIND);
    }
    let mut unknown = Vec::new();
    let mut incomplete = Vec::new();
    for container in spec.init_containers.iter().flatten() {
        match init.iter().find(|s| s.name == container.name) {
            None => unknown.push(container.name.as_str()),
            Some(status) if is_sidecar(container) => {
                if status.started != Some(true) {
                    incomplete.push(container.name.as_str());
                }
            }
            Some(status) => {
                if !status.ready {
                    incomplete.push(container.name.as_str());
                }
            }
        }
    }
    match listed("incomplete", &unknown, &incomplete) {
        None => Condition::holds(KIND),
        Some(message) => Condition::fails(KIND, "ContainersNotInitialized", Some(message)),
    }
}

fn containers_ready(pod: &Pod, init: &[ContainerStatus], regular: &[ContainerStatus], phase: Phase) -> Condition {
    const KIND: &str = "ContainersReady";
    match phase {
        Phase::Succeeded => return Condition::fails(KIND, "PodCompleted", None),
        Phase::Failed => return Condition::fails(KIND, "PodFailed", None),
        Phase::Pending | Phase::Running => {}
    }
    let Some(spec) = pod.spec.as_ref() else { return Condition::fails(KIND, "ContainersNotReady", None) };
    let mut unknown = Vec::new();
    let mut unready = Vec::new();
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c)).map(|c| (c, init));
    for (container, statuses) in sidecars.chain(spec.containers.iter().map(|c| (c, regular))) {
        match statuses.iter().find(|s| s.name == container.name) {
            None => unknown.push(container.name.as_str()),
            Some(status) if !status.ready => unready.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    match listed("unready", &unknown, &unready) {
        None => Condition::holds(KIND),
        Some(message) => Condition::fails(KIND, "ContainersNotReady", Some(message)),
    }
}

fn ready(input: &StatusInput<'_>, containers: &Condition, phase: Phase) -> Condition {
    const KIND: &str = "Ready";
    if !containers.holds {
        return Condition { kind: KIND, holds: false, reason: containers.reason, message: containers.message.clone() };
    }
    debug_assert!(!phase.is_terminal());
    let current = input.previous.and_then(|p| p.conditions.as_deref()).unwrap_or_default();
    let gates = input.pod.spec.iter().flat_map(|s| s.readiness_gates.iter().flatten());
    let unmet: Vec<String> = gates
        .filter_map(|gate| match current.iter().find(|c| c.type_ == gate.condition_type) {
            None => {
                Some(format!("corresponding condition of pod readiness gate {:?} does not exist.", gate.condition_type))
            }
            Some(c) if c.status != "True" => Some(format!(
                "the status of pod readiness gate {:?} is not \"True\", but {}",
                gate.condition_type, c.status
            )),
            Some(_) => None,
        })
        .collect();
    if unmet.is_empty() {
        Condition::holds(KIND)
    } else {
        Condition::fails(KIND, "ReadinessGatesNotReady", Some(unmet.join(", ")))
    }
}

/// Upstream's words for lists of containers; `None` when both are empty.
fn listed(what: &str, unknown: &[&str], others: &[&str]) -> Option<String> {
    let mut parts = Vec::new();
    if !unknown.is_empty() {
        parts.push(format!("containers with unknown status: [{}]", unknown.join(" ")));
    }
    if !others.is_empty() {
        parts.push(format!("containers with {what} status: [{}]", others.join(" ")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

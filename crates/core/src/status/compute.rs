//! The whole status, put together.

use k8s_openapi::api::core::v1::{Container, HostIP, PodIP, PodStatus};

use super::conditions::conditions;
use super::containers::{Kind, api_time, container_statuses};
use super::phase::{Phase, phase};
use super::{FailureOverride, RestartPolicy, StatusInput};
use crate::qos::qos_class;
use crate::runtime::ContainerState;

/// What is true of the Pod now. A phase that was terminal stays, with its reason and message. The result may say
/// that the Pod has ended while something still runs (a failed init container beside a running sidecar, a deadline):
/// that is the signal to stop it. What may be told to others meanwhile is [`super::publishable`].
#[must_use]
pub fn compute(input: &StatusInput<'_>) -> PodStatus {
    let init_container_statuses = container_statuses(input, Kind::Init);
    let container_statuses = container_statuses(input, Kind::Regular);
    let computed = phase(input.pod, &init_container_statuses, &container_statuses, input.is_terminal, input.is_static);
    let computed = if goes_on(input) { Phase::Running } else { computed };
    let (phase, words) = settled(input, computed);

    let mut status = PodStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: words.as_ref().map(|w| w.reason.clone()).filter(|r| !r.is_empty()),
        message: words.map(|w| w.message).filter(|m| !m.is_empty()),
        qos_class: Some(qos_class(input.pod).as_str().to_owned()),
        start_time: input.previous.and_then(|p| p.start_time.clone()).or_else(|| Some(api_time(input.now))),
        init_container_statuses: (!init_container_statuses.is_empty()).then_some(init_container_statuses),
        container_statuses: Some(container_statuses),
        observed_generation: input.pod.metadata.generation,
        ..PodStatus::default()
    };
    addresses(input, &mut status);
    status.conditions = Some(conditions(input, &status, phase));
    status
}

/// Whether a container that a probe had killed is about to be started again. The phase table sees only its exit code,
/// which may be that of a success.
fn goes_on(input: &StatusInput<'_>) -> bool {
    let again = |container: &Container| {
        let condemned = input.probes.get(&container.name).is_some_and(|p| p.condemned.is_some());
        let ended =
            input.runtime.newest(&container.name).is_some_and(|c| matches!(c.state, ContainerState::Exited { .. }));
        condemned && ended && RestartPolicy::of_container(input.pod, container) != RestartPolicy::Never
    };
    !input.is_terminal && input.pod.spec.iter().any(|spec| spec.containers.iter().any(again))
}

/// The phase that counts, and the words that go with it: a terminal phase from before is never left, a failure from
/// outside overrides the table, but not a success that came first.
fn settled(input: &StatusInput<'_>, computed: Phase) -> (Phase, Option<FailureOverride>) {
    if let Some(previous) = input.previous
        && let Some(before) = Phase::parse(previous.phase.as_deref())
        && before.is_terminal()
    {
        let words = FailureOverride {
            reason: previous.reason.clone().unwrap_or_default(),
            message: previous.message.clone().unwrap_or_default(),
        };
        return (before, Some(words));
    }
    match (input.failure, computed) {
        (None, computed) => (computed, None),
        (Some(_), Phase::Succeeded) => (Phase::Succeeded, None),
        (Some(failure), Phase::Pending | Phase::Running | Phase::Failed) => (Phase::Failed, Some(failure.clone())),
    }
}

fn addresses(input: &StatusInput<'_>, status: &mut PodStatus) {
    let text: Vec<String> = input.host_ips.iter().map(ToString::to_string).collect();
    status.host_ip = text.first().cloned();
    status.host_ips = (!text.is_empty()).then(|| text.iter().map(|ip| HostIP { ip: ip.clone() }).collect());

    let host_network = input.pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
    let ips: Vec<String> = if host_network && !input.runtime.sandboxes.is_empty() {
        text
    } else {
        input.runtime.ips.iter().map(ToString::to_string).collect()
    };
    if ips.is_empty() {
        // The network is gone; which address the Pod had is still worth knowing.
        status.pod_ip = input.previous.and_then(|p| p.pod_ip.clone());
        status.pod_ips = input.previous.and_then(|p| p.pod_ips.clone());
    } else {
        status.pod_ip = ips.first().cloned();
        status.pod_ips = Some(ips.into_iter().map(|ip| PodIP { ip }).collect());
    }
}

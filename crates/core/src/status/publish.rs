//! What may be said of a Pod, given what was said before.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::containers::{api_time, terminated_state, unknown};
use super::phase::{Phase, has_initialized};
use super::{RestartPolicy, may_restart};
use crate::resources::is_sidecar;

const NEVER_SEEN: &str = "The container could not be located when the pod was terminated";

/// The status to tell others, from the one that is true now.
///
/// - A terminal phase is held back while any container may still run: until then phase, reason and message stay as
///   they were.
/// - A terminal phase, once said, is never taken back, and no container that was said to have ended for good is said
///   to wait or run again.
#[must_use]
pub fn publishable(pod: &Pod, computed: PodStatus, published: Option<&PodStatus>, may_still_run: bool) -> PodStatus {
    let before = published.and_then(|p| Phase::parse(p.phase.as_deref()));
    let mut status = computed;
    keep_ended(pod, &mut status, published);
    let now = Phase::parse(status.phase.as_deref());
    match (before, now) {
        (Some(before), _) if before.is_terminal() => {
            status.phase = Some(before.as_str().to_owned());
            status.reason = published.and_then(|p| p.reason.clone());
            status.message = published.and_then(|p| p.message.clone());
            not_ready(&mut status, before);
        }
        (_, Some(now)) if now.is_terminal() && may_still_run => {
            status.phase = Some(before.unwrap_or(Phase::Pending).as_str().to_owned());
            status.reason = published.and_then(|p| p.reason.clone());
            status.message = published.and_then(|p| p.message.clone());
        }
        (_, _) => {}
    }
    status
}

/// The last status of a Pod of which nothing runs and nothing will: containers that never were seen to end get an
/// unknown exit, and a phase that is not terminal becomes `Failed` (unless `is_static`).
#[must_use]
pub fn finalize(pod: &Pod, status: &PodStatus, is_static: bool) -> PodStatus {
    let mut status = status.clone();
    let Some(spec) = pod.spec.as_ref() else { return status };
    let regular = status.container_statuses.get_or_insert_default();
    let initialized =
        has_initialized(&spec.containers, regular) || spec.init_containers.iter().flatten().next().is_none();
    if initialized {
        regular.iter_mut().for_each(close);
        status.init_container_statuses.iter_mut().flatten().for_each(close);
    } else if let Some(init) = status.init_container_statuses.as_mut() {
        // Up to the last one that was started; the others never had a turn.
        let started = |s: &ContainerStatus| {
            s.state.as_ref().is_some_and(|s| s.running.is_some() || s.terminated.is_some())
                || s.last_state.as_ref().is_some_and(|s| s.terminated.is_some())
        };
        let last = init.iter().rposition(started).map_or(0, |i| i + 1);
        init[..last].iter_mut().for_each(close);
    }
    let phase = Phase::parse(status.phase.as_deref()).unwrap_or(Phase::Pending);
    if !phase.is_terminal() && !is_static {
        status.phase = Some(Phase::Failed.as_str().to_owned());
    }
    if let Some(phase) = Phase::parse(status.phase.as_deref()).filter(|p| p.is_terminal()) {
        not_ready(&mut status, phase);
    }
    status
}

/// Adds to the last status of a Pod that the machine needed its place. Upstream says so only together with the terminal
/// phase: before that, nobody may count on the Pod to be gone.
pub fn disrupted(status: &mut PodStatus, message: &str, now: Timestamp) {
    const KIND: &str = "DisruptionTarget";
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|c| c.type_ == KIND && c.status == "True") {
        return;
    }
    conditions.retain(|c| c.type_ != KIND);
    conditions.push(PodCondition {
        type_: KIND.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(api_time(now)),
        ..PodCondition::default()
    });
}

fn close(status: &mut ContainerStatus) {
    if status.state.as_ref().is_some_and(|s| s.terminated.is_some()) {
        return;
    }
    status.state = Some(terminated_state(unknown(NEVER_SEEN)));
    status.started = Some(false);
    status.ready = false;
}

/// A terminal Pod is not ready, whatever its conditions said.
fn not_ready(status: &mut PodStatus, phase: Phase) {
    let reason = match phase {
        Phase::Succeeded => "PodCompleted",
        Phase::Failed => "PodFailed",
        Phase::Pending | Phase::Running => return,
    };
    let end = last_end(status);
    let own = |c: &&mut PodCondition| c.type_ == "Ready" || c.type_ == "ContainersReady";
    for condition in status.conditions.iter_mut().flatten().filter(own) {
        if condition.status != "False" {
            condition.status = "False".to_owned();
            condition.last_transition_time = end.clone().or_else(|| condition.last_transition_time.take());
        }
        condition.reason = Some(reason.to_owned());
        condition.message = None;
    }
}

/// When the last container ended that was seen to end.
fn last_end(status: &PodStatus) -> Option<Time> {
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let ends = lists.into_iter().flat_map(|list| list.iter().flatten());
    ends.filter_map(|s| s.state.as_ref()?.terminated.as_ref()?.finished_at.clone()).max()
}

/// Keeps the statuses of containers that ended for good.
fn keep_ended(pod: &Pod, status: &mut PodStatus, published: Option<&PodStatus>) {
    let Some((published, spec)) = published.zip(pod.spec.as_ref()) else { return };
    let lists = [
        (&mut status.container_statuses, &published.container_statuses, Some(&spec.containers)),
        (&mut status.init_container_statuses, &published.init_container_statuses, spec.init_containers.as_ref()),
    ];
    for (now, before, containers) in lists {
        for container in containers.into_iter().flatten() {
            let Some(old) = before.iter().flatten().find(|s| s.name == container.name) else { continue };
            let Some(ended) = old.state.as_ref().and_then(|s| s.terminated.as_ref()) else { continue };
            let always = RestartPolicy::of_container(pod, container) == RestartPolicy::Always;
            if always || is_sidecar(container) || may_restart(pod, container, ended.exit_code) {
                continue;
            }
            let Some(new) = now.iter_mut().flatten().find(|s| s.name == container.name) else { continue };
            // A success that a probe had forced was none, and the container was started again.
            let on_failure = RestartPolicy::of_container(pod, container) == RestartPolicy::OnFailure;
            let again = on_failure && new.restart_count > old.restart_count;
            if let Some(new) =
                Some(new).filter(|_| !again).filter(|s| s.state.as_ref().is_none_or(|s| s.terminated.is_none()))
            {
                *new = old.clone();
            }
        }
    }
}

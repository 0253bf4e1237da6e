//! What is to be said of a Pod.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateWaiting, ContainerStatus, Pod, PodStatus};
use minke_core::status::{Phase, finalize, publishable};

use super::{Holding, PodMachine, Trouble, Wish};
use crate::Now;

/// `status.reason` while a call on the provider fails, as upstream.
const PROVIDER_FAILED: &str = "ProviderFailed";
/// `status.reason` of a Pod that the provider lost, as upstream.
const NOT_FOUND: &str = "NotFound";

impl PodMachine {
    /// The status that the object should have; `None`: there is nothing to say.
    pub(super) fn desired_status(&self, published: &PodStatus, _now: Now) -> Option<PodStatus> {
        let computed = self.computed(published)?;
        let may_still_run = computed.container_statuses.iter().flatten().any(runs);
        Some(publishable(&self.object, computed, Some(published), may_still_run))
    }

    fn computed(&self, published: &PodStatus) -> Option<PodStatus> {
        let over = is_terminal(published);
        let base = || self.status.clone().unwrap_or_else(|| published.clone());
        if matches!(self.holding, Holding::Lost) && self.wish == Wish::Wanted && !over {
            let told = base();
            if is_terminal(&told) {
                return Some(told);
            }
            let mut status = finalize(&self.object, &told, false);
            status.reason = Some(NOT_FOUND.to_owned());
            status.message =
                Some("The pod status was not found and may have been deleted from the provider".to_owned());
            return Some(status);
        }
        let has_trouble = self.trouble.as_ref().filter(|_| self.wish == Wish::Wanted && !over);
        match has_trouble {
            Some(Trouble::Rejected { reason, message }) => {
                let mut status = base();
                status.phase = Some(Phase::Failed.as_str().to_owned());
                (status.reason, status.message) = (Some(reason.clone()), Some(message.clone()));
                Some(status)
            }
            Some(Trouble::Failed { message, permanent }) => {
                let mut status = base();
                // What has ended needs nothing of the provider any more.
                if is_terminal(&status) {
                    return Some(status);
                }
                // What runs goes on running: a phase is never taken back.
                if status.phase.is_none() || status.phase.as_deref() == Some("Pending") {
                    let phase = if *permanent && never_restarts(&self.object) { Phase::Failed } else { Phase::Pending };
                    status.phase = Some(phase.as_str().to_owned());
                }
                (status.reason, status.message) = (Some(PROVIDER_FAILED.to_owned()), Some(message.clone()));
                Some(status)
            }
            Some(Trouble::Config { container, message }) => {
                let mut status = base();
                status.phase.get_or_insert_with(|| Phase::Pending.as_str().to_owned());
                cleared(&mut status);
                if status.phase.as_deref() == Some("Pending") {
                    wait_for_config(&self.object, &mut status, container, message);
                }
                Some(status)
            }
            None => match &self.status {
                Some(status) => Some(status.clone()),
                None => {
                    let mut status = published.clone();
                    cleared(&mut status);
                    Some(status)
                }
            },
        }
    }
}

/// Takes back what was said of a failure that is over.
fn cleared(status: &mut PodStatus) {
    if status.reason.as_deref() == Some(PROVIDER_FAILED) {
        (status.reason, status.message) = (None, None);
    }
}

fn never_restarts(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()) == Some("Never")
}

fn wait_for_config(pod: &Pod, status: &mut PodStatus, container: &str, message: &str) {
    let Some(spec) = &pod.spec else { return };
    let waiting = |reason: &str, message: Option<&str>| ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message: message.map(str::to_owned) }),
        ..ContainerState::default()
    };
    let of = |name: &str, image: Option<&String>| ContainerStatus {
        name: name.to_owned(),
        image: image.cloned().unwrap_or_default(),
        started: Some(false),
        state: Some(match name == container {
            true => waiting("CreateContainerConfigError", Some(message)),
            false => waiting("ContainerCreating", None),
        }),
        ..ContainerStatus::default()
    };
    status.container_statuses = Some(spec.containers.iter().map(|c| of(&c.name, c.image.as_ref())).collect());
    let init: Vec<_> = spec.init_containers.iter().flatten().map(|c| of(&c.name, c.image.as_ref())).collect();
    status.init_container_statuses = Some(init).filter(|init| !init.is_empty());
}

fn runs(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Whether the phase is final.
pub(super) fn is_terminal(status: &PodStatus) -> bool {
    Phase::parse(status.phase.as_deref()).is_some_and(Phase::is_terminal)
}

/// Whether something of the Pod was started once.
pub(super) fn has_run(status: &PodStatus) -> bool {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let started = |status: &ContainerStatus| {
        let states = [&status.state, &status.last_state].into_iter().flatten();
        status.restart_count > 0 || states.into_iter().any(|s| s.running.is_some() || s.terminated.is_some())
    };
    status.phase.as_deref() == Some("Running") || lists.into_iter().flatten().flatten().any(started)
}

/// Whether the provider's status says that no container runs, nor will: all have terminated, or the phase is final and
/// none runs.
pub(super) fn runs_nothing(pod: &Pod, status: &PodStatus) -> bool {
    let all = || {
        let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
        lists.into_iter().flatten().flatten()
    };
    if all().any(runs) {
        return false;
    }
    let ended = |name: &str| {
        let own = status.container_statuses.iter().flatten().find(|s| s.name == name);
        own.and_then(|s| s.state.as_ref()).is_some_and(|s| s.terminated.is_some())
    };
    is_terminal(status) || pod.spec.as_ref().is_some_and(|spec| spec.containers.iter().all(|c| ended(&c.name)))
}

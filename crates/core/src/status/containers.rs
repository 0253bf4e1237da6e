//! Container statuses: what the runtime says of each container, in the API's words (section 11.1 of upstream's
//! behaviour), with what was known before kept where the runtime has lost it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus as ApiStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{StatusInput, UNKNOWN_EXIT_CODE, UNKNOWN_REASON, api_exit_code, message_share, should_start, truncated};
use crate::resources::is_sidecar;
use crate::runtime::{ContainerState, ContainerStatus, Exit, ExitCode};

const LOST_CONTAINER: &str = "The container could not be located when the pod was terminated";
const LOST_RUNNING: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
const LOST_CODE: &str = "the exit code is not known: nobody was there to see how the container ended";

/// Which list of the spec a container stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Init,
    Regular,
}

/// A time of the API: whole seconds.
pub(super) fn api_time(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// The statuses of one list of containers. Init containers keep the order of the spec, others are sorted by name.
pub(super) fn container_statuses(input: &StatusInput<'_>, kind: Kind) -> Vec<ApiStatus> {
    let Some(spec) = input.pod.spec.as_ref() else { return Vec::new() };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let share = message_share(init.len() + spec.containers.len());
    let default_reason = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let lost = match kind {
        Kind::Init => has_instances(input, &spec.containers),
        Kind::Regular => false,
    };
    let (list, previous) = match kind {
        Kind::Init => (init, input.previous.and_then(|p| p.init_container_statuses.as_deref())),
        Kind::Regular => (spec.containers.as_slice(), input.previous.and_then(|p| p.container_statuses.as_deref())),
    };
    let previous = previous.unwrap_or_default();
    let one = |container: &Container| {
        let old = previous.iter().find(|s| s.name == container.name);
        Builder { input, container, kind, old, default_reason, share }.build(lost)
    };
    let mut statuses: Vec<_> = list.iter().map(one).collect();
    match kind {
        Kind::Init => {}
        Kind::Regular => statuses.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    statuses
}

fn has_instances(input: &StatusInput<'_>, containers: &[Container]) -> bool {
    containers.iter().any(|c| input.runtime.newest(&c.name).is_some())
}

struct Builder<'a> {
    input: &'a StatusInput<'a>,
    container: &'a Container,
    kind: Kind,
    old: Option<&'a ApiStatus>,
    default_reason: &'static str,
    share: usize,
}

impl Builder<'_> {
    fn build(&self, init_lost: bool) -> ApiStatus {
        let newest = self.input.runtime.newest(&self.container.name);
        let mut status = match newest {
            Some(newest) => self.as_the_runtime_says(newest),
            None => self.without_runtime(init_lost),
        };
        self.remember_why_it_waits(&mut status, newest);
        self.readiness(&mut status);
        status
    }

    /// The status before the runtime has anything to say.
    fn blank(&self) -> ApiStatus {
        ApiStatus {
            name: self.container.name.clone(),
            image: self.container.image.clone().unwrap_or_default(),
            state: Some(waiting(self.default_reason, "")),
            restart_count: self.old.map_or(0, |old| old.restart_count),
            last_state: Some(self.old.and_then(|old| old.last_state.clone()).unwrap_or_default()),
            ..ApiStatus::default()
        }
    }

    /// Never created, or no longer in the runtime.
    fn without_runtime(&self, init_lost: bool) -> ApiStatus {
        let terminated = |s: &ApiStatus| s.state.as_ref().is_some_and(|state| state.terminated.is_some());
        if let Some(old) = self.old.filter(|old| terminated(old)) {
            return old.clone();
        }
        let mut status = self.blank();
        let was_running = self.old.and_then(|old| old.state.as_ref()).is_some_and(|state| state.running.is_some());
        if init_lost && !is_sidecar(self.container) {
            // Regular containers exist, so this one has done its work and was cleaned away since.
            status.state = Some(terminated_state(ContainerStateTerminated {
                exit_code: 0,
                reason: Some("Completed".to_owned()),
                message: Some("Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally".to_owned()),
                ..ContainerStateTerminated::default()
            }));
        } else if was_running && last_terminated(&status).is_none() {
            status.last_state = Some(terminated_state(unknown(LOST_RUNNING)));
            if self.input.pod.metadata.deletion_timestamp.is_none() {
                status.restart_count += 1;
            }
        }
        status
    }

    fn as_the_runtime_says(&self, newest: &ContainerStatus) -> ApiStatus {
        let mut status = ApiStatus {
            container_id: Some(self.api_id(newest)),
            image: newest.image_name.clone(),
            image_id: newest.image.0.clone(),
            ..self.blank()
        };
        // What an instance has is what its spec asks for: nothing is resized in place here.
        status.allocated_resources = self.container.resources.as_ref().and_then(|r| r.requests.clone());
        status.resources = self.container.resources.clone().map(|r| ResourceRequirements { claims: None, ..r });
        // Attempts are counted up by whoever creates containers; a count once published never goes back.
        status.restart_count = status.restart_count.max(i32::try_from(newest.attempt).unwrap_or(i32::MAX));
        if status.image.is_empty() {
            status.image = self.container.image.clone().unwrap_or_default();
        }
        let older = self.input.runtime.instances(&self.container.name).nth(1);
        if let Some(ended) = older.and_then(|older| self.ended(older)) {
            status.last_state = Some(terminated_state(ended));
        }
        match &newest.state {
            ContainerState::Created => {}
            ContainerState::Running { started_at } => {
                let running = ContainerStateRunning { started_at: Some(api_time(*started_at)) };
                status.state = Some(ApiState { running: Some(running), ..ApiState::default() });
            }
            ContainerState::Exited { .. } => {
                if let Some(ended) = self.ended(newest) {
                    status.state = Some(terminated_state(ended));
                }
            }
            ContainerState::Unknown => self.unknown_state(&mut status),
        }
        status
    }

    /// The runtime can't say. What ran before counts as ended with an unknown code; what had ended stays ended.
    fn unknown_state(&self, status: &mut ApiStatus) {
        let old = self.old.filter(|old| old.container_id == status.container_id).and_then(|old| old.state.as_ref());
        let Some(old) = old else { return };
        if old.terminated.is_some() {
            status.state = Some(old.clone());
        } else if let Some(running) = &old.running {
            let lost = ContainerStateTerminated {
                started_at: running.started_at.clone(),
                container_id: status.container_id.clone(),
                ..unknown(LOST_CONTAINER)
            };
            status.state = Some(terminated_state(lost));
            status.restart_count += 1;
        }
    }

    fn ended(&self, container: &ContainerStatus) -> Option<ContainerStateTerminated> {
        let ContainerState::Exited { started_at, exit } = &container.state else { return None };
        let (reason, message) = self.words(container, exit);
        Some(ContainerStateTerminated {
            container_id: Some(self.api_id(container)),
            exit_code: api_exit_code(exit.code),
            finished_at: Some(api_time(exit.finished_at)),
            message: (!message.is_empty()).then(|| truncated(&message, self.share).to_owned()),
            reason: Some(reason),
            signal: None,
            started_at: started_at.map(api_time),
        })
    }

    fn words(&self, container: &ContainerStatus, exit: &Exit) -> (String, String) {
        let written = self.input.termination_messages.get(&container.id).filter(|m| !m.is_empty());
        match exit.code {
            ExitCode::Lost => {
                let message = if exit.message.is_empty() {
                    LOST_CODE.to_owned()
                } else {
                    format!("{LOST_CODE} ({})", exit.message)
                };
                (UNKNOWN_REASON.to_owned(), message)
            }
            ExitCode::Known(code) => {
                let reason = match (exit.reason.as_str(), code) {
                    ("", 0) => "Completed",
                    ("", _) => "Error",
                    (reason, _) => reason,
                };
                (reason.to_owned(), written.unwrap_or(&exit.message).clone())
            }
        }
    }

    fn api_id(&self, container: &ContainerStatus) -> String {
        format!("{}://{}", self.input.runtime_name, container.id)
    }

    /// A container that is to be started and could not be waits with the reason; how it ended moves to `lastState`.
    fn remember_why_it_waits(&self, status: &mut ApiStatus, newest: Option<&ContainerStatus>) {
        let Some(why) = self.input.waiting.get(&self.container.name) else { return };
        if self.input.is_terminal {
            return;
        }
        let ended = status.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code);
        let done = self.kind == Kind::Init && !is_sidecar(self.container) && ended == Some(0);
        let probes = self.input.probes.get(&self.container.name);
        let ended_for_good =
            newest.is_none() && ended.is_some_and(|code| !super::may_restart(self.input.pod, self.container, code));
        if done || ended_for_good || !should_start(self.input.pod, self.container, newest, probes) {
            return;
        }
        if let Some(state) = status.state.take().filter(|state| state.terminated.is_some()) {
            status.last_state = Some(state);
        }
        status.state = Some(waiting(&why.reason, &why.message));
    }

    /// `started` and `ready`: running, and no probe says otherwise. An init container is ready once it succeeded.
    fn readiness(&self, status: &mut ApiStatus) {
        let probes = self.input.probes.get(&self.container.name).copied().unwrap_or_default();
        let state = status.state.as_ref();
        let running = state.is_some_and(|s| s.running.is_some());
        let plain_init = self.kind == Kind::Init && !is_sidecar(self.container);
        let started = running && probes.started.unwrap_or(true);
        status.started = Some(started);
        status.ready = if plain_init {
            state.and_then(|s| s.terminated.as_ref()).is_some_and(|t| t.exit_code == 0)
        } else {
            started && probes.ready.unwrap_or(true)
        };
    }
}

fn last_terminated(status: &ApiStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

pub(super) fn unknown(message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: UNKNOWN_EXIT_CODE,
        reason: Some(UNKNOWN_REASON.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    }
}

pub(super) fn terminated_state(terminated: ContainerStateTerminated) -> ApiState {
    ApiState { terminated: Some(terminated), ..ApiState::default() }
}

fn waiting(reason: &str, message: &str) -> ApiState {
    let message = (!message.is_empty()).then(|| message.to_owned());
    ApiState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ApiState::default()
    }
}

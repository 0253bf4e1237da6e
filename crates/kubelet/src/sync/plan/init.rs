//! Init containers: in order, each to completion; restartable ones (sidecars) until they have started, and then kept
//! alive for as long as the Pod lives.
//!
//! Only instances of the present sandbox count: a new sandbox starts initialisation over.

use k8s_openapi::api::core::v1::Container;
use minke_core::resources::is_sidecar;
use minke_core::runtime::{ContainerState, ContainerStatus, SandboxId};
use minke_core::status::{api_exit_code, may_restart};

use super::{Kind, PlanInput, Steps, live};

/// How far initialisation is.
pub(super) enum Outcome {
    /// Regular containers may start.
    Done,
    /// It goes on.
    Pending,
    /// A container failed for good.
    Failed,
}

pub(super) fn plan(input: &PlanInput<'_>, sandbox: &SandboxId, steps: &mut Steps) -> Outcome {
    let inits = input.init_containers();
    if regular_ever_existed(input, sandbox) {
        keep_sidecars(input, inits, sandbox, steps);
        return Outcome::Done;
    }
    // History of the first ones may be gone, so the last one with a trace says how far it is.
    let Some((at, container, status)) =
        inits.iter().enumerate().rev().find_map(|(i, c)| Some((i, c, newest(input, c, sandbox)?)))
    else {
        return start(input, inits, 0, steps);
    };
    keep_sidecars(input, &inits[..at], sandbox, steps);
    if is_sidecar(container) {
        sidecar(input, container, Some(status), sandbox, steps);
        let started = status.state.is_running() && input.started(&container.name);
        return if started { start(input, inits, at + 1, steps) } else { Outcome::Pending };
    }
    match &status.state {
        ContainerState::Created | ContainerState::Running { .. } | ContainerState::Unknown => {
            live(input, container, Kind::Init, status, sandbox, steps);
            Outcome::Pending
        }
        ContainerState::Exited { exit, .. } => {
            let code = api_exit_code(exit.code);
            if code == 0 {
                start(input, inits, at + 1, steps)
            } else if may_restart(input.pod, container, code) {
                steps.start.push(input.create(&container.name, Kind::Init, Some(exit.finished_at)));
                Outcome::Pending
            } else {
                Outcome::Failed
            }
        }
    }
}

/// The newest instance in the present sandbox.
fn newest<'a>(input: &PlanInput<'a>, container: &Container, sandbox: &SandboxId) -> Option<&'a ContainerStatus> {
    input.runtime.containers.iter().find(|s| s.name == container.name && s.sandbox == *sandbox)
}

/// Starts the init container at this place, or says that there is none left.
fn start(input: &PlanInput<'_>, inits: &[Container], at: usize, steps: &mut Steps) -> Outcome {
    let Some(next) = inits.get(at) else { return Outcome::Done };
    let kind = if is_sidecar(next) { Kind::Sidecar } else { Kind::Init };
    steps.start.push(input.create(&next.name, kind, None));
    Outcome::Pending
}

/// A regular container is only ever created when initialisation is done.
fn regular_ever_existed(input: &PlanInput<'_>, sandbox: &SandboxId) -> bool {
    let regular = |s: &&ContainerStatus| input.containers().iter().any(|c| c.name == s.name);
    input.runtime.containers.iter().filter(|s| s.sandbox == *sandbox).any(|s| regular(&s))
}

fn keep_sidecars(input: &PlanInput<'_>, inits: &[Container], sandbox: &SandboxId, steps: &mut Steps) {
    for container in inits.iter().filter(|c| is_sidecar(c)) {
        sidecar(input, container, newest(input, container, sandbox), sandbox, steps);
    }
}

fn sidecar(
    input: &PlanInput<'_>,
    container: &Container,
    newest: Option<&ContainerStatus>,
    sandbox: &SandboxId,
    steps: &mut Steps,
) {
    match newest.map(|status| (status, &status.state)) {
        None => steps.start.push(input.create(&container.name, Kind::Sidecar, None)),
        Some((_, ContainerState::Exited { exit, .. })) => {
            steps.start.push(input.create(&container.name, Kind::Sidecar, Some(exit.finished_at)));
        }
        Some((status, ContainerState::Created | ContainerState::Running { .. } | ContainerState::Unknown)) => {
            live(input, container, Kind::Sidecar, status, sandbox, steps);
        }
    }
}

//! Whether a container is started again after it ended.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::ProbeResults;
use crate::resources::is_sidecar;
use crate::runtime::{ContainerState, ContainerStatus, ExitCode};

/// What the API and people are shown for an exit code that was lost.
pub const UNKNOWN_EXIT_CODE: i32 = 137;
/// The reason that goes with [`UNKNOWN_EXIT_CODE`].
pub const UNKNOWN_REASON: &str = "ContainerStatusUnknown";

/// When a container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whenever it ends.
    Always,
    /// When it ends with another code than 0.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    fn parse(text: Option<&str>) -> Option<Self> {
        match text? {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }

    /// The policy of the Pod; `Always` where it names none.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        Self::parse(pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref())).unwrap_or(Self::Always)
    }

    /// The policy of a container: its own where it names one, else that of the Pod.
    #[must_use]
    pub fn of_container(pod: &Pod, container: &Container) -> Self {
        Self::parse(container.restart_policy.as_deref()).unwrap_or_else(|| Self::of_pod(pod))
    }

    /// For plain init containers `Always` means `OnFailure`: success is what they are for.
    #[must_use]
    pub fn of_init(pod: &Pod, container: &Container) -> Self {
        match Self::of_container(pod, container) {
            Self::Always if !is_sidecar(container) => Self::OnFailure,
            policy => policy,
        }
    }

    /// Whether this exit is followed by a start.
    #[must_use]
    pub fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// The number that the API shows for an exit. A lost code is never success.
#[must_use]
pub fn api_exit_code(code: ExitCode) -> i32 {
    match code {
        ExitCode::Known(code) => code,
        ExitCode::Lost => UNKNOWN_EXIT_CODE,
    }
}

/// Whether a container that ended with this code may be started again: its restart rules first, then its policy or
/// that of the Pod.
#[must_use]
pub fn may_restart(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    let is_init = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten()).any(|c| c.name == container.name);
    let matches_rule = container.restart_policy_rules.iter().flatten().any(|rule| {
        rule.action == "Restart"
            && rule.exit_codes.as_ref().is_some_and(|codes| {
                let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
                match codes.operator.as_str() {
                    "In" => listed,
                    "NotIn" => !listed,
                    _ => false,
                }
            })
    });
    if matches_rule {
        return true;
    }
    let policy =
        if is_init { RestartPolicy::of_init(pod, container) } else { RestartPolicy::of_container(pod, container) };
    policy.restarts(exit_code)
}

/// Whether a container that ended with this code is started again, what its probes said included: one that a probe had
/// killed did not end by its own will, so that even 0 is no success.
#[must_use]
pub fn restarts(pod: &Pod, container: &Container, exit_code: i32, probes: Option<&ProbeResults>) -> bool {
    let condemned = probes.is_some_and(|p| p.condemned.is_some());
    may_restart(pod, container, exit_code)
        || (condemned && RestartPolicy::of_container(pod, container) != RestartPolicy::Never)
}

/// Whether a container of a Pod that is to run should be started (again): it never existed, its state is unknown, or
/// it ended and may be restarted. A container that was created and not started belongs to the action in flight.
#[must_use]
pub fn should_start(
    pod: &Pod,
    container: &Container,
    newest: Option<&ContainerStatus>,
    probes: Option<&ProbeResults>,
) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match newest.map(|status| &status.state) {
        None | Some(ContainerState::Unknown) => true,
        Some(ContainerState::Created | ContainerState::Running { .. }) => false,
        Some(ContainerState::Exited { exit, .. }) => restarts(pod, container, api_exit_code(exit.code), probes),
    }
}

//! The phase table: one word for where a Pod is, from the statuses of its containers.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use super::may_restart;
use crate::resources::is_sidecar;

/// The phase of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Phase {
    /// Something has not run yet.
    Pending,
    /// Something runs, or will again.
    Running,
    /// All ended, with success, for good.
    Succeeded,
    /// All ended for good, something without success.
    Failed,
}

impl Phase {
    /// As the API writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Reads what the API writes; `None` for an absent or unknown phase.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text? {
            "Pending" => Some(Self::Pending),
            "Running" => Some(Self::Running),
            "Succeeded" => Some(Self::Succeeded),
            "Failed" => Some(Self::Failed),
            _ => None,
        }
    }

    /// Whether it can't be left any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the status of one container says, in the ways that the table tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is no status, or one without a state.
    Nothing,
    /// It waits and never ended before.
    Waiting,
    /// It waits to be started again; it ended with this code before.
    Restarting(i32),
    /// It runs; `started` once its startup probe succeeded.
    Running {
        /// See above.
        started: bool,
    },
    /// It ended with this code.
    Terminated(i32),
}

pub(super) fn seen(statuses: &[ContainerStatus], name: &str) -> Seen {
    let Some(status) = statuses.iter().find(|s| s.name == name) else { return Seen::Nothing };
    let Some(state) = status.state.as_ref() else { return Seen::Nothing };
    if state.running.is_some() {
        Seen::Running { started: status.started.unwrap_or(false) }
    } else if let Some(terminated) = &state.terminated {
        Seen::Terminated(terminated.exit_code)
    } else if state.waiting.is_some() {
        match status.last_state.as_ref().and_then(|s| s.terminated.as_ref()) {
            Some(last) => Seen::Restarting(last.exit_code),
            None => Seen::Waiting,
        }
    } else {
        Seen::Nothing
    }
}

/// Whether any regular container has ever run: from then on the Pod counts as initialised.
pub(super) fn has_initialized(containers: &[Container], statuses: &[ContainerStatus]) -> bool {
    containers.iter().any(|c| match seen(statuses, &c.name) {
        Seen::Running { .. } | Seen::Terminated(_) | Seen::Restarting(_) => true,
        Seen::Nothing | Seen::Waiting => false,
    })
}

#[derive(Debug, Default)]
struct Tally {
    init_failed_for_good: usize,
    init_pending: usize,
    sidecars_pending: usize,
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    succeeded: usize,
    restartable: usize,
}

impl Tally {
    fn init(&mut self, pod: &Pod, container: &Container, seen: Seen) {
        match seen {
            Seen::Terminated(0) | Seen::Restarting(0) => {}
            Seen::Terminated(code) | Seen::Restarting(code) => {
                if may_restart(pod, container, code) {
                    self.init_pending += 1;
                } else {
                    self.init_failed_for_good += 1;
                }
            }
            Seen::Nothing | Seen::Waiting | Seen::Running { .. } => self.init_pending += 1,
        }
    }

    fn sidecar(&mut self, seen: Seen) {
        match seen {
            Seen::Nothing => {
                self.sidecars_pending += 1;
                self.unknown += 1;
            }
            Seen::Waiting => {
                self.sidecars_pending += 1;
                self.waiting += 1;
            }
            Seen::Running { started } => {
                self.sidecars_pending += usize::from(!started);
                self.running += 1;
            }
            // What a sidecar ended with says nothing about the Pod.
            Seen::Terminated(_) | Seen::Restarting(_) => {}
        }
    }

    fn regular(&mut self, pod: &Pod, container: &Container, seen: Seen) {
        match seen {
            Seen::Nothing => self.unknown += 1,
            Seen::Waiting => self.waiting += 1,
            Seen::Running { .. } => self.running += 1,
            Seen::Restarting(code) => {
                self.stopped += 1;
                self.restartable += usize::from(may_restart(pod, container, code));
            }
            Seen::Terminated(code) => {
                self.stopped += 1;
                self.succeeded += usize::from(code == 0);
                self.restartable += usize::from(may_restart(pod, container, code));
            }
        }
    }
}

/// The phase of a Pod whose containers have these statuses (rows 1 to 7 of the table, top down). `is_terminal`: its
/// containers have been stopped for good; `is_static`: that alone does not end it.
#[must_use]
pub fn phase(
    pod: &Pod,
    init_statuses: &[ContainerStatus],
    statuses: &[ContainerStatus],
    is_terminal: bool,
    is_static: bool,
) -> Phase {
    let Some(spec) = pod.spec.as_ref() else { return Phase::Pending };
    let mut tally = Tally::default();
    for container in spec.init_containers.iter().flatten() {
        let seen = seen(init_statuses, &container.name);
        if is_sidecar(container) {
            tally.sidecar(seen);
        } else {
            tally.init(pod, container, seen);
        }
    }
    for container in &spec.containers {
        tally.regular(pod, container, seen(statuses, &container.name));
    }

    let initialized = has_initialized(&spec.containers, statuses);
    let starting = tally.init_pending > 0 || (tally.sidecars_pending > 0 && !initialized) || tally.waiting > 0;
    if tally.init_failed_for_good > 0 {
        Phase::Failed
    } else if starting {
        Phase::Pending
    } else if tally.running > 0 && tally.unknown == 0 {
        Phase::Running
    } else if tally.running == 0 && tally.stopped > 0 && tally.unknown == 0 {
        stopped(&tally, is_terminal && !is_static)
    } else {
        Phase::Pending
    }
}

/// Rows 6a to 6e: nothing runs, and every container has ended. The Pod goes on exactly if one of them may be started
/// again; asking each container covers policies of the Pod, of a container, and restart rules alike.
fn stopped(tally: &Tally, for_good: bool) -> Phase {
    if tally.restartable > 0 && !for_good {
        Phase::Running
    } else if tally.stopped == tally.succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

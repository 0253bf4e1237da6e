//! What has to be done for a Pod now: a pure function of its spec, what runs, and what its status said before.
//!
//! ```text
//!             ┌─ new sandbox needed ─► stop what runs, then sandbox, first init container or all containers
//!  plan ──────┤
//!             ├─ sandbox is good ────► init containers in order ─► containers; sidecars kept alive all the time
//!             └─ nothing is to run any more ─► End
//! ```
//! Two rules keep a container from existing twice. One that is **created and not started** was left by an action that
//! was cut off; it is started, never made again. One that is **unknown** is stopped and nothing else: what follows is
//! decided when it is known how it ended.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus as ApiStatus, Pod, PodStatus};
use minke_core::resources::is_sidecar;
use minke_core::runtime::{
    ContainerId, ContainerState, ContainerStatus, NamespaceMode, PodRuntimeStatus, SandboxId, SandboxState, labels,
};
use minke_core::status::{FatalProbe, ProbeResults, RestartPolicy, UNKNOWN_EXIT_CODE, api_exit_code, restarts};

mod init;

/// What is done for a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing of it is to run any more: stop what remains.
    End,
    /// These steps, in this order.
    Steps(Steps),
}

/// The steps of a plan. First everything in `stop` ends, then the sandbox is there, then `start` begins in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// Containers to stop.
    pub stop: Vec<Stop>,
    /// The sandbox that containers start in.
    pub sandbox: SandboxStep,
    /// Containers to start.
    pub start: Vec<Start>,
}

impl Steps {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stop.is_empty() && self.start.is_empty() && matches!(self.sandbox, SandboxStep::Keep(_))
    }
}

/// What is done about the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxStep {
    /// This one is good.
    Keep(SandboxId),
    /// Make a new one.
    Create {
        /// Its attempt.
        attempt: u32,
        /// Sandboxes to stop before.
        replaces: Vec<SandboxId>,
        /// Init containers of those sandboxes, to be removed: initialisation starts over.
        purge: Vec<ContainerId>,
    },
}

/// A container to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: StopReason,
}

/// Why a container is stopped while its Pod goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Its sandbox is replaced.
    SandboxChanged,
    /// The runtime can't say what it does.
    Unknown,
    /// Its definition changed.
    DefinitionChanged,
    /// The spec has it no more.
    NotWanted,
    /// A probe has condemned it.
    Unhealthy(FatalProbe),
}

impl StopReason {
    /// A short phrase for a timeline.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::SandboxChanged => "its sandbox is replaced",
            Self::Unknown => "its state is unknown",
            Self::DefinitionChanged => "its definition changed",
            Self::NotWanted => "the pod's spec has it no more",
            Self::Unhealthy(FatalProbe::Liveness) => "its liveness probe failed",
            Self::Unhealthy(FatalProbe::Startup) => "its startup probe failed",
        }
    }
}

/// Which list of the spec a container is from, and how it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs to completion before the next.
    Init,
    /// A restartable init container.
    Sidecar,
    /// A regular one.
    Regular,
}

/// A container to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// How.
    pub how: How,
}

/// How a container gets started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Create and start it.
    Create {
        /// Which attempt.
        attempt: u32,
        /// When the one before ended, for crash-loop back-off.
        after: Option<Timestamp>,
    },
    /// It is created; start it.
    Resume(ContainerId),
}

/// What a plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// What the runtime says.
    pub runtime: &'a PodRuntimeStatus,
    /// The newest status of the Pod.
    pub previous: Option<&'a PodStatus>,
    /// What probes say, by container name.
    pub probes: &'a BTreeMap<String, ProbeResults>,
    /// The hash that each container's spec has now, by name. A running container with another one is replaced; one
    /// that is not named here is left alone.
    pub hashes: &'a BTreeMap<String, String>,
}

/// What is last known of a container of the spec.
enum Known<'a> {
    Nothing,
    Live(&'a ContainerStatus),
    /// It ended with this code, as the API shows it.
    Ended {
        code: i32,
        finished_at: Option<Timestamp>,
    },
}

impl<'a> PlanInput<'a> {
    fn containers(&self) -> &'a [Container] {
        self.pod.spec.as_ref().map_or(&[], |s| s.containers.as_slice())
    }

    fn init_containers(&self) -> &'a [Container] {
        self.pod.spec.as_ref().and_then(|s| s.init_containers.as_deref()).unwrap_or_default()
    }

    fn previous_of(&self, name: &str) -> Option<&'a ApiStatus> {
        let previous = self.previous?;
        let all = previous.container_statuses.iter().chain(&previous.init_container_statuses).flatten();
        all.into_iter().find(|s| s.name == name)
    }

    /// The newest instance, or what the status remembers of one that the runtime no longer has.
    fn known(&self, name: &str) -> Known<'a> {
        if let Some(newest) = self.runtime.newest(name) {
            return match &newest.state {
                ContainerState::Created | ContainerState::Running { .. } | ContainerState::Unknown => {
                    Known::Live(newest)
                }
                ContainerState::Exited { exit, .. } => {
                    Known::Ended { code: api_exit_code(exit.code), finished_at: Some(exit.finished_at) }
                }
            };
        }
        let Some(previous) = self.previous_of(name) else { return Known::Nothing };
        let state = previous.state.as_ref();
        if state.is_some_and(|s| s.running.is_some()) {
            return Known::Ended { code: UNKNOWN_EXIT_CODE, finished_at: None };
        }
        let last = previous.last_state.as_ref().and_then(|s| s.terminated.as_ref());
        match state.and_then(|s| s.terminated.as_ref()).or(last) {
            Some(ended) => {
                let finished_at = ended.finished_at.as_ref().map(|t| t.0);
                Known::Ended { code: ended.exit_code, finished_at }
            }
            None => Known::Nothing,
        }
    }

    /// One more than any attempt that ever was.
    fn next_attempt(&self, name: &str) -> u32 {
        let seen = self.runtime.instances(name).map(|c| c.attempt.saturating_add(1)).max().unwrap_or(0);
        let remembered = self.previous_of(name).map_or(0, |previous| {
            let ran = |s: &k8s_openapi::api::core::v1::ContainerState| s.running.is_some() || s.terminated.is_some();
            let existed = [&previous.state, &previous.last_state].into_iter().flatten().any(ran);
            u32::try_from(previous.restart_count).unwrap_or(0) + u32::from(existed)
        });
        // The status counts the newest instance already; both give the same number where both know.
        seen.max(if self.runtime.newest(name).is_some() { 0 } else { remembered })
    }

    fn create(&self, name: &str, kind: Kind, after: Option<Timestamp>) -> Start {
        Start { name: name.to_owned(), kind, how: How::Create { attempt: self.next_attempt(name), after } }
    }

    /// Whether a running container is not what its spec says.
    fn changed(&self, container: &Container, status: &ContainerStatus) -> bool {
        let (wanted, has) = (self.hashes.get(&container.name), status.annotations.get(labels::HASH));
        wanted.zip(has).is_some_and(|(wanted, has)| wanted != has)
    }

    /// Whether a container that ended with this code is started again.
    fn restarts(&self, container: &Container, code: i32) -> bool {
        restarts(self.pod, container, code, self.probes.get(&container.name))
    }

    /// Whether a probe wants this running container killed.
    fn condemned(&self, container: &Container) -> Option<FatalProbe> {
        self.probes.get(&container.name)?.condemned
    }

    /// Whether a running sidecar has started.
    fn started(&self, name: &str) -> bool {
        self.probes.get(name).and_then(|p| p.started).unwrap_or(true)
    }

    fn host_network(&self) -> bool {
        self.pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false)
    }

    /// The sandbox to use, if one is good.
    fn good_sandbox(&self) -> Option<&'a SandboxId> {
        let newest = self.runtime.sandboxes.first()?;
        let ready = self.runtime.sandboxes.iter().filter(|s| s.info.state == SandboxState::Ready).count();
        let wanted = self.host_network();
        let has = newest.namespaces.network == NamespaceMode::Node;
        let good = ready == 1
            && newest.info.state == SandboxState::Ready
            && wanted == has
            && (wanted || !newest.ips.is_empty());
        good.then_some(&newest.info.id)
    }
}

/// Makes a plan.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    match input.good_sandbox() {
        Some(sandbox) => in_sandbox(input, sandbox),
        None => new_sandbox(input),
    }
}

/// The containers that a fresh sandbox would run: all but those that ended and are not to be started again.
fn wanted_afresh(input: &PlanInput<'_>) -> Vec<Start> {
    let start = |c: &Container| match input.known(&c.name) {
        // What lives in the old sandbox dies with it, and counts as an exit that nobody saw.
        Known::Live(_) if !input.restarts(c, UNKNOWN_EXIT_CODE) => None,
        Known::Nothing | Known::Live(_) => Some(input.create(&c.name, Kind::Regular, None)),
        Known::Ended { code, finished_at } => {
            input.restarts(c, code).then(|| input.create(&c.name, Kind::Regular, finished_at))
        }
    };
    input.containers().iter().filter_map(start).collect()
}

fn new_sandbox(input: &PlanInput<'_>) -> Plan {
    let attempt = input.runtime.sandboxes.iter().map(|s| s.info.attempt.saturating_add(1)).max().unwrap_or(0);
    let existed = !input.runtime.containers.is_empty();
    if RestartPolicy::of_pod(input.pod) == RestartPolicy::Never && attempt > 0 && existed {
        return Plan::End;
    }
    let mut start = wanted_afresh(input);
    let ran = input.containers().iter().any(|c| !matches!(input.known(&c.name), Known::Nothing));
    if start.is_empty() && ran {
        return Plan::End;
    }
    if let Some(first) = input.init_containers().first() {
        let kind = if is_sidecar(first) { Kind::Sidecar } else { Kind::Init };
        start = vec![input.create(&first.name, kind, None)];
    }
    let live = input.runtime.containers.iter().filter(|c| {
        matches!(c.state, ContainerState::Created | ContainerState::Running { .. } | ContainerState::Unknown)
    });
    let stop = live.map(|c| stop_for(c, StopReason::SandboxChanged)).collect();
    let is_init = |c: &&ContainerStatus| input.init_containers().iter().any(|i| i.name == c.name);
    let purge = input.runtime.containers.iter().filter(is_init).map(|c| c.id.clone()).collect();
    let replaces = input.runtime.sandboxes.iter().map(|s| s.info.id.clone()).collect();
    Plan::Steps(Steps { stop, sandbox: SandboxStep::Create { attempt, replaces, purge }, start })
}

fn stop_for(container: &ContainerStatus, why: StopReason) -> Stop {
    Stop { id: container.id.clone(), name: container.name.clone(), why }
}

fn in_sandbox(input: &PlanInput<'_>, sandbox: &SandboxId) -> Plan {
    let mut steps = Steps { stop: Vec::new(), sandbox: SandboxStep::Keep(sandbox.clone()), start: Vec::new() };
    // Left over from a sandbox that was replaced.
    let stray = input.runtime.containers.iter().filter(|c| c.sandbox != *sandbox);
    for container in stray.filter(|c| !matches!(c.state, ContainerState::Exited { .. })) {
        steps.stop.push(stop_for(container, StopReason::SandboxChanged));
    }
    let wanted =
        |c: &ContainerStatus| input.containers().iter().chain(input.init_containers()).any(|w| w.name == c.name);
    for container in input.runtime.containers.iter().filter(|c| c.sandbox == *sandbox && !wanted(c)) {
        if matches!(container.state, ContainerState::Running { .. } | ContainerState::Unknown) {
            steps.stop.push(stop_for(container, StopReason::NotWanted));
        }
    }
    match init::plan(input, sandbox, &mut steps) {
        init::Outcome::Failed => return Plan::End,
        init::Outcome::Pending => return Plan::Steps(steps),
        init::Outcome::Done => {}
    }
    let mut keep = false;
    for container in input.containers() {
        keep |= regular(input, container, sandbox, &mut steps);
    }
    if keep { Plan::Steps(steps) } else { Plan::End }
}

/// Plans one regular container; returns whether it is to live.
fn regular(input: &PlanInput<'_>, container: &Container, sandbox: &SandboxId, steps: &mut Steps) -> bool {
    match input.known(&container.name) {
        Known::Nothing => {
            steps.start.push(input.create(&container.name, Kind::Regular, None));
            true
        }
        Known::Ended { code, finished_at } => {
            let again = input.restarts(container, code);
            if again {
                steps.start.push(input.create(&container.name, Kind::Regular, finished_at));
            }
            again
        }
        Known::Live(status) => {
            live(input, container, Kind::Regular, status, sandbox, steps);
            true
        }
    }
}

/// Plans a container of which the newest instance lives.
fn live(
    input: &PlanInput<'_>,
    container: &Container,
    kind: Kind,
    status: &ContainerStatus,
    sandbox: &SandboxId,
    steps: &mut Steps,
) {
    match &status.state {
        // One of another sandbox was never started and is dead with it.
        ContainerState::Created if status.sandbox != *sandbox => {
            steps.start.push(input.create(&container.name, kind, None));
        }
        ContainerState::Created => {
            let how = How::Resume(status.id.clone());
            steps.start.push(Start { name: container.name.clone(), kind, how });
        }
        ContainerState::Running { .. } if status.sandbox == *sandbox && input.changed(container, status) => {
            steps.stop.push(stop_for(status, StopReason::DefinitionChanged));
        }
        ContainerState::Running { .. } if status.sandbox == *sandbox => {
            let condemned = input.condemned(container).map(|probe| stop_for(status, StopReason::Unhealthy(probe)));
            steps.stop.extend(condemned);
        }
        ContainerState::Unknown if status.sandbox == *sandbox => {
            steps.stop.push(stop_for(status, StopReason::Unknown));
        }
        // Strays are in the list already, and what ended is not alive.
        ContainerState::Running { .. } | ContainerState::Unknown | ContainerState::Exited { .. } => {}
    }
}

#[cfg(test)]
mod tests;

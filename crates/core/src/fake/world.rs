//! The state of the fake runtime: what exists, what is scripted, what was seen. All synchronous.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use jiff::Timestamp;
use tokio::time::Instant;

use super::calls::{Call, Fault, FaultAction};
use super::clock::FakeClock;
use super::events::{EventPlan, Subscriber};
use super::exec::ExecHook;
use super::life::{Ending, Life};
use crate::identity::PodUid;
use crate::runtime::{
    CgroupUsage, ContainerConfig, ContainerId, ContainerState, Credential, Exit, ExitCode, ImageStatus, RuntimeEvent,
    RuntimeEventKind, SandboxConfig, SandboxId, SandboxState, Silence,
};

/// A hook that decides the fate of each call that no scripted fault hits.
pub(super) type FaultHook = Box<dyn FnMut(&Call) -> Option<FaultAction> + Send>;

pub(super) struct Sandbox {
    pub(super) config: SandboxConfig,
    pub(super) state: SandboxState,
    pub(super) ips: Vec<IpAddr>,
    pub(super) created_at: Timestamp,
    pub(super) order: u64,
}

pub(super) struct Container {
    pub(super) sandbox: SandboxId,
    pub(super) pod: PodUid,
    pub(super) config: ContainerConfig,
    pub(super) log_path: std::path::PathBuf,
    pub(super) created_at: Timestamp,
    pub(super) state: ContainerState,
    pub(super) life: Life,
    /// When and how it will end.
    pub(super) due: Option<(Instant, Ending)>,
    pub(super) order: u64,
}

impl Container {
    pub(super) fn is_live(&self) -> bool {
        match self.state {
            ContainerState::Created | ContainerState::Running { .. } | ContainerState::Unknown => true,
            ContainerState::Exited { .. } => false,
        }
    }
}

pub(super) struct World {
    pub(super) clock: FakeClock,
    pub(super) next_id: u64,
    pub(super) sandboxes: BTreeMap<SandboxId, Sandbox>,
    pub(super) containers: BTreeMap<ContainerId, Container>,
    pub(super) images: BTreeMap<String, ImageStatus>,
    /// Images that a pull can get.
    pub(super) registry: Option<BTreeMap<String, ImageStatus>>,
    pub(super) lives: HashMap<(Option<PodUid>, String), Vec<Life>>,
    pub(super) faults: Vec<Fault>,
    pub(super) hook: Option<FaultHook>,
    pub(super) exec_hook: Option<ExecHook>,
    /// What containers use, and the size of their writable layers, by Pod and name.
    pub(super) usage: HashMap<(PodUid, String), (CgroupUsage, u64)>,
    /// What is available on the disk of images when it holds none, and how large it is.
    pub(super) disk: (u64, u64),
    pub(super) plan: EventPlan,
    pub(super) events_supported: bool,
    pub(super) silence: Option<Silence>,
    pub(super) subscribers: HashMap<u64, Subscriber>,
    pub(super) calls: Vec<(Timestamp, Call)>,
    pub(super) pulls: Vec<(String, Vec<Credential>)>,
    pub(super) violations: Vec<String>,
}

impl World {
    pub(super) fn new(clock: FakeClock) -> Self {
        Self {
            clock,
            next_id: 0,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            images: BTreeMap::new(),
            registry: None,
            lives: HashMap::new(),
            faults: Vec::new(),
            hook: None,
            exec_hook: None,
            usage: HashMap::new(),
            disk: (1 << 40, 1 << 41),
            plan: EventPlan::faithful(),
            events_supported: true,
            silence: None,
            subscribers: HashMap::new(),
            calls: Vec::new(),
            pulls: Vec::new(),
            violations: Vec::new(),
        }
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Ends every container whose time has come, in the order of their times.
    pub(super) fn settle(&mut self, now: Instant) {
        while let Some((id, at, ending)) = self.first_due(now) {
            self.end(&id, at, &ending);
        }
    }

    fn first_due(&self, now: Instant) -> Option<(ContainerId, Instant, Ending)> {
        let due = self.containers.iter().filter_map(|(id, c)| c.due.as_ref().map(|(at, ending)| (id, *at, ending)));
        let first = due.filter(|(_, at, _)| *at <= now).min_by_key(|(id, at, _)| (*at, (*id).clone()))?;
        Some((first.0.clone(), first.1, first.2.clone()))
    }

    /// When the next container ends by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.containers.values().filter_map(|c| c.due.as_ref().map(|(at, _)| *at)).min()
    }

    /// Ends a container now, or at a moment that has just passed.
    pub(super) fn end(&mut self, id: &ContainerId, at: Instant, ending: &Ending) {
        let finished_at = self.clock.at(at);
        let Some(container) = self.containers.get_mut(id) else { return };
        let started_at = match &container.state {
            ContainerState::Running { started_at } => Some(*started_at),
            ContainerState::Created | ContainerState::Unknown => None,
            ContainerState::Exited { .. } => return,
        };
        let reason = match (ending.reason.as_str(), ending.code) {
            ("", ExitCode::Known(0)) => "Completed",
            ("", ExitCode::Known(_)) => "Error",
            ("", ExitCode::Lost) => "ContainerStatusUnknown",
            (reason, _) => reason,
        };
        let exit = Exit { code: ending.code, reason: reason.to_owned(), message: String::new(), finished_at };
        container.state = ContainerState::Exited { started_at, exit };
        container.due = None;
        let pod = container.pod.clone();
        self.emit(RuntimeEventKind::Stopped, id.0.clone(), pod, at);
    }

    pub(super) fn emit(&mut self, kind: RuntimeEventKind, id: String, pod: PodUid, at: Instant) {
        let event = RuntimeEvent { kind, id, pod, created_at: self.clock.at(at) };
        for subscriber in self.subscribers.values_mut() {
            let delivery = self.plan.decide(&event);
            subscriber.push(&event, delivery, at);
        }
    }

    /// The life of this attempt: scripted for the Pod's container, else for the name, else for ever. The last life of
    /// a script repeats.
    pub(super) fn life(&self, pod: &PodUid, name: &str, attempt: u32) -> Life {
        let scripted =
            self.lives.get(&(Some(pod.clone()), name.to_owned())).or_else(|| self.lives.get(&(None, name.to_owned())));
        let Some(lives) = scripted else { return Life::forever() };
        let index = usize::try_from(attempt).unwrap_or(usize::MAX).min(lives.len().saturating_sub(1));
        lives.get(index).cloned().unwrap_or_default()
    }

    /// Logs a call and decides its fate.
    pub(super) fn fate(&mut self, call: &Call) -> Option<FaultAction> {
        let now = self.clock.at(Instant::now());
        self.calls.push((now, call.clone()));
        let scripted = self.faults.iter_mut().find_map(|fault| fault.hits(call).then(|| fault.action.clone()));
        scripted.or_else(|| self.hook.as_mut().and_then(|hook| hook(call)))
    }

    pub(super) fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Checks the promise that no client may break.
    pub(super) fn check_single_instances(&mut self, pod: &PodUid, name: &str) {
        let live = self.containers.values().filter(|c| c.pod == *pod && c.config.name == name && c.is_live()).count();
        if live > 1 {
            self.violation(format!("pod {pod}: {live} live containers named {name}"));
        }
    }
}

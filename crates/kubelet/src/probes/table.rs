//! All probes of all Pods and when each is due: data that changes synchronously, under one lock.
//!
//! A Pod without probes is not in it. Every probe that waits for its time stands exactly once in the timetable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus as ApiStatus, Pod, PodStatus};
use minke_core::containers::all_containers;
use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerId, ContainerState, PodRuntimeStatus};
use minke_core::status::{FatalProbe, ProbeResults};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Machine, Outcome, ProbeKind, State, Target, Timing, Verdict};
use crate::worker::requeue::spread;

/// Which probe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProbeId {
    pub(super) uid: PodUid,
    pub(super) container: Arc<str>,
    pub(super) kind: ProbeKind,
}

/// A run that is to be made.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) probe: ProbeId,
    pub(super) run: u64,
    pub(super) container: Arc<Container>,
    pub(super) id: ContainerId,
    pub(super) ips: Vec<IpAddr>,
    pub(super) timing: Timing,
}

/// Containers that probes have condemned, as checkpoints keep them.
pub(crate) type Condemned = Vec<(ContainerId, FatalProbe)>;

/// What an earlier agent knew of a Pod.
#[derive(Debug, Default)]
pub(crate) struct Recovered<'a> {
    /// Its last status.
    pub(crate) status: Option<&'a PodStatus>,
    /// Its condemned containers.
    pub(crate) condemned: &'a [(ContainerId, FatalProbe)],
}

#[derive(Debug)]
struct Slot {
    machine: Machine,
    /// Its place in the timetable.
    armed: Option<Instant>,
    /// Its run.
    running: Option<AbortHandle>,
}

#[derive(Debug)]
struct Probed {
    container: Arc<Container>,
    name: Arc<str>,
    /// The instance that was observed last.
    id: Option<ContainerId>,
    /// When it was, and how long it had been running then.
    running: Option<(Instant, Duration)>,
    slots: Vec<Slot>,
}

#[derive(Debug)]
pub(super) struct PodProbes {
    ips: Vec<IpAddr>,
    containers: Vec<Probed>,
    /// It ends: nothing is asked any more that could kill.
    ending: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Table {
    began: Instant,
    pods: HashMap<PodUid, PodProbes>,
    timetable: BTreeSet<(Instant, ProbeId)>,
}

/// The time at which something is observed, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) wall: Timestamp,
    pub(crate) monotonic: Instant,
}

impl Table {
    pub(super) fn new(began: Instant) -> Self {
        Self { began, pods: HashMap::new(), timetable: BTreeSet::new() }
    }

    /// Takes a Pod on.
    pub(super) fn add(&mut self, uid: &PodUid, pod: &Pod, recovered: &Recovered<'_>) {
        self.remove(uid);
        let containers: Vec<Probed> =
            all_containers(pod).filter_map(|container| probed(container, recovered)).collect();
        if !containers.is_empty() {
            self.pods.insert(uid.clone(), PodProbes { ips: Vec::new(), containers, ending: false });
        }
    }

    /// Something about the Pod has changed. Probes of containers that have not go on as they were; of the others, what is
    /// known holds until they are replaced.
    pub(super) fn update(&mut self, uid: &PodUid, pod: &Pod) {
        let before = self.pods.remove(uid);
        let (ips, mut old, ending) = before.map_or_else(Default::default, |b| (b.ips, b.containers, b.ending));
        let mut containers: Vec<Probed> =
            all_containers(pod).filter_map(|container| probed(container, &Recovered::default())).collect();
        for probed in &mut containers {
            let Some(at) = old.iter().position(|old| old.name == probed.name) else { continue };
            if old[at].container == probed.container {
                *probed = old.swap_remove(at);
                continue;
            }
            for slot in &mut probed.slots {
                let same = old[at].slots.iter().find(|o| o.machine.kind() == slot.machine.kind());
                if let Some(same) = same {
                    slot.machine = same.machine.replaced(*slot.machine.timing());
                }
            }
        }
        old.iter_mut().for_each(|old| old.disarm(uid, &mut self.timetable));
        if !containers.is_empty() {
            self.pods.insert(uid.clone(), PodProbes { ips, containers, ending });
        }
        if ending {
            self.stop_fatal(uid);
        }
    }

    /// Takes what the runtime shows of a Pod; returns what its probes say of it.
    pub(super) fn observe(
        &mut self,
        runtime: &PodRuntimeStatus,
        ips: Vec<IpAddr>,
        now: Now,
    ) -> BTreeMap<String, ProbeResults> {
        let Some(pod) = self.pods.get_mut(&runtime.uid) else { return BTreeMap::new() };
        pod.ips = ips;
        let mut results = BTreeMap::new();
        for probed in &mut pod.containers {
            let newest = runtime.newest(&probed.name);
            let running = newest.and_then(|c| match c.state {
                ContainerState::Running { started_at } => Some(age(started_at, now.wall)),
                ContainerState::Created | ContainerState::Exited { .. } | ContainerState::Unknown => None,
            });
            probed.id = newest.map(|c| c.id.clone());
            probed.running = running.map(|age| (now.monotonic, age));
            probed.look(&runtime.uid, self.began, now.monotonic);
            probed.arm(&runtime.uid, &mut self.timetable);
            results.insert(probed.container.name.clone(), probed.results());
        }
        results
    }

    /// Whether the Pod has probes.
    pub(super) fn has(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid)
    }

    /// Containers of a Pod that are condemned.
    pub(super) fn condemned(&self, uid: &PodUid) -> Condemned {
        let slots = self.pods.get(uid).into_iter().flat_map(|p| &p.containers).flat_map(|c| &c.slots);
        slots.filter_map(|slot| Some((slot.machine.condemned()?.clone(), fatal(slot.machine.kind())?))).collect()
    }

    /// A sync found its Pod waiting for readiness.
    pub(super) fn poke(&mut self, uid: &PodUid, now: Instant) {
        for probed in self.pods.get_mut(uid).into_iter().flat_map(|p| &mut p.containers) {
            probed.slots.iter_mut().for_each(|slot| slot.machine.poke(now));
            probed.arm(uid, &mut self.timetable);
        }
    }

    /// The Pod ends: what could kill its containers asks no more.
    pub(super) fn stop_fatal(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.ending = true;
        for probed in &mut pod.containers {
            for slot in probed.slots.iter_mut().filter(|s| fatal(s.machine.kind()).is_some()) {
                slot.machine.stop();
            }
            probed.arm(uid, &mut self.timetable);
        }
    }

    /// Forgets a Pod.
    pub(super) fn remove(&mut self, uid: &PodUid) -> Option<PodProbes> {
        let mut pod = self.pods.remove(uid)?;
        for probed in &mut pod.containers {
            probed.disarm(uid, &mut self.timetable);
        }
        Some(pod)
    }

    /// When the next probe is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.timetable.first().map(|(at, _)| *at)
    }

    /// Begins the run that is due for longest, if one is due.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Run> {
        loop {
            let (at, probe) = self.timetable.first()?.clone();
            if at > now {
                return None;
            }
            self.timetable.remove(&(at, probe.clone()));
            if let Some(run) = self.start(probe) {
                return Some(run);
            }
        }
    }

    fn start(&mut self, probe: ProbeId) -> Option<Run> {
        let pod = self.pods.get_mut(&probe.uid)?;
        let probed = pod.containers.iter_mut().find(|c| c.name == probe.container)?;
        let id = probed.id.clone()?;
        let slot = probed.slots.iter_mut().find(|s| s.machine.kind() == probe.kind)?;
        slot.armed = None;
        let run = slot.machine.begin()?;
        let (container, timing) = (probed.container.clone(), *slot.machine.timing());
        Some(Run { probe, run, container, id, ips: pod.ips.clone(), timing })
    }

    /// The run has a task, which ends when the run no longer counts.
    pub(super) fn began(&mut self, probe: &ProbeId, task: AbortHandle) {
        match self.slot(probe) {
            Some(slot) if matches!(slot.machine.state(), State::Running { .. }) => slot.running = Some(task),
            Some(_) | None => task.abort(),
        }
    }

    fn slot(&mut self, probe: &ProbeId) -> Option<&mut Slot> {
        let probed = self.pods.get_mut(&probe.uid)?.containers.iter_mut().find(|c| c.name == probe.container)?;
        probed.slots.iter_mut().find(|s| s.machine.kind() == probe.kind)
    }

    /// A run has ended. `None`: it no longer counts. Else whether the results changed.
    pub(super) fn ran(&mut self, probe: &ProbeId, run: u64, outcome: Outcome, now: Instant) -> Option<bool> {
        let probed = self.pods.get_mut(&probe.uid)?.containers.iter_mut().find(|c| c.name == probe.container)?;
        let slot = probed.slots.iter_mut().find(|s| s.machine.kind() == probe.kind)?;
        let changed = slot.machine.ran(run, outcome, now)?;
        slot.running = None;
        if changed && probe.kind == ProbeKind::Startup {
            // The others need not wait until the container is observed again.
            probed.look(&probe.uid, self.began, now);
        }
        probed.arm(&probe.uid, &mut self.timetable);
        Some(changed)
    }
}

fn fatal(kind: ProbeKind) -> Option<FatalProbe> {
    match kind {
        ProbeKind::Startup => Some(FatalProbe::Startup),
        ProbeKind::Liveness => Some(FatalProbe::Liveness),
        ProbeKind::Readiness => None,
    }
}

/// How long ago that was; clocks that went back make it now.
fn age(started: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(started)).unwrap_or_default()
}

/// The probes of a container, if it has any, with what an earlier agent knew.
fn probed(container: &Container, recovered: &Recovered<'_>) -> Option<Probed> {
    let status = recovered.status.and_then(|s| {
        let mut all = s.container_statuses.iter().chain(&s.init_container_statuses).flatten();
        all.find(|c| c.name == container.name)
    });
    let slots: Vec<Slot> = ProbeKind::ALL
        .into_iter()
        .filter_map(|kind| {
            let mut machine = Machine::new(kind, Timing::of(kind.of(container)?));
            if let Some((id, verdict)) = status.and_then(|s| known(kind, s, recovered.condemned)) {
                machine.recover(id, verdict);
            }
            Some(Slot { machine, armed: None, running: None })
        })
        .collect();
    let (name, container) = (Arc::from(container.name.as_str()), Arc::new(container.clone()));
    (!slots.is_empty()).then_some(Probed { container, name, id: None, running: None, slots })
}

/// What is known of the container in this status. The API writes ids with the runtime's name before them.
fn known(
    kind: ProbeKind,
    status: &ApiStatus,
    condemned: &[(ContainerId, FatalProbe)],
) -> Option<(ContainerId, Verdict)> {
    let id = ContainerId(status.container_id.as_deref()?.split_once("://")?.1.to_owned());
    if condemned.iter().any(|(which, by)| *which == id && Some(*by) == fatal(kind)) {
        return Some((id, Verdict::Failure));
    }
    let yes = match kind {
        ProbeKind::Startup => status.started == Some(true),
        ProbeKind::Readiness => status.ready,
        ProbeKind::Liveness => false,
    };
    yes.then_some((id, Verdict::Success))
}

impl Probed {
    /// Shows the container, as it was observed last, to its probes.
    fn look(&mut self, uid: &PodUid, agent_began: Instant, now: Instant) {
        let Some(id) = self.id.clone() else {
            self.slots.iter_mut().for_each(|slot| slot.machine.observe(None, now));
            return;
        };
        let running = self.running.map(|(at, age)| age + now.duration_since(at));
        // The startup probe first: whether it has succeeded decides about the others.
        for i in 0..self.slots.len() {
            let started = self.started(&id);
            let slot = &mut self.slots[i];
            let delay = spread_out(&slot.machine, running, agent_began, uid, &self.name, now);
            slot.machine.observe(Some(Target { id: &id, running, started, delay }), now);
        }
    }

    fn started(&self, id: &ContainerId) -> bool {
        let startup = self.slots.iter().find(|s| s.machine.kind() == ProbeKind::Startup);
        startup.is_none_or(|s| s.machine.verdict(id) == Verdict::Success)
    }

    fn results(&self) -> ProbeResults {
        let mut results = ProbeResults::default();
        for slot in &self.slots {
            let succeeds = self.id.as_ref().is_some_and(|id| slot.machine.verdict(id) == Verdict::Success);
            match slot.machine.kind() {
                ProbeKind::Startup => results.started = Some(succeeds),
                ProbeKind::Readiness => results.ready = Some(succeeds),
                ProbeKind::Liveness => {}
            }
            if slot.machine.condemned().is_some_and(|id| Some(id) == self.id.as_ref()) {
                results.condemned = fatal(slot.machine.kind());
            }
        }
        results
    }

    /// Takes all probes out of the timetable and ends their runs.
    fn disarm(&mut self, uid: &PodUid, timetable: &mut BTreeSet<(Instant, ProbeId)>) {
        for slot in &mut self.slots {
            if let Some(task) = slot.running.take() {
                task.abort();
            }
            if let Some(at) = slot.armed.take() {
                let (container, kind) = (self.name.clone(), slot.machine.kind());
                timetable.remove(&(at, ProbeId { uid: uid.clone(), container, kind }));
            }
        }
    }

    /// Puts each probe into the timetable where it belongs now, and ends runs that no longer count.
    fn arm(&mut self, uid: &PodUid, timetable: &mut BTreeSet<(Instant, ProbeId)>) {
        for slot in &mut self.slots {
            if !matches!(slot.machine.state(), State::Running { .. })
                && let Some(task) = slot.running.take()
            {
                task.abort();
            }
            let due = slot.machine.due();
            if due == slot.armed {
                continue;
            }
            let probe = ProbeId { uid: uid.clone(), container: self.name.clone(), kind: slot.machine.kind() };
            if let Some(at) = slot.armed {
                timetable.remove(&(at, probe.clone()));
            }
            slot.armed = due;
            timetable.extend(due.map(|at| (at, probe)));
        }
    }
}

/// Probes of containers that an agent finds when it begins would all run at once: within the first period they are
/// spread over one.
fn spread_out(
    machine: &Machine,
    running: Option<Duration>,
    agent_began: Instant,
    uid: &PodUid,
    container: &str,
    now: Instant,
) -> Duration {
    let (period, uptime) = (machine.timing().period, now.duration_since(agent_began));
    let found = running.is_some_and(|running| running > uptime);
    if !found || uptime >= period {
        return Duration::ZERO;
    }
    period.mul_f64(spread(&format!("{uid}/{container}"), machine.kind() as u64))
}

#[cfg(test)]
mod tests;

//! What there is: sandboxes and containers that come, go on from state to state, and go.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use minke_core::fake::SplitMix;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerId, ContainerState, ContainerStatus, Exit, ExitCode, ImageId, NamespaceOptions, PodRuntimeStatus,
    SandboxId, SandboxInfo, SandboxState, SandboxStatus,
};

use crate::pleg::record::{Item, Record, State};

/// A sandbox or container of the world.
#[derive(Debug, Clone)]
pub(super) struct Thing {
    pub(super) pod: usize,
    sandbox: bool,
    pub(super) id: String,
    /// When it came into each state; states only go on.
    states: Vec<(u64, State)>,
    pub(super) removed: Option<u64>,
}

impl Thing {
    pub(super) fn state(&self) -> Option<State> {
        self.removed.is_none().then(|| self.states[self.states.len() - 1].1)
    }

    pub(super) fn state_at(&self, time: u64) -> Option<State> {
        let there = self.removed.is_none_or(|at| at > time);
        self.states.iter().rev().find(|(at, _)| *at <= time).filter(|_| there).map(|(_, state)| *state)
    }
}

pub(super) fn rank(state: State) -> u8 {
    match state {
        State::Created => 0,
        State::Running => 1,
        State::Unknown => 2,
        State::Exited => 3,
    }
}

pub(super) fn uid(pod: usize) -> PodUid {
    PodUid::new(format!("pod{pod}")).unwrap()
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) time: u64,
    pub(super) things: Vec<Thing>,
}

impl World {
    pub(super) fn present(&self, pod: usize) -> impl Iterator<Item = &Thing> {
        self.things.iter().filter(move |t| t.pod == pod && t.removed.is_none())
    }

    pub(super) fn items(&self, pod: usize, sandboxes: bool) -> Vec<Item> {
        let of_kind = self.present(pod).filter(|t| t.sandbox == sandboxes);
        let mut items: Vec<Item> = of_kind.filter_map(|t| Some(Item { id: t.id.clone(), state: t.state()? })).collect();
        items.sort_by(|a, b| a.id.cmp(&b.id));
        items
    }

    fn add(&mut self, pod: usize, sandbox: bool) {
        let id = format!("{}{:04}", if sandbox { 's' } else { 'c' }, self.things.len());
        let state = if sandbox { State::Running } else { State::Created };
        self.things.push(Thing { pod, sandbox, id, states: vec![(self.time, state)], removed: None });
    }

    /// Something happens in this Pod.
    pub(super) fn change(&mut self, pod: usize, random: &mut SplitMix) {
        self.time += 1;
        let time = self.time;
        let there: Vec<usize> = (0..self.things.len())
            .filter(|i| self.things[*i].pod == pod && self.things[*i].removed.is_none())
            .collect();
        if there.is_empty() || random.chance(300) {
            return self.add(pod, there.is_empty());
        }
        if random.chance(80) {
            // The whole Pod goes.
            there.into_iter().for_each(|i| self.things[i].removed = Some(time));
            return;
        }
        let thing = &mut self.things[there[random.below(there.len() as u64) as usize]];
        let next = match (thing.state(), thing.sandbox) {
            (Some(State::Created), _) => Some(State::Running),
            (Some(State::Running), false) if random.chance(150) => Some(State::Unknown),
            (Some(State::Running | State::Unknown), _) if random.chance(850) => Some(State::Exited),
            _ => None,
        };
        match next {
            Some(state) => thing.states.push((time, state)),
            None => thing.removed = Some(time),
        }
    }

    /// What an inspection of these things reads now; `None`: one is gone.
    pub(super) fn inspect(&self, pod: usize, record: &Record) -> Option<PodRuntimeStatus> {
        let state = |item: &Item| self.present(pod).find(|t| t.id == item.id)?.state();
        let sandboxes = record.sandboxes.iter().map(|i| Some(sandbox(pod, &i.id, state(i)?)));
        let containers = record.containers.iter().map(|i| Some(container(pod, &i.id, state(i)?)));
        Some(PodRuntimeStatus {
            sandboxes: sandboxes.collect::<Option<_>>()?,
            containers: containers.collect::<Option<_>>()?,
            ..PodRuntimeStatus::empty(uid(pod))
        })
    }
}

fn sandbox(pod: usize, id: &str, state: State) -> SandboxStatus {
    let state = if state == State::Running { SandboxState::Ready } else { SandboxState::NotReady };
    let key = PodKey::new("default", "p", uid(pod));
    let info = SandboxInfo { id: SandboxId(id.into()), pod: key, attempt: 0, state, created_at: Timestamp::UNIX_EPOCH };
    SandboxStatus {
        info,
        ips: Vec::new(),
        namespaces: NamespaceOptions::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

fn container(pod: usize, id: &str, state: State) -> ContainerStatus {
    let at = Timestamp::UNIX_EPOCH;
    let exit = Exit { code: ExitCode::Known(0), reason: String::new(), message: String::new(), finished_at: at };
    let state = match state {
        State::Created => ContainerState::Created,
        State::Running => ContainerState::Running { started_at: at },
        State::Exited => ContainerState::Exited { started_at: Some(at), exit },
        State::Unknown => ContainerState::Unknown,
    };
    ContainerStatus {
        id: ContainerId(id.into()),
        sandbox: SandboxId(String::new()),
        pod: uid(pod),
        name: id.into(),
        attempt: 0,
        created_at: at,
        state,
        image_name: String::new(),
        image: ImageId(String::new()),
        log_path: PathBuf::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        uid: None,
    }
}

/// What a status says, by id.
pub(super) fn content(status: &PodRuntimeStatus) -> BTreeMap<String, State> {
    let sandboxes = status.sandboxes.iter().map(|s| (s.info.id.0.clone(), s.info.state.into()));
    let containers = status.containers.iter().map(|c| {
        let phase: minke_core::runtime::ContainerPhase = (&c.state).into();
        (c.id.0.clone(), phase.into())
    });
    sandboxes.chain(containers).collect()
}

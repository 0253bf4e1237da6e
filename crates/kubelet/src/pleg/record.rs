//! What a list shows of one Pod: the state of each sandbox and container, and nothing else.

use std::collections::HashMap;

use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerInfo, ContainerPhase, SandboxInfo, SandboxState};

/// A state as the comparison sees it. Sandboxes are treated like containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A ready sandbox, a running container.
    Running,
    /// A sandbox that is not ready, a container that ended.
    Exited,
    /// A container that is created and was not started yet. Upstream has one state for this and `Unknown`, and so
    /// does not notice when the one becomes the other.
    Created,
    /// A container of which the runtime can't say.
    Unknown,
}

impl From<ContainerPhase> for State {
    fn from(phase: ContainerPhase) -> Self {
        match phase {
            ContainerPhase::Running => Self::Running,
            ContainerPhase::Exited => Self::Exited,
            ContainerPhase::Created => Self::Created,
            ContainerPhase::Unknown => Self::Unknown,
        }
    }
}

impl From<SandboxState> for State {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Ready => Self::Running,
            SandboxState::NotReady => Self::Exited,
        }
    }
}

/// One sandbox or container of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: State,
}

/// One Pod as a list shows it. Items are sorted by id, so that equal content is equal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Its sandboxes.
    pub sandboxes: Vec<Item>,
    /// Its containers.
    pub containers: Vec<Item>,
}

impl Record {
    /// Whether the runtime has nothing of the Pod.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// The state of a sandbox or container; `None`: there is none.
    #[must_use]
    pub fn state(&self, id: &str) -> Option<State> {
        let find = |items: &[Item]| items.binary_search_by(|i| i.id.as_str().cmp(id)).ok().map(|n| items[n].state);
        find(&self.sandboxes).or_else(|| find(&self.containers))
    }

    /// Ids of sandboxes and containers, sandboxes first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.sandboxes.iter().chain(&self.containers).map(|i| i.id.as_str())
    }

    /// Ids and states, sandboxes first.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.sandboxes.iter().chain(&self.containers)
    }
}

/// Sorts lists by Pod.
#[must_use]
pub(super) fn group(sandboxes: &[SandboxInfo], containers: &[ContainerInfo]) -> HashMap<PodUid, Record> {
    let mut records: HashMap<PodUid, Record> = HashMap::new();
    for s in sandboxes {
        let item = Item { id: s.id.0.clone(), state: s.state.into() };
        records.entry(s.pod.uid.clone()).or_default().sandboxes.push(item);
    }
    for c in containers {
        let item = Item { id: c.id.0.clone(), state: c.phase.into() };
        records.entry(c.pod.clone()).or_default().containers.push(item);
    }
    for record in records.values_mut() {
        record.sandboxes.sort_by(|a, b| a.id.cmp(&b.id));
        record.containers.sort_by(|a, b| a.id.cmp(&b.id));
    }
    records
}

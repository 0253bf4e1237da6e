//! Deciding over proposed changes, several a commit.
//!
//! A batch sees the published state with its own accepted changes on top: the second of two writers of one object in one
//! commit is refused as it would be in the next one. Nothing is visible to readers before the commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::entry::{Attributes, Draft, Entry, Event, EventKind, Previous};
use super::key::Key;
use super::ring::{HistoryLimits, Ring};
use super::state::State;

/// What the writer believes to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// The object at this revision.
    Revision(u64),
}

/// What is to become of the object.
#[derive(Debug, Clone)]
pub enum Change {
    /// It is to be this.
    Put(Draft, Arc<Attributes>),
    /// It is to go. Watchers see this as its last state; `None` is what is stored.
    Delete(Option<Draft>),
}

/// A change that someone wants.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Of which object.
    pub key: Key,
    /// Only if this is so.
    pub expect: Expect,
    /// And this other object is still at this revision: a namespace that must not end meanwhile.
    pub guard: Option<(Key, u64)>,
    /// What to do.
    pub change: Change,
}

/// Why a change was not made. Nothing has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The object was expected to be absent and is there.
    #[error("it exists at revision {0}")]
    Exists(u64),
    /// The object was expected to be there and isn't.
    #[error("it does not exist")]
    Absent,
    /// The object is at another revision.
    #[error("it is at revision {0} now")]
    Changed(u64),
    /// The guarding object has changed or gone.
    #[error("{0} has changed")]
    Guard(Key),
}

/// What a batch asks of the log: all of it or nothing.
#[derive(Debug, Default)]
pub struct Commit {
    /// The changes, by ascending revision.
    pub events: Vec<Arc<Event>>,
    /// The newest revision after them.
    pub revision: u64,
    /// Changes that history forgets.
    pub forgotten: Vec<u64>,
    /// By resource: the newest revision that is forgotten.
    pub floors: Vec<(Arc<str>, u64)>,
}

/// Changes accepted so far, for one commit.
#[derive(Debug)]
pub struct Batch {
    revision: u64,
    pending: BTreeMap<Key, Option<Arc<Entry>>>,
    events: Vec<Arc<Event>>,
}

impl Batch {
    /// An empty batch on top of this state.
    #[must_use]
    pub fn new(state: &State) -> Self {
        Self { revision: state.revision(), pending: BTreeMap::new(), events: Vec::new() }
    }

    fn current<'a>(&'a self, state: &'a State, key: &Key) -> Option<&'a Arc<Entry>> {
        match self.pending.get(key) {
            Some(pending) => pending.as_ref(),
            None => state.get(key),
        }
    }

    /// Decides on a change. Accepted ones get the next revision.
    ///
    /// # Errors
    /// What the writer expected is not so; the batch is unchanged.
    pub fn propose(&mut self, state: &State, proposal: Proposal) -> Result<Arc<Event>, Refused> {
        if let Some((key, revision)) = proposal.guard
            && self.current(state, &key).is_none_or(|guard| guard.revision != revision)
        {
            return Err(Refused::Guard(key));
        }
        let current = self.current(state, &proposal.key).cloned();
        match (&current, proposal.expect) {
            (None, Expect::Absent) => {}
            (Some(entry), Expect::Revision(revision)) if entry.revision == revision => {}
            (Some(entry), Expect::Absent) => return Err(Refused::Exists(entry.revision)),
            (Some(entry), Expect::Revision(_)) => return Err(Refused::Changed(entry.revision)),
            (None, Expect::Revision(_)) => return Err(Refused::Absent),
        }
        let revision = self.revision + 1;
        let created = current.as_ref().map_or(revision, |entry| entry.created);
        let (kind, entry) = match (proposal.change, &current) {
            (Change::Put(draft, attributes), current) => {
                let kind = if current.is_some() { EventKind::Modified } else { EventKind::Added };
                (kind, Entry::new(&draft, revision, created, attributes))
            }
            (Change::Delete(_), None) => return Err(Refused::Absent),
            (Change::Delete(last), Some(current)) => {
                let draft = last.unwrap_or_else(|| current.redraft());
                (EventKind::Deleted, Entry::new(&draft, revision, created, current.attributes.clone()))
            }
        };
        let entry = Arc::new(entry);
        let after = match kind {
            EventKind::Added | EventKind::Modified => Some(entry.clone()),
            EventKind::Deleted => None,
        };
        let previous = current.map(|entry| Previous { attributes: entry.attributes.clone(), entry: Some(entry) });
        self.revision = revision;
        self.pending.insert(proposal.key.clone(), after);
        let event = Arc::new(Event { key: proposal.key, kind, entry, previous });
        self.events.push(event.clone());
        Ok(event)
    }

    /// How many changes are accepted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// What to commit, with what history forgets for it.
    #[must_use]
    pub fn finish(self, state: &State, limits: HistoryLimits) -> Commit {
        let mut added: HashMap<Arc<str>, (usize, usize)> = HashMap::new();
        for event in &self.events {
            let sum = added.entry(event.key.resource.clone()).or_default();
            *sum = (sum.0 + 1, sum.1 + event.entry.bytes.len());
        }
        let mut commit = Commit { events: self.events, revision: self.revision, ..Commit::default() };
        for (resource, (count, bytes)) in added {
            let Some(ring) = state.ring(&resource) else { continue };
            let surplus = ring.surplus(count, bytes, limits);
            commit.forgotten.extend(Ring::oldest(ring, surplus));
            if let Some(floor) = ring.oldest(surplus).last() {
                commit.floors.push((resource, floor));
            }
        }
        commit
    }
}

//! What is published: objects, recent history, the newest revision. Pure: changes come only as commits.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::batch::Commit;
use super::entry::{Entry, Event, EventKind};
use super::key::Key;
use super::log::Loaded;
use super::ring::Ring;

type Place = (Arc<str>, Arc<str>);

/// One resource's objects and history.
#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<Place, Arc<Entry>>,
    ring: Ring,
}

/// Objects by resource, namespace and name.
#[derive(Debug)]
pub struct State {
    tables: BTreeMap<Arc<str>, Table>,
    revision: u64,
    /// The newest revision at the last start: what objects were before it is not kept.
    opened: u64,
    /// No history at all up to here, for any resource (after an import).
    floor: u64,
}

/// Why something can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The history does not reach back that far.
    #[error("revision {wanted} is older than the history, which begins after {oldest}")]
    TooOld {
        /// What was asked for.
        wanted: u64,
        /// The oldest revision that can be asked for.
        oldest: u64,
    },
    /// The revision has not been yet.
    #[error("revision {wanted} is newer than the newest, {newest}")]
    TooNew {
        /// What was asked for.
        wanted: u64,
        /// The newest.
        newest: u64,
    },
}

/// Of which moment a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Now.
    Newest,
    /// As it was at this revision.
    Revision(u64),
}

/// Which objects.
#[derive(Debug, Clone)]
pub struct Range<'a> {
    /// Of this resource.
    pub resource: &'a str,
    /// In this namespace, or in all of them.
    pub namespace: Option<&'a str>,
    /// Only those after this namespace and name.
    pub after: Option<(&'a str, &'a str)>,
    /// Not more than this.
    pub limit: Option<usize>,
    /// As of when.
    pub at: At,
}

/// A list, or one part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The revision that it is a picture of.
    pub revision: u64,
    /// The objects, by namespace and name.
    pub entries: Vec<Arc<Entry>>,
    /// Namespace and name of the last one, if there are more.
    pub next: Option<(Arc<str>, Arc<str>)>,
    /// How many more.
    pub remaining: usize,
}

impl State {
    /// What a log had.
    #[must_use]
    pub fn restore(loaded: Loaded) -> Self {
        let mut state =
            Self { tables: BTreeMap::new(), revision: loaded.revision, opened: loaded.revision, floor: loaded.floor };
        for (resource, floor) in loaded.floors {
            state.tables.entry(resource).or_default().ring = Ring::new(floor);
        }
        for (key, entry) in loaded.objects {
            let table = state.tables.entry(key.resource).or_default();
            table.objects.insert((key.namespace, key.name), Arc::new(entry));
        }
        for event in loaded.events {
            let table = state.tables.entry(event.key.resource.clone()).or_default();
            // The object and its newest change are one and the same: kept once.
            let place = (event.key.namespace.clone(), event.key.name.clone());
            let event = match table.objects.get(&place) {
                Some(entry) if entry.revision == event.revision() => Event { entry: entry.clone(), ..event },
                Some(_) | None => event,
            };
            table.ring.push(Arc::new(event));
        }
        state
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object at this place.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.tables.get(&key.resource)?.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    pub(crate) fn ring(&self, resource: &str) -> Option<&Ring> {
        self.tables.get(resource).map(|table| &table.ring)
    }

    /// All objects, by key.
    pub fn all(&self) -> impl Iterator<Item = (Key, &Arc<Entry>)> {
        self.tables.iter().flat_map(|(resource, table)| {
            let key = |place: &Place| Key::new(resource.clone(), place.0.clone(), place.1.clone());
            table.objects.iter().map(move |(place, entry)| (key(place), entry))
        })
    }

    /// The resources that have, or had, objects.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.tables.keys()
    }

    /// How many objects of a resource there are.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.tables.get(resource).map_or(0, |table| table.objects.len())
    }

    /// The oldest revision from which a watch of this resource misses nothing.
    #[must_use]
    pub fn oldest(&self, resource: &str) -> u64 {
        self.ring(resource).map_or(0, Ring::floor).max(self.floor)
    }

    /// Makes a commit visible. The log has it already.
    pub fn publish(&mut self, commit: Commit) {
        for event in commit.events {
            let table = self.tables.entry(event.key.resource.clone()).or_default();
            let place = (event.key.namespace.clone(), event.key.name.clone());
            match event.kind {
                EventKind::Added | EventKind::Modified => {
                    table.objects.insert(place, event.entry.clone());
                }
                EventKind::Deleted => {
                    table.objects.remove(&place);
                }
            }
            table.ring.push(event);
        }
        for (resource, floor) in commit.floors {
            if let Some(table) = self.tables.get_mut(&resource) {
                table.ring.forget(floor);
            }
        }
        self.revision = commit.revision;
    }

    /// The objects in a range that `keep` wants.
    ///
    /// # Errors
    /// The moment asked for is out of the history, or in the future.
    pub fn list(&self, range: &Range<'_>, keep: impl Fn(&str, &str, &Entry) -> bool) -> Result<Page, ReadError> {
        let (revision, past) = match range.at {
            At::Newest => (self.revision, BTreeMap::new()),
            At::Revision(revision) => (revision, self.changed_since(range.resource, revision)?),
        };
        let mut page = Page { revision, entries: Vec::new(), next: None, remaining: 0 };
        let mut last = None;
        let mut take = |place: &Place, entry: &Arc<Entry>| {
            if !keep(&place.0, &place.1, entry) {
                return;
            }
            if range.limit.is_some_and(|limit| page.entries.len() >= limit) {
                page.remaining += 1;
            } else {
                page.entries.push(entry.clone());
                last = Some(place.clone());
            }
        };
        let start = match (range.after, range.namespace) {
            (Some((namespace, name)), _) => Bound::Excluded((Arc::from(namespace), Arc::from(name))),
            (None, Some(namespace)) => Bound::Included((Arc::from(namespace), Arc::from(""))),
            (None, None) => Bound::Unbounded,
        };
        let inside = |place: &Place| range.namespace.is_none_or(|namespace| *place.0 == *namespace);
        let mut past = past.range((start.clone(), Bound::Unbounded)).take_while(|(place, _)| inside(place)).peekable();
        let objects = self.tables.get(range.resource).into_iter();
        let objects = objects.flat_map(|table| table.objects.range((start.clone(), Bound::Unbounded)));
        for (place, entry) in objects.take_while(|(place, _)| inside(place)) {
            while let Some((gone, before)) = past.next_if(|(past, _)| *past < place) {
                before.iter().for_each(|entry| take(gone, entry));
            }
            match past.next_if(|(past, _)| *past == place) {
                Some((place, before)) => before.iter().for_each(|entry| take(place, entry)),
                None => take(place, entry),
            }
        }
        for (gone, before) in past {
            before.iter().for_each(|entry| take(gone, entry));
        }
        page.next = last.filter(|_| page.remaining > 0);
        Ok(page)
    }

    /// What was at each place that has changed after a revision.
    fn changed_since(&self, resource: &str, revision: u64) -> Result<BTreeMap<Place, Option<Arc<Entry>>>, ReadError> {
        let oldest = self.oldest(resource).max(self.opened);
        if revision > self.revision {
            return Err(ReadError::TooNew { wanted: revision, newest: self.revision });
        }
        if revision < oldest {
            return Err(ReadError::TooOld { wanted: revision, oldest });
        }
        let mut past = BTreeMap::new();
        for event in self.ring(resource).into_iter().flat_map(|ring| ring.after(revision)) {
            let place = (event.key.namespace.clone(), event.key.name.clone());
            let before = || event.previous.as_ref().and_then(|previous| previous.entry.clone());
            past.entry(place).or_insert_with(before);
        }
        Ok(past)
    }

    /// All changes of all resources after a revision, those of each object in order.
    ///
    /// # Errors
    /// Some of them are forgotten, or the revision has not been yet.
    pub fn all_changes(&self, after: u64) -> Result<Vec<Arc<Event>>, ReadError> {
        let oldest = self.tables.values().map(|table| table.ring.floor()).max().unwrap_or_default().max(self.floor);
        if after > self.revision {
            return Err(ReadError::TooNew { wanted: after, newest: self.revision });
        }
        if after < oldest {
            return Err(ReadError::TooOld { wanted: after, oldest });
        }
        Ok(self.tables.values().flat_map(|table| table.ring.after(after)).cloned().collect())
    }

    /// Up to `limit` changes of a resource after a revision, in order, and the revision up to which that is all.
    ///
    /// # Errors
    /// Some of them are forgotten, or the revision has not been yet.
    pub fn changes(&self, resource: &str, after: u64, limit: usize) -> Result<(Vec<Arc<Event>>, u64), ReadError> {
        let oldest = self.oldest(resource);
        if after > self.revision {
            return Err(ReadError::TooNew { wanted: after, newest: self.revision });
        }
        if after < oldest {
            return Err(ReadError::TooOld { wanted: after, oldest });
        }
        let events = self.ring(resource).into_iter().flat_map(|ring| ring.after(after));
        let events: Vec<Arc<Event>> = events.take(limit).cloned().collect();
        let seen = match events.last() {
            Some(last) if events.len() == limit => last.revision(),
            Some(_) | None => self.revision,
        };
        Ok((events, seen))
    }
}

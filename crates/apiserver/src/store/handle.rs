//! The store as the engine holds it: cheap to clone, readers never wait for the disk.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot, watch};

use super::batch::{Proposal, Refused};
use super::cursor::Cursor;
use super::entry::{Entry, Event};
use super::key::Key;
use super::log::{Loaded, Log, LogError, MemoryLog};
use super::redb_log::RedbLog;
use super::ring::HistoryLimits;
use super::state::{Page, Range, ReadError, State};
use super::writer::{self, read};

/// Proposals that may wait for the writer; who comes then waits for room.
const QUEUE: usize = 1024;

/// Why a change was not made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// What the writer expected is not so.
    #[error(transparent)]
    Refused(Refused),
    /// The log has failed, now or before; nothing is written until the next start.
    #[error("storage has failed")]
    Failed(#[source] Arc<LogError>),
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: RwLock<State>,
    /// By resource: the newest revision at which it changed, for those who wait for changes.
    wakers: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
    failure: OnceLock<Arc<LogError>>,
    /// The newest revision, for whoever waits for any change.
    newest: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(crate) fn failed(&self) -> Option<StoreError> {
        self.failure.get().cloned().map(StoreError::Failed)
    }

    pub(crate) fn fail(&self, error: LogError) -> StoreError {
        tracing::error!(error = %minke_core::runtime::error_chain(&error), "the store's log has failed; nothing is written any more");
        StoreError::Failed(self.failure.get_or_init(|| Arc::new(error)).clone())
    }

    pub(crate) fn wake(&self, resources: &[Arc<str>], revision: u64) {
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        for waker in resources.iter().filter_map(|resource| wakers.get(resource)) {
            waker.send_replace(revision);
        }
        self.newest.send_replace(revision);
    }

    pub(crate) fn waker(&self, resource: &str) -> watch::Receiver<u64> {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        match wakers.get(resource) {
            Some(waker) => waker.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(0);
                wakers.insert(resource.into(), sender);
                receiver
            }
        }
    }
}

/// Revisioned objects. The last handle that goes ends the writer, after what waits is done.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    requests: mpsc::Sender<writer::Request>,
    limits: HistoryLimits,
}

impl Store {
    /// A store on a file, new or as the last server left it.
    ///
    /// # Errors
    /// See [`RedbLog::open`].
    pub fn open(path: &Path, limits: HistoryLimits) -> Result<Self, LogError> {
        let (log, loaded) = RedbLog::open(path)?;
        Ok(Self::start(loaded, log, limits))
    }

    /// A store that forgets everything when it ends.
    #[must_use]
    pub fn in_memory(limits: HistoryLimits) -> Self {
        Self::start(Loaded::default(), MemoryLog, limits)
    }

    /// A store over any log, with what it had.
    pub fn start(loaded: Loaded, mut log: impl Log, limits: HistoryLimits) -> Self {
        let shared = Arc::new(Shared {
            state: RwLock::new(State::restore(loaded)),
            wakers: Mutex::default(),
            failure: OnceLock::new(),
            newest: watch::Sender::new(0),
        });
        let (requests, mut receiver) = mpsc::channel(QUEUE);
        let writing = shared.clone();
        let thread = std::thread::Builder::new().name("api-writer".to_owned());
        let spawned = thread.spawn(move || writer::run(&writing, &mut log, limits, &mut receiver));
        if let Err(error) = spawned {
            // The receiver is gone with the closure: every write answers that the store is closed.
            tracing::error!(%error, "can't start the store's writer");
        }
        Self { shared, requests, limits }
    }

    /// Asks for a change and waits until it is durable. Not undone by dropping the future: a change that was handed over may
    /// still be made.
    ///
    /// # Errors
    /// The change was refused, or storage has failed.
    pub async fn propose(&self, proposal: Proposal) -> Result<Arc<Event>, StoreError> {
        let (sender, answer) = oneshot::channel();
        self.requests.send((proposal, sender)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// The object at this place.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        read(&self.shared.state).get(key).cloned()
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        read(&self.shared.state).revision()
    }

    /// How much history is kept.
    #[must_use]
    pub fn limits(&self) -> HistoryLimits {
        self.limits
    }

    /// Why nothing can be written, if so.
    #[must_use]
    pub fn failure(&self) -> Option<StoreError> {
        self.shared.failed()
    }

    /// The objects in a range; see [`State::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, range: &Range<'_>, keep: impl Fn(&str, &str, &Entry) -> bool) -> Result<Page, ReadError> {
        read(&self.shared.state).list(range, keep)
    }

    /// How many objects of a resource there are.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        read(&self.shared.state).count(resource)
    }

    /// All changes of all resources after a revision, and the revision up to which that is all: one moment for all of them.
    ///
    /// # Errors
    /// Some of them are forgotten, or the revision has not been yet.
    pub(crate) fn all_changes(&self, after: u64) -> Result<(Vec<Arc<Event>>, u64), ReadError> {
        let state = read(&self.shared.state);
        Ok((state.all_changes(after)?, state.revision()))
    }

    /// All objects of one moment, and its revision.
    #[must_use]
    pub(crate) fn everything(&self) -> (Vec<(Key, Arc<Entry>)>, u64) {
        let state = read(&self.shared.state);
        (state.all().map(|(key, entry)| (key, entry.clone())).collect(), state.revision())
    }

    /// The changes of a resource after a revision, from now on.
    ///
    /// # Errors
    /// Some of them are forgotten, or the revision has not been yet.
    pub fn watch(&self, resource: &str, after: u64) -> Result<Cursor, ReadError> {
        Cursor::new(self.clone(), resource, after)
    }
}

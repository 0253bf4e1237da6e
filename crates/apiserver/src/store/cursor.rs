//! A watch as a place in history: pulls, holds no buffer.

use std::sync::Arc;

use tokio::sync::watch;

use super::entry::Event;
use super::handle::Store;
use super::state::ReadError;
use super::writer::read;

/// Changes that are taken at once: what a lock is held for.
const AT_ONCE: usize = 256;

/// Sees every change of a resource after a revision, once, in order.
#[derive(Debug)]
pub struct Cursor {
    store: Store,
    resource: Arc<str>,
    seen: u64,
    waker: watch::Receiver<u64>,
}

impl Cursor {
    pub(crate) fn new(store: Store, resource: &str, after: u64) -> Result<Self, ReadError> {
        // Before the look at history: a change in between wakes.
        let waker = store.shared.waker(resource);
        read(&store.shared.state).changes(resource, after, 0)?;
        Ok(Self { store, resource: resource.into(), seen: after, waker })
    }

    /// The revision up to which everything has been handed out.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What has happened since the last call; empty if nothing has.
    ///
    /// # Errors
    /// The cursor was left behind by history.
    pub fn take(&mut self) -> Result<Vec<Arc<Event>>, ReadError> {
        self.waker.mark_unchanged();
        let (events, seen) = read(&self.store.shared.state).changes(&self.resource, self.seen, AT_ONCE)?;
        self.seen = seen;
        Ok(events)
    }

    /// Waits for changes and takes them; never empty. Cancel-safe: what was not returned comes again.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, ReadError> {
        loop {
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            // The sender is in the store that this cursor holds.
            drop(self.waker.changed().await);
        }
    }
}

//! The durable half of the store, as a port.

use std::sync::Arc;

use super::batch::Commit;
use super::entry::{Entry, Event};
use super::key::Key;

/// What a log had when it was opened.
#[derive(Debug)]
pub struct Loaded {
    /// The newest revision; 1 for a new log, since 0 means "any" to clients.
    pub revision: u64,
    /// No history up to here.
    pub floor: u64,
    /// By resource: the newest revision that is forgotten.
    pub floors: Vec<(Arc<str>, u64)>,
    /// Every object.
    pub objects: Vec<(Key, Entry)>,
    /// History by ascending revision.
    pub events: Vec<Event>,
}

impl Default for Loaded {
    fn default() -> Self {
        Self { revision: 1, floor: 0, floors: Vec::new(), objects: Vec::new(), events: Vec::new() }
    }
}

/// Why the log failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The data base can't be opened: another server has it, or it is damaged.
    #[error("can't open the log {path}; is another server using it?")]
    Open {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: Box<redb::DatabaseError>,
    },
    /// Reading or writing failed.
    #[error("the log failed; see that its disk has room and is sound, then start again")]
    Storage(#[source] Box<redb::Error>),
    /// A row is not what this version writes.
    #[error("the log has a row in {table} that can't be read; restore it from an export")]
    Damaged {
        /// Which table.
        table: &'static str,
    },
    /// The log was written by a newer version.
    #[error("the log has format {found}, this version knows {known}; use the newer version")]
    Format {
        /// What was found.
        found: u64,
        /// What is known.
        known: u64,
    },
}

/// A durable log.
pub trait Log: Send + 'static {
    /// Makes all of a commit durable, or nothing of it. When this returns, a power cut loses nothing.
    ///
    /// # Errors
    /// Nobody knows how much is durable; nothing may be committed after it.
    fn commit(&mut self, commit: &Commit) -> Result<(), LogError>;
}

/// A log that keeps nothing: tests, and servers that may forget.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryLog;

impl Log for MemoryLog {
    fn commit(&mut self, _commit: &Commit) -> Result<(), LogError> {
        Ok(())
    }
}

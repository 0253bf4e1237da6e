//! Revisioned objects: the truth in memory as serialized bytes, a durable log below it.
//!
//! ```text
//! engine ── Proposal ──► writer (one thread) ── Batch::propose ──► Batch   decisions, pure
//!                          │  as many as wait: one commit             │
//!                          ▼                                          ▼
//!                        Log (redb) ── fsync ──► State::publish ──► readers, cursors, the answer
//! ```
//!
//! - [`State`] and [`Batch`] decide over data: who may write, which revision it gets, what history forgets.
//! - The writer performs: it commits a batch to the [`Log`] and publishes it only then. What was answered is on disk; what
//!   readers see is on disk. A commit that fails ends writing until the next start, since nobody knows how much of it is
//!   there.
//! - Revisions are decimal, grow by one a change, over all resources, and are never given twice: the newest one is part of the
//!   transaction that it names.
//! - History is a bounded ring a resource, on disk too, so a watch goes on across a restart. What is older is
//!   [`TooOld`](ReadError::TooOld).
//! - A watch is a [`Cursor`]: it pulls from the ring and holds no buffer, so a slow watcher costs nothing and falls behind
//!   until it is too old.

mod batch;
mod cursor;
mod entry;
mod export;
mod handle;
mod key;
mod log;
mod redb_log;
mod ring;
pub(crate) mod row;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::{Batch, Change, Commit, Expect, Proposal, Refused};
pub use cursor::Cursor;
pub use entry::{Attributes, Draft, Entry, Event, EventKind, Previous};
pub use export::{ExportError, ImportError};
pub use handle::{Store, StoreError};
pub use key::Key;
pub use log::{Loaded, Log, LogError, MemoryLog};
pub use redb_log::RedbLog;
pub use ring::HistoryLimits;
pub use state::{At, Page, Range, ReadError, State};

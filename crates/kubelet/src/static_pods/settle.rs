//! Which files are being written: a pure rule over what the kernel tells of a directory.
//!
//! A file that is half written may be a valid manifest of something else, so one that is open for writing counts with
//! what it said before, until its writer closes it. What is moved into place is whole at once. A writer that forgets to
//! close, or goes on for ever, is not waited for longer than [`LONGEST_WRITE`] after its last words.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use tokio::time::Instant;

/// A file that was made and not written to may be a link, or a file that stays empty.
const NEW_FILE: Duration = Duration::from_secs(1);
/// Longest pause of a writer.
const LONGEST_WRITE: Duration = Duration::from_secs(30);

/// What the kernel tells of a name in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is new.
    Made,
    /// Something was written.
    Written,
    /// It is whole: closed after writing, moved into place, its mode changed; or gone.
    Whole,
}

/// The files that are being written.
#[derive(Debug, Default)]
pub(super) struct Settling {
    open: BTreeMap<OsString, Instant>,
}

impl Settling {
    /// Takes note of a change.
    pub(super) fn saw(&mut self, name: &OsStr, change: Change, now: Instant) {
        match change {
            Change::Made => drop(self.open.insert(name.to_owned(), now + NEW_FILE)),
            Change::Written => drop(self.open.insert(name.to_owned(), now + LONGEST_WRITE)),
            Change::Whole => drop(self.open.remove(name)),
        }
    }

    /// Whether a file can be read; those that are waited for no longer are forgotten.
    pub(super) fn is_settled(&mut self, name: &OsStr, now: Instant) -> bool {
        match self.open.get(name) {
            Some(until) if now < *until => false,
            Some(_) => {
                self.open.remove(name);
                true
            }
            None => true,
        }
    }

    /// When the next file is read although its writer has not closed it.
    pub(super) fn next(&self) -> Option<Instant> {
        self.open.values().min().copied()
    }

    /// What was seen so far is worth nothing: news were lost.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_when_its_writer_has_closed_it() {
        let (name, now) = (OsStr::new("web.yaml"), Instant::now());
        let mut settling = Settling::default();
        assert!(settling.is_settled(name, now));
        settling.saw(name, Change::Made, now);
        assert!(!settling.is_settled(name, now));
        assert!(settling.is_settled(OsStr::new("other.yaml"), now));
        settling.saw(name, Change::Written, now);
        assert!(!settling.is_settled(name, now + NEW_FILE), "it is not only new");
        settling.saw(name, Change::Whole, now);
        assert!(settling.is_settled(name, now));
        assert_eq!(settling.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_read_soon_and_an_endless_writer_is_not_waited_for() {
        let now = Instant::now();
        let mut settling = Settling::default();
        settling.saw(OsStr::new("link"), Change::Made, now);
        settling.saw(OsStr::new("endless"), Change::Written, now);
        assert_eq!(settling.next(), Some(now + NEW_FILE));
        assert!(settling.is_settled(OsStr::new("link"), now + NEW_FILE));
        assert_eq!(settling.next(), Some(now + LONGEST_WRITE));
        assert!(settling.is_settled(OsStr::new("endless"), now + LONGEST_WRITE));
        settling.saw(OsStr::new("x"), Change::Written, now);
        settling.forget();
        assert!(settling.is_settled(OsStr::new("x"), now));
    }
}

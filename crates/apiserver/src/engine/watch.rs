//! Watches: what is there now if asked for, then every change, filtered by a selection; bookmarks; an end.
//!
//! An object that comes into a selection is ADDED, one that leaves it is DELETED with its last state inside. A watch ends at
//! its deadline, or with an error that the client starts anew after.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::unreadable;
use super::options::{ListOptions, not_too_new};
use super::selector::Selection;
use super::{Engine, RevisionMatch};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::store::{At, Cursor, Entry, Event, EventKind, Range};

/// How often a watch that sees nothing says how far it is.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long before its end a watch says so.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchItem {
    /// It is there, or is selected now.
    Added(Arc<Entry>),
    /// It has changed.
    Modified(Arc<Entry>),
    /// It is gone, or is not selected any more.
    Deleted(Arc<Entry>),
    /// Everything up to this revision has been told.
    Bookmark {
        /// The revision.
        revision: u64,
        /// Whether this ends what was there at the beginning.
        initial_end: bool,
    },
    /// The watch can't go on; it ends.
    Error(ApiError),
}

/// A running watch.
#[derive(Debug)]
pub struct Watch {
    cursor: Cursor,
    selection: Selection,
    namespace: Option<String>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Told first.
    initial: Vec<WatchItem>,
    ended: bool,
}

/// What an event is to a selection.
fn select(event: &Event, selects: impl Fn(&crate::store::Attributes) -> bool) -> Option<WatchItem> {
    let was = event.previous.as_ref().is_some_and(|previous| selects(&previous.attributes));
    let is = match event.kind {
        EventKind::Added | EventKind::Modified => selects(&event.entry.attributes),
        EventKind::Deleted => false,
    };
    match (was, is) {
        (false, false) => None,
        (false, true) => Some(WatchItem::Added(event.entry.clone())),
        (true, true) => Some(WatchItem::Modified(event.entry.clone())),
        (true, false) => Some(WatchItem::Deleted(match (event.kind, &event.previous) {
            (EventKind::Added | EventKind::Modified, Some(previous)) => match &previous.entry {
                // As it was when it was selected, at the revision at which it no longer is.
                Some(old) => {
                    let (draft, revision) = (old.redraft(), event.revision());
                    Arc::new(Entry::new(&draft, revision, old.created, old.attributes.clone()))
                }
                None => event.entry.clone(),
            },
            (EventKind::Added | EventKind::Modified | EventKind::Deleted, _) => event.entry.clone(),
        })),
    }
}

impl Engine {
    /// Watches a kind, in one namespace or in all.
    ///
    /// # Errors
    /// 410 if the revision is forgotten, 422 for options that contradict each other, 504 for a revision that has not been yet.
    pub fn watch(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, ApiError> {
        options.check_watch()?;
        let resource = kind.resource();
        let wanted = options.resource_version.unwrap_or(0);
        let initial_events = match options.watch.initial_events {
            Some(wanted) => wanted,
            // Without a revision a watch begins with what is there: older than the option, and without its bookmark.
            None => wanted == 0,
        };
        not_too_new(wanted, self.store.revision())?;
        let (start, initial) = if initial_events {
            let range = Range { resource: &resource, namespace, after: None, limit: None, at: At::Newest };
            let keep = |namespace: &str, name: &str, entry: &Entry| {
                options.selection.matches(namespace, name, &entry.attributes)
            };
            let page = self.store.list(&range, keep).map_err(unreadable)?;
            let mut initial: Vec<WatchItem> = page.entries.into_iter().map(WatchItem::Added).collect();
            if options.revision_match == Some(RevisionMatch::NotOlderThan) {
                initial.push(WatchItem::Bookmark { revision: page.revision, initial_end: true });
            }
            (page.revision, initial)
        } else if wanted == 0 {
            (self.store.revision(), Vec::new())
        } else {
            (wanted, Vec::new())
        };
        let cursor = self.store.watch(&resource, start).map_err(unreadable)?;
        let now = Instant::now();
        let timeout = match options.watch.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.min(24 * 3600)),
            Some(_) | None => unasked_timeout(),
        };
        Ok(Watch {
            cursor,
            selection: options.selection.clone(),
            namespace: namespace.map(str::to_owned),
            bookmarks: options.watch.bookmarks,
            next_bookmark: now + BOOKMARKS.min(timeout.saturating_sub(LAST_BOOKMARK)),
            deadline: now + timeout,
            initial,
            ended: false,
        })
    }
}

/// Half an hour to an hour, so that watches of one moment don't all end in one moment.
fn unasked_timeout() -> Duration {
    let mut byte = [0u8];
    // Without random bytes they all end together, which is no reason to refuse a watch.
    if getrandom::fill(&mut byte).is_err() {
        byte[0] = 0;
    }
    Duration::from_secs(1800 + u64::from(byte[0]) * 7)
}

impl Watch {
    /// What has happened since the last call, in order, never empty; `None` when the watch has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Vec<WatchItem>> {
        if !self.initial.is_empty() {
            return Some(std::mem::take(&mut self.initial));
        }
        while !self.ended {
            let wake = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
            let events = match tokio::time::timeout_at(wake, self.cursor.next()).await {
                Ok(Ok(events)) => events,
                Ok(Err(error)) => {
                    self.ended = true;
                    return Some(vec![WatchItem::Error(unreadable(error))]);
                }
                Err(_) => {
                    let now = Instant::now();
                    if now >= self.deadline {
                        self.ended = true;
                        break;
                    }
                    let last = self.deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
                    self.next_bookmark = (now + BOOKMARKS).min(last.unwrap_or(self.deadline));
                    return Some(vec![WatchItem::Bookmark { revision: self.cursor.seen(), initial_end: false }]);
                }
            };
            let items: Vec<WatchItem> = events.iter().filter_map(|event| self.item(event)).collect();
            if !items.is_empty() {
                return Some(items);
            }
        }
        None
    }

    fn item(&self, event: &Event) -> Option<WatchItem> {
        let (namespace, name) = (&*event.key.namespace, &*event.key.name);
        if self.namespace.as_deref().is_some_and(|wanted| wanted != namespace) {
            return None;
        }
        select(event, |attributes| self.selection.matches(namespace, name, attributes))
    }
}

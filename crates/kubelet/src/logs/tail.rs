//! Follows the logs of many containers at once: the kernel says which directories changed (inotify), and only those
//! are read. Where the kernel has no watch to give, everything is looked at every now and then.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;

use super::line::Line;
use super::reader::{Attempts, Reader};

/// How often directories without a watch are looked at.
const POLL: Duration = Duration::from_millis(200);

/// Which container, as the caller counts them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    /// The Pod's uid.
    pub pod: String,
    /// The container.
    pub container: String,
}

#[derive(Debug)]
struct Source<L> {
    reader: Reader,
    label: L,
    watched: bool,
}

/// The logs that are followed, each with what its caller wants to know of a line's source.
#[derive(Debug)]
pub struct Tail<L> {
    sources: HashMap<SourceKey, Source<L>>,
    inotify: Option<AsyncFd<OwnedFd>>,
    watches: HashMap<i32, SourceKey>,
    dirty: HashSet<SourceKey>,
}

impl<L: Clone> Default for Tail<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Clone> Tail<L> {
    /// Follows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        #[expect(deprecated, reason = "its unsafe successor asks for what an OwnedFd that nobody else has gives")]
        let register = AsyncFd::<OwnedFd>::new;
        let inotify = inotify::init(flags).map_err(io::Error::from).and_then(register);
        let inotify = inotify
            .inspect_err(|error| tracing::debug!(%error, "no inotify; looking at logs now and then instead"))
            .ok();
        Self { sources: HashMap::new(), inotify, watches: HashMap::new(), dirty: HashSet::new() }
    }

    /// Follows one more container, whose log directory need not exist yet. The second time does nothing.
    pub fn add(&mut self, key: SourceKey, directory: &Path, attempts: Attempts, label: L) {
        if self.sources.contains_key(&key) {
            return;
        }
        self.continue_with(key, Reader::new(directory, attempts), label);
    }

    /// Follows a container whose log was read up to here.
    pub fn continue_with(&mut self, key: SourceKey, reader: Reader, label: L) {
        let watched = self.watch(&key, reader.directory());
        self.dirty.insert(key.clone());
        self.sources.insert(key, Source { reader, label, watched });
    }

    /// Whether anything is followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    fn watch(&mut self, key: &SourceKey, directory: &Path) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let what = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        match inotify::add_watch(inotify.get_ref(), directory, what) {
            Ok(watch) => {
                self.watches.insert(watch, key.clone());
                true
            }
            // Not there yet, or no more watches: looked at every now and then.
            Err(_) => false,
        }
    }

    /// Waits until there may be something to read. Cancel-safe.
    pub async fn changed(&mut self) {
        if !self.dirty.is_empty() {
            return;
        }
        let all_watched = self.sources.values().all(|s| s.watched);
        let poll = async { if all_watched { std::future::pending().await } else { tokio::time::sleep(POLL).await } };
        let readable = async {
            match &self.inotify {
                Some(fd) => fd.readable().await.map(|mut guard| guard.clear_ready()),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = poll => {
                self.dirty.extend(self.sources.iter().filter(|(_, s)| !s.watched).map(|(k, _)| k.clone()));
            }
            ready = readable => {
                if ready.is_err() || self.take_events().is_err() {
                    // Events were lost or can't be read any more: look at everything.
                    self.dirty.extend(self.sources.keys().cloned());
                }
            }
        }
    }

    fn take_events(&mut self) -> io::Result<()> {
        let Some(inotify) = &self.inotify else { return Ok(()) };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(inotify.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) => {
                    return Err(io::Error::other("events were lost"));
                }
                Ok(event) => {
                    if let Some(key) = self.watches.get(&event.wd()) {
                        self.dirty.insert(key.clone());
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Reads a piece of what there is in each directory that changed. Where there is more, [`Self::changed`] returns at
    /// once, so that a log that grows faster than it is taken costs no memory.
    pub fn read(&mut self, emit: &mut dyn FnMut(&L, Line)) {
        for key in std::mem::take(&mut self.dirty) {
            if self.read_one(&key, emit) {
                self.dirty.insert(key);
            }
        }
    }

    /// Whether there is something to read that is known of.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Looks at everything the next time.
    pub fn look_again(&mut self) {
        self.dirty.extend(self.sources.keys().cloned());
    }

    /// Reads the rest of a container's log: nothing will be written any more.
    pub fn finish(&mut self, key: &SourceKey, emit: &mut dyn FnMut(&L, Line)) {
        while self.read_one(key, emit) {}
        if let Some(mut source) = self.sources.remove(key) {
            let label = source.label.clone();
            source.reader.finish(&mut |line| emit(&label, line));
        }
        self.dirty.remove(key);
    }

    /// Reads the rest of everything.
    pub fn finish_all(&mut self, emit: &mut dyn FnMut(&L, Line)) {
        let mut keys: Vec<SourceKey> = self.sources.keys().cloned().collect();
        keys.sort();
        for key in keys {
            self.finish(&key, emit);
        }
    }

    /// Returns whether there may be more.
    fn read_one(&mut self, key: &SourceKey, emit: &mut dyn FnMut(&L, Line)) -> bool {
        let Some(mut source) = self.sources.remove(key) else { return false };
        let directory = source.reader.directory().to_owned();
        if !source.watched {
            // Watched first and read then: what is written in between is told.
            source.watched = self.watch(key, &directory);
        }
        let label = source.label.clone();
        let more = source.reader.read_piece(&mut |line| emit(&label, line)).unwrap_or_else(|error| {
            tracing::warn!(%error, directory = %directory.display(), "can't read a log");
            false
        });
        self.sources.insert(key.clone(), source);
        more
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn key(container: &str) -> SourceKey {
        SourceKey { pod: "u1".to_owned(), container: container.to_owned() }
    }

    fn append(directory: &Path, text: &str) {
        let mut file = std::fs::File::options().create(true).append(true).open(directory.join("0.log")).unwrap();
        writeln!(file, "2026-01-01T00:00:00Z stdout F {text}").unwrap();
    }

    async fn until(tail: &mut Tail<&str>, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let wait = async {
            while lines.len() < count {
                tail.changed().await;
                tail.read(&mut |_, line| lines.push(String::from_utf8(line.text).unwrap()));
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.expect("the lines should have come");
        lines
    }

    #[tokio::test]
    async fn lines_come_as_they_are_written_also_from_a_directory_that_is_made_later() {
        let directory = tempfile::tempdir().unwrap();
        let (early, late) = (directory.path().join("early"), directory.path().join("late"));
        std::fs::create_dir(&early).unwrap();
        let mut tail = Tail::new();
        tail.add(key("early"), &early, Attempts::From(0), "early");
        tail.add(key("late"), &late, Attempts::From(0), "late");
        append(&early, "one");
        assert_eq!(until(&mut tail, 1).await, ["one"]);
        std::fs::create_dir(&late).unwrap();
        append(&late, "two");
        assert_eq!(until(&mut tail, 1).await, ["two"]);
        append(&late, "three");
        assert_eq!(until(&mut tail, 1).await, ["three"]);
    }

    #[tokio::test]
    async fn the_end_brings_the_unfinished_line() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("0.log"), "2026-01-01T00:00:00Z stdout P half\n").unwrap();
        let mut tail = Tail::new();
        tail.add(key("a"), directory.path(), Attempts::From(0), "a");
        let mut lines = Vec::new();
        tail.finish_all(&mut |_, line| lines.push(String::from_utf8(line.text).unwrap()));
        assert_eq!(lines, ["half"]);
        assert!(tail.is_empty());
    }
}

//! The kernel's word about a directory (inotify). It is a hint: the directory is listed every so often as well.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::settle::Change;

/// What was told of a directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Names and what happened to them, in order.
    pub(super) changes: Vec<(OsString, Change)>,
    /// Some news were lost.
    pub(super) lost: bool,
    /// The directory itself is gone, and nothing more will be told.
    pub(super) gone: bool,
}

/// A watched directory.
#[derive(Debug)]
pub(super) struct Watch {
    descriptor: AsyncFd<OwnedFd>,
}

impl Watch {
    /// Begins to watch.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let descriptor = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&descriptor, directory, flags)?;
        #[expect(deprecated, reason = "its unsafe successor asks for what an OwnedFd that nobody else has gives")]
        let register = AsyncFd::<OwnedFd>::with_interest;
        Ok(Self { descriptor: register(descriptor, Interest::READABLE)? })
    }

    /// The next news, all there are. Cancel-safe: a dropped call takes none.
    pub(super) async fn next(&self) -> io::Result<News> {
        loop {
            let mut ready = self.descriptor.readable().await?;
            let mut news = News::default();
            match take(self.descriptor.get_ref(), &mut news) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
            if news != News::default() {
                return Ok(news);
            }
        }
    }
}

/// Takes what there is; `WOULDBLOCK` tells that nothing is left.
fn take(descriptor: &OwnedFd, news: &mut News) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(descriptor, &mut buffer);
    loop {
        let event = reader.next()?;
        let (flags, name) = (event.events(), event.file_name());
        news.lost |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
        news.gone |= flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED);
        let Some(name) = name else { continue };
        let change = if flags.contains(ReadFlags::CREATE) {
            Change::Made
        } else if flags.contains(ReadFlags::MODIFY) {
            Change::Written
        } else if flags.contains(ReadFlags::ATTRIB) {
            // A writer that also changes the mode has not closed the file by that.
            continue;
        } else {
            Change::Whole
        };
        news.changes.push((OsStr::from_bytes(name.to_bytes()).to_owned(), change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(watch: &Watch, count: usize) -> Vec<(String, Change)> {
        let mut found = Vec::new();
        while found.len() < count {
            let news = watch.next().await.unwrap();
            found.extend(news.changes.into_iter().map(|(n, c)| (n.to_str().unwrap().to_owned(), c)));
        }
        found
    }

    #[tokio::test]
    async fn writing_moving_and_deleting_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new(directory.path()).unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&a, "x").unwrap();
        std::fs::rename(&a, &b).unwrap();
        std::fs::remove_file(&b).unwrap();
        let told = all(&watch, 6).await;
        let told: Vec<_> = told.iter().map(|(name, change)| (name.as_str(), *change)).collect();
        use Change::{Made, Whole, Written};
        assert_eq!(told, [("a", Made), ("a", Written), ("a", Whole), ("a", Whole), ("b", Whole), ("b", Whole)]);
        std::fs::remove_dir(directory.path()).unwrap();
        assert!(watch.next().await.unwrap().gone);
    }

    #[tokio::test]
    async fn what_is_no_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Watch::new(file.path()).is_err());
        assert!(Watch::new(Path::new("/nonexistent")).is_err());
    }
}

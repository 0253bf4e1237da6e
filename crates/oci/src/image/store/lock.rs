//! `flock` with the few ways in which the store uses it. A lock ends with its file.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::Inner;
use crate::image::StoreError;

/// Waits for a lock.
fn wait(file: &File, operation: FlockOperation) -> io::Result<()> {
    rustix::io::retry_on_intr(|| flock(file, operation)).map_err(io::Error::from)
}

/// Takes a lock at once, or says that somebody else has it.
pub(super) fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match wait(file, operation) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether `path` still leads to the open file: it may have been removed or replaced before the lock was taken.
pub(super) fn is_current(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match path.symlink_metadata() {
        Ok(theirs) => Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The store's lock, held until dropped.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
}

impl Inner {
    /// The store's lock, shared: nothing that is in the store goes while it is held.
    pub(super) fn lock_shared(&self) -> Result<StoreLock, StoreError> {
        self.lock(FlockOperation::LockShared)
    }

    /// The store's lock, exclusive: nothing is added or leased while it is held.
    pub(super) fn lock_exclusive(&self) -> Result<StoreLock, StoreError> {
        self.lock(FlockOperation::LockExclusive)
    }

    fn lock(&self, operation: FlockOperation) -> Result<StoreLock, StoreError> {
        let path = self.dir("lock");
        let take = || {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            wait(&file, operation)?;
            Ok(StoreLock { _file: file })
        };
        take().map_err(StoreError::io("lock", &path))
    }
}

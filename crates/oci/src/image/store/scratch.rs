//! Directories for work in progress.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::{Inner, files, lock};
use crate::image::StoreError;

/// A directory below `tmp/`, removed on drop; if this process dies first, by the next sweep.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Tells sweepers that somebody works here.
    _lock: File,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        discard(&self.path);
    }
}

/// Deletes a tree that is no longer part of the store. What can't be deleted now is left to the next sweep.
pub(super) fn discard(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "can't remove a scratch directory");
    }
}

impl Inner {
    /// A new scratch directory.
    pub(crate) fn scratch(&self) -> Result<Scratch, StoreError> {
        let parent = self.dir("tmp");
        let guard = self.lock_shared()?;
        let make = || {
            let dir = tempfile::Builder::new().prefix("work-").tempdir_in(&parent)?;
            let lock = File::open(dir.path())?;
            lock::try_lock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(Scratch { path: dir.keep(), _lock: lock })
        };
        let scratch = make().map_err(StoreError::io("create a directory in", &parent));
        drop(guard);
        scratch
    }

    /// Moves something of the store into a scratch directory, out of everybody's sight, to be deleted there.
    pub(super) fn evict(&self, path: &Path, into: &Scratch) -> Result<(), StoreError> {
        let Some(name) = path.file_name() else {
            return Ok(());
        };
        std::fs::rename(path, into.path().join(name)).map_err(StoreError::io("remove", path))
    }

    /// Deletes what dead processes left in `tmp/` and `locks/`.
    pub(super) fn sweep(&self) -> Result<(), StoreError> {
        let tmp = self.dir("tmp");
        let guard = self.lock_exclusive()?;
        let mut dead = Vec::new();
        for name in files::list(&tmp)? {
            let path = tmp.join(name);
            let Ok(file) = File::open(&path) else { continue };
            if !file.metadata().is_ok_and(|meta| meta.is_dir()) {
                // Files are written under the shared lock only, so whoever wrote this one is dead.
                files::remove(&path)?;
            } else if lock::try_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap_or(false) {
                dead.push((path, file));
            }
        }
        drop(guard);
        for (path, _lock) in &dead {
            tracing::info!(path = %path.display(), "removing what an interrupted pull left behind");
            discard(path);
        }
        Ok(())
    }
}

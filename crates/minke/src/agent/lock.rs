//! One agent a state directory: a file lock that the kernel drops with its holder, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A lock that could not be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// The file can't be made or locked.
    #[error("can't lock {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has it.
    #[error("{path} is locked by {}", holder.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// The file.
        path: PathBuf,
        /// Its holder, as far as the file says.
        holder: Option<u32>,
    },
}

/// A lock, held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock if it is free, and writes this process's id into the file.
    pub(crate) fn try_take(path: &Path) -> Result<Self, LockError> {
        Self::take(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for the lock. Blocks the thread.
    pub(crate) fn wait(path: &Path) -> Result<Self, LockError> {
        Self::take(path, FlockOperation::LockExclusive)
    }

    fn take(path: &Path, operation: FlockOperation) -> Result<Self, LockError> {
        let io = |source: io::Error| LockError::Io { path: path.to_owned(), source };
        // Never truncated on opening: the holder's id must stay readable for those who don't get the lock.
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(io)?;
        loop {
            match flock(&file, operation) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(LockError::Held { path: path.to_owned(), holder: read_holder(&mut file) });
                }
                Err(errno) => return Err(io(errno.into())),
            }
        }
        let id = format!("{}\n", std::process::id());
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(id.as_bytes())).map_err(io)?;
        Ok(Self { _file: file })
    }
}

impl Lock {
    /// Keeps it as long as this process lives: what is on its way out at the end of an agent, a session that somebody has
    /// joined for one, uses the runtime until then.
    pub(crate) fn until_exit(self) {
        std::mem::forget(self);
    }
}

/// Waits for the lock for so long, without blocking the runtime's thread.
pub(crate) async fn wait_bounded(path: PathBuf, longest: Duration) -> Result<Lock, LockError> {
    let waited = path.clone();
    let wait = tokio::task::spawn_blocking(move || Lock::wait(&waited));
    match tokio::time::timeout(longest, wait).await {
        Ok(Ok(result)) => result,
        Ok(Err(panicked)) => Err(LockError::Io { path, source: io::Error::other(panicked) }),
        // The thread goes on waiting; it holds nothing that anyone else needs, and ends with the process.
        Err(_) => Lock::try_take(&path),
    }
}

fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_has_it_and_gets_it_when_the_first_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.lock");
        let first = Lock::try_take(&path).unwrap();
        match Lock::try_take(&path) {
            Err(LockError::Held { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(first);
        Lock::try_take(&path).unwrap();
        Lock::wait(&path).unwrap();
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = Lock::try_take(Path::new("/nonexistent/agent.lock")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/agent.lock"), "{error}");
    }
}

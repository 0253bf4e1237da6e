//! File locks between processes, waited for without blocking the network thread.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::NetworkError;

/// Whoever holds such a lock does so for milliseconds; a longer wait means that the holder was stopped.
const PATIENCE: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(2);

/// An exclusive lock, given back when dropped and by the kernel when the process ends.
#[derive(Debug)]
#[must_use]
pub(super) struct Lock(#[expect(dead_code, reason = "closing the file gives the lock back")] File);

/// Waits for a lock. Cancel-safe.
pub(super) async fn acquire(path: &Path) -> Result<Lock, NetworkError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|e| NetworkError::state("opening", path, e))?;
    let wait = async {
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) => tokio::time::sleep(RETRY).await,
                Err(error) => return Err(NetworkError::state("locking", path, error)),
            }
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(taken) => taken.map(|()| Lock(file)),
        Err(_) => Err(NetworkError::Locked { path: path.to_owned(), after: PATIENCE }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_exclusive_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = acquire(&path).await.unwrap();
        let error = acquire(&path).await.unwrap_err();
        assert!(matches!(error, NetworkError::Locked { .. }), "{error}");
        drop(held);
        drop(acquire(&path).await.unwrap());
    }
}

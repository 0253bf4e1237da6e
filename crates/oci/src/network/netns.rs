//! Network namespaces: which one, and running something inside.
//!
//! `setns(2)` moves one thread. It is never done on a thread that others use: [`Netns::run`] starts a thread for it,
//! which ends with the work.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::error::NetworkError;

/// The kernel's identity of a namespace. A path like `/proc/<pid>/ns/net` may name another one later, when the
/// process number has been given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamespaceId {
    device: u64,
    inode: u64,
}

/// A network namespace, kept alive as long as this is open.
#[derive(Debug)]
pub(super) struct Netns {
    file: File,
    id: NamespaceId,
    path: PathBuf,
}

impl Netns {
    pub(super) fn open(path: &Path) -> Result<Self, NetworkError> {
        let failed = |source| NetworkError::Namespace { action: "opening", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(|e| failed(e.into()))?;
        let id = NamespaceId { device: stat.st_dev, inode: stat.st_ino };
        Ok(Self { file, id, path: path.to_owned() })
    }

    /// One that is open already.
    pub(super) fn of(file: File) -> Result<Self, NetworkError> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let failed = |source| NetworkError::Namespace { action: "looking at", path: path.clone(), source };
        let stat = rustix::fs::fstat(&file).map_err(|e| failed(e.into()))?;
        let id = NamespaceId { device: stat.st_dev, inode: stat.st_ino };
        Ok(Self { file, id, path })
    }

    /// The calling thread's.
    pub(super) fn current() -> Result<Self, NetworkError> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    pub(super) fn id(&self) -> NamespaceId {
        self.id
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// For netlink messages that move a device; valid as long as this is open.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Runs something on a thread of its own inside this namespace. Dropping the future does not stop it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, NetworkError> {
        let failed = |action| {
            let path = self.path.clone();
            move |source| NetworkError::Namespace { action, path, source }
        };
        let file = self.file.try_clone().map_err(failed("duplicating"))?;
        let (reply, answer) = oneshot::channel();
        std::thread::Builder::new()
            .name("minke-netns".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || {
                let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
                let _ = reply.send(entered.map_err(io::Error::from).map(|()| work()));
            })
            .map_err(failed("starting a thread for"))?;
        let gone = |_| failed("working in")(io::Error::other("the thread ended without an answer"));
        answer.await.map_err(gone)?.map_err(failed("entering"))?.map_err(failed("setting up"))
    }
}

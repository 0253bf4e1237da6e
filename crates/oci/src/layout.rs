//! Where the embedded runtime keeps things. Everything can be recovered by listing these directories.
//!
//! ```text
//! <state>/runtime.lock                       one runtime at a time
//! <state>/sandboxes/<sandbox>/sandbox.json   its configuration; absent or unreadable: half made
//!                            /ready.json     written last when it is made: its addresses
//!                            /stopped.json   written when it is known to be dead
//!                            /shim.log       what the shim says of its own faults
//!                            /resolv.conf, hostname, hosts
//!                            /containers/<container>/container.json   its configuration, no environment
//!                                                   /created.json     written last when it is made
//!                                                   /started.json     when its process started
//!                                                   /exit.json        how it ended, written by the shim
//!                                                   /upper, work      its writable layer
//! <run>/pods/<sandbox>/shim.json, shim.sock  the shim and how to reach it; gone after a reboot
//!                     /shm                   the Pod's /dev/shm (a mount)
//!                     /c/<container>/        bundle of a container while it is created
//! ```

use std::path::{Path, PathBuf};

use minke_core::runtime::{ContainerId, SandboxId};

/// The runtime's directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    state: PathBuf,
    run: PathBuf,
}

impl Layout {
    /// Paths below a state directory (durable) and a run directory (may be emptied by a reboot).
    #[must_use]
    pub(crate) fn new(state: impl Into<PathBuf>, run: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), run: run.into() }
    }

    /// The lock that one runtime holds.
    #[must_use]
    pub(crate) fn lock(&self) -> PathBuf {
        self.state.join("runtime.lock")
    }

    /// The directory of all sandboxes.
    #[must_use]
    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.state.join("sandboxes")
    }

    /// The directory of all shims' sockets.
    #[must_use]
    pub(crate) fn pods(&self) -> PathBuf {
        self.run.join("pods")
    }

    /// One sandbox.
    #[must_use]
    pub(crate) fn sandbox(&self, id: &SandboxId) -> SandboxDir {
        SandboxDir { state: self.sandboxes().join(&id.0), run: self.pods().join(&id.0) }
    }
}

/// The directories of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxDir {
    state: PathBuf,
    run: PathBuf,
}

impl SandboxDir {
    /// The directory with its durable files.
    #[must_use]
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// The directory with its sockets and mounts.
    #[must_use]
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    /// A durable file of the sandbox.
    #[must_use]
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// What the shim is started with.
    #[must_use]
    pub(crate) fn shim_config(&self) -> PathBuf {
        self.run.join("shim.json")
    }

    /// Where the Pod's `/dev/shm` is mounted.
    #[must_use]
    pub(crate) fn shm(&self) -> PathBuf {
        self.run.join("shm")
    }

    /// The directory of its containers.
    #[must_use]
    pub(crate) fn containers(&self) -> PathBuf {
        self.state.join("containers")
    }

    /// One container.
    #[must_use]
    pub(crate) fn container(&self, id: &ContainerId) -> ContainerDir {
        ContainerDir { state: self.containers().join(&id.0), bundle: self.run.join("c").join(&id.0) }
    }
}

/// The directories of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerDir {
    state: PathBuf,
    bundle: PathBuf,
}

impl ContainerDir {
    /// The directory with its durable files and its writable layer.
    #[must_use]
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// A durable file of the container.
    #[must_use]
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// The OCI bundle, needed while the container is created and started.
    #[must_use]
    pub(crate) fn bundle(&self) -> &Path {
        &self.bundle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_lies_below_its_sandbox() {
        let sandbox = Layout::new("/s", "/r").sandbox(&SandboxId("a".into()));
        let container = sandbox.container(&ContainerId("b".into()));
        assert_eq!(container.file("exit.json"), Path::new("/s/sandboxes/a/containers/b/exit.json"));
        assert_eq!(container.bundle(), Path::new("/r/pods/a/c/b"));
        assert_eq!(sandbox.shm(), Path::new("/r/pods/a/shm"));
    }
}

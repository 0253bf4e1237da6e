//! Why something with a cgroup failed.

use std::io;
use std::path::PathBuf;

use minke_core::cgroup::NoController;

/// A failure on control groups.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    /// No control groups at all.
    #[error(
        "no cgroup hierarchy is mounted below /sys/fs/cgroup; mount one (`mount -t cgroup2 none /sys/fs/cgroup`) or \
         run where the host's is visible"
    )]
    NoHierarchy,
    /// A limit needs a controller that isn't there.
    #[error(transparent)]
    NoController(#[from] NoController),
    /// The hierarchy can't be written.
    #[error("cgroup {path} can't be written; cgroups must be mounted read-write and belong to this user")]
    ReadOnly {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses a value.
    #[error("can't write {value:?} to {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or directory can't be read, made or removed.
    #[error("can't {action} cgroup {path}")]
    Io {
        /// "make", "read", "remove".
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The device filter of version 2 can't be loaded. Without it devices would be open to the container.
    #[error("can't {action} the device filter of cgroup {path}; it needs CAP_SYS_ADMIN (and CAP_BPF)")]
    DeviceFilter {
        /// "load" or "attach".
        action: &'static str,
        /// The cgroup.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Processes are left that can't be killed (stuck in the kernel).
    #[error("{} processes of cgroup {path} do not end after SIGKILL", pids.len())]
    WontDie {
        /// The cgroup.
        path: PathBuf,
        /// The processes.
        pids: Vec<i32>,
    },
}

impl CgroupError {
    /// Whether the machine's set-up is at fault, rather than chance.
    #[must_use]
    pub(crate) fn is_not_permitted(&self) -> bool {
        match self {
            Self::NoHierarchy | Self::NoController(_) | Self::ReadOnly { .. } | Self::DeviceFilter { .. } => true,
            Self::Write { .. } | Self::Io { .. } | Self::WontDie { .. } => false,
        }
    }
}

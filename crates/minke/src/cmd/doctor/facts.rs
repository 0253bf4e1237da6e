//! What was found on this machine, as data: no judgement.

use std::collections::BTreeMap;
use std::path::PathBuf;

use minke_cri::SandboxImage;
use minke_kubelet::eviction::Level;

/// Whether something can be done here, as tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tried {
    /// It can.
    Works,
    /// It can't; why, in the kernel's words.
    Refused(String),
    /// It could not be tried.
    Unseen(String),
}

/// Everything that checks look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whether this is root.
    pub(super) root: bool,
    /// The kernel's release.
    pub(super) kernel: String,
    /// The effective capabilities, a bit each; `None` if unreadable.
    pub(super) capabilities: Option<u64>,
    /// Control groups.
    pub(super) cgroups: Cgroups,
    /// Mounting overlays by the new mount API.
    pub(super) overlay: Tried,
    /// Kinds of namespaces that the kernel has, as `/proc/self/ns` names them.
    pub(super) namespaces: Vec<String>,
    /// How many of each kind there may be, by the name of the limit (`max_net_namespaces`).
    pub(super) namespace_limits: BTreeMap<String, u64>,
    /// What seccomp filters can do, as the kernel lists it; `None` without seccomp.
    pub(super) seccomp: Option<String>,
    /// nf_tables.
    pub(super) nf_tables: Tried,
    /// Whether IPv4 packets are forwarded.
    pub(super) forwarding: Option<bool>,
    /// CNI.
    pub(super) cni: Cni,
    /// inotify instances and watches that a user may have.
    pub(super) inotify: (Option<u64>, Option<u64>),
    /// Free bytes and inodes where state is kept.
    pub(super) disk: Option<Disk>,
    /// The instance's agent.
    pub(super) agent: Agent,
    /// The instance has its Pods on a runtime with CRI, or is to: then one that can't be used is a failure.
    pub(super) cri: bool,
    /// Sockets of container runtimes.
    pub(super) sockets: Vec<Socket>,
}

/// The socket of a container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Socket {
    /// Where.
    pub(super) endpoint: String,
    /// Its first words, or why there were none.
    pub(super) greeted: Result<Greeted, String>,
}

/// What a container runtime says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeted {
    /// `containerd`, `cri-o`.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    /// systemd makes its cgroups.
    pub(super) systemd: bool,
    /// Its conditions that are not met.
    pub(super) unmet: Vec<String>,
    /// The image of sandboxes.
    pub(super) sandbox_image: SandboxImage,
    /// Whether it copes with an `oom_score_adj` that can't be lowered, if it tells.
    pub(super) restricts_oom_score_adj: Option<bool>,
}

/// Control groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cgroups {
    /// Controllers of version 1 that are mounted.
    pub(super) v1: Vec<String>,
    /// Controllers of version 2; `None` if it is not mounted.
    pub(super) v2: Option<Vec<String>>,
    /// A mount point that can't be written, if there is one.
    pub(super) read_only: Option<PathBuf>,
}

/// The disk of the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disk {
    /// A directory on it that exists.
    pub(super) directory: PathBuf,
    /// Bytes.
    pub(super) bytes: Level,
    /// Inodes.
    pub(super) inodes: Level,
    /// Whether it is an overlay itself, as the root of a container is.
    pub(super) overlay: bool,
}

/// CNI's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cni {
    /// Where it is looked for.
    pub(super) directory: PathBuf,
    /// The first file by name, and the plugins that it asks for, or why it can't be read.
    pub(super) first: Option<(String, Result<Vec<String>, String>)>,
    /// Where plugins are looked for.
    pub(super) plugin_directories: Vec<PathBuf>,
    /// Those of the plugins asked for that are nowhere.
    pub(super) missing: Vec<String>,
}

/// The instance's agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agent {
    /// None runs.
    None,
    /// It answers.
    Answers {
        /// Its process.
        pid: u32,
        /// Its version.
        version: String,
        /// This program's version.
        own: String,
    },
    /// Its lock is held, but it does not answer.
    Silent {
        /// The process that holds the lock, as far as known.
        pid: Option<u32>,
        /// Why it can't be asked.
        why: String,
    },
    /// This user can't see.
    Unseen(String),
}

//! What the helper needs to know.

use std::path::PathBuf;

use minke_core::runtime::{ContainerConfig, ContainerId, NamespaceOptions};
use serde::{Deserialize, Serialize};

use crate::cgroup::Hierarchies;
use crate::image::RootAttributes;

/// One container to create.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CreateRequest {
    /// Its id.
    pub(crate) id: ContainerId,
    /// What the kubelet wants.
    pub(crate) config: ContainerConfig,
    /// What its image says.
    pub(crate) image: ImageFacts,
    /// The image's unpacked layers, lowest first.
    pub(crate) layers: Vec<PathBuf>,
    /// Owner and mode of its root directory.
    pub(crate) root: RootAttributes,
    /// Durable directory of the container: writable layer, `started.json`, `exit.json`.
    pub(crate) state: PathBuf,
    /// Directory for the bundle, made by the helper and removed by the shim.
    pub(crate) bundle: PathBuf,
    /// Absolute path of the log.
    pub(crate) log: PathBuf,
}

/// The parts of an image's configuration that concern running it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ImageFacts {
    /// `ENTRYPOINT`.
    pub(crate) entrypoint: Vec<String>,
    /// `CMD`.
    pub(crate) cmd: Vec<String>,
    /// `ENV`, each `NAME=value`.
    pub(crate) env: Vec<String>,
    /// `WORKDIR`.
    pub(crate) working_dir: Option<PathBuf>,
    /// `USER` as written: `user`, `uid`, `user:group`.
    pub(crate) user: Option<String>,
}

/// What all containers of a sandbox share. The shim keeps it from its own start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SandboxFacts {
    /// Host name inside.
    pub(crate) hostname: String,
    /// Namespaces.
    pub(crate) namespaces: NamespaceOptions,
    /// The Pod's cgroup.
    pub(crate) cgroup: String,
    /// How cgroups are set up here.
    pub(crate) hierarchies: Hierarchies,
    /// Files that every container gets.
    pub(crate) files: SandboxFiles,
}

/// Files and directories of the sandbox that its containers see.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SandboxFiles {
    /// Becomes `/etc/resolv.conf`.
    pub(crate) resolv_conf: PathBuf,
    /// Becomes `/etc/hostname`.
    pub(crate) hostname: PathBuf,
    /// Becomes `/etc/hosts` where the kubelet brings none.
    pub(crate) hosts: PathBuf,
    /// Becomes `/dev/shm`.
    pub(crate) shm: PathBuf,
}

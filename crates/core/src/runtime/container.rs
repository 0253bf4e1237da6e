//! Containers of a sandbox.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ContainerSecurity, ImageId, LinuxResources, ListFilter, RuntimeError, SandboxConfig, SandboxId};
use crate::identity::PodUid;

/// The id of a container, chosen by the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerId(pub String);

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One environment variable. Its value may be a secret, so `Debug` shows only the name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Name.
    pub name: String,
    /// Value, fully expanded.
    pub value: String,
}

impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.name)
    }
}

/// How mounts made later on one side show on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MountPropagation {
    /// `None`: private.
    #[default]
    Private,
    /// `HostToContainer`: rslave.
    HostToContainer,
    /// `Bidirectional`: rshared; privileged containers only.
    Bidirectional,
}

/// A bind mount from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Path on the host; it exists.
    pub host_path: PathBuf,
    /// Absolute path in the container.
    pub container_path: PathBuf,
    /// Read-only.
    pub read_only: bool,
    /// Read-only for mounts below as well (`recursiveReadOnly`).
    pub recursive_read_only: bool,
    /// Propagation.
    pub propagation: MountPropagation,
}

/// A device node given to the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Path on the host.
    pub host_path: PathBuf,
    /// Path in the container.
    pub container_path: PathBuf,
    /// Any of `r`, `w`, `m`.
    pub permissions: String,
}

/// All that a runtime needs to create a container (CRI `ContainerConfig`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerConfig {
    /// Name in the Pod.
    pub name: String,
    /// How often this name was created before in this Pod (restart count).
    pub attempt: u32,
    /// The image to use, present in the store.
    pub image: ImageId,
    /// The image as the manifest names it, given back by status.
    pub image_name: String,
    /// Replaces the image's entry point when not empty.
    pub command: Vec<String>,
    /// Replaces the image's arguments when not empty, or when `command` is given.
    pub args: Vec<String>,
    /// Replaces the image's working directory; created when absent, as upstream's runtimes do.
    pub working_dir: Option<PathBuf>,
    /// Set over the image's own.
    pub env: Vec<EnvVar>,
    /// Bind mounts, parents before children.
    pub mounts: Vec<Mount>,
    /// Device nodes.
    pub devices: Vec<Device>,
    /// Labels, given back by status and list.
    pub labels: BTreeMap<String, String>,
    /// Annotations, given back by status.
    pub annotations: BTreeMap<String, String>,
    /// Log file relative to the sandbox's log directory: `<container>/<attempt>.log`.
    pub log_path: PathBuf,
    /// Keep standard input open.
    pub stdin: bool,
    /// Close standard input after the first attach ends.
    pub stdin_once: bool,
    /// Give it a terminal.
    pub tty: bool,
    /// Limits.
    pub resources: LinuxResources,
    /// Security.
    pub security: ContainerSecurity,
    /// Replaces the image's `STOPSIGNAL` (`SIGTERM` where neither names one), for example `SIGUSR1`.
    pub stop_signal: Option<String>,
}

/// The exit code of a container's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitCode {
    /// What it returned; 128 + n for signal n.
    Known(i32),
    /// It ended, but nobody was there to see how (its shim or the daemon died). Never reported as success.
    Lost,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code.
    pub code: ExitCode,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`, `ContainerStatusUnknown`, …
    pub reason: String,
    /// For people; empty for a plain exit.
    pub message: String,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// Created and not started yet. It belongs to the action in flight: **not** a failed start.
    Created,
    /// Its first process runs.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// It ended.
    Exited {
        /// When it had started; `None` if the start failed.
        started_at: Option<Timestamp>,
        /// How it ended.
        exit: Exit,
    },
    /// The runtime can't say.
    Unknown,
}

impl ContainerState {
    /// Whether a process of it runs for sure.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

/// [`ContainerState`] without its data, as a list shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ContainerPhase {
    /// See [`ContainerState::Created`].
    Created,
    /// See [`ContainerState::Running`].
    Running,
    /// See [`ContainerState::Exited`].
    Exited,
    /// See [`ContainerState::Unknown`].
    Unknown,
}

impl From<&ContainerState> for ContainerPhase {
    fn from(state: &ContainerState) -> Self {
        match state {
            ContainerState::Created => Self::Created,
            ContainerState::Running { .. } => Self::Running,
            ContainerState::Exited { .. } => Self::Exited,
            ContainerState::Unknown => Self::Unknown,
        }
    }
}

/// A container as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerInfo {
    /// Its id.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// Its Pod.
    pub pod: PodUid,
    /// Its name in the Pod.
    pub name: String,
    /// Which attempt.
    pub attempt: u32,
    /// What it does.
    pub phase: ContainerPhase,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A container in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Its id.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// Its Pod.
    pub pod: PodUid,
    /// Its name in the Pod.
    pub name: String,
    /// Which attempt.
    pub attempt: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// What it does.
    pub state: ContainerState,
    /// The image as the manifest names it.
    pub image_name: String,
    /// The image it runs.
    pub image: ImageId,
    /// Absolute path of its log.
    pub log_path: PathBuf,
    /// As configured.
    pub labels: BTreeMap<String, String>,
    /// As configured.
    pub annotations: BTreeMap<String, String>,
    /// Its resolved numeric user, once created.
    pub uid: Option<u32>,
}

/// Containers. All calls are cancel-safe in the sense of the port's contract.
#[async_trait]
pub trait ContainerService: Send + Sync + 'static {
    /// Creates a container in a sandbox that is ready; its process does not run yet.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError>;
    /// Starts a created container. After an error its status says `Exited` with reason `StartError`.
    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;
    /// Stop signal, `grace`, then SIGKILL to its whole cgroup; returns when it has ended. Idempotent, and a second
    /// call with a shorter grace overtakes the first.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError>;
    /// Removes a container, killing it first if it runs. Its log stays. Idempotent.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;
    /// One container in full.
    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError>;
    /// Every container, in any state.
    async fn list_containers(&self, filter: &ListFilter) -> Result<Vec<ContainerInfo>, RuntimeError>;
    /// Changes limits of a container while it lives (CRI `UpdateContainerResources`). What is `None` stays as it is; an
    /// `oom_score_adj` is that of processes and stays as well. One that has ended has no limits, and nothing happens. A
    /// limit that the kernel refuses (less memory than is used) is an error, and the others may hold already: call it
    /// again with what should be.
    async fn update_resources(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RuntimeError>;
    /// Opens the log file anew after it was renamed (rotation). Lines in flight are not lost.
    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RuntimeError>;
}

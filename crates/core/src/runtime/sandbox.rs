//! Pod sandboxes: the namespaces, the network and the cgroup that a Pod's containers share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LinuxResources, RuntimeError, SeccompProfile};
use crate::identity::{PodKey, PodUid};

/// The id of a sandbox, chosen by the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SandboxId(pub String);

impl std::fmt::Display for SandboxId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a namespace comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NamespaceMode {
    /// Shared by the containers of the Pod.
    #[default]
    Pod,
    /// One for each container (PID only).
    Container,
    /// The host's.
    Node,
}

/// Which namespaces a Pod has to itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceOptions {
    /// `hostNetwork: true` is [`NamespaceMode::Node`].
    pub network: NamespaceMode,
    /// `hostPID` is `Node`, `shareProcessNamespace` is `Pod`, otherwise `Container`.
    pub pid: NamespaceMode,
    /// `hostIPC` is `Node`.
    pub ipc: NamespaceMode,
    /// `hostUsers: false`: a user namespace with these maps.
    pub user: Option<IdMapping>,
}

impl Default for NamespaceOptions {
    fn default() -> Self {
        Self { network: NamespaceMode::Pod, pid: NamespaceMode::Container, ipc: NamespaceMode::Pod, user: None }
    }
}

/// One contiguous map of users and groups: container ids `0..length` are host ids `host_id..host_id+length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    /// First id on the host.
    pub host_id: u32,
    /// How many.
    pub length: u32,
}

/// `resolv.conf` of the Pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DnsConfig {
    /// `nameserver` lines.
    pub servers: Vec<String>,
    /// The `search` line.
    pub searches: Vec<String>,
    /// The `options` line.
    pub options: Vec<String>,
}

/// Transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A `hostPort`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortMapping {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Port in the Pod.
    pub container_port: u16,
    /// Port on the host.
    pub host_port: u16,
    /// Address on the host; `None` is every address.
    pub host_ip: Option<IpAddr>,
}

/// All that a runtime needs to make a sandbox (CRI `PodSandboxConfig`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxConfig {
    /// Whose sandbox.
    pub pod: PodKey,
    /// 0 for the first sandbox of a Pod, one more for each that replaces a dead one.
    pub attempt: u32,
    /// Host name inside; for `hostNetwork` the host's.
    pub hostname: String,
    /// Absolute directory of the Pod's logs; container log paths are relative to it.
    pub log_directory: PathBuf,
    /// `None`: the host's `resolv.conf` as it is.
    pub dns: Option<DnsConfig>,
    /// Host ports; empty with `hostNetwork`.
    pub port_mappings: Vec<PortMapping>,
    /// Labels, given back by status and list. The kubelet's own keys are in [`super::labels`].
    pub labels: BTreeMap<String, String>,
    /// Annotations, given back by status.
    pub annotations: BTreeMap<String, String>,
    /// The Pod's cgroup, as a path below the hierarchy's root, for example `/minke/burstable/pod<uid>`.
    pub cgroup_parent: String,
    /// Limits on the whole Pod's cgroup.
    pub resources: LinuxResources,
    /// Kernel parameters, namespaced ones only.
    pub sysctls: BTreeMap<String, String>,
    /// Namespaces.
    pub namespaces: NamespaceOptions,
    /// Any container of the Pod is privileged.
    pub privileged: bool,
    /// Profile of the sandbox's own process, where it has one.
    pub seccomp: SeccompProfile,
    /// RuntimeClass handler; empty is the default one.
    pub runtime_handler: String,
}

/// Whether a sandbox can hold containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxState {
    /// Network and namespaces are up.
    Ready,
    /// Stopped, or its process died.
    NotReady,
}

/// A sandbox as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxInfo {
    /// Its id.
    pub id: SandboxId,
    /// Whose it is.
    pub pod: PodKey,
    /// Which attempt.
    pub attempt: u32,
    /// Ready or not.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A sandbox in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// What a list shows.
    pub info: SandboxInfo,
    /// Addresses, primary first; empty for the host's network and once the network is gone.
    pub ips: Vec<IpAddr>,
    /// As configured.
    pub namespaces: NamespaceOptions,
    /// As configured.
    pub labels: BTreeMap<String, String>,
    /// As configured.
    pub annotations: BTreeMap<String, String>,
}

/// Narrows a list of sandboxes or containers. Empty matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// Only of this Pod.
    pub pod: Option<PodUid>,
}

impl ListFilter {
    /// Everything of one Pod.
    #[must_use]
    pub fn pod(uid: &PodUid) -> Self {
        Self { pod: Some(uid.clone()) }
    }
}

/// Sandboxes. All calls are cancel-safe in the sense of the port's contract.
#[async_trait]
pub trait SandboxService: Send + Sync + 'static {
    /// Makes and starts a sandbox; returns when it can hold containers.
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError>;
    /// Kills whatever still runs inside and takes the network down. Idempotent; resumes where it failed.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;
    /// Removes a sandbox and its containers, with every trace (cgroup, mounts, addresses). Idempotent.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;
    /// One sandbox in full.
    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError>;
    /// Every sandbox, in any state.
    async fn list_sandboxes(&self, filter: &ListFilter) -> Result<Vec<SandboxInfo>, RuntimeError>;
}

//! What Pods and containers use.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ContainerId, ListFilter, RuntimeError, SandboxId};
use crate::identity::PodUid;

/// What a cgroup uses, now or since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupUsage {
    /// Processor time since the start, in nanoseconds of one core.
    pub cpu_nanos: u64,
    /// Memory that can't be reclaimed without loss (usage less inactive file pages), in bytes: what eviction and the
    /// OOM killer go by.
    pub memory_working_set_bytes: u64,
    /// Anonymous memory, in bytes.
    pub memory_rss_bytes: u64,
    /// All memory charged, page cache included, in bytes.
    pub memory_usage_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
}

/// What a container uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUsage {
    /// Which container.
    pub id: ContainerId,
    /// Its name in the Pod.
    pub name: String,
    /// Its cgroup; `None` when it does not run.
    pub cgroup: Option<CgroupUsage>,
    /// Size of its writable layer, in bytes; `None` if not known yet.
    pub writable_bytes: Option<u64>,
    /// Inodes of its writable layer.
    pub writable_inodes: Option<u64>,
}

/// What a Pod's sandbox and its containers use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUsage {
    /// Which Pod.
    pub pod: PodUid,
    /// Which sandbox.
    pub sandbox: SandboxId,
    /// The whole Pod's cgroup; `None` when it is gone.
    pub cgroup: Option<CgroupUsage>,
    /// Its containers that exist, in no order.
    pub containers: Vec<ContainerUsage>,
}

/// Statistics. Reads only; a Pod that goes meanwhile is left out.
#[async_trait]
pub trait StatsService: Send + Sync + 'static {
    /// What the Pods of ready sandboxes use.
    async fn pod_usage(&self, filter: &ListFilter) -> Result<Vec<PodUsage>, RuntimeError>;
}

//! What the kubelet core takes and gives: Pods that someone wants, and reports of what became of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{CgroupUsage, ContainerUsage, Silence};
use serde::{Deserialize, Serialize};

use crate::admission::{NodeOptions, Pressure};
use crate::eviction::{EvictionConfig, Level, Signal};
use crate::housekeeping::ImageGcPolicy;

pub use minke_core::provider::DesiredPod;

/// Settings of the kubelet core. Paths are absolute.
#[derive(Debug, Clone)]
pub struct KubeletConfig {
    /// `status.nodeName`-like name of this machine, lower case.
    pub node_name: String,
    /// Durable state: `<state>/pods/<uid>/` holds a Pod's checkpoint and volumes.
    pub state_directory: PathBuf,
    /// Logs of Pods, `/var/log/pods`.
    pub log_directory: PathBuf,
    /// Parent of all pod cgroups, `/minke`.
    pub cgroup_root: String,
    /// What the runtime calls itself: the prefix of container ids in statuses, `containerd://…`.
    pub runtime_name: String,
    /// Its version, as it says; for people.
    pub runtime_version: String,
    /// Gap between two full relists without a healthy event stream.
    pub relist_period: Duration,
    /// Gap between two full relists with one, where the mode lets them slow down.
    pub slow_relist_period: Duration,
    /// How changes in the runtime are noticed.
    pub relist_mode: RelistMode,
    /// Rotate a container's log at this size, in bytes.
    pub log_max_bytes: u64,
    /// Keep this many log files of a container, the current one included.
    pub log_max_files: u32,
    /// Most Pods at a time.
    pub max_pods: usize,
    /// What the machine's owner says of it.
    pub node: NodeOptions,
    /// When Pods are evicted.
    pub eviction: EvictionConfig,
    /// When images that nothing uses are removed.
    pub image_gc: ImageGcPolicy,
}

impl KubeletConfig {
    /// The kubelet's defaults, for a machine of this name with these directories.
    #[must_use]
    pub fn new(node_name: impl Into<String>, state_directory: PathBuf, log_directory: PathBuf) -> Self {
        Self {
            node_name: node_name.into(),
            state_directory,
            log_directory,
            cgroup_root: "/minke".to_owned(),
            runtime_name: "minke".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            relist_period: Duration::from_secs(1),
            slow_relist_period: Duration::from_secs(30),
            relist_mode: RelistMode::default(),
            log_max_bytes: 10 << 20,
            log_max_files: 5,
            // The kubelet's 110 is a recommendation for clusters; one machine's own limits come first here.
            max_pods: 1000,
            node: NodeOptions::default(),
            eviction: EvictionConfig::default(),
            image_gc: ImageGcPolicy::default(),
        }
    }
}

/// How changes in the runtime are noticed. A relist is the truth in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RelistMode {
    /// A full relist each period, and of one Pod after an action of our own. The runtime's events are not read.
    Generic,
    /// The same, and events make their Pod be relisted at once.
    Hinted,
    /// Events, and full relists that slow down while their stream is healthy.
    #[default]
    Evented,
}

/// What became of a Pod that was applied, in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission {
    /// It runs, or will.
    Accepted,
    /// The same Pod (uid) is here and was wanted otherwise: it becomes what is wanted now. Containers whose definition
    /// changed are started again, volumes get their new content, and all else goes on.
    Updated,
    /// The same Pod (uid) is here already and has neither ended nor been told to: nothing was changed.
    Unchanged,
    /// It was refused. It is reported with phase `Failed`, this reason and message, until removed.
    Rejected {
        /// `OutOfcpu`, `OutOfmemory`, `OutOfpods`, `NodePorts`, `AlreadyExists`, …
        reason: String,
        /// For people.
        message: String,
    },
}

/// Where a Pod is in its life; only its worker says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodStage {
    /// Kept as its spec wants it.
    Syncing,
    /// Must stop; containers may run.
    Terminating,
    /// Nothing runs, nothing will; being cleaned up.
    Terminated,
    /// Cleaned up.
    Finished,
}

/// A Pod as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodReport {
    /// The Pod with its `status`. Its spec's env may hold secrets in plain text, as manifests do.
    pub pod: Arc<Pod>,
    /// Its stage.
    pub stage: PodStage,
    /// When each step happened.
    pub timings: PodTimings,
}

/// When a Pod's steps happened, by the wall clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PodTimings {
    /// Taken on.
    pub admitted_at: Option<Timestamp>,
    /// First sandbox ready.
    pub sandbox_at: Option<Timestamp>,
    /// First time all containers ran, or it completed.
    pub running_at: Option<Timestamp>,
    /// Terminated.
    pub finished_at: Option<Timestamp>,
    /// Per container, in spec order, init containers first.
    pub containers: Vec<ContainerTimings>,
}

/// How long the steps of a container's newest start took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerTimings {
    /// Its name.
    pub name: String,
    /// Image pull, in ms; `None` when it was present.
    pub pull_ms: Option<u64>,
    /// Create, in ms.
    pub create_ms: Option<u64>,
    /// Start, in ms.
    pub start_ms: Option<u64>,
}

/// How to stop a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StopRequest {
    /// Instead of the Pod's own grace period; it can only shrink what an earlier request allowed.
    pub grace: Option<Duration>,
    /// Forget the Pod, with its logs, volumes and containers, once it is stopped.
    pub remove: bool,
}

/// The machine needs a Pod's place: it is stopped, fails with this reason and stays to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// `Evicted`, `Preempting`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Instead of the Pod's own grace period; it can only shrink what was allowed before. Zero kills at once.
    pub grace: Option<Duration>,
    /// The Pod goes for others and did nothing wrong: it gets a `DisruptionTarget` condition. One that exceeded its own
    /// limits gets none, as upstream.
    pub disrupts: bool,
}

/// What the machine is short of and what is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its conditions that are true.
    pub pressure: Vec<Pressure>,
    /// What was left at the last look.
    pub levels: BTreeMap<Signal, Level>,
    /// The runtime does not answer: what is reported of Pods is what was seen last.
    pub runtime_silence: Option<Silence>,
}

/// What a Pod uses at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUse {
    /// Which Pod.
    pub key: PodKey,
    /// When, since the agent began: what a second sample is compared with.
    pub at: Duration,
    /// The whole Pod's cgroup.
    pub cgroup: Option<CgroupUsage>,
    /// Bytes of logs, and the rest, of each container.
    pub containers: Vec<(u64, ContainerUsage)>,
    /// Bytes of its `emptyDir`s on disk.
    pub volume_bytes: u64,
}

/// There is no such Pod here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no pod with uid {0}")]
pub struct UnknownPod(pub PodUid);

/// A Pod that was to be stopped and waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// There is none.
    #[error(transparent)]
    Unknown(#[from] UnknownPod),
    /// Its containers run longer than their grace allows. It is still being stopped.
    #[error("pod {pod} still runs {} s after it was told to stop", bound.as_secs())]
    ExceededGracePeriod {
        /// Which.
        pod: PodUid,
        /// How long it was waited for.
        bound: Duration,
    },
}

/// A change that a subscriber is told of. Changes of one Pod coalesce: the newest report wins, nothing is lost.
#[derive(Debug, Clone, PartialEq)]
pub enum PodChange {
    /// The Pod is as reported.
    Updated(PodReport),
    /// The Pod was forgotten.
    Removed(PodUid),
}

/// Progress of what is going on, for people; lossy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Progress {
    /// Bytes of a layer.
    Pull {
        /// The Pod that waits.
        pod: PodUid,
        /// The image.
        image: String,
        /// The layer.
        layer: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all, 0 while unknown.
        total: u64,
    },
    /// An event in upstream's words (`Pulling`, `Pulled`, `Created`, `Started`, `Killing`, `BackOff`, `Failed`, …).
    Event {
        /// The Pod.
        pod: PodUid,
        /// The container it is about.
        container: Option<String>,
        /// Upstream's reason.
        reason: String,
        /// For people.
        message: String,
        /// Something is wrong.
        warning: bool,
    },
}

//! What survives the agent: the Pods that are wanted, and how far each is.
//!
//! Two files a Pod under `<state>/pods/<uid>/`: `pod.json`, the Pod with its objects, written before the Pod is
//! taken on and when it is updated; `state.json`, its stage, status and timings, written as they change. A Pod exists here exactly as long
//! as its `pod.json` does.

mod disk;
mod memory;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodStatus;
use minke_core::identity::PodUid;
use minke_core::runtime::ContainerId;
use minke_core::status::FatalProbe;
use serde::{Deserialize, Serialize};

pub use disk::{DiskCheckpoints, OpenError};
pub use memory::MemoryCheckpoints;

use crate::worker::lifecycle::SavedLifecycle;
use crate::{DesiredPod, PodTimings};

/// How far a Pod is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// Its stage.
    pub lifecycle: SavedLifecycle,
    /// Its newest status: restart counts, exits and start time are taken from here after a restart of the agent.
    pub status: PodStatus,
    /// Its timings.
    pub timings: PodTimings,
    /// Containers that probes have condemned: what they end with is no success of theirs.
    #[serde(default)]
    pub condemned: Vec<(ContainerId, FatalProbe)>,
}

impl Default for SavedState {
    fn default() -> Self {
        let (status, timings) = (PodStatus::default(), PodTimings::default());
        Self { lifecycle: SavedLifecycle::Syncing, status, timings, condemned: Vec::new() }
    }
}

/// A Pod as an earlier agent left it.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPod {
    /// Its uid.
    pub uid: PodUid,
    /// The Pod and its objects.
    pub desired: DesiredPod,
    /// How far it is; the default where that can't be read.
    pub state: SavedState,
}

/// What was found at the start.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Pods, sorted by uid.
    pub pods: Vec<SavedPod>,
    /// Pods that are there but can't be read. What runs of them is left alone.
    pub unreadable: Vec<PodUid>,
}

/// A checkpoint could not be read, written or removed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file or directory refuses.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: std::path::PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// Something is mounted inside a Pod's directory, which therefore can't be removed.
    #[error("{} is still mounted; unmount it first", path.display())]
    StillMounted {
        /// Where.
        path: std::path::PathBuf,
    },
    /// It can't be written as JSON.
    #[error("can't encode the checkpoint of pod {uid}")]
    Encode {
        /// Of which Pod.
        uid: PodUid,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The task that wrote it was ended from outside.
    #[error("the checkpoint was not written: the agent is going down")]
    Interrupted,
}

/// Where checkpoints are kept.
#[async_trait]
pub trait Checkpoints: std::fmt::Debug + Send + Sync + 'static {
    /// Everything that earlier agents kept. Never fails as a whole because of one Pod.
    async fn load(&self) -> Result<Loaded, CheckpointError>;
    /// Keeps a Pod that is being taken on, or is wanted otherwise than before; durable when it returns. How far it is
    /// stays as it was.
    async fn save_pod(&self, uid: &PodUid, desired: &DesiredPod) -> Result<(), CheckpointError>;
    /// Keeps how far a Pod is; durable when it returns. Whoever drops the call finds the old or the new state.
    async fn save_state(&self, uid: &PodUid, state: &SavedState) -> Result<(), CheckpointError>;
    /// Forgets a Pod and its whole directory. Idempotent.
    async fn remove(&self, uid: &PodUid) -> Result<(), CheckpointError>;
}

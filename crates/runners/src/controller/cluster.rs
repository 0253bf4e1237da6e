//! The port to a cluster: what the controller hears of it, and what it asks of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use serde_json::Value;

use crate::demand::SetKey;
use crate::engine::NotCreated;
use crate::set::{RunnerSet, RunnerSetStatus};

/// A call to the cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no such object.
    #[error("can't {0}: there is none")]
    NotFound(&'static str),
    /// There is one of this name, or it is another, or it has changed.
    #[error("can't {0}: there is another")]
    Conflict(&'static str),
    /// The namespace's quota is used up.
    #[error("can't {operation}: {message}")]
    Quota {
        /// What was asked.
        operation: &'static str,
        /// What the server said.
        message: String,
    },
    /// The server refuses it, now and later.
    #[error("can't {operation}: {message}")]
    Refused {
        /// What was asked.
        operation: &'static str,
        /// What the server said.
        message: String,
    },
    /// No answer, or none that says anything.
    #[error("can't {operation}")]
    Failed {
        /// What was asked.
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClusterError {
    /// What it means for a Pod that was to be made.
    #[must_use]
    pub fn not_created(&self) -> NotCreated {
        match self {
            Self::Conflict(_) => NotCreated::Exists,
            Self::Quota { .. } => NotCreated::Quota,
            Self::Refused { .. } | Self::NotFound(_) => NotCreated::Invalid,
            Self::Failed { .. } => NotCreated::Unknown,
        }
    }

    /// Whether it is no use to try again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::NotFound(_) | Self::Conflict(_) | Self::Refused { .. } => true,
            Self::Quota { .. } | Self::Failed { .. } => false,
        }
    }
}

/// A set as it was read: what can't be decoded is told and not dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadSet {
    /// Which.
    pub key: SetKey,
    /// It, or what is wrong with it.
    pub set: Result<Arc<RunnerSet>, String>,
}

/// News of objects of a kind.
#[derive(Debug, Clone, PartialEq)]
pub enum News<K> {
    /// All there are, from a consistent list: first of all, and whenever a watch begins anew.
    Listed(Vec<K>),
    /// One has appeared or changed.
    Applied(K),
    /// One is no more.
    Deleted(K),
}

/// Endless: it tries again by itself, and tells nothing meanwhile.
pub type NewsStream<K> = BoxStream<'static, News<K>>;

/// Something people should know, about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The namespace of the set.
    pub namespace: String,
    /// The kind of the object: `Pod` or `RunnerSet`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// A word for it.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The cluster. Calls may run at the same time, may be cancelled at any await, and end by themselves.
#[async_trait]
pub trait Cluster: std::fmt::Debug + Send + Sync + 'static {
    /// The sets.
    fn sets(&self) -> NewsStream<ReadSet>;
    /// The Pods that carry the label of a set.
    fn pods(&self) -> NewsStream<Arc<Pod>>;
    /// The claims that carry the label of a set.
    fn claims(&self) -> NewsStream<Arc<PersistentVolumeClaim>>;

    /// A Secret by name; `None`: there is none.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, ClusterError>;
    /// Makes a Secret.
    async fn create_secret(&self, secret: &Secret) -> Result<(), ClusterError>;
    /// Deletes a Secret, if there is one.
    async fn delete_secret(&self, namespace: &str, name: &str) -> Result<(), ClusterError>;
    /// Deletes the set's Secrets with configurations but those of these batches, and of this life of the controller.
    async fn sweep_secrets(&self, set: &SetKey, keep: &[String], session: &str) -> Result<(), ClusterError>;

    /// Makes a Pod.
    async fn create_pod(&self, pod: &Pod) -> Result<(), ClusterError>;
    /// Changes a Pod by a strategic merge patch.
    async fn patch_pod(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ClusterError>;
    /// Deletes the Pod of this uid; with its own grace if none is given.
    async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<(), ClusterError>;

    /// Makes a claim.
    async fn create_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), ClusterError>;
    /// Deletes the claim of this uid.
    async fn delete_claim(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ClusterError>;

    /// Changes a set by a merge patch.
    async fn patch_set(&self, set: &SetKey, patch: &Value) -> Result<(), ClusterError>;
    /// Writes a set's status.
    async fn write_status(&self, set: &SetKey, status: &RunnerSetStatus) -> Result<(), ClusterError>;
    /// Tells people.
    async fn notice(&self, notice: &Notice) -> Result<(), ClusterError>;
}

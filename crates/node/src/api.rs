//! What the controller asks of a Kubernetes API. Narrow, so that a client is thin and a simulation is honest.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use serde_json::Value;

use crate::references::{Known, ObjectRef};

/// A failed call, in the few ways that the controller tells apart.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("{0}: not found")]
    NotFound(&'static str),
    /// The object is another (uid), or was changed meanwhile.
    #[error("{0}: conflict")]
    Conflict(&'static str),
    /// The history that was asked for is gone: list again.
    #[error("{0}: the history is gone")]
    Expired(&'static str),
    /// The API asks for patience.
    #[error("{operation}: too many requests")]
    TooMany {
        /// The call.
        operation: &'static str,
        /// `Retry-After`, or zero.
        after: Duration,
    },
    /// Everything else.
    #[error("{operation} failed")]
    Failed {
        /// The call.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// All Pods of the node at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct PodList {
    /// The Pods.
    pub pods: Vec<Arc<Pod>>,
    /// Where a watch goes on.
    pub version: String,
}

/// One change of a Pod of the node.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// It is like this now.
    Applied(Arc<Pod>),
    /// Nothing happened up to this version.
    Bookmark(String),
    /// It is gone.
    Deleted {
        /// Who.
        key: PodKey,
        /// Where a watch goes on.
        version: String,
    },
}

/// Changes until the stream ends or fails; dropping it ends the watch.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchEvent, ApiError>> + Send>>;
/// What is known of an object, at first and whenever it changes. It does not end: whoever makes it gets over errors.
pub type ObjectStream = Pin<Box<dyn Stream<Item = Known> + Send>>;

/// Who tells an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// The pod controller, under the name that virtual-kubelet gives it.
    Controller,
    /// The kubelet core.
    Kubelet,
}

/// An event about a Pod, to be recorded.
#[derive(Debug, Clone)]
pub struct Record {
    /// Who tells.
    pub teller: Teller,
    /// About it.
    pub pod: Arc<Pod>,
    /// The container that it is about.
    pub container: Option<String>,
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// Upstream's.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
}

/// The API, for one node. Calls may be dropped at any await, and then may have taken effect.
#[async_trait]
pub trait PodApi: fmt::Debug + Send + Sync + 'static {
    /// The node's Pods: all, or an error.
    async fn list(&self) -> Result<PodList, ApiError>;
    /// Their changes after a version.
    async fn watch(&self, version: &str) -> Result<WatchStream, ApiError>;
    /// A Pod of the node by its name, whatever its uid.
    async fn get(&self, key: &PodKey) -> Result<Option<Arc<Pod>>, ApiError>;
    /// Patches the status (strategic merge; the patch names the uid); returns the Pod as it is then.
    async fn patch_status(&self, key: &PodKey, patch: &Value) -> Result<Arc<Pod>, ApiError>;
    /// Deletes the Pod if its uid is this one, with this grace; zero removes it.
    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ApiError>;
    /// Records an event, or counts it, or drops it when there are too many. Best effort.
    async fn record(&self, record: &Record) -> Result<(), ApiError>;
    /// Follows a ConfigMap or Secret.
    fn follow(&self, object: ObjectRef) -> ObjectStream;
}

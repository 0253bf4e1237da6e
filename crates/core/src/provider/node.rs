//! What the node controller asks of whoever is behind a node: what the machine is like, and that Pods end when it goes down.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ContainerImage, NodeSystemInfo};

use super::ProviderError;
use crate::identity::PodKey;
use crate::resources::ResourceList;

/// What a machine is short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shortages {
    /// Memory.
    pub memory: bool,
    /// Disk space or inodes.
    pub disk: bool,
    /// Process ids.
    pub pids: bool,
}

/// Whether Pods can be started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Readiness {
    /// They can.
    #[default]
    Ready,
    /// They can't, for these reasons.
    NotReady(Vec<String>),
}

/// What a node is like now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeDescription {
    /// All that it has, `pods` included.
    pub capacity: ResourceList,
    /// What of it Pods may use.
    pub allocatable: ResourceList,
    /// Labels that it has by itself: system, architecture, host name, instance type.
    pub labels: BTreeMap<String, String>,
    /// Its host name.
    pub hostname: String,
    /// Its addresses, primary first.
    pub addresses: Vec<IpAddr>,
    /// Versions and identities.
    pub info: NodeSystemInfo,
    /// Images that it has, in no order; may be many.
    pub images: Vec<ContainerImage>,
    /// What it is short of.
    pub shortages: Shortages,
    /// Whether Pods can be started.
    pub readiness: Readiness,
}

/// Whoever knows the node. One call at a time is made.
#[async_trait]
pub trait NodeSource: fmt::Debug + Send + Sync + 'static {
    /// The node as it is now. That it answers is the sign that it lives: called every few seconds, given a bounded time.
    async fn describe(&self) -> Result<NodeDescription, ProviderError>;
}

/// A node of which nothing changes, for providers that have no machine.
#[derive(Debug, Clone, Default)]
pub struct FixedNode(pub NodeDescription);

#[async_trait]
impl NodeSource for FixedNode {
    async fn describe(&self) -> Result<NodeDescription, ProviderError> {
        Ok(self.0.clone())
    }
}

/// Pods end because their node goes down.
#[async_trait]
pub trait NodeShutdown: Send + Sync {
    /// From now on, or no longer, new Pods are rejected with upstream's reason `NodeShutdown`. Returns at once.
    fn close(&self, closed: bool);
    /// Begins to end a Pod within `grace`, or its own grace period if that is shorter. It fails with upstream's reason
    /// `Terminated` and is kept. [`ProviderError::NotFound`] is allowed and means success.
    async fn end(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError>;
}

//! What the node controller asks of a Kubernetes API, for its own node and lease.

use std::fmt;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use crate::api::ApiError;

/// The API, for one node. Calls may be dropped at any await, and then may have taken effect.
#[async_trait]
pub trait NodeApi: fmt::Debug + Send + Sync + 'static {
    /// The Node object.
    async fn node(&self) -> Result<Option<Node>, ApiError>;
    /// Creates it. [`ApiError::Conflict`]: it exists.
    async fn create_node(&self, node: &Node) -> Result<Node, ApiError>;
    /// Patches its status (strategic merge; the patch names the uid) and metadata; returns it as it is then.
    async fn patch_node_status(&self, patch: &Value) -> Result<Node, ApiError>;
    /// Its lease.
    async fn lease(&self) -> Result<Option<Lease>, ApiError>;
    /// Creates the lease. [`ApiError::Conflict`]: it exists.
    async fn create_lease(&self, lease: &Lease) -> Result<Lease, ApiError>;
    /// Replaces the lease if it is still of this version.
    async fn replace_lease(&self, lease: &Lease) -> Result<Lease, ApiError>;
}

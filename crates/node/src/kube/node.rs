//! The node and its lease, over a Kubernetes client.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::Value;

use super::{KubeApi, fault};
use crate::api::ApiError;
use crate::node::api::NodeApi;

/// Where the leases of nodes are, as upstream.
const LEASES: &str = "kube-node-lease";

impl KubeApi {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), LEASES)
    }
}

/// Needs to `get` and `create` the Node, to `patch` `nodes/status`, and to `get`, `create` and `update` the Lease.
#[async_trait]
impl NodeApi for KubeApi {
    async fn node(&self) -> Result<Option<Node>, ApiError> {
        self.nodes().get_opt(&self.node).await.map_err(|error| fault("get node", error))
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        self.nodes().create(&PostParams::default(), node).await.map_err(|error| fault("create node", error))
    }

    async fn patch_node_status(&self, patch: &Value) -> Result<Node, ApiError> {
        let patched = self.nodes().patch_status(&self.node, &PatchParams::default(), &Patch::Strategic(patch)).await;
        patched.map_err(|error| fault("patch node status", error))
    }

    async fn lease(&self) -> Result<Option<Lease>, ApiError> {
        self.leases().get_opt(&self.node).await.map_err(|error| fault("get lease", error))
    }

    async fn create_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.leases().create(&PostParams::default(), lease).await.map_err(|error| fault("create lease", error))
    }

    async fn replace_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let replaced = self.leases().replace(&self.node, &PostParams::default(), lease).await;
        replaced.map_err(|error| fault("replace lease", error))
    }
}

//! What an operator says of a node.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;

/// Settings of the node controller, each but the name with a default.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeConfig {
    /// The node's name.
    pub name: String,
    /// Who this agent is among those that might claim the name; the same after a restart. Kept on the lease, whose holder
    /// is the node's name for every agent.
    pub identity: String,
    /// Labels beside those that the machine has by itself; of the same name, these count.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints of the object when it is created; later they are the cluster's, as upstream.
    pub taints: Vec<Taint>,
    /// Whether Pods may be scheduled here when the object is created.
    pub schedulable: bool,
    /// `spec.providerID` of the object when it is created.
    pub provider_id: Option<String>,
    /// Where the node's HTTP API listens, for `daemonEndpoints`.
    pub port: Option<u16>,
    /// Most images in the status; the largest are named. 0: none.
    pub max_images: usize,
    /// Between two looks at the node (`nodeStatusUpdateFrequency`).
    pub period: Duration,
    /// The status is written at least so often, though nothing changed (`nodeStatusReportFrequency`).
    pub report: Duration,
    /// How long the lease lasts (`nodeLeaseDurationSeconds`); it is renewed after a quarter of it.
    pub lease: Duration,
    /// Longest description by the provider before it counts as silent.
    pub describe_timeout: Duration,
    /// Longest call on the API.
    pub api_timeout: Duration,
}

impl NodeConfig {
    /// The kubelet's defaults, for the node of this name.
    #[must_use]
    pub fn new(name: impl Into<String>, identity: impl Into<String>) -> Self {
        let seconds = Duration::from_secs;
        Self {
            name: name.into(),
            identity: identity.into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            schedulable: true,
            provider_id: None,
            port: None,
            max_images: 50,
            period: seconds(10),
            report: seconds(300),
            lease: seconds(40),
            describe_timeout: seconds(10),
            api_timeout: seconds(10),
        }
    }

    /// Between two renewals of the lease.
    #[must_use]
    pub fn renewal(&self) -> Duration {
        (self.lease / 4).max(Duration::from_millis(100))
    }
}

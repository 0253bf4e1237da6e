//! What of a node the scheduler looks at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use minke_core::resources::{Amount, ResourceList, resource_list};

/// A node, reduced to what decides who fits: two that are equal take the same Pods, so heartbeats change nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) unschedulable: bool,
    /// Its own, and those that follow from its conditions.
    pub(super) taints: Vec<Taint>,
    pub(super) allocatable: ResourceList,
    /// Most Pods.
    pub(super) pods: i64,
}

/// Conditions that are taints: type, status, and the taint's key. In a cluster the node lifecycle controller writes these
/// taints; here nobody does, and they follow from the conditions at once.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

impl NodeFacts {
    /// The facts of a node.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let mut taints: Vec<Taint> = spec.taints.unwrap_or_default();
        for taint in &mut taints {
            // Since when does not matter to anyone here.
            taint.time_added = None;
        }
        let says = |kind: &str, wanted: &str| conditions.iter().any(|c| c.type_ == kind && c.status == wanted);
        // A node that has never said that it is ready is not.
        let silent = !conditions.iter().any(|condition| condition.type_ == "Ready");
        for (kind, wanted, key) in CONDITIONS {
            let implied = says(kind, wanted) || silent && (kind, wanted) == ("Ready", "False");
            if implied && !taints.iter().any(|taint| taint.key == key) {
                let effect = "NoSchedule".to_owned();
                taints.push(Taint { key: key.to_owned(), effect, ..Taint::default() });
            }
        }
        let mut allocatable = resource_list(status.allocatable.as_ref().or(status.capacity.as_ref()));
        let pods = allocatable.remove("pods").map_or(0, Amount::value);
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or(false),
            taints,
            allocatable,
            pods,
        }
    }
}

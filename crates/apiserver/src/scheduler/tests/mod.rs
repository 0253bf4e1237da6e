//! The scheduler's decisions, its words, and its life beside an API that fails.

mod model;
mod simulation;
mod task;
mod words;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::facts::PodFacts;
use super::node::NodeFacts;

/// A node that is ready and has this much.
pub(super) fn node_object(name: &str, cpu: &str, memory: &str, pods: i64) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

pub(super) fn node_facts(object: &Value) -> NodeFacts {
    NodeFacts::of(&serde_json::from_value::<Node>(object.clone()).unwrap())
}

/// A Pod that asks for this much CPU, in thousandths.
pub(super) fn pod_object(name: &str, cpu: i64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": format!("{cpu}m")}}}]},
        "status": {"phase": "Pending"},
    })
}

pub(super) fn pod_facts(object: &Value) -> PodFacts {
    PodFacts::of(&serde_json::from_value::<Pod>(object.clone()).unwrap())
}

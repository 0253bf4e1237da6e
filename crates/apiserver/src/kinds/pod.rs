//! Pods: the core's defaults and rules, and what may change in one that is there.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::strategy::{causes, typed_with};
use crate::error::Cause;

pub(super) fn complete(value: Value) -> Result<Value, serde_json::Error> {
    typed_with::<Pod>(value, minke_core::defaults::default_pod)
}

/// A new Pod waits, and its quality of service is known.
pub(super) fn create(value: &mut Value) {
    let mut status = json!({"phase": "Pending"});
    if let Ok(pod) = serde_json::from_value::<Pod>(value.clone()) {
        status["qosClass"] = minke_core::qos::qos_class(&pod).as_str().into();
    }
    value["status"] = status;
}

pub(super) fn validate(value: &Value) -> Vec<Cause> {
    match serde_json::from_value::<Pod>(value.clone()) {
        Ok(pod) => causes(minke_core::validation::validate_pod(&pod)),
        Err(error) => vec![Cause::new("FieldValueTypeInvalid", format!("Invalid value: {error}"), "spec")],
    }
}

/// Whether it has ended for good.
pub(crate) fn is_done(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Gives a Pod its node. The second time is refused, as a conflict with the reason.
pub(crate) fn bind(pod: &mut Value, node: &str, now: &str) -> Result<(), String> {
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return Err(format!("pod {} is being deleted, cannot be assigned to a host", name(pod)));
    }
    if let Some(bound) = pod["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
        return Err(format!("pod {} is already assigned to node {bound:?}", name(pod)));
    }
    pod["spec"]["nodeName"] = node.into();
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    let status = &mut pod["status"]["conditions"];
    match status.as_array_mut() {
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != "PodScheduled");
            conditions.push(condition);
        }
        None => *status = json!([condition]),
    }
    Ok(())
}

fn name(pod: &Value) -> &str {
    pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

//! Pods: the core's defaults and rules, and what may change in one that is there.

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::strategy::{causes, typed_with};
use crate::error::Cause;

pub(super) fn complete(value: Value) -> Result<Value, serde_json::Error> {
    typed_with::<Pod>(value, minke_core::defaults::default_pod)
}

/// A new Pod waits, and its quality of service is known.
pub(super) fn create(value: &mut Value) {
    let mut status = json!({"phase": "Pending"});
    if let Ok(pod) = Pod::deserialize(&*value) {
        status["qosClass"] = minke_core::qos::qos_class(&pod).as_str().into();
    }
    if value["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        status["conditions"] = json!([
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message},
        ]);
    }
    value["status"] = status;
}

pub(super) fn validate(value: &Value) -> Vec<Cause> {
    match Pod::deserialize(value) {
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
    set_condition(pod, "PodScheduled", "True", None, now);
    Ok(())
}

/// Writes a condition. Since when it is so stays, if it was so before.
pub(crate) fn set_condition(pod: &mut Value, kind: &str, status: &str, why: Option<(&str, &str)>, now: &str) {
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = pod["status"]["conditions"].as_array_mut() else { return };
    let old = conditions.iter().position(|condition| condition["type"] == kind);
    let since = old.map(|at| &conditions[at]).filter(|old| old["status"] == status);
    let since = since.and_then(|old| old["lastTransitionTime"].as_str()).unwrap_or(now);
    let mut new = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
    if let Some((reason, message)) = why {
        new["reason"] = reason.into();
        new["message"] = message.into();
    }
    match old {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
}

fn name(pod: &Value) -> &str {
    pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

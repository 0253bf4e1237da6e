//! What of a status is written: only what differs, only what is ours, guarded by the uid.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minke_core::identity::PodKey;
use serde_json::{Map, Value, json};

/// Fields that the provider speaks of; an absent one is left as it is. Lists among them are replaced whole.
const OURS: &[&str] = &[
    "phase",
    "hostIP",
    "hostIPs",
    "podIP",
    "startTime",
    "qosClass",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// The strategic merge patch that makes `published` say what `desired` says; `None`: it does already. Conditions of kinds
/// that `desired` does not have are others', and stay. The API keeps whole seconds, so that is what is compared.
#[must_use]
pub fn status_patch(key: &PodKey, published: &PodStatus, desired: PodStatus, now: Timestamp) -> Option<Value> {
    let mut desired = desired;
    let mut published = published.clone();
    keep_transitions(&published, &mut desired, now);
    whole_seconds(&mut desired);
    whole_seconds(&mut published);
    let conditions = changed_conditions(&published, &desired);
    let (before, after) = (as_map(&published), as_map(&desired));
    let mut changes = Map::new();
    for field in OURS {
        if let Some(value) = after.get(*field).filter(|value| before.get(*field) != Some(value)) {
            changes.insert((*field).to_owned(), value.clone());
        }
    }
    // What is not said any more is taken back: a reason that is over misleads.
    for field in ["reason", "message"] {
        if before.get(field) != after.get(field) {
            changes.insert(field.to_owned(), after.get(field).cloned().unwrap_or(Value::Null));
        }
    }
    if let Some(Value::Array(ips)) = after.get("podIPs").filter(|ips| before.get("podIPs") != Some(ips)) {
        // Merged by address otherwise, so that an old one would stay.
        let replaced = std::iter::once(json!({"$patch": "replace"})).chain(ips.iter().cloned());
        changes.insert("podIPs".to_owned(), Value::Array(replaced.collect()));
    }
    if !conditions.is_empty() {
        changes.insert("conditions".to_owned(), Value::Array(conditions));
    }
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": key.uid.as_str()}, "status": changes}))
}

fn as_map(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}

fn changed_conditions(published: &PodStatus, desired: &PodStatus) -> Vec<Value> {
    let before = |kind: &str| published.conditions.iter().flatten().find(|c| c.type_ == kind);
    let changed = desired.conditions.iter().flatten().filter(|condition| before(&condition.type_) != Some(condition));
    changed.filter_map(|condition| serde_json::to_value(condition).ok()).collect()
}

/// A condition that stays as it is keeps its time; one that changes gets one.
fn keep_transitions(published: &PodStatus, desired: &mut PodStatus, now: Timestamp) {
    for condition in desired.conditions.iter_mut().flatten() {
        let before = published.conditions.iter().flatten().find(|c| c.type_ == condition.type_);
        match before.filter(|before| before.status == condition.status) {
            Some(before) => {
                condition.last_transition_time = before.last_transition_time.clone();
                condition.last_probe_time = before.last_probe_time.clone();
                condition.observed_generation = condition.observed_generation.or(before.observed_generation);
            }
            None => drop(condition.last_transition_time.get_or_insert(Time(now))),
        }
    }
}

fn whole_seconds(status: &mut PodStatus) {
    let cut = |time: &mut Option<Time>| {
        if let Some(time) = time {
            time.0 = Timestamp::from_second(time.0.as_second()).unwrap_or(time.0);
        }
    };
    cut(&mut status.start_time);
    for condition in status.conditions.iter_mut().flatten() {
        cut(&mut condition.last_transition_time);
        cut(&mut condition.last_probe_time);
    }
    let lists =
        [&mut status.container_statuses, &mut status.init_container_statuses, &mut status.ephemeral_container_statuses];
    for container in lists.into_iter().flatten().flatten() {
        let ContainerStatus { state, last_state, .. } = container;
        for state in [state, last_state].into_iter().flatten() {
            if let Some(running) = &mut state.running {
                cut(&mut running.started_at);
            }
            if let Some(terminated) = &mut state.terminated {
                cut(&mut terminated.started_at);
                cut(&mut terminated.finished_at);
            }
        }
    }
}

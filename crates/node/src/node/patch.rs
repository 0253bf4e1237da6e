//! What of a node is written: only what differs, only what is ours, guarded by the uid.
//!
//! Three views are merged: what should be, what is published, and what was ours before. Labels that were ours and are not
//! wanted any more go; conditions, labels, annotations and extended resources that others added stay.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use minke_core::resources::Amount;
use serde_json::{Map, Value, json};

use super::object::OUR_LABELS;

/// A patch, and whether it says more than that the node still lives.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePatch {
    /// Strategic merge patch of the status subresource.
    pub patch: Value,
    /// Something changed.
    pub news: bool,
}

type Quantities = BTreeMap<String, Quantity>;

/// The patch that makes `published` say what `desired` says. `ours`: extended resources that this process published before.
#[must_use]
pub fn node_patch(published: &Node, desired: &Node, ours: &BTreeSet<String>) -> NodePatch {
    let (mut metadata, mut status) = (Map::new(), Map::new());
    labels(published, desired, &mut metadata);
    annotations(published, desired, &mut metadata);
    let nothing = NodeStatus::default();
    let before = published.status.as_ref().unwrap_or(&nothing);
    let after = desired.status.as_ref().unwrap_or(&nothing);
    resources("capacity", before.capacity.as_ref(), after.capacity.as_ref(), ours, &mut status);
    resources("allocatable", before.allocatable.as_ref(), after.allocatable.as_ref(), ours, &mut status);
    whole("nodeInfo", &before.node_info, &after.node_info, &mut status);
    whole("images", &before.images, &after.images, &mut status);
    whole("daemonEndpoints", &before.daemon_endpoints, &after.daemon_endpoints, &mut status);
    if let Some(addresses) = after.addresses.as_ref().filter(|_| before.addresses != after.addresses) {
        // Merged by kind otherwise, so that of two addresses of one kind one would be lost.
        let replaced = std::iter::once(json!({"$patch": "replace"})).chain(addresses.iter().map(|a| json!(a)));
        status.insert("addresses".to_owned(), replaced.collect());
    }
    let (conditions, changed) = conditions(before, after);
    let news = changed || !metadata.is_empty() || !status.is_empty();
    status.insert("conditions".to_owned(), conditions);
    if let Some(uid) = &published.metadata.uid {
        metadata.insert("uid".to_owned(), json!(uid));
    }
    NodePatch { patch: json!({"metadata": metadata, "status": status}), news }
}

fn labels(published: &Node, desired: &Node, metadata: &mut Map<String, Value>) {
    let empty = BTreeMap::new();
    let before = published.metadata.labels.as_ref().unwrap_or(&empty);
    let after = desired.metadata.labels.as_ref().unwrap_or(&empty);
    let mut changes = Map::new();
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
        changes.insert(key.clone(), json!(value));
    }
    let ours = published.metadata.annotations.as_ref().and_then(|a| a.get(OUR_LABELS));
    let dropped = ours.into_iter().flat_map(|keys| keys.split(','));
    for key in dropped.filter(|key| before.contains_key(*key) && !after.contains_key(*key)) {
        changes.insert(key.to_owned(), Value::Null);
    }
    if !changes.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(changes));
    }
}

fn annotations(published: &Node, desired: &Node, metadata: &mut Map<String, Value>) {
    let before = published.metadata.annotations.as_ref();
    let differs = |key: &str, value: &String| before.and_then(|all| all.get(key)) != Some(value);
    let wanted = desired.metadata.annotations.iter().flatten();
    let changes: Map<String, Value> =
        wanted.filter(|(key, value)| differs(key, value)).map(|(key, value)| (key.clone(), json!(value))).collect();
    if !changes.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(changes));
    }
}

/// Whether a resource may be ours to take away: what has no domain is the node's own, and what this process published.
fn may_drop(name: &str, ours: &BTreeSet<String>) -> bool {
    !name.contains('/') || ours.contains(name)
}

fn resources(
    field: &str,
    before: Option<&Quantities>,
    after: Option<&Quantities>,
    ours: &BTreeSet<String>,
    status: &mut Map<String, Value>,
) {
    // Nothing is known of the machine: what was said stays.
    let Some(after) = after else { return };
    let amount = |quantity: &Quantity| Amount::of(quantity).ok();
    let published = |name: &String| before.and_then(|all| all.get(name));
    let mut changes = Map::new();
    for (name, quantity) in after {
        if published(name).is_none_or(|published| amount(published) != amount(quantity)) {
            changes.insert(name.clone(), json!(quantity));
        }
    }
    for name in before.into_iter().flat_map(BTreeMap::keys) {
        if !after.contains_key(name) && may_drop(name, ours) {
            changes.insert(name.clone(), Value::Null);
        }
    }
    if !changes.is_empty() {
        status.insert(field.to_owned(), Value::Object(changes));
    }
}

fn whole<T: PartialEq + serde::Serialize>(
    field: &str,
    before: &Option<T>,
    after: &Option<T>,
    status: &mut Map<String, Value>,
) {
    let Some(wanted) = after.as_ref().filter(|_| before != after) else { return };
    // An empty list is published as none at all.
    let (wanted, had) = (json!(wanted), json!(before));
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !(empty(&wanted) && empty(&had)) {
        status.insert(field.to_owned(), wanted);
    }
}

/// All of our conditions, and whether one says something else than before. One that does not keeps the time of its change.
fn conditions(before: &NodeStatus, after: &NodeStatus) -> (Value, bool) {
    let mut changed = false;
    let of = |wanted: &NodeCondition| {
        let mut wanted = wanted.clone();
        let published = before.conditions.iter().flatten().find(|c| c.type_ == wanted.type_);
        if let Some(published) = published.filter(|published| published.status == wanted.status) {
            wanted.last_transition_time = published.last_transition_time.clone();
        }
        let said = |c: &NodeCondition| (c.status.clone(), c.reason.clone(), c.message.clone());
        changed |= published.map(said) != Some(said(&wanted));
        json!(wanted)
    };
    let all: Vec<Value> = after.conditions.iter().flatten().map(of).collect();
    (Value::Array(all), changed)
}

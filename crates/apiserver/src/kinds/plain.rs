//! Rules that all kinds share: metadata. Kinds with nothing else have these alone.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::strategy::{causes, immutable, invalid, typed_with};
use crate::error::Cause;

/// The rules of metadata, by the core's own: those of a ConfigMap without content are nothing else.
pub(crate) fn metadata(object: &Value) -> Vec<Cause> {
    let bare = json!({"metadata": object.get("metadata").cloned().unwrap_or_default()});
    match serde_json::from_value::<ConfigMap>(bare) {
        Ok(bare) => causes(minke_core::validation::validate_config_map(&bare)),
        Err(error) => vec![Cause::new("FieldValueTypeInvalid", format!("Invalid value: {error}"), "metadata")],
    }
}

/// The same where a name may be anything that a path can have.
pub(super) fn metadata_of_any_name(object: &Value) -> Vec<Cause> {
    let mut bare = json!({"metadata": object.get("metadata").cloned().unwrap_or_default()});
    let name = bare["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if !name.is_empty() && bare["metadata"].is_object() {
        bare["metadata"]["name"] = "x".into();
    }
    let mut found = metadata(&bare);
    if matches!(name.as_str(), "." | "..") || name.contains(['/', '%']) {
        found.push(invalid("metadata.name", &name.into(), "may not be '.' or '..', nor contain '/' or '%'"));
    }
    found
}

/// A name that is a DNS label: shorter, and without dots.
pub(super) fn label_name(object: &Value) -> Vec<Cause> {
    let mut found = metadata(object);
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if found.is_empty() && (name.len() > 63 || name.contains('.')) {
        let why = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                   end with an alphanumeric character, and have at most 63 of them";
        found.push(invalid("metadata.name", &name.into(), why));
    }
    found
}

/// RuntimeClass: the handler is a label and stays what it is.
pub(super) fn runtime_class(object: &Value) -> Vec<Cause> {
    let mut found = metadata(object);
    let handler = object["handler"].as_str().unwrap_or_default();
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if handler.is_empty() {
        found.push(Cause::new("FieldValueRequired", "Required value", "handler"));
    } else if handler.len() > 63 || !handler.chars().all(good) || handler.starts_with('-') || handler.ends_with('-') {
        found.push(invalid("handler", &handler.into(), "must be a lowercase RFC 1123 label"));
    }
    found
}

pub(super) fn runtime_class_update(new: &Value, old: &Value) -> Vec<Cause> {
    immutable(new, old, "/handler").into_iter().collect()
}

/// PriorityClass: preemption is allowed where nothing else is said.
pub(super) fn priority_class(value: Value) -> Result<Value, serde_json::Error> {
    typed_with::<k8s_openapi::api::scheduling::v1::PriorityClass>(value, |class| {
        class.preemption_policy.get_or_insert_with(|| "PreemptLowerPriority".to_owned());
    })
}

const SYSTEM_PREFIX: &str = "system-";
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

/// The classes of the system itself, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class_rules(object: &Value) -> Vec<Cause> {
    let mut found = metadata(object);
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let value = object["value"].as_i64().unwrap_or_default();
    if name.starts_with(SYSTEM_PREFIX) {
        if !SYSTEM_CLASSES.contains(&(name, value)) {
            let why = "priority class names with 'system-' prefix are reserved for system use only";
            found.push(super::strategy::forbidden("metadata.name", why));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let why = "maximum allowed value of a user defined priority is 1000000000";
        found.push(super::strategy::forbidden("value", why));
    }
    let policy = object["preemptionPolicy"].as_str().unwrap_or_default();
    if !matches!(policy, "" | "Never" | "PreemptLowerPriority") {
        let message = format!("Unsupported value: {policy:?}: supported values: \"Never\", \"PreemptLowerPriority\"");
        found.push(Cause::new("FieldValueNotSupported", message, "preemptionPolicy"));
    }
    found
}

pub(super) fn priority_class_update(new: &Value, old: &Value) -> Vec<Cause> {
    ["/value", "/preemptionPolicy"].into_iter().filter_map(|field| immutable(new, old, field)).collect()
}

/// Lease: the numbers are positive.
pub(super) fn lease(object: &Value) -> Vec<Cause> {
    let mut found = metadata(object);
    for (field, least) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        if let Some(number) = object["spec"][field].as_i64()
            && number < least
        {
            let why = if least == 1 { "must be greater than 0" } else { "must be greater than or equal to 0" };
            found.push(invalid(&format!("spec.{field}"), &number.into(), why));
        }
    }
    found
}

/// Event: it is where the object is that it is about.
pub(super) fn event(object: &Value) -> Vec<Cause> {
    let mut found = metadata(object);
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    // What has no namespace has its events in `default`, or where it likes, as the kubelet's about a node are.
    if !about.is_empty() && about != namespace {
        found.push(invalid("involvedObject.namespace", &about.into(), "does not match event.namespace"));
    }
    found
}

//! Namespaces: active with the server's finalizer, until everything in them is gone.

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::strategy::typed;

pub(super) fn complete(value: Value) -> Result<Value, serde_json::Error> {
    let mut value = typed::<Namespace>(value)?;
    let name = value["metadata"]["name"].clone();
    // Not for a name that is still to be generated.
    if name.is_string() {
        value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
    Ok(value)
}

pub(super) fn create(value: &mut Value) {
    value["spec"]["finalizers"] = json!(["kubernetes"]);
    value["status"] = json!({"phase": "Active"});
}

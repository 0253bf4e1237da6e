//! Hashes of container specs: another hash means "replace the running container".

use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

/// Hash of what can't change under a running container: its name and image, as upstream.
#[must_use]
pub fn container_hash(container: &Container) -> String {
    hash(&json!({"name": container.name, "image": container.image}))
}

/// Hash of what a crash loop is counted by: image and resources, so that changing either starts afresh.
#[must_use]
pub fn backoff_hash(container: &Container) -> String {
    let resources = serde_json::to_value(&container.resources).unwrap_or(Value::Null);
    hash(&json!({"name": container.name, "image": container.image, "resources": resources}))
}

/// FNV-1a over the JSON, whose keys are sorted. Stable over versions and machines; not for secrets.
fn hash(value: &Value) -> String {
    let text = value.to_string();
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

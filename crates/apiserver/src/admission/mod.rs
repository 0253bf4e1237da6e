//! What upstream's admission plugins do to a new Pod: priority, tolerations, service account, RuntimeClass. Pure: other objects
//! are handed in.
//!
//! The order is upstream's, as far as one sees the other's work: `DefaultTolerationSeconds`, `ServiceAccount`, `RuntimeClass`,
//! `Priority`.

mod priority;
mod runtime_class;
mod service_account;
mod tolerations;

use serde_json::Value;

pub use service_account::{DEFAULT_ACCOUNT, ROOT_CERTIFICATES};

/// The objects that a new Pod is judged by.
pub trait Facts {
    /// The object of this kind and name in the Pod's namespace, or without one.
    fn find(&self, plural: &str, name: &str) -> Option<Value>;
    /// The PriorityClass for Pods that name none: name, value, policy of preemption.
    fn default_priority(&self) -> Option<Value>;
    /// Whether the server issues tokens that Pods are given.
    fn mounts_tokens(&self) -> bool;
    /// Random text for a volume's name.
    fn suffix(&self) -> String;
}

/// Completes a new Pod. The error says why it is forbidden.
pub fn admit(pod: &mut Value, facts: &dyn Facts) -> Result<(), String> {
    tolerations::admit(pod);
    service_account::admit(pod, facts)?;
    runtime_class::admit(pod, facts)?;
    priority::admit(pod, facts)
}

/// The entries of a list, which is made where there is none.
fn list<'a>(parent: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    if !parent[field].is_array() {
        parent[field] = Value::Array(Vec::new());
    }
    // Just made one.
    parent[field].as_array_mut().unwrap_or_else(|| unreachable!())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;

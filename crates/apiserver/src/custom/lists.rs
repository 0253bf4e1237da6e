//! Lists whose entries are to differ: sets, and maps by their keys.

use serde_json::{Map, Value};

use super::node::{Entries, Node};
use crate::error::Cause;

/// Every entry that is there a second time.
pub(super) fn duplicates(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = node.field(name) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    duplicates(property, value, &path, found);
                }
            }
        }
        Value::Array(entries) => {
            let mut seen: Vec<Value> = Vec::new();
            for (at, entry) in entries.iter().enumerate() {
                let identity = match &node.entries {
                    Entries::Free => None,
                    Entries::Set => Some(entry.clone()),
                    Entries::Map(keys) => Some(keys_of(entry, keys)),
                };
                if let Some(identity) = identity {
                    if seen.contains(&identity) {
                        let message = format!("Duplicate value: {identity}");
                        found.push(Cause::new("FieldValueDuplicate", message, format!("{path}[{at}]")));
                    }
                    seen.push(identity);
                }
                if let Some(items) = &node.items {
                    duplicates(items, entry, &format!("{path}[{at}]"), found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The fields that tell an entry apart, as an object.
fn keys_of(entry: &Value, keys: &[String]) -> Value {
    let keys = keys.iter().filter_map(|key| Some((key.clone(), entry.get(key)?.clone())));
    Value::Object(keys.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_of_sets_and_maps_are_there_once() {
        let schema = json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
            },
            "free": {"type": "array", "items": {"type": "string"}},
        }});
        let node = Node::new(&serde_json::from_value(schema).unwrap()).unwrap();
        let value = json!({
            "set": ["a", "b", "a"], "free": ["a", "a"],
            "ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP", "x": 1}],
        });
        let mut found = Vec::new();
        duplicates(&node, &value, "", &mut found);
        let told: Vec<String> = found.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        assert_eq!(
            told,
            [r#"ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#, r#"set[2]: Duplicate value: "a""#,]
        );
    }
}

//! Unknown fields of a custom resource: told, and dropped. Values of wrong types stay: its schema judges them, with
//! messages of its own.

use serde_json::Value;

use super::MOST_PROBLEMS;
use crate::schema::{Kind, Types};

/// Drops the fields that no type has; gives their paths, at most a hundred.
pub fn prune(types: &Types, kind: &Kind, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(types, kind, value, "", &mut unknown);
    unknown
}

fn walk(types: &Types, kind: &Kind, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (kind, value) {
        (Kind::Struct { id, .. }, Value::Object(fields)) => {
            let strukt = types.get(*id);
            fields.retain(|name, value| match strukt.field(name) {
                Some(field) => {
                    walk(types, &field.kind, value, &at(name), unknown);
                    true
                }
                None => {
                    if !strukt.open && unknown.len() < MOST_PROBLEMS {
                        unknown.push(at(name));
                    }
                    strukt.open
                }
            });
        }
        (Kind::Map { value: kind, .. }, Value::Object(fields)) => {
            fields.iter_mut().for_each(|(name, value)| walk(types, kind, value, &at(name), unknown));
        }
        (Kind::List { element, .. }, Value::Array(entries)) => {
            for (n, entry) in entries.iter_mut().enumerate() {
                walk(types, element, entry, &format!("{path}[{n}]"), unknown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_and_everything_else_stays() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": {"type": "object"}}},
        }}}});
        let types = Types::structural("a/v1", "X", &schema).unwrap();
        let mut object = json!({
            "kind": "X", "metadata": {"name": "x", "odd": 1}, "extra": 1,
            "spec": {"n": "wrong", "list": [{"a": 1, "b": 2}], "map": {"k": "v"}, "free": {"y": 1, "x": {"z": 1}}},
        });
        let unknown = prune(&types, &types.kind("a/v1", "X").unwrap(), &mut object);
        assert_eq!(unknown, ["extra", "metadata.odd", "spec.free.x.z", "spec.list[0].b"]);
        assert_eq!(
            object,
            json!({
                "kind": "X", "metadata": {"name": "x"},
                "spec": {"n": "wrong", "list": [{"a": 1}], "map": {"k": "v"}, "free": {"y": 1, "x": {}}},
            })
        );
    }
}

//! Fields that are not given become what their schema says.

use serde_json::Value;

use super::node::Node;

/// Fills in what is missing, outer defaults first: inner ones apply to what those bring. A `null` where none may be is as
/// good as nothing if there is a default. Neither `metadata` nor the type's own fields have any.
pub(super) fn fill(node: &Node, value: &mut Value, resource: bool) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                if let Some(default) = &property.default {
                    let missing = match fields.get(name) {
                        None => true,
                        Some(Value::Null) => !property.nullable,
                        Some(_) => false,
                    };
                    if missing {
                        fields.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, value) in fields.iter_mut() {
                if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                if let Some(property) = node.field(name) {
                    fill(property, value, property.embedded);
                }
            }
        }
        Value::Array(entries) => {
            if let Some(items) = &node.items {
                entries.iter_mut().for_each(|entry| fill(items, entry, items.embedded));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_filled_in_from_the_outside_inwards() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {"size": 2}, "properties": {
            "size": {"type": "integer", "default": 1},
            "colour": {"type": "string", "default": "red"},
            "maybe": {"type": "string", "nullable": true, "default": "x"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"on": {"type": "boolean", "default": true}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}},
        }}}});
        let node = Node::new(&serde_json::from_value(schema).unwrap()).unwrap();
        let filled = |mut value: Value| {
            fill(&node, &mut value, true);
            value
        };
        assert_eq!(filled(json!({})), json!({"spec": {"size": 2, "colour": "red", "maybe": "x"}}));
        assert_eq!(
            filled(json!({"spec": {"colour": null, "maybe": null, "list": [{}, {"on": false}], "map": {"k": {}}}})),
            json!({"spec": {
                "size": 1, "colour": "red", "maybe": null, "list": [{"on": true}, {"on": false}], "map": {"k": {"n": 3}},
            }})
        );
    }
}

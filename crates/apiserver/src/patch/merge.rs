//! JSON merge patch, RFC 7386: objects are merged, `null` removes, everything else replaces.

use serde_json::{Map, Value};

/// Applies a merge patch.
#[must_use]
pub fn merge_patch(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    merge(&mut object, patch);
    object
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::tests::any_json;

    #[test]
    fn the_table_of_the_rfc() {
        for (object, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merge_patch(&object, &patch), expected, "{object} {patch}");
        }
    }

    proptest! {
        #[test]
        fn a_patch_applied_twice_changes_nothing_more(object in any_json(), patch in any_json()) {
            let once = merge_patch(&object, &patch);
            prop_assert_eq!(merge_patch(&once, &patch), once);
        }

        #[test]
        fn an_empty_patch_changes_no_object(object in any_json()) {
            if object.is_object() {
                prop_assert_eq!(merge_patch(&object, &json!({})), object);
            }
        }
    }
}

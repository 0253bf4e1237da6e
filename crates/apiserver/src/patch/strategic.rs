//! Strategic merge patch: a merge patch that knows the types, so that lists of objects are merged by key.
//!
//! | in the patch | does |
//! |---|---|
//! | `"$patch": "replace"` in an object | the object is replaced by the rest |
//! | `"$patch": "delete"` in an object | the object becomes empty; a list's entry goes |
//! | `"$patch": "replace"` as an entry | the list is replaced by the other entries |
//! | `"$deleteFromPrimitiveList/x": […]` | these values leave the list `x` |
//! | `"$setElementOrder/x": […]` | the order of `x`: values, or objects with the merge key |
//! | `"$retainKeys": […]` | other fields of the object go |
//! | `null` | the field goes |
//!
//! Better than upstream: an entry that is new to a list brings no nulls and no directives with it; an object that is to
//! replace one that is not there is kept; `$deleteFromPrimitiveList` comes before what the same patch adds, always; and a
//! patch without a merge key is the client's mistake (400), not ours (500).

use serde_json::{Map, Value};

use super::PatchError;
use super::order::{arrange, same};
use crate::schema::{Kind, Strategy, Types};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object of the type `kind`.
///
/// # Errors
/// [`PatchError::Malformed`]: a directive that there is not, or that contradicts itself; an entry without its key.
pub fn strategic_merge_patch(types: &Types, kind: &Kind, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else { return Err(malformed("a strategic merge patch is an object")) };
    let original = object.as_object().cloned().unwrap_or_default();
    merge_object(types, Some(kind), original, patch.clone()).map(Value::Object)
}

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

/// Kind and strategy of a field, where they are known.
fn look_up<'a>(types: &'a Types, kind: Option<&'a Kind>, name: &str) -> (Option<&'a Kind>, Option<&'a Strategy>) {
    match kind {
        Some(Kind::Struct { id, .. }) => {
            let field = types.get(*id).field(name);
            (field.map(|field| &field.kind), field.map(|field| &field.patch))
        }
        Some(Kind::Map { value, .. }) => (Some(value), None),
        _ => (None, None),
    }
}

fn merge_object(
    types: &Types,
    kind: Option<&Kind>,
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(without_directives(patch)),
            Some("delete") => Ok(Map::new()),
            _ => Err(malformed(format!("unknown patch type: {directive}"))),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    let orders = take_orders(types, kind, &original, &mut patch)?;
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix(DELETE_VALUES) {
            delete_values(&mut original, list, &change)?;
            continue;
        }
        if change.is_null() {
            original.remove(&name);
            continue;
        }
        let (kind, strategy) = look_up(types, kind, &name);
        let merged = match (original.remove(&name), change) {
            (Some(Value::Object(was)), Value::Object(change)) => {
                Some(Value::Object(merge_object(types, kind, was, change)?))
            }
            (Some(Value::Array(was)), Value::Array(change)) if strategy.is_some_and(|s| s.merge) => {
                let key = strategy.and_then(|s| s.key.as_deref());
                Some(Value::Array(merge_list(types, kind, key, &was, change)?))
            }
            (_, change) => cleaned(change),
        };
        original.extend(merged.map(|merged| (name, merged)));
    }
    for order in orders {
        if let Some(Value::Array(list)) = original.get_mut(&order.name) {
            *list = arrange(std::mem::take(list), &order.wanted, &order.before, order.key);
        }
    }
    Ok(original)
}

/// A `$setElementOrder` and the list as it was.
struct Order<'a> {
    name: String,
    wanted: Vec<Value>,
    before: Vec<Value>,
    key: Option<&'a str>,
}

/// Takes the orders out of a patch.
fn take_orders<'a>(
    types: &'a Types,
    kind: Option<&'a Kind>,
    original: &Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<Vec<Order<'a>>, PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    let mut orders = Vec::new();
    for directive in directives {
        let name = directive[SET_ORDER.len()..].to_owned();
        let Some(Value::Array(wanted)) = patch.remove(&directive) else {
            return Err(malformed(format!("{directive} is not a list")));
        };
        let key = look_up(types, kind, &name).1.and_then(|strategy| strategy.key.as_deref());
        // The patch's own entries must come in the order that it asks for.
        let entries = patch.get(&name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut rest = wanted.iter();
        let ordered = entries
            .iter()
            .filter(|entry| entry.get(PATCH).is_none())
            .all(|entry| rest.any(|place| same(place, entry, key)));
        if !ordered && !wanted.is_empty() {
            return Err(malformed(format!("the order of {name} in the patch doesn't match {directive}")));
        }
        let before = original.get(&name).and_then(Value::as_array).cloned().unwrap_or_default();
        orders.push(Order { name, wanted, before, key });
    }
    Ok(orders)
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || malformed("$retainKeys is not the list of the fields that the patch sets");
    let keys: Vec<&str> = keys.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let set = patch.iter().filter(|(name, value)| {
        !value.is_null() && !name.starts_with(SET_ORDER) && !name.starts_with(DELETE_VALUES) && *name != PATCH
    });
    if set.into_iter().any(|(name, _)| !keys.contains(&name.as_str())) {
        return Err(bad());
    }
    original.retain(|name, _| keys.contains(&name.as_str()));
    Ok(())
}

fn delete_values(original: &mut Map<String, Value>, list: &str, values: &Value) -> Result<(), PatchError> {
    let values = values.as_array().ok_or_else(|| malformed(format!("{DELETE_VALUES}{list} is not a list")))?;
    if let Some(Value::Array(entries)) = original.get_mut(list) {
        entries.retain(|entry| !values.contains(entry));
    }
    Ok(())
}

/// Merges entries by key; without one, the list is a set of values.
fn merge_list(
    types: &Types,
    kind: Option<&Kind>,
    key: Option<&str>,
    original: &[Value],
    patch: Vec<Value>,
) -> Result<Vec<Value>, PatchError> {
    let element = match kind {
        Some(Kind::List { element, .. }) => Some(element.as_ref()),
        _ => None,
    };
    let mut merged = original.to_vec();
    let mut wanted = Vec::new();
    let mut replace = false;
    for entry in patch {
        let Some(key) = key else {
            if !merged.contains(&entry) {
                merged.push(entry.clone());
            }
            wanted.push(entry);
            continue;
        };
        let Value::Object(fields) = &entry else { return Err(malformed(format!("{entry} is no object with a {key}"))) };
        let directive = fields.get(PATCH).map(|directive| (directive.as_str(), directive));
        if let Some((Some("replace"), _)) = directive {
            replace = true;
            continue;
        }
        if fields.get(key).is_none_or(Value::is_null) {
            return Err(malformed(format!("map: {entry} does not contain declared merge key: {key}")));
        }
        match directive {
            None => wanted.push(entry),
            Some((Some("delete"), _)) => merged.retain(|other| !same(other, &entry, Some(key))),
            Some((_, directive)) => return Err(malformed(format!("unknown patch type: {directive}"))),
        }
    }
    let Some(key) = key else { return Ok(arrange(merged, &wanted, original, None)) };
    if replace {
        return Ok(wanted.into_iter().filter_map(cleaned).collect());
    }
    for entry in &wanted {
        match merged.iter_mut().find(|other| same(other, entry, Some(key))) {
            Some(Value::Object(found)) => {
                let change = entry.as_object().cloned().unwrap_or_default();
                *found = merge_object(types, element, std::mem::take(found), change)?;
            }
            Some(_) => {}
            None => merged.extend(cleaned(entry.clone())),
        }
    }
    Ok(arrange(merged, &wanted, original, Some(key)))
}

/// A value that was not there before: without nulls and directives. Nothing, when it says of itself that it goes.
fn cleaned(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.get(PATCH).is_some_and(|directive| directive == "delete") => None,
        Value::Object(fields) => Some(Value::Object(without_directives(fields))),
        // An entry with a directive is about a list that is there.
        Value::Array(entries) => {
            let plain = entries.into_iter().filter(|entry| entry.get(PATCH).is_none());
            Some(Value::Array(plain.filter_map(cleaned).collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value),
    }
}

fn without_directives(fields: Map<String, Value>) -> Map<String, Value> {
    let directive = |name: &str| {
        name == PATCH || name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_VALUES)
    };
    let kept = fields.into_iter().filter(|(name, value)| !value.is_null() && !directive(name));
    kept.filter_map(|(name, value)| Some((name, cleaned(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::tests::any_pod;
    use crate::schema::builtin;

    fn patched(object: &Value, patch: &Value) -> Result<Value, PatchError> {
        let kind = builtin().kind("v1", "Pod").unwrap();
        strategic_merge_patch(builtin(), &kind, object, patch)
    }

    /// A patch of a Pod's spec.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    fn becomes(object: Value, patch: Value, expected: Value) {
        let result = patched(&json!({"spec": object}), &json!({"spec": patch}));
        assert_eq!(result, Ok(json!({"spec": expected})), "{patch}");
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    fn refused(object: Value, patch: Value) {
        let result = patched(&json!({"spec": object}), &json!({"spec": patch}));
        assert!(matches!(result, Err(PatchError::Malformed(_))), "{result:?}");
    }

    #[test]
    fn lists_of_objects_are_merged_by_key() {
        becomes(
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
        );
        becomes(
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]}),
        );
    }

    #[test]
    fn atomic_lists_are_replaced() {
        becomes(
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": [{"key": "b"}]}),
            json!({"tolerations": [{"key": "b"}]}),
        );
        becomes(
            json!({"containers": [{"name": "a", "command": ["x", "y"]}]}),
            json!({"containers": [{"name": "a", "command": ["z"]}]}),
            json!({"containers": [{"name": "a", "command": ["z"]}]}),
        );
    }

    #[test]
    fn null_removes_a_field_and_is_never_kept() {
        becomes(json!({"nodeName": "n", "hostname": "h"}), json!({"nodeName": null}), json!({"hostname": "h"}));
        becomes(
            json!({}),
            json!({"nodeName": null, "securityContext": {"runAsUser": null}}),
            json!({"securityContext": {}}),
        );
        becomes(
            json!({}),
            json!({"containers": [{"name": "a", "image": null}]}),
            json!({"containers": [{"name": "a"}]}),
        );
    }

    #[test]
    fn objects_are_replaced_or_deleted_by_directive() {
        becomes(
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "replace", "b": "2"}}),
            json!({"nodeSelector": {"b": "2"}}),
        );
        becomes(
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "delete"}}),
            json!({"nodeSelector": {}}),
        );
        becomes(json!({}), json!({"nodeSelector": {"$patch": "delete"}}), json!({}));
        refused(json!({"nodeSelector": {}}), json!({"nodeSelector": {"$patch": "odd"}}));
    }

    #[test]
    fn entries_are_deleted_and_lists_replaced_by_directive() {
        let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        becomes(
            two.clone(),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        );
        becomes(
            two.clone(),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}]}),
        );
        becomes(
            json!({}),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}]}),
        );
        let replaced = json!({"containers": [{"$patch": "replace"}, {"name": "b"}]});
        becomes(json!({}), replaced, json!({"containers": [{"name": "b"}]}));
        refused(two.clone(), json!({"containers": [{"$patch": "delete"}]}));
        refused(two.clone(), json!({"containers": [{"name": "a", "$patch": "merge"}]}));
        refused(two.clone(), json!({"containers": [{"image": "x"}]}));
        refused(two, json!({"containers": ["a"]}));
    }

    #[test]
    fn the_patch_says_the_order_of_a_list() {
        let three = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
        becomes(
            three.clone(),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
        );
        // What kubectl apply sends to add an entry in front.
        becomes(
            three.clone(),
            json!({
                "$setElementOrder/containers": [{"name": "n"}, {"name": "a"}, {"name": "b"}, {"name": "c"}],
                "containers": [{"name": "n", "image": "i"}],
            }),
            json!({"containers": [{"name": "n", "image": "i"}, {"name": "a"}, {"name": "b"}, {"name": "c"}]}),
        );
        refused(
            three.clone(),
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
        );
        refused(three, json!({"$setElementOrder/containers": "a"}));
    }

    #[test]
    fn values_of_a_set_are_added_and_deleted() {
        let object = json!({"metadata": {"finalizers": ["a", "b"]}});
        let add = patched(&object, &json!({"metadata": {"finalizers": ["c", "a"]}})).unwrap();
        assert_eq!(add, json!({"metadata": {"finalizers": ["c", "a", "b"]}}));
        let delete = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}});
        assert_eq!(patched(&object, &delete).unwrap(), json!({"metadata": {"finalizers": ["c", "b"]}}));
        let nothing = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(patched(&json!({}), &nothing).unwrap(), json!({"metadata": {}}));
    }

    #[test]
    fn retained_keys_push_the_others_out() {
        becomes(
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
        );
        refused(
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {"path": "/x"}}]}),
        );
    }

    #[test]
    fn what_is_no_object_is_no_patch() {
        assert!(matches!(patched(&json!({}), &json!([])), Err(PatchError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn a_patch_applied_twice_changes_nothing_more(object in any_pod(), patch in any_pod()) {
            let once = patched(&object, &patch).unwrap();
            prop_assert_eq!(patched(&once, &patch).unwrap(), once);
        }

        #[test]
        fn a_patch_with_the_object_itself_changes_nothing(object in any_pod()) {
            prop_assert_eq!(patched(&object, &object).unwrap(), object);
        }

        #[test]
        fn everything_that_the_patch_sets_is_there_and_nothing_else_is_lost(object in any_pod(), patch in any_pod()) {
            let merged = patched(&object, &patch).unwrap();
            for source in [&object, &patch] {
                for (name, value) in source["metadata"]["labels"].as_object().into_iter().flatten() {
                    let wanted = patch["metadata"]["labels"].get(name).unwrap_or(value);
                    prop_assert_eq!(&merged["metadata"]["labels"][name], wanted);
                }
                for container in source["spec"]["containers"].as_array().into_iter().flatten() {
                    let containers = merged["spec"]["containers"].as_array().into_iter().flatten();
                    let found: Vec<_> = containers.filter(|c| c["name"] == container["name"]).collect();
                    prop_assert_eq!(found.len(), 1);
                    for env in container["env"].as_array().into_iter().flatten() {
                        let all = found[0]["env"].as_array().into_iter().flatten();
                        prop_assert_eq!(all.filter(|e| e["name"] == env["name"]).count(), 1);
                    }
                }
            }
        }
    }
}

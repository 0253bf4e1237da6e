//! JSON patch, RFC 6902, as upstream's library has it. Where that differs from the RFC:
//!
//! - An index may be negative: `-1` is the last entry.
//! - `test` of a member that is not there passes for `null`.
//! - The document as a whole (the path `""`) can be tested and copied from, not replaced.
//!
//! The crate `json-patch` has neither these nor the limits. One limit is our own: a patch whose moves and copies could
//! nest the object deeper than [`DEEPEST`] levels is refused, because values are walked by recursion.

use serde_json::{Map, Value};

use super::{MAX_COPIED, MAX_OPERATIONS, PatchError};

/// Objects nest some twenty levels; bodies are read to 128.
const DEEPEST: usize = 512;

/// Applies a list of operations, all or none.
///
/// # Errors
/// [`PatchError::Malformed`]: not a list of objects. [`PatchError::TooMany`]: beyond the limit.
/// [`PatchError::DoesNotApply`]: the first operation that fails.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let malformed = || PatchError::Malformed("a JSON patch is a list of operations, each an object".to_owned());
    let operations = patch.as_array().ok_or_else(malformed)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooMany(operations.len()));
    }
    let operations: Vec<_> = operations.iter().map(Value::as_object).collect::<Option<_>>().ok_or_else(malformed)?;
    let mut object = object.clone();
    let mut size = Size { copied: 0, deepest: depth(&object) };
    for operation in operations {
        perform(&mut object, operation, &mut size).map_err(PatchError::DoesNotApply)?;
    }
    Ok(object)
}

/// What the operations have made of the object so far.
struct Size {
    /// Bytes by `copy`.
    copied: usize,
    /// Levels that it has at most. Never looked up again, so that a patch costs what it is long.
    deepest: usize,
}

impl Size {
    /// A value of `levels` comes to `path`.
    fn grow(&mut self, path: &str, levels: usize) -> Result<(), String> {
        self.deepest = self.deepest.max(levels.saturating_add(path.matches('/').count()));
        if self.deepest > DEEPEST { Err(format!("{path} would nest too deep")) } else { Ok(()) }
    }

    /// What is below `from` comes to `path`.
    fn shift(&mut self, from: &str, path: &str) -> Result<(), String> {
        self.grow(path, self.deepest.saturating_sub(from.matches('/').count()))
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn perform(object: &mut Value, operation: &Map<String, Value>, size: &mut Size) -> Result<(), String> {
    let text =
        |key: &str| operation.get(key).and_then(Value::as_str).ok_or_else(|| format!("an operation has no {key}"));
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = text("path")?;
    match text("op")? {
        "add" => {
            size.grow(path, depth(operation.get("value").unwrap_or(&Value::Null)))?;
            add(object, path, value())
        }
        "remove" => remove(object, path).map(drop),
        "replace" => match find_mut(object, path) {
            Some(found) if !path.is_empty() => {
                size.grow(path, depth(operation.get("value").unwrap_or(&Value::Null)))?;
                *found = value();
                Ok(())
            }
            _ => Err(format!("replace: there is no {path}")),
        },
        "test" => match find(object, path) {
            Some(found) if *found == value() => Ok(()),
            // A member, not an entry: its parent must be there.
            None if value().is_null() && split(path).and_then(|(parent, _)| find(object, parent)).is_some() => Ok(()),
            _ => Err(format!("test: {path} is something else")),
        },
        "move" => {
            let from = text("from")?;
            let inside = path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
            if inside {
                return Err(format!("move: {path} is inside of {from}"));
            }
            size.shift(from, path)?;
            let moved = remove(object, from)?;
            add(object, path, moved)
        }
        "copy" => {
            let from = text("from")?;
            size.shift(from, path)?;
            let found = find(object, from).ok_or_else(|| format!("copy: there is no {from}"))?;
            size.copied = size.copied.saturating_add(found.to_string().len());
            if size.copied > MAX_COPIED {
                return Err(format!("copy: more than {MAX_COPIED} bytes are copied"));
            }
            let found = found.clone();
            add(object, path, found)
        }
        other => Err(format!("there is no operation {other:?}")),
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let missing = || format!("add: {path} has no place");
    let (parent, key) = split(path).ok_or_else(missing)?;
    match find_mut(object, parent).ok_or_else(missing)? {
        Value::Object(map) => {
            map.insert(key, value);
            Ok(())
        }
        Value::Array(list) if key == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            // One more than the list has: the new entry counts.
            let at = index(&key, list.len() + 1).ok_or_else(missing)?;
            list.insert(at, value);
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(missing()),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let missing = || format!("remove: there is no {path}");
    let (parent, key) = split(path).ok_or_else(missing)?;
    match find_mut(object, parent).ok_or_else(missing)? {
        Value::Object(map) => map.remove(&key).ok_or_else(missing),
        Value::Array(list) => index(&key, list.len()).map(|at| list.remove(at)).ok_or_else(missing),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(missing()),
    }
}

/// The parent's path and the last word, unescaped.
fn split(path: &str) -> Option<(&str, String)> {
    let (parent, key) = path.rsplit_once('/')?;
    Some((parent, unescape(key)))
}

fn unescape(word: &str) -> String {
    word.replace("~1", "/").replace("~0", "~")
}

/// `at` in a list of `length` entries.
fn index(word: &str, length: usize) -> Option<usize> {
    let well_formed = word == "0" || !word.trim_start_matches('-').starts_with('0');
    let at = word.parse::<i64>().ok().filter(|_| well_formed)?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at + length } else { at };
    if at < length { usize::try_from(at).ok() } else { None }
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    words(path)?.try_fold(object, |at, word| match at {
        Value::Object(map) => map.get(&unescape(word)),
        Value::Array(list) => list.get(index(word, list.len())?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn find_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    words(path)?.try_fold(object, |at, word| match at {
        Value::Object(map) => map.get_mut(&unescape(word)),
        Value::Array(list) => {
            let at = index(word, list.len())?;
            list.get_mut(at)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn words(path: &str) -> Option<impl Iterator<Item = &str>> {
    let rest = if path.is_empty() { None } else { Some(path.strip_prefix('/')?) };
    Some(rest.into_iter().flat_map(|rest| rest.split('/')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    fn becomes(object: Value, patch: Value, expected: Value) {
        assert_eq!(json_patch(&object, &patch), Ok(expected), "{patch}");
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    fn fails(object: Value, patch: Value) {
        let result = json_patch(&object, &patch);
        assert!(matches!(result, Err(PatchError::DoesNotApply(_))), "{patch}: {result:?}");
    }

    #[test]
    fn each_operation_does_what_the_rfc_says() {
        becomes(json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": [2]}]), json!({"a": 1, "b": [2]}));
        becomes(json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]}));
        becomes(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}));
        becomes(json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2}));
        becomes(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2]}));
        becomes(json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": null}]), json!({"a": null}));
        becomes(
            json!({"a": {"b": 1}}),
            json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
            json!({"a": {}, "c": 1}),
        );
        becomes(json!({"a": [1]}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]}));
        becomes(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}]), json!({"a": 1}));
        becomes(json!({"a": 1}), json!([{"op": "test", "path": "", "value": {"a": 1}}]), json!({"a": 1}));
    }

    #[test]
    fn names_are_unescaped() {
        let labels = json!({"labels": {"example.org/x~y": "1"}});
        becomes(labels, json!([{"op": "remove", "path": "/labels/example.org~1x~0y"}]), json!({"labels": {}}));
        becomes(json!({}), json!([{"op": "add", "path": "/~01", "value": 1}]), json!({"~1": 1}));
    }

    #[test]
    fn what_is_not_there_can_not_be_changed() {
        fails(json!({}), json!([{"op": "remove", "path": "/a"}]));
        fails(json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]));
        fails(json!({}), json!([{"op": "add", "path": "/a/b", "value": 1}]));
        fails(json!({"a": [1]}), json!([{"op": "add", "path": "/a/3", "value": 1}]));
        fails(json!({"a": [1]}), json!([{"op": "remove", "path": "/a/01"}]));
        fails(json!({"a": "x"}), json!([{"op": "add", "path": "/a/b", "value": 1}]));
        fails(json!({}), json!([{"op": "copy", "from": "/a", "path": "/b"}]));
        fails(json!({"a": {}}), json!([{"op": "move", "from": "/a", "path": "/a/b"}]));
        fails(json!({}), json!([{"op": "add", "path": "", "value": 1}]));
        fails(json!({}), json!([{"op": "add", "path": "a", "value": 1}]));
        fails(json!({}), json!([{"op": "odd", "path": "/a"}]));
        fails(json!({}), json!([{"op": "add"}]));
    }

    #[test]
    fn a_failing_test_stops_everything() {
        let patch = json!([{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 2}]);
        fails(json!({"a": 1}), patch);
    }

    #[test]
    fn upstreams_own_ways() {
        becomes(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]}));
        becomes(json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 3}]), json!({"a": [1, 2, 3]}));
        becomes(json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({}));
        fails(json!({}), json!([{"op": "test", "path": "/a/b", "value": null}]));
    }

    #[test]
    fn limits_are_upstreams() {
        let one = json!({"op": "test", "path": "/a", "value": 1});
        let many = Value::Array(vec![one; MAX_OPERATIONS + 1]);
        assert_eq!(json_patch(&json!({"a": 1}), &many), Err(PatchError::TooMany(MAX_OPERATIONS + 1)));
        // Each doubles the list: 40 of them would be a terabyte.
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        fails(json!({"a": ["x"]}), Value::Array(vec![double; 40]));
    }

    #[test]
    fn moves_and_copies_nest_nothing_too_deep() {
        let deeper = json!({"op": "copy", "from": "", "path": "/a"});
        let result = json_patch(&json!({"a": 1}), &Value::Array(vec![deeper.clone(); 100])).unwrap();
        assert_eq!(depth(&result), 101);
        fails(json!({"a": 1}), Value::Array(vec![deeper; 1000]));
        let below = [
            json!({"op": "add", "path": "/b", "value": {}}),
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b", "path": "/a"}),
        ];
        let many = below.iter().cycle().take(3000).cloned().collect();
        fails(json!({"a": 1}), Value::Array(many));
    }

    #[test]
    fn what_is_no_list_of_objects_is_no_patch() {
        for patch in [json!({}), json!([1]), json!(null)] {
            assert!(matches!(json_patch(&json!({}), &patch), Err(PatchError::Malformed(_))), "{patch}");
        }
    }
}

//! Two operations on objects by fields: what an applier wants over what is there, and taking fields away.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::shape::{Shape, entries, fields, is_bare};
use super::step::Step;
use crate::schema::{Kind, Types};

/// `new` over `old`: its leaves win, objects and lists of entries are joined. `None`: nothing is left.
pub(super) fn merged(types: &Types, kind: &Kind, old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let shape = Shape::of(types, kind, &[old, new]);
    if matches!(shape, Shape::Leaf) || (is_bare(old) && is_bare(new)) {
        return new.or(old).cloned();
    }
    match shape {
        Shape::Leaf => new.or(old).cloned(),
        Shape::Struct(_) | Shape::Map(_) => {
            let names: BTreeSet<&String> = fields(old).chain(fields(new)).map(|(name, _)| name).collect();
            let mut out = Map::new();
            for name in names {
                let get = |value: Option<&Value>| value.and_then(|value| value.get(name)).cloned();
                let value = merged(types, shape.field(name), get(old).as_ref(), get(new).as_ref());
                out.extend(value.map(|value| (name.clone(), value)));
            }
            if out.is_empty() { None } else { Some(Value::Object(out)) }
        }
        Shape::Set(element) | Shape::Keyed(_, element) => {
            let out = merged_list(types, shape, element, entries(old), entries(new));
            if out.is_empty() { None } else { Some(Value::Array(out)) }
        }
    }
}

/// The order is the applier's for its own entries; others stay before the entry that they stood before.
fn merged_list(types: &Types, shape: Shape<'_>, element: &Kind, old: &[Value], new: &[Value]) -> Vec<Value> {
    let steps = |list: &[Value]| list.iter().map(|entry| shape.step_to(types, entry).ok()).collect::<Vec<_>>();
    let (old_steps, new_steps) = (steps(old), steps(new));
    let wanted: BTreeSet<&Step> = new_steps.iter().flatten().collect();
    // Entries given twice are not merged with: which one would it be?
    let mut by_step: BTreeMap<&Step, Option<&Value>> = BTreeMap::new();
    for (step, entry) in old_steps.iter().zip(old) {
        if let Some(step) = step {
            by_step.entry(step).and_modify(|found| *found = None).or_insert(Some(entry));
        }
    }
    let mut shared = new_steps.iter().flatten().filter(|step| by_step.contains_key(step)).peekable();
    let mut out = Vec::new();
    let mut done: BTreeSet<&Step> = BTreeSet::new();
    let (mut left, mut right) = (0, 0);
    loop {
        let here = old_steps.get(left);
        // Others come when everything of the applier that stood before them has come.
        let mine = here.is_some_and(|step| step.as_ref().is_some_and(|step| wanted.contains(step)));
        let next = new_steps.get(right);
        match (here, next) {
            (None, None) => return out,
            (Some(_), _) if !mine => {
                out.extend(old.get(left).cloned());
                left += 1;
            }
            (Some(Some(step)), Some(Some(new_step))) if step != new_step && shared.peek() != Some(&step) => left += 1,
            (Some(Some(step)), _) if done.contains(step) => left += 1,
            (Some(_), None) => left += 1,
            (_, Some(None)) => {
                out.extend(new.get(right).cloned());
                right += 1;
            }
            (_, Some(Some(step))) => {
                let before = by_step.get(step).copied().flatten();
                out.extend(merged(types, element, before, new.get(right)));
                done.insert(step);
                if shared.peek() == Some(&step) {
                    shared.next();
                }
                right += 1;
            }
        }
    }
}

/// `value` without the members of `set`. `None`: nothing is left.
pub(super) fn removed(types: &Types, kind: &Kind, value: &Value, set: &FieldSet) -> Option<Value> {
    let shape = Shape::of(types, kind, &[Some(value)]);
    // `None`: the member goes. `Some(None)`: nothing is left of it, which is what null says.
    let kept = |step: &Step, value: &Value| -> Option<Option<Value>> {
        if set.has(step) {
            return None;
        }
        match set.below(step) {
            None => Some(Some(value.clone())),
            Some(below) => Some(removed(types, shape.below(step), value, below)),
        }
    };
    match shape {
        Shape::Leaf => Some(value.clone()),
        Shape::Struct(_) | Shape::Map(_) => {
            let kept = fields(Some(value)).filter_map(|(name, value)| {
                let kept = kept(&Step::field(name), value)?;
                Some((name.clone(), kept.unwrap_or(Value::Null)))
            });
            let out: Map<String, Value> = kept.collect();
            if out.is_empty() { None } else { Some(Value::Object(out)) }
        }
        Shape::Set(_) | Shape::Keyed(..) => {
            let list = entries(Some(value)).iter().filter_map(|entry| match shape.step_to(types, entry) {
                Ok(step) => kept(&step, entry).flatten(),
                Err(_) => Some(entry.clone()),
            });
            let out: Vec<Value> = list.collect();
            if out.is_empty() { None } else { Some(Value::Array(out)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apply::walk::fields_of;
    use crate::schema::builtin;

    fn names(list: &Value) -> String {
        list.as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str()).collect()
    }

    fn containers(text: &str) -> Value {
        json!({"spec": {"containers": text.chars().map(|c| json!({"name": c.to_string()})).collect::<Vec<_>>()}})
    }

    #[test]
    fn others_keep_their_place_among_the_appliers_entries() {
        let kind = builtin().kind("v1", "Pod").unwrap();
        for (old, new, expected) in [
            ("", "ab", "ab"),
            ("ab", "", "ab"),
            ("ab", "ab", "ab"),
            ("ab", "ba", "ba"),
            ("ax", "ab", "axb"),
            ("xa", "ab", "xab"),
            ("axb", "ab", "axb"),
            ("abx", "ba", "bxa"),
            ("xyz", "y", "xyz"),
            ("abc", "ca", "bca"),
        ] {
            let result = merged(builtin(), &kind, Some(&containers(old)), Some(&containers(new))).unwrap();
            assert_eq!(names(&result["spec"]["containers"]), expected, "{old} {new}");
        }
    }

    #[test]
    fn leaves_win_and_nothing_else_is_touched() {
        let kind = builtin().kind("v1", "Pod").unwrap();
        let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "1", "tty": true}],
            "tolerations": [{"key": "x"}]}});
        let new = json!({"metadata": {"labels": {"b": "2"}}, "spec": {"containers": [{"name": "c", "image": "2"}],
            "tolerations": [{"key": "y"}]}});
        assert_eq!(
            merged(builtin(), &kind, Some(&old), Some(&new)),
            Some(json!({
                "metadata": {"labels": {"a": "1", "b": "2"}},
                "spec": {"containers": [{"name": "c", "image": "2", "tty": true}], "tolerations": [{"key": "y"}]},
            }))
        );
    }

    #[test]
    fn members_are_taken_away_and_what_is_emptied_is_null() {
        let kind = builtin().kind("v1", "Pod").unwrap();
        let value =
            json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["f", "g"]}, "spec": {"nodeName": "n"}});
        let gone = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["f"]}, "spec": {"nodeName": "n"}});
        let set = fields_of(builtin(), &kind, &gone);
        assert_eq!(
            removed(builtin(), &kind, &value, &set),
            Some(json!({"metadata": {"labels": {"b": "2"}, "finalizers": ["g"]}, "spec": null}))
        );
    }
}

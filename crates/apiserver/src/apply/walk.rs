//! Which fields an object has, and which differ between two: the facts that ownership is made of.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::set::FieldSet;
use super::shape::{Shape, entries, fields, is_bare};
use super::step::Step;
use crate::schema::{Kind, Types};

/// The fields of a value, as its author owns them.
pub(super) fn fields_of(types: &Types, kind: &Kind, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(types, kind, value, &mut Vec::new(), &mut set);
    set
}

fn collect(types: &Types, kind: &Kind, value: &Value, path: &mut Vec<Step>, set: &mut FieldSet) {
    let shape = Shape::of(types, kind, &[Some(value)]);
    match shape {
        Shape::Leaf => set.insert(path),
        Shape::Struct(_) | Shape::Map(_) => {
            for (name, value) in fields(Some(value)) {
                path.push(Step::field(name));
                collect(types, shape.field(name), value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if empty || !shape.declares(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Shape::Set(element) | Shape::Keyed(_, element) => {
            let (order, by_step) = group(types, shape, value);
            for step in order {
                path.push(step);
                if let Some([one]) = path.last().and_then(|step| by_step.get(step)).map(Vec::as_slice) {
                    collect(types, element, one, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// The entries of a list by their steps, which are in the list's order. Those that have none are nobody's.
fn group<'v>(types: &Types, shape: Shape<'_>, list: &'v Value) -> (Vec<Step>, BTreeMap<Step, Vec<&'v Value>>) {
    let mut order = Vec::new();
    let mut by_step: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
    for entry in entries(Some(list)) {
        let Ok(step) = shape.step_to(types, entry) else { continue };
        let same = by_step.entry(step.clone()).or_default();
        if same.is_empty() {
            order.push(step);
        }
        same.push(entry);
    }
    (order, by_step)
}

/// What a write has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Changes {
    pub(super) fn set(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    pub(super) fn without(&self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.without(ignored),
            modified: self.modified.without(ignored),
            removed: self.removed.without(ignored),
        }
    }
}

/// What differs from `old` to `new`.
pub(super) fn changes(types: &Types, kind: &Kind, old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    compare(types, kind, Some(old), Some(new), &mut Vec::new(), &mut changes);
    changes
}

fn compare(
    types: &Types,
    kind: &Kind,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Step>,
    changes: &mut Changes,
) {
    let shape = Shape::of(types, kind, &[old, new]);
    let leaf = matches!(shape, Shape::Leaf) || (is_bare(old) && is_bare(new));
    if leaf {
        match (old, new) {
            (None, None) => {}
            (None, Some(_)) => changes.added.insert(path),
            (Some(_), None) => changes.removed.insert(path),
            (Some(old), Some(new)) if old != new => changes.modified.insert(path),
            (Some(_), Some(_)) => {}
        }
        return;
    }
    match shape {
        Shape::Leaf => {}
        Shape::Struct(_) | Shape::Map(_) => {
            let names: BTreeSet<&String> = fields(old).chain(fields(new)).map(|(name, _)| name).collect();
            let get = |value: Option<&'_ Value>, name: &str| value.and_then(|v| v.get(name).cloned());
            for name in names {
                path.push(Step::field(name));
                let (old, new) = (get(old, name), get(new, name));
                compare(types, shape.field(name), old.as_ref(), new.as_ref(), path, changes);
                path.pop();
            }
        }
        Shape::Set(element) | Shape::Keyed(_, element) => {
            let (_, olds) = group(types, shape, old.unwrap_or(&Value::Null));
            let (_, news) = group(types, shape, new.unwrap_or(&Value::Null));
            let steps: BTreeSet<&Step> = olds.keys().chain(news.keys()).collect();
            let none = Vec::new();
            for step in steps {
                path.push(step.clone());
                let (olds, news) = (olds.get(step).unwrap_or(&none), news.get(step).unwrap_or(&none));
                compare_entries(types, element, olds, news, path, changes);
                path.pop();
            }
        }
    }
    match (old, new) {
        (None, _) => changes.added.insert(path),
        (Some(_), None) => changes.removed.insert(path),
        (Some(_), Some(_)) => {}
    }
}

/// Entries of one step. More than one on a side are one value together.
fn compare_entries(
    types: &Types,
    element: &Kind,
    olds: &[&Value],
    news: &[&Value],
    path: &mut Vec<Step>,
    changes: &mut Changes,
) {
    match (olds, news) {
        ([] | [_], [] | [_]) => {
            compare(types, element, olds.first().copied(), news.first().copied(), path, changes);
        }
        ([_, _, ..], [_, _, ..]) => {
            if olds != news {
                changes.modified.insert(path);
            }
        }
        ([_, _, ..], [] | [_]) => {
            if let Some(new) = news.first() {
                compare(types, element, None, Some(new), path, changes);
            }
            changes.removed.insert(path);
        }
        ([] | [_], [_, _, ..]) => {
            if let Some(old) = olds.first() {
                compare(types, element, Some(old), None, path, changes);
            }
            changes.added.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    fn pod() -> Kind {
        builtin().kind("v1", "Pod").unwrap()
    }

    #[test]
    fn an_author_owns_leaves_entries_and_keys_of_maps() {
        let pod_value = json!({
            "metadata": {"labels": {"a": "1"}, "finalizers": ["f"]},
            "spec": {
                "securityContext": {},
                "tolerations": [{"key": "t"}],
                "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
            },
        });
        assert_eq!(
            fields_of(builtin(), &pod(), &pod_value).to_json(),
            json!({
                "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"f\"": {}}},
                "f:spec": {
                    "f:securityContext": {},
                    "f:tolerations": {},
                    "f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:image": {},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    }},
                },
            })
        );
    }

    #[test]
    fn what_is_new_is_added_with_its_parents() {
        let old = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "1"}]}});
        let new = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "2"}]}});
        let found = changes(builtin(), &pod(), &old, &new);
        assert_eq!(found.added.to_json(), json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}));
        let image = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}}});
        assert_eq!(found.modified.to_json(), image);
        let back = changes(builtin(), &pod(), &new, &old);
        assert_eq!((back.removed, back.modified), (found.added, found.modified));
    }

    #[test]
    fn nothing_differs_from_itself() {
        let value = json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}], "x": null, "volumes": []}});
        assert_eq!(changes(builtin(), &pod(), &value, &value), Changes::default());
    }

    #[test]
    fn entries_given_twice_are_one_value() {
        let once = json!({"metadata": {"finalizers": ["a"]}});
        let twice = json!({"metadata": {"finalizers": ["a", "a"]}});
        let owned = fields_of(builtin(), &pod(), &twice).to_json();
        assert_eq!(owned, json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}));
        let found = changes(builtin(), &pod(), &once, &twice);
        assert_eq!(found.added.to_json(), owned);
    }
}

//! Which fields an object has, and which differ between two: the facts that ownership is made of.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::set::{FieldSet, Place};
use super::shape::{Shape, entries, fields, is_bare};
use super::step::Step;
use crate::schema::{Kind, Types};

/// The fields of a value, as its author owns them.
pub(super) fn fields_of(types: &Types, kind: &Kind, value: &Value) -> FieldSet {
    owned(types, kind, value).below
}

/// What of a value its author owns: it itself, and what is below it.
fn owned(types: &Types, kind: &Kind, value: &Value) -> Place {
    let shape = Shape::of(types, kind, &[Some(value)]);
    let mut place = Place::default();
    match shape {
        Shape::Leaf => place.member = true,
        Shape::Struct(_) | Shape::Map(_) => {
            for (name, value) in fields(Some(value)) {
                let mut field = owned(types, shape.field(name), value);
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                field.member |= empty || !shape.declares(name);
                place.below.put(Step::field(name), field);
            }
        }
        Shape::Set(element) | Shape::Keyed(_, element) => {
            for (step, entries) in group(types, shape, value) {
                let mut entry = match entries.as_slice() {
                    [one] => owned(types, element, one),
                    _ => Place::default(),
                };
                entry.member = true;
                place.below.put(step, entry);
            }
        }
    }
    place
}

/// The entries of a list by their steps. Those that have none are nobody's.
fn group<'v>(types: &Types, shape: Shape<'_>, list: &'v Value) -> BTreeMap<Step, Vec<&'v Value>> {
    let mut by_step: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
    for entry in entries(Some(list)) {
        if let Ok(step) = shape.step_to(types, entry) {
            by_step.entry(step).or_default().push(entry);
        }
    }
    by_step
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

    pub(super) fn without(mut self, ignored: &FieldSet) -> Self {
        self.added.exclude(ignored);
        self.modified.exclude(ignored);
        self.removed.exclude(ignored);
        self
    }
}

/// What differs from `old` to `new`.
pub(super) fn changes(types: &Types, kind: &Kind, old: &Value, new: &Value) -> Changes {
    let found = compare(types, kind, Some(old), Some(new));
    Changes { added: found.added.below, modified: found.modified.below, removed: found.removed.below }
}

/// How a value differs from another one: itself, and below it.
#[derive(Default)]
struct Difference {
    added: Place,
    modified: Place,
    removed: Place,
}

impl Difference {
    fn put(&mut self, step: Step, found: Self) {
        // Nearly all of an object that is created is there, and there alone.
        if !found.modified.is_empty() || !found.removed.is_empty() {
            self.modified.below.put(step.clone(), found.modified);
            self.removed.below.put(step.clone(), found.removed);
        }
        self.added.below.put(step, found.added);
    }
}

fn compare(types: &Types, kind: &Kind, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let mut found = Difference::default();
    let shape = Shape::of(types, kind, &[old, new]);
    let leaf = matches!(shape, Shape::Leaf) || (is_bare(old) && is_bare(new));
    if leaf {
        match (old, new) {
            (None, None) => {}
            (None, Some(_)) => found.added.member = true,
            (Some(_), None) => found.removed.member = true,
            (Some(old), Some(new)) => found.modified.member = old != new,
        }
        return found;
    }
    match shape {
        Shape::Leaf => {}
        Shape::Struct(_) | Shape::Map(_) => {
            let names: BTreeSet<&String> = fields(old).chain(fields(new)).map(|(name, _)| name).collect();
            for name in names {
                let below = compare(types, shape.field(name), get(old, name), get(new, name));
                found.put(Step::field(name), below);
            }
        }
        Shape::Set(element) | Shape::Keyed(_, element) => {
            let olds = group(types, shape, old.unwrap_or(&Value::Null));
            let news = group(types, shape, new.unwrap_or(&Value::Null));
            let steps: BTreeSet<&Step> = olds.keys().chain(news.keys()).collect();
            let none = Vec::new();
            for step in steps {
                let (olds, news) = (olds.get(step).unwrap_or(&none), news.get(step).unwrap_or(&none));
                found.put(step.clone(), compare_entries(types, element, olds, news));
            }
        }
    }
    match (old, new) {
        (None, _) => found.added.member = true,
        (Some(_), None) => found.removed.member = true,
        (Some(_), Some(_)) => {}
    }
    found
}

fn get<'v>(value: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    value.and_then(|value| value.get(name))
}

/// Entries of one step. More than one on a side are one value together.
fn compare_entries(types: &Types, element: &Kind, olds: &[&Value], news: &[&Value]) -> Difference {
    match (olds, news) {
        ([] | [_], [] | [_]) => compare(types, element, olds.first().copied(), news.first().copied()),
        ([_, _, ..], [_, _, ..]) => {
            let mut found = Difference::default();
            found.modified.member = olds != news;
            found
        }
        ([_, _, ..], [] | [_]) => {
            let mut found = match news.first() {
                Some(new) => compare(types, element, None, Some(new)),
                None => Difference::default(),
            };
            found.removed.member = true;
            found
        }
        ([] | [_], [_, _, ..]) => {
            let mut found = match olds.first() {
                Some(old) => compare(types, element, Some(old), None),
                None => Difference::default(),
            };
            found.added.member = true;
            found
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

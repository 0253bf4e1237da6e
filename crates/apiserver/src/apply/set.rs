//! A set of fields, as a `managedFields` entry has it (`FieldsV1`).
//!
//! A tree: each step is a string in the form of `FieldsV1` (`f:spec`, `k:{"name":"a"}`, `v:"x"`), and each place may be a
//! member itself, have members below, or both. JSON writes a member with members below as `".": {}` beside them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::step::Step;

/// Fields of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    steps: BTreeMap<Step, Place>,
}

/// One place of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// It is a member itself.
    pub(super) member: bool,
    /// The members below it.
    pub(super) below: FieldSet,
}

impl Place {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds the field at `path`; the object itself (no step) is no field.
    pub(super) fn insert(&mut self, path: &[Step]) {
        let Some((first, rest)) = path.split_first() else { return };
        let place = self.steps.entry(first.clone()).or_default();
        if rest.is_empty() {
            place.member = true;
        } else {
            place.below.insert(rest);
        }
    }

    pub(super) fn has(&self, step: &Step) -> bool {
        self.steps.get(step).is_some_and(|place| place.member)
    }

    /// What is below `step`, where there is something.
    pub(super) fn below(&self, step: &Step) -> Option<&Self> {
        self.steps.get(step).map(|place| &place.below).filter(|below| !below.is_empty())
    }

    /// Puts what is at `step` there, unless it is nothing.
    pub(super) fn put(&mut self, step: Step, place: Place) {
        if !place.is_empty() {
            self.steps.insert(step, place);
        }
    }

    /// Adds the members of `other`.
    pub(super) fn join(&mut self, other: Self) {
        if self.steps.is_empty() {
            *self = other;
            return;
        }
        for (step, place) in other.steps {
            let mine = self.steps.entry(step).or_default();
            mine.member |= place.member;
            mine.below.join(place.below);
        }
    }

    /// Takes the members of `other` away.
    pub(super) fn subtract(&mut self, other: &Self) {
        for (step, theirs) in &other.steps {
            let Some(place) = self.steps.get_mut(step) else { continue };
            place.member &= !theirs.member;
            place.below.subtract(&theirs.below);
            if place.is_empty() {
                self.steps.remove(step);
            }
        }
    }

    /// Takes the members of `other` away, and everything below them.
    pub(super) fn exclude(&mut self, other: &Self) {
        for (step, theirs) in &other.steps {
            let Some(place) = self.steps.get_mut(step) else { continue };
            place.below.exclude(&theirs.below);
            if theirs.member || place.is_empty() {
                self.steps.remove(step);
            }
        }
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.join(other.clone());
        union
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.map(|step, place| {
            let theirs = other.steps.get(step)?;
            Some(Place { member: place.member && theirs.member, below: place.below.intersection(&theirs.below) })
        })
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.subtract(other);
        difference
    }

    fn map(&self, change: impl Fn(&Step, &Place) -> Option<Place>) -> Self {
        let changed = self.steps.iter().filter_map(|(step, place)| Some((step.clone(), change(step, place)?)));
        Self { steps: changed.filter(|(_, place)| !place.is_empty()).collect() }
    }

    /// With every place that `named` says a member too: declared fields that have members below. `named` gets the path.
    pub(super) fn with_named<K: Copy>(&self, kind: K, look: &impl Fn(K, &Step) -> (bool, Option<K>)) -> Self {
        self.map(|step, place| {
            let (named, below) = look(kind, step);
            let below = match below {
                Some(kind) => place.below.with_named(kind, look),
                None => place.below.clone(),
            };
            Some(Place { member: place.member || (named && !below.is_empty()), below })
        })
    }

    /// Every member's path, parents before what is below them.
    pub(super) fn paths(&self) -> Vec<Vec<Step>> {
        let mut paths = Vec::new();
        for (step, place) in &self.steps {
            if place.member {
                paths.push(vec![step.clone()]);
            }
            for below in place.below.paths() {
                paths.push([vec![step.clone()], below].concat());
            }
        }
        paths
    }

    /// From `fieldsV1`. `None`: not of that form.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (name, value) in value.as_object()? {
            if name == "." {
                continue;
            }
            let step = Step::parse(name)?;
            let fields = value.as_object()?;
            let below = Self::from_json(value)?;
            let place = Place { member: fields.is_empty() || fields.contains_key("."), below };
            if !place.is_empty() {
                set.steps.insert(step, place);
            }
        }
        Some(set)
    }

    /// As `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let of = |place: &Place| {
            let mut below = place.below.to_json();
            if place.member
                && !place.below.is_empty()
                && let Value::Object(map) = &mut below
            {
                map.insert(".".to_owned(), json!({}));
            }
            below
        };
        let map: Map<String, Value> =
            self.steps.iter().map(|(step, place)| (step.text().to_owned(), of(place))).collect();
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = proptest::collection::vec("[abc]", 1..4);
        proptest::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in paths {
                set.insert(&path.iter().map(|name| Step::field(name)).collect::<Vec<_>>());
            }
            set
        })
    }

    #[test]
    fn the_form_is_fields_v1() {
        let json = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}}}, "f:finalizers": {"v:\"y\"": {}}},
        });
        assert_eq!(FieldSet::from_json(&json).unwrap().to_json(), json);
        for bad in [json!({"spec": {}}), json!({"f:a": 1}), json!([]), json!({"k:x": {}}), json!({"i:x": {}})] {
            assert_eq!(FieldSet::from_json(&bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn written_and_read_it_is_the_same(set in any_set()) {
            prop_assert_eq!(FieldSet::from_json(&set.to_json()), Some(set));
        }

        #[test]
        fn algebra_holds(a in any_set(), b in any_set()) {
            let both = a.intersection(&b);
            prop_assert_eq!(&a.difference(&b).union(&both), &a);
            prop_assert_eq!(&both, &b.intersection(&a));
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert!(a.difference(&a).is_empty());
            prop_assert_eq!(&a.union(&a), &a);
        }

        #[test]
        fn nothing_stays_below_what_is_taken_away(a in any_set(), b in any_set()) {
            let mut rest = a;
            rest.exclude(&b);
            for path in rest.paths() {
                for taken in b.paths() {
                    prop_assert!(!path.starts_with(&taken), "{path:?} {taken:?}");
                }
            }
        }
    }
}

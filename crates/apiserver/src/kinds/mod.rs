//! The kinds that are served, as data: names, scope, what can be selected by, what happens on writing.
//!
//! A kind is a row. What differs in behaviour is a [`Strategy`]: functions over values, each pure. The engine asks the row
//! and never a kind's name.

mod builtin;
pub(crate) mod certificate;
mod configuration;
mod measured;
mod namespace;
mod plain;
mod pod;
mod service;
mod strategy;
mod subresource;
mod update;
mod view;
mod volume;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use builtin::CUSTOM;
pub use builtin::{BUILTIN, initial_objects};
pub(crate) use measured::{MEASURED, measured};
pub(crate) use plain::metadata;
pub(crate) use pod::{bind, is_done, set_condition};
pub(crate) use service::{allocate, first_address};
pub use strategy::{Deletion, Strategy};
pub(crate) use strategy::{forbidden, immutable, invalid};
pub(crate) use subresource::{ephemeral, resize, take_ephemeral, take_resources, without_ephemeral};
pub use view::View;

use crate::custom::{Definition, Slot};
use crate::error::Cause;
use crate::schema::{Kind as Type, Types, builtin};
use crate::store::Attributes;

/// What becomes of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// They are written and kept.
    Stored,
    /// They are questions: created, answered, not kept.
    Question,
    /// They are found out when somebody reads them.
    Measured,
}

/// One kind in one version.
#[derive(Debug)]
pub struct Kind {
    /// The group, empty for the core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// `pods`.
    pub plural: &'static str,
    /// `pod`.
    pub singular: &'static str,
    /// `po`.
    pub short_names: &'static [&'static str],
    /// `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether status is written through `/status` alone.
    pub status: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// Whether an update may leave out the revision that it is based on.
    pub unconditional: bool,
    /// Whether a delete answers with the object rather than with a `Status`.
    pub returns_deleted: bool,
    /// Fields that clients select by: name, path in the object, value where it is absent.
    pub selectable: &'static [(&'static str, &'static str, &'static str)],
    /// The kind that is stored in its place, if it is that one in other words.
    pub view: Option<&'static View>,
    /// What becomes of its objects.
    pub nature: Nature,
    /// Whether its objects are given addresses, each its own.
    pub allocates: bool,
    /// Whether somebody has to approve its objects, through `/approval`.
    pub approved: bool,
    /// What happens on writing.
    pub strategy: Strategy,
    /// Where the definition of a custom kind is. `None`: the server knows the kind by itself.
    pub slot: Option<&'static Slot>,
}

impl Kind {
    /// The definition of a custom kind, as it is now.
    #[must_use]
    pub fn definition(&self) -> Option<Arc<Definition>> {
        self.slot.and_then(Slot::get)
    }

    /// What a list of it is called.
    #[must_use]
    pub fn list_kind(&self) -> String {
        self.definition().map_or_else(|| format!("{}List", self.kind), |definition| definition.list_kind.clone())
    }

    /// An object as the kind has it: no unknown fields, with defaults.
    pub(crate) fn complete(&self, object: Value) -> Result<Value, serde_json::Error> {
        match self.definition() {
            Some(definition) => definition.complete(object),
            None => (self.strategy.complete)(object),
        }
    }

    /// Which rules an object breaks, alone.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut found = (self.strategy.validate)(object);
        if let Some(definition) = self.definition() {
            found.extend(definition.validate(object, old));
        }
        found
    }

    /// What its fields are, for whoever works on objects as values. `None`: it is gone.
    pub(crate) fn with_type<R>(&self, act: impl FnOnce(&Types, &Type) -> R) -> Option<R> {
        match self.slot {
            Some(slot) => slot.get().map(|definition| act(definition.types(), definition.root())),
            None => builtin().kind(&self.api_version(), self.kind).map(|kind| act(builtin(), &kind)),
        }
    }

    /// `v1` or `coordination.k8s.io/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The resource as the store names it: `pods`, `leases.coordination.k8s.io`.
    #[must_use]
    pub fn resource(&self) -> String {
        match self.view {
            Some(view) => view.of.to_owned(),
            None => crate::error::qualified(self.group, self.plural),
        }
    }

    /// An object as the kind has it, from what is stored.
    pub(crate) fn shown(&self, object: Value) -> Value {
        match self.view {
            Some(view) => view.show(object, &self.api_version()),
            None => object,
        }
    }

    /// What attributes call a field that clients select by: a view's fields have the names of what is stored.
    pub(crate) fn attribute<'a>(&self, field: &'a str) -> &'a str
    where
        Self: 'a,
    {
        let stored = self.view.and_then(|_| self.selectable.iter().find(|(name, _, _)| *name == field));
        stored.map_or(field, |(_, path, _)| path)
    }

    /// Whether clients can select by this field.
    #[must_use]
    pub fn selects(&self, field: &str) -> bool {
        field == "metadata.name"
            || self.namespaced && field == "metadata.namespace"
            || self.selectable.iter().any(|(name, _, _)| *name == field)
    }

    /// What selectors ask about in an object of this kind.
    #[must_use]
    pub fn attributes(&self, object: &Value) -> Attributes {
        if let Some(view) = self.view
            && let Some(stored) = find("", view.api_version, view.of)
        {
            return stored.attributes(&view.store(object.clone()));
        }
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| {
            let value = value.as_str()?;
            Some((key.as_str().into(), value.into()))
        });
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owners = owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str().map(Into::into));
        let mut fields = Vec::new();
        for (name, path, absent) in self.selectable {
            let value = match path.split('.').try_fold(object, |value, step| value.get(step)) {
                Some(Value::String(text)) if !text.is_empty() => text.clone(),
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::Number(number)) => number.to_string(),
                Some(_) | None => (*absent).to_owned(),
            };
            if !value.is_empty() {
                fields.push(((*name).into(), value.into_boxed_str()));
            }
        }
        let held =
            object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        Attributes { labels: labels.collect(), fields, owners: owners.collect(), held }
    }
}

/// The kind behind a path: group, version, plural.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    BUILTIN.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}

/// The kind of the store's resource.
#[must_use]
pub fn of_resource(resource: &str) -> Option<&'static Kind> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    BUILTIN.iter().find(|kind| kind.group == group && kind.plural == plural)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_is_found_by_its_path_and_by_its_resource() {
        for kind in BUILTIN {
            let found = find(kind.group, kind.version, kind.plural).unwrap();
            assert_eq!(found.kind, kind.kind);
            assert_eq!(of_resource(&kind.resource()).unwrap().kind, kind.kind);
        }
        assert!(find("apps", "v1", "deployments").is_none());
    }

    #[test]
    fn attributes_are_what_can_be_selected_by() {
        let pods = find("", "v1", "pods").unwrap();
        let attributes = pods.attributes(&json!({
            "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]},
            "spec": {"nodeName": "n", "hostNetwork": true}, "status": {"phase": "Running"},
        }));
        assert_eq!(attributes.label("a"), Some("b"));
        assert_eq!(attributes.label("b"), None);
        assert_eq!(attributes.field("spec.nodeName"), "n");
        assert_eq!(attributes.field("spec.hostNetwork"), "true");
        assert_eq!(attributes.field("status.podIP"), "");
        assert_eq!(*attributes.owners, ["u".into()]);
        let nodes = find("", "v1", "nodes").unwrap();
        assert_eq!(nodes.attributes(&json!({})).field("spec.unschedulable"), "false");
        assert!(pods.selects("metadata.namespace") && !nodes.selects("metadata.namespace"));
    }
}

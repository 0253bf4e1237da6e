//! One version of a definition, ready for its objects.

use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::node::{Node, NodeError};
use super::rules::Rules;
use super::{check, defaults, lists};
use crate::error::Cause;
use crate::schema::{Kind as Type, StructuralError, Types};
use crate::strict::prune;
use crate::table::{PathError, Printer};

/// Why a version of a definition can't be served. Definitions are validated before they are kept; this is for those of
/// another version of the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    #[error("it has no schema")]
    NoSchema,
    #[error("its schema can't be used")]
    Node(#[from] NodeError),
    #[error("its schema is not structural")]
    Structural(#[from] StructuralError),
    #[error("a column can't be printed")]
    Column(#[from] PathError),
    #[error("its schema can't be written again")]
    Json(#[from] serde_json::Error),
}

/// Where the scale of an object is: `.spec.replicas`, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// How many there are to be.
    pub spec_replicas: Vec<String>,
    /// How many there are.
    pub status_replicas: Vec<String>,
    /// The selector of what is counted, if the objects say it.
    pub selector: Option<Vec<String>>,
}

/// Which state of a definition this is made from: as long as it is the same, nothing is made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) terminating: bool,
}

/// One version of a definition.
#[derive(Debug)]
pub struct Definition {
    pub(crate) source: Source,
    /// Objects last written before this revision of the store may be of an older schema.
    pub(crate) since: u64,
    pub(crate) group: String,
    pub(crate) storage_version: String,
    pub(crate) list_kind: String,
    pub(crate) scale: Option<Scale>,
    /// Told with every answer, if the version is deprecated.
    pub(crate) deprecation: Option<String>,
    /// `openAPIV3Schema`.
    pub(crate) schema: Value,
    pub(crate) printer: Printer,
    node: Node,
    rules: Rules,
    types: Types,
    root: Type,
}

impl Definition {
    /// A served version of a definition that is at this revision of the store.
    pub(crate) fn new(
        definition: &CustomResourceDefinition,
        version: &CustomResourceDefinitionVersion,
        since: u64,
    ) -> Result<Self, DefinitionError> {
        let (spec, metadata) = (&definition.spec, &definition.metadata);
        let props = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let props = props.ok_or(DefinitionError::NoSchema)?;
        let schema = serde_json::to_value(props)?;
        let api_version = format!("{}/{}", spec.group, version.name);
        let types = Types::structural(&api_version, &spec.names.kind, &schema)?;
        let root = types.kind(&api_version, &spec.names.kind).ok_or(DefinitionError::NoSchema)?;
        let columns = serde_json::to_value(&version.additional_printer_columns)?;
        let split = |path: &str| path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        let scale = version.subresources.as_ref().and_then(|below| below.scale.as_ref()).map(|scale| Scale {
            spec_replicas: split(&scale.spec_replicas_path),
            status_replicas: split(&scale.status_replicas_path),
            selector: scale.label_selector_path.as_deref().filter(|path| !path.is_empty()).map(split),
        });
        let deprecation = version.deprecated.unwrap_or(false).then(|| {
            let told = version.deprecation_warning.clone();
            told.unwrap_or_else(|| format!("{api_version} {} is deprecated", spec.names.kind))
        });
        Ok(Self {
            source: Source {
                uid: metadata.uid.clone().unwrap_or_default(),
                generation: metadata.generation.unwrap_or_default(),
                terminating: metadata.deletion_timestamp.is_some(),
            },
            since,
            group: spec.group.clone(),
            storage_version: spec.versions.iter().find(|v| v.storage).map(|v| v.name.clone()).unwrap_or_default(),
            list_kind: spec.names.list_kind.clone().unwrap_or_else(|| format!("{}List", spec.names.kind)),
            scale,
            deprecation,
            printer: Printer::custom(&columns)?,
            node: Node::new(props)?,
            rules: Rules::new(&schema),
            schema,
            types,
            root,
        })
    }

    /// What the fields of its objects are.
    pub(crate) fn types(&self) -> &Types {
        &self.types
    }

    /// The type of an object.
    pub(crate) fn root(&self) -> &Type {
        &self.root
    }

    /// `apiVersion` of what is stored.
    pub(crate) fn stored_as(&self) -> String {
        format!("{}/{}", self.group, self.storage_version)
    }

    /// An object with the fields that it may have, and its defaults.
    ///
    /// # Errors
    /// Its metadata is none.
    pub(crate) fn complete(&self, mut object: Value) -> Result<Value, serde_json::Error> {
        let metadata = object.get_mut("metadata").map_or_else(|| json!({}), Value::take);
        object["metadata"] = serde_json::to_value(serde_json::from_value::<ObjectMeta>(metadata)?)?;
        drop(prune(&self.types, &self.root, &mut object));
        defaults::fill(&self.node, &mut object, true);
        Ok(object)
    }

    /// What breaks its schema. What was so before and stays may go on being so.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut found = self.problems(new);
        if let Some(old) = old.filter(|_| !found.is_empty()) {
            let before = self.problems(old);
            found.retain(|cause| !before.contains(cause));
        }
        let broken = self.rules.problems(new, old, &found);
        // Likewise for rules: what is broken by an object that stays as it is was not broken by this write.
        let same = old.is_some_and(|old| old["spec"] == new["spec"] && old["status"] == new["status"]);
        if !same {
            found.extend(broken);
        }
        found
    }

    fn problems(&self, object: &Value) -> Vec<Cause> {
        let mut found = Vec::new();
        check::check(&self.node, object, "", &mut found);
        // What every object has is not its schema's.
        found.retain(|cause| !(cause.field == "metadata" || cause.field.starts_with("metadata.")));
        lists::duplicates(&self.node, object, "", &mut found);
        found
    }

    /// Whether an object of this revision has to be read anew before it is shown.
    pub(crate) fn is_stale(&self, revision: u64) -> bool {
        revision < self.since
    }

    /// A stored object as this version shows it.
    pub(crate) fn shown(&self, api_version: &str, object: &mut Value, revision: u64) {
        object["apiVersion"] = api_version.into();
        if self.is_stale(revision) {
            drop(prune(&self.types, &self.root, object));
            defaults::fill(&self.node, object, true);
        }
    }
}

/// Where a custom kind's row has its definition, while there is one.
#[derive(Debug, Default)]
pub struct Slot(RwLock<Option<Arc<Definition>>>);

impl Slot {
    /// The definition as it is now.
    #[must_use]
    pub fn get(&self) -> Option<Arc<Definition>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, definition: Option<Arc<Definition>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = definition;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn definition(version: &Value) -> Definition {
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "widgets.shop.example", "uid": "u", "generation": 1},
            "spec": {
                "group": "shop.example", "scope": "Namespaced", "versions": [version],
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            },
        }))
        .unwrap();
        Definition::new(&definition, &definition.spec.versions[0], 5).unwrap()
    }

    #[test]
    fn objects_are_pruned_completed_and_judged() {
        let widget = definition(&json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"},
            }}},
        }}}));
        let object = json!({"kind": "Widget", "metadata": {"name": "w", "odd": 1}, "spec": {"size": 0, "x": 1}});
        let complete = widget.complete(object).unwrap();
        assert_eq!(complete["spec"], json!({"size": 0, "colour": "red"}));
        assert_eq!(complete["metadata"], json!({"name": "w"}));
        let found = widget.validate(&complete, None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].field, "spec.size");
        // What was wrong before the schema became stricter may stay, and nothing may become worse.
        assert_eq!(widget.validate(&complete, Some(&complete)), []);
        let mut worse = complete.clone();
        worse["spec"]["size"] = (-1).into();
        assert_eq!(widget.validate(&worse, Some(&complete)).len(), 1);
        assert!(widget.complete(json!({"metadata": {"labels": 1}})).is_err());
    }

    #[test]
    fn what_an_older_schema_has_left_is_shown_as_the_new_one_has_it() {
        let widget = definition(&json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"colour": {"type": "string", "default": "red"}}}},
        }}}));
        let mut old = json!({"apiVersion": "shop.example/v1alpha1", "kind": "Widget", "spec": {"gone": 1}});
        let mut new = old.clone();
        widget.shown("shop.example/v1", &mut old, 4);
        assert_eq!(old, json!({"apiVersion": "shop.example/v1", "kind": "Widget", "spec": {"colour": "red"}}));
        widget.shown("shop.example/v1", &mut new, 6);
        assert_eq!(new["spec"], json!({"gone": 1}));
    }
}

//! Every kind that is served at the moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};

use super::definition::{Definition, Slot, Source};
use crate::kinds::{BUILTIN, CUSTOM, Kind, MEASURED, Nature, measured};

/// The kinds that are served: the server's own and those of definitions.
#[derive(Debug, Default)]
pub struct Kinds {
    served: RwLock<Arc<Served>>,
    /// Every row there has been. A row is its names, some hundred bytes, and is kept as long as the process: parts of the
    /// server point at rows. The same names get the same row.
    rows: Mutex<Vec<&'static Kind>>,
    /// Who changes definitions, one at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Served {
    /// Every served version.
    custom: Vec<&'static Kind>,
    /// The storage version of each, served or not.
    stored: Vec<&'static Kind>,
    number: u64,
}

impl Kinds {
    /// The kind behind a path: group, version, plural.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        let own = crate::kinds::find(group, version, plural).or_else(|| measured(group, version, plural));
        let is = |kind: &&&'static Kind| kind.group == group && kind.version == version && kind.plural == plural;
        own.or_else(|| self.served().custom.iter().find(is).copied())
    }

    /// All, the server's own first; a kind of several versions several times.
    #[must_use]
    pub fn all(&self) -> Vec<&'static Kind> {
        BUILTIN.iter().chain(MEASURED).chain(self.served().custom.iter().copied()).collect()
    }

    /// Those of definitions, as [`Kinds::all`].
    #[must_use]
    pub fn custom(&self) -> Vec<&'static Kind> {
        self.served().custom.clone()
    }

    /// One for each resource that has objects in the store.
    #[must_use]
    pub fn stored(&self) -> Vec<&'static Kind> {
        let own = BUILTIN.iter().filter(|kind| kind.nature == Nature::Stored && kind.view.is_none());
        own.chain(self.served().stored.iter().copied()).collect()
    }

    /// The kind of what is stored of a definition.
    pub(crate) fn stored_of(&self, group: &str, plural: &str) -> Option<&'static Kind> {
        self.served().stored.iter().find(|kind| kind.group == group && kind.plural == plural).copied()
    }

    /// Another one whenever something has changed.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.served().number
    }

    fn served(&self) -> Arc<Served> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn rows(&self) -> MutexGuard<'_, Vec<&'static Kind>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves these definitions, each with the revision that it is at, and no others. Names are those that were accepted.
    pub(crate) fn replace(&self, definitions: &[(CustomResourceDefinition, u64)]) {
        let before = self.served();
        let (mut custom, mut stored, mut changed) = (Vec::new(), Vec::new(), false);
        for (definition, revision) in definitions {
            for version in definition.spec.versions.iter().filter(|version| version.served || version.storage) {
                let Some(kind) = self.row(definition, version) else { continue };
                changed |= fill(kind, definition, version, *revision);
                if kind.definition().is_none() {
                    continue;
                }
                if version.served {
                    custom.push(kind);
                }
                if version.storage {
                    stored.push(kind);
                }
            }
        }
        let same = |a: &[&Kind], b: &[&Kind]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| std::ptr::eq(*a, *b));
        if !changed && same(&custom, &before.custom) && same(&stored, &before.stored) {
            return;
        }
        let next = Served { custom, stored, number: before.number + 1 };
        for kind in before.custom.iter().chain(&before.stored) {
            let kept = next.custom.iter().chain(&next.stored).any(|other| std::ptr::eq(*other, *kind));
            if let Some(slot) = kind.slot.filter(|_| !kept) {
                slot.set(None);
            }
        }
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// The row of a version: the one that it had, or a new one.
    fn row(
        &self,
        definition: &CustomResourceDefinition,
        version: &CustomResourceDefinitionVersion,
    ) -> Option<&'static Kind> {
        let names = definition.status.as_ref().and_then(|status| status.accepted_names.as_ref())?;
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        let fields: Vec<String> = version
            .selectable_fields
            .iter()
            .flatten()
            .map(|field| field.json_path.trim_start_matches('.').to_owned())
            .collect();
        let singular = names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase());
        let status = version.subresources.as_ref().is_some_and(|below| below.status.is_some());
        let namespaced = definition.spec.scope == "Namespaced";
        let (shorts, categories) = (list(&names.short_names), list(&names.categories));
        let mut rows = self.rows();
        let is = |kind: &&&'static Kind| {
            kind.group == definition.spec.group
                && kind.version == version.name
                && kind.kind == names.kind
                && kind.plural == names.plural
                && kind.singular == singular
                && kind.short_names.iter().eq(&shorts)
                && kind.categories.iter().eq(&categories)
                && kind.selectable.iter().map(|(name, _, _)| name).eq(&fields)
                && (kind.namespaced, kind.status) == (namespaced, status)
        };
        if let Some(kind) = rows.iter().find(is) {
            return Some(kind);
        }
        let kind: &'static Kind = Box::leak(Box::new(Kind {
            group: text(&definition.spec.group),
            version: text(&version.name),
            kind: text(&names.kind),
            plural: text(&names.plural),
            singular: text(&singular),
            short_names: texts(&shorts),
            categories: texts(&categories),
            namespaced,
            status,
            selectable: Box::leak(fields.iter().map(|field| (text(field), text(field), "")).collect()),
            slot: Some(Box::leak(Box::default())),
            ..CUSTOM
        }));
        rows.push(kind);
        Some(kind)
    }
}

fn text(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn texts(list: &[String]) -> &'static [&'static str] {
    Box::leak(list.iter().map(|each| text(each)).collect())
}

/// Puts a version into its row's slot, unless it is there; says whether anything has changed.
fn fill(
    kind: &Kind,
    definition: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
    revision: u64,
) -> bool {
    let slot: Option<&'static Slot> = kind.slot;
    let Some(slot) = slot else { return false };
    let metadata = &definition.metadata;
    let source = Source {
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        terminating: metadata.deletion_timestamp.is_some(),
    };
    if slot.get().is_some_and(|current| current.source == source) {
        return false;
    }
    match Definition::new(definition, version, revision) {
        Ok(ready) => slot.set(Some(Arc::new(ready))),
        Err(error) => {
            let name = metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(error = %minke_core::runtime::error_chain(&error), definition = name, "a kind is not served");
            slot.set(None);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn definition(plural: &str, versions: &Value) -> (CustomResourceDefinition, u64) {
        let names = json!({"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        let definition = json!({
            "metadata": {"name": format!("{plural}.x.example"), "uid": "u", "generation": 1},
            "spec": {"group": "x.example", "scope": "Namespaced", "names": names, "versions": versions},
            "status": {"acceptedNames": names},
        });
        (serde_json::from_value(definition).unwrap(), 3)
    }

    fn version(name: &str, served: bool, storage: bool) -> Value {
        json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}})
    }

    #[test]
    fn kinds_come_and_go_with_their_definitions_and_names_are_kept_once() {
        let kinds = Kinds::default();
        let two = json!([version("v1", true, false), version("v2", true, true), version("v0", false, false)]);
        kinds.replace(&[definition("things", &two)]);
        assert_eq!(kinds.number(), 1);
        let v1 = kinds.find("x.example", "v1", "things").unwrap();
        let v2 = kinds.find("x.example", "v2", "things").unwrap();
        assert!(kinds.find("x.example", "v0", "things").is_none());
        assert_eq!(v1.definition().unwrap().stored_as(), "x.example/v2");
        assert!(std::ptr::eq(kinds.stored_of("x.example", "things").unwrap(), v2));
        assert_eq!(kinds.all().len(), BUILTIN.len() + MEASURED.len() + 2);
        assert_eq!(kinds.stored().iter().filter(|kind| kind.slot.is_some()).count(), 1);
        kinds.replace(&[definition("things", &two)]);
        assert_eq!(kinds.number(), 1, "nothing has changed");
        kinds.replace(&[]);
        assert!(kinds.find("x.example", "v1", "things").is_none() && v1.definition().is_none());
        kinds.replace(&[definition("things", &two)]);
        assert!(std::ptr::eq(kinds.find("x.example", "v1", "things").unwrap(), v1));
        assert_eq!(kinds.number(), 3);
    }

    #[test]
    fn a_storage_version_that_is_not_served_is_stored_nevertheless() {
        let kinds = Kinds::default();
        kinds.replace(&[definition("things", &json!([version("v1", true, false), version("v2", false, true)]))]);
        assert!(kinds.find("x.example", "v2", "things").is_none());
        assert_eq!(kinds.stored_of("x.example", "things").unwrap().version, "v2");
    }
}

//! Definitions of custom kinds: followed when they are written, ended when they are deleted.
//!
//! A write of a definition is followed at once by a look at all of them: which names each gets, which kinds are served from now
//! on, and then what their statuses say of it. So `Established` is true only of what is served. What a failing store leaves
//! undone the caretaker does.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::collect::without;
use super::options::WriteOptions;
use super::{DeleteOptions, Engine, ListOptions, Part, Place, meta};
use crate::custom::{FINALIZER, Settled, settle};
use crate::error::{ApiError, Reason};
use crate::kinds::{Deletion, Kind, find};

/// Who writes what the server itself says, as upstream.
const MANAGER: &str = "kube-apiserver";

/// The kind of definitions.
fn definitions() -> Option<&'static Kind> {
    find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Nothing new comes to a kind that goes.
pub(super) fn creatable(kind: &Kind) -> Result<(), ApiError> {
    let Some(slot) = kind.slot else { return Ok(()) };
    match slot.get() {
        None => Err(ApiError::no_resource()),
        Some(definition) if definition.source.terminating => Err(ApiError::new(
            Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        )),
        Some(_) => Ok(()),
    }
}

impl Engine {
    /// After a write of a definition, for whatever else is written nothing.
    pub(super) async fn defined(&self, kind: &Kind) {
        if kind.strategy.deletion == Deletion::Definition
            && let Err(error) = self.follow_definitions().await
        {
            tracing::warn!(%error, "could not follow the definitions of custom resources; it is tried again");
        }
    }

    /// Serves what definitions define, and says so in their statuses.
    ///
    /// # Errors
    /// Storage fails.
    pub(super) async fn follow_definitions(&self) -> Result<(), ApiError> {
        let Some(kind) = definitions() else { return Ok(()) };
        let _turn = self.kinds.turn.lock().await;
        let entries = self.list(kind, None, &ListOptions::default())?.entries;
        let all = entries.iter().map(|entry| entry.parse()).collect::<Result<Vec<Value>, _>>();
        let mut all = all.map_err(ApiError::internal)?;
        let settled = settle(&all, &self.now());
        let mut served = Vec::new();
        for ((definition, entry), settled) in all.iter_mut().zip(&entries).zip(&settled) {
            definition["status"] = settled.status.clone();
            if settled.established {
                let typed = serde_json::from_value::<CustomResourceDefinition>(definition.clone());
                served.push((typed.map_err(ApiError::internal)?, entry.revision));
            }
        }
        self.kinds.replace(&served);
        for (definition, settled) in all.iter().zip(&settled).filter(|(_, settled)| settled.changed) {
            self.say_status(kind, definition, settled).await?;
        }
        Ok(())
    }

    async fn say_status(&self, kind: &'static Kind, definition: &Value, settled: &Settled) -> Result<(), ApiError> {
        let place = Place { kind, namespace: "", name: meta::text(definition, "name") };
        let base = meta::text(definition, "resourceVersion");
        let options = WriteOptions { field_manager: MANAGER.to_owned(), ..WriteOptions::default() };
        let change = |old: &Value| {
            let mut new = old.clone();
            new["status"] = settled.status.clone();
            meta::of(&mut new).insert("resourceVersion".to_owned(), base.into());
            Ok(new)
        };
        match self.change(place, Part::Status, &options, change).await {
            Ok(_) => Ok(()),
            // Somebody has written it in between, and follows after.
            Err(error) if matches!(error.code(), 404 | 409) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the objects of definitions that go, and lets go of those that have none any more.
    pub(super) async fn end_definitions(&self) -> Result<(), ApiError> {
        let Some(kind) = definitions() else { return Ok(()) };
        let mut ended = false;
        for entry in self.list(kind, None, &ListOptions::default())?.entries {
            let definition = entry.parse().map_err(ApiError::internal)?;
            if !meta::is_deleting(&definition) || !meta::finalizers(&definition).contains(&FINALIZER) {
                continue;
            }
            let spec = &definition["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            // One that was never served has no objects.
            if let Some(stored) = self.kinds.stored_of(&text(&spec["group"]), &text(&spec["names"]["plural"])) {
                self.delete_collection(stored, None, &ListOptions::default(), &DeleteOptions::default()).await?;
                if !self.list(stored, None, &ListOptions::default())?.entries.is_empty() {
                    continue;
                }
            }
            let place = Place { kind, namespace: "", name: meta::text(&definition, "name") };
            without(self, place, "finalizers", |held| held == FINALIZER).await?;
            ended = true;
        }
        if ended { self.follow_definitions().await } else { Ok(()) }
    }
}

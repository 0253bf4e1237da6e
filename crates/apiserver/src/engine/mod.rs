//! What clients may do with objects: the verbs, over any kind and the one store.
//!
//! ```text
//! HTTP front, in-process callers
//!        │ create · get · list · watch · update · patch · delete · deletecollection · bind · evict
//!        ▼
//! Engine: metadata and the kind's Strategy decide on values (pure); a Proposal with what it was based on
//!        ▼
//! Store: accepts it, or says that somebody was faster; the engine then decides anew, or answers 409
//! ```
//!
//! A write is decided on one picture and proposed against exactly that one. Who named a revision gets 409 if it has passed;
//! who named none is tried again. A namespace that ends meanwhile refuses the write (the proposal's guard).

mod accounts;
mod bind;
mod bootstrap;
mod caretaker;
mod certify;
mod collect;
mod create;
mod definitions;
mod delete;
mod error;
mod list;
mod meta;
mod options;
mod patch;
mod references;
mod relations;
mod scale;
mod scheduling;
mod selector;
mod services;
#[cfg(test)]
mod tests;
mod track;
mod update;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use minke_core::clock::Clock;
use serde_json::Value;

pub use accounts::Accounts;
pub use delete::{DeleteOptions, Deleted, Preconditions};
pub use list::List;
pub(crate) use meta::micro_time;
pub use meta::random_text;
pub use options::{ListOptions, RevisionMatch, WatchOptions, WriteOptions};
pub use patch::{PATCH_TYPES, PatchKind, Patched};
pub use selector::{FieldSelector, LabelSelector, Selection};
pub use watch::{Watch, WatchItem};

use crate::access::Authority;
use crate::custom::Kinds;
use crate::error::ApiError;
use crate::kinds::{Kind, find};
use crate::store::{Draft, Entry, Key, Store};

/// Tries of a write whose base changes under it. Each loses to a write that succeeded, so this ends only under absurd load.
const MOST_TRIES: usize = 64;

/// The verbs over a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    store: Store,
    clock: Arc<dyn Clock>,
    kinds: Arc<Kinds>,
    accounts: Option<Arc<Accounts>>,
    /// Signs the certificates that are asked for and approved.
    authority: Option<Arc<Authority>>,
    /// Held while an address is given to a Service.
    allocations: Arc<tokio::sync::Mutex<()>>,
    /// Where the server listens that has announced itself; 0: none has.
    port: Arc<AtomicU16>,
}

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All but its status.
    Main,
    /// Its status.
    Status,
    /// A Pod's ephemeral containers.
    Ephemeral,
    /// The resources of a Pod that runs.
    Resize,
    /// Whether what somebody asks for is approved.
    Approval,
}

/// An object as it is stored: a custom one in its storage version, one that is another one in other words as that one.
fn draft(kind: &Kind, object: &Value) -> Draft {
    if let Some(view) = kind.view {
        return Draft::of(&view.store(object.clone()));
    }
    match kind.definition().map(|definition| definition.stored_as()) {
        Some(version) if object["apiVersion"] != *version => {
            let mut stored = object.clone();
            stored["apiVersion"] = version.into();
            Draft::of(&stored)
        }
        Some(_) | None => Draft::of(object),
    }
}

/// Where an object is, or would be.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; empty for kinds without.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Place<'_> {
    pub(crate) fn key(&self) -> Key {
        Key::new(self.kind.resource(), self.namespace, self.name)
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(self.kind.group, self.kind.plural, self.name)
    }

    fn modified(&self) -> ApiError {
        ApiError::modified(self.kind.group, self.kind.plural, self.name)
    }

    fn conflict(&self, why: &str) -> ApiError {
        ApiError::conflict(self.kind.group, self.kind.plural, self.name, why)
    }
}

impl Engine {
    /// An engine over a store. Objects that every server has are made by [`Engine::prepare`].
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        let (kinds, allocations, port) = (Arc::default(), Arc::default(), Arc::default());
        Self { store, clock, kinds, accounts: None, authority: None, allocations, port }
    }

    /// Makes what every server has and this one lacks.
    ///
    /// # Errors
    /// Storage fails.
    pub async fn prepare(&self) -> Result<(), ApiError> {
        for object in crate::kinds::initial_objects() {
            let (group, version) = meta::split_api_version(object["apiVersion"].as_str().unwrap_or_default());
            let plural = crate::kinds::BUILTIN.iter().find(|kind| object["kind"] == kind.kind).map(|kind| kind.plural);
            let Some(kind) = plural.and_then(|plural| find(group, version, plural)) else { continue };
            match self.create(kind, "", object, &WriteOptions::default()).await {
                Ok(_) => {}
                Err(error) if error.reason == crate::error::Reason::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        self.follow_definitions().await
    }

    /// Every kind that is served, those of definitions included.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Runs what a server does by itself, until the future is dropped: ends namespaces, collects what lost its owners,
    /// forgets old events. Cancel-safe: what was not done is found again.
    pub async fn care(&self) {
        caretaker::run(self).await;
    }

    /// The object.
    ///
    /// # Errors
    /// 404; 504 for a revision that has not been yet.
    pub fn get(&self, place: Place<'_>, resource_version: Option<u64>) -> Result<Arc<Entry>, ApiError> {
        if let Some(wanted) = resource_version {
            options::not_too_new(wanted, self.store.revision())?;
        }
        self.store.get(&place.key()).ok_or_else(|| place.not_found())
    }

    fn load(&self, place: Place<'_>) -> Result<(Arc<Entry>, Value), ApiError> {
        let entry = self.store.get(&place.key()).ok_or_else(|| place.not_found())?;
        let value = entry.parse().map_err(ApiError::internal)?;
        let mut value = place.kind.shown(value);
        if let Some(definition) = place.kind.definition() {
            definition.shown(&place.kind.api_version(), &mut value, entry.revision);
        }
        Ok((entry, value))
    }

    /// The time by the engine's clock.
    #[must_use]
    pub fn time(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// Now, as Kubernetes' `Time`: whole seconds.
    fn now(&self) -> String {
        meta::time(self.clock.now())
    }
}

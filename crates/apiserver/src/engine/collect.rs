//! Collecting what lost its owners, and letting go of owners that waited for that: [`Relations`] decides, here it is done.

use std::collections::HashMap;

use serde_json::Value;

use super::options::WriteOptions;
use super::relations::{Relations, Step};
use super::{DeleteOptions, Engine, Part, Place, meta};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::store::{EventKind, Store};

/// Who owns whom, as of a revision.
#[derive(Debug, Default)]
pub(super) struct Collector {
    relations: Relations,
    /// Up to where the store's changes are known; `None`: nothing is.
    seen: Option<u64>,
}

impl Collector {
    /// Takes in what has changed since the last call: all of it at one moment, so that nothing looks like an orphan whose owner is
    /// only not known yet.
    fn follow(&mut self, store: &Store) {
        if let Some(seen) = self.seen
            && let Ok((events, now)) = store.all_changes(seen)
        {
            for event in events {
                self.relations.apply(&event.key, &event.entry, event.kind == EventKind::Deleted);
            }
            self.seen = Some(now);
            return;
        }
        // The first time, or so much has happened that history has forgotten some of it.
        let (objects, now) = store.everything();
        self.relations = Relations::default();
        for (key, entry) in objects {
            self.relations.apply(&key, &entry, false);
        }
        self.seen = Some(now);
    }

    /// Does what follows from the changes since the last call.
    ///
    /// # Errors
    /// Storage fails; it is tried again with the next call.
    pub(super) async fn collect(&mut self, engine: &Engine) -> Result<(), ApiError> {
        self.follow(&engine.store);
        let due = self.relations.due();
        if due.is_empty() {
            return Ok(());
        }
        let kinds: HashMap<String, &'static Kind> =
            engine.kinds().stored().into_iter().map(|kind| (kind.resource(), kind)).collect();
        let mut failed = Ok(());
        for uid in due {
            for step in self.relations.decide(uid) {
                let (Step::Delete { key, .. } | Step::Disown { key, .. } | Step::Release { key, .. }) = &step;
                // Of a definition that is gone: its objects go with it.
                let Some(kind) = kinds.get(&*key.resource) else { continue };
                let place = Place { kind, namespace: &key.namespace, name: &key.name };
                let done = match &step {
                    Step::Delete { uid, policy, .. } => delete(engine, place, uid, policy).await,
                    Step::Disown { owner, .. } => {
                        without(engine, place, "ownerReferences", |reference| reference["uid"] == **owner).await
                    }
                    Step::Release { finalizer, .. } => {
                        without(engine, place, "finalizers", |held| held == *finalizer).await
                    }
                };
                match done {
                    Ok(()) => {}
                    // Gone, or another one by now: its change brings it back here.
                    Err(error) if matches!(error.code(), 404 | 409) => self.relations.again(uid),
                    Err(error) => {
                        self.relations.again(uid);
                        failed = Err(error);
                        break;
                    }
                }
            }
        }
        failed
    }
}

async fn delete(engine: &Engine, place: Place<'_>, uid: &str, policy: &str) -> Result<(), ApiError> {
    let mut options = DeleteOptions { propagation: Some(policy.to_owned()), ..DeleteOptions::default() };
    options.preconditions.uid = Some(uid.to_owned());
    engine.delete(place, &options).await.map(drop)
}

/// Takes entries out of a list of the metadata.
pub(super) async fn without(
    engine: &Engine,
    place: Place<'_>,
    list: &str,
    which: impl Fn(&Value) -> bool,
) -> Result<(), ApiError> {
    let change = |old: &Value| {
        let mut new = old.clone();
        if let Some(entries) = new["metadata"][list].as_array_mut() {
            entries.retain(|entry| !which(entry));
            if entries.is_empty() {
                meta::of(&mut new).remove(list);
            }
        }
        meta::of(&mut new).remove("resourceVersion");
        Ok(new)
    };
    match engine.change(place, Part::Main, &WriteOptions::default(), change).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

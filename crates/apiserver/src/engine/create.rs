//! Creating.

use std::sync::Arc;

use serde_json::Value;

use super::definitions;
use super::options::WriteOptions;
use super::{Engine, MOST_TRIES, Part, Place, draft, error, meta, track};
use crate::error::{ApiError, Cause, Reason};
use crate::kinds::{Deletion, Kind, find};
use crate::store::{Change, Entry, Expect, Key, Proposal, Refused, StoreError};

/// Generated names that may be taken before it is given up, as upstream.
const NAMES: usize = 8;
const SUFFIX: usize = 5;
/// Longest part of a generated name that is kept: with the suffix it is a DNS label.
const LONGEST_BASE: usize = 63 - SUFFIX;

/// What only the server says about a new object.
fn stamp(kind: &Kind, object: &mut Value, now: &str) -> Result<(), ApiError> {
    if !meta::text(object, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let metadata = meta::of(object);
    for field in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), meta::uid()?.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if kind.generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if kind.status
        && let Some(map) = object.as_object_mut()
    {
        // A node says its status as it registers; everyone else's is not theirs to say.
        if kind.kind != "Node" {
            map.remove("status");
        }
    }
    Ok(())
}

impl Engine {
    /// Creates an object. With `generateName` it gets a name.
    ///
    /// # Errors
    /// 400, 403 in a namespace that ends, 404 without its namespace, 409 if it is there, 422.
    pub async fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Entry>, ApiError> {
        definitions::creatable(kind)?;
        let mut object = meta::expect_kind(kind, namespace, object)?;
        stamp(kind, &mut object, &self.now())?;
        let generate = meta::text(&object, "name").is_empty().then(|| meta::text(&object, "generateName").to_owned());
        let base = generate.filter(|base| !base.is_empty());
        for attempt in 1.. {
            if let Some(base) = &base {
                let cut = base.char_indices().nth(LONGEST_BASE).map_or(base.len(), |(at, _)| at);
                let name = format!("{}{}", &base[..cut], meta::random_text(SUFFIX)?);
                meta::of(&mut object).insert("name".to_owned(), name.into());
            }
            // Only a generated name may be taken, and then another one is tried.
            let this = if base.is_some() { object.clone() } else { std::mem::take(&mut object) };
            match self.create_named(kind, namespace, this, options).await {
                Err(error) if base.is_some() && error.reason == Reason::AlreadyExists => {
                    if attempt == NAMES {
                        let message =
                            format!("{error}, the server was not able to generate a unique name for the object");
                        return Err(ApiError { message, ..error }.retry_after(1));
                    }
                }
                other => {
                    self.defined(kind).await;
                    if let (Deletion::Namespace, Ok(entry), false) = (kind.strategy.deletion, &other, options.dry_run) {
                        let object = entry.parse().map_err(ApiError::internal)?;
                        Box::pin(self.furnish(meta::text(&object, "name"))).await?;
                    }
                    return other;
                }
            }
        }
        // The loop ends by returning.
        Err(ApiError::internal("no name"))
    }

    async fn create_named(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Entry>, ApiError> {
        let mut object = meta::complete(kind, object)?;
        if kind.strategy.deletion == Deletion::Graceful {
            // Boxed: it may make an account, which is creating again.
            Box::pin(self.admit_pod(namespace, &mut object)).await?;
        }
        (kind.strategy.create)(&mut object);
        let object = match kind.strategy.deletion {
            // What Pods are given is complete already, and going through their type costs the most of all.
            Deletion::Graceful => {
                debug_assert_eq!(meta::complete(kind, object.clone()).as_ref(), Ok(&object), "admission completes");
                object
            }
            Deletion::Plain | Deletion::Namespace | Deletion::Definition => meta::complete(kind, object)?,
        };
        let name = meta::text(&object, "name").to_owned();
        let place = Place { kind, namespace, name: &name };
        let _allocating = self.allocating(kind).await;
        let mut object = object;
        self.give_address(place, &mut object, None)?;
        meta::accept(place, kind.validate(&object, None))?;
        let object = track::tracked(kind, Part::Main, &options.field_manager, &self.now(), &Value::Null, object);
        let (draft, attributes) = (draft(kind, &object), Arc::new(kind.attributes(&object)));
        for _ in 0..MOST_TRIES {
            let guard = self.living_namespace(kind, namespace, &name)?;
            if options.dry_run {
                return match self.store.get(&place.key()) {
                    Some(_) => Err(ApiError::already_exists(kind.group, kind.plural, &name)),
                    None => Ok(Arc::new(Entry::new(&draft, 0, 0, attributes))),
                };
            }
            let change = Change::Put(draft.clone(), attributes.clone());
            let proposal = Proposal { key: place.key(), expect: Expect::Absent, guard, change };
            match self.store.propose(proposal).await {
                Ok(event) => return Ok(event.entry.clone()),
                Err(StoreError::Refused(Refused::Guard(_))) => {}
                Err(StoreError::Refused(Refused::Exists(_))) => {
                    return Err(ApiError::already_exists(kind.group, kind.plural, &name));
                }
                Err(error) => return Err(error::failed(&error, place)),
            }
        }
        Err(place.modified())
    }

    /// The namespace that a new object goes into, as a guard: it is there and not ending.
    fn living_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<(Key, u64)>, ApiError> {
        let (true, Some(namespaces)) = (kind.namespaced, find("", "v1", "namespaces")) else { return Ok(None) };
        let place = Place { kind: namespaces, namespace: "", name: namespace };
        let (entry, object) = self.load(place)?;
        if meta::is_deleting(&object) {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let message = format!("namespace {namespace} is being terminated");
            let cause = Cause::new("NamespaceTerminating", message, "metadata.namespace");
            return Err(ApiError::forbidden(kind.group, kind.plural, name, &why).with_causes(vec![cause]));
        }
        Ok(Some((place.key(), entry.revision)))
    }
}

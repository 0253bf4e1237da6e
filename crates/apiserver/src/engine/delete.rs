//! Deleting: at once, after a grace period, or when nothing holds the object any more.
//!
//! A first delete marks what can't go yet with `deletionTimestamp` and how long it has; whoever holds it lets go (finalizers by
//! updates, the Pod's node by a delete with grace 0), and the last one's write removes it. A later delete may only shorten the
//! time.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::list::List;
use super::options::ListOptions;
use super::update::is_free;
use super::{Engine, MOST_TRIES, Place, draft, meta};
use crate::custom;
use crate::error::{ApiError, Cause};
use crate::kinds::{Deletion, Kind, is_done};
use crate::store::{Change, Entry};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Namespaces without which a server is none.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Only if the object is this one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its revision.
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// Whether they hold for an object.
    ///
    /// # Errors
    /// 409 if one does not.
    pub(super) fn hold(&self, place: Place<'_>, object: &Value) -> Result<(), ApiError> {
        for (wanted, field, what) in
            [(&self.uid, "uid", "UID"), (&self.resource_version, "resourceVersion", "ResourceVersion")]
        {
            let found = meta::text(object, field);
            if let Some(wanted) = wanted
                && wanted != found
            {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object \
                     might have been deleted and then recreated"
                );
                // Upstream names the kind here, not the resource.
                return Err(ApiError::conflict(place.kind.group, place.kind.kind, place.name, &why));
            }
        }
        Ok(())
    }
}

/// How to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How long it may take, in seconds; what the object says if absent.
    pub grace_period_seconds: Option<i64>,
    /// Only if.
    pub preconditions: Preconditions,
    /// `Orphan`, `Background` or `Foreground`.
    pub propagation: Option<String>,
    /// Everything is done but keeping it.
    pub dry_run: bool,
}

/// What a delete has come to.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// It is gone; this was it.
    Gone(Arc<Entry>),
    /// It is on its way.
    Going(Arc<Entry>),
}

impl DeleteOptions {
    /// From a request's body; absent fields say nothing.
    ///
    /// # Errors
    /// 400 for what is no DeleteOptions, 422 for a policy that there is not.
    pub fn parse(body: &Value) -> Result<Self, ApiError> {
        let wrong = |field: &str| ApiError::bad_request(format!("{field} of DeleteOptions has the wrong type"));
        let text = |value: &Value, field: &str| match value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(field)),
        };
        let grace_period_seconds = match body.get("gracePeriodSeconds") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_i64().ok_or_else(|| wrong("gracePeriodSeconds"))?),
        };
        let preconditions = &body["preconditions"];
        let preconditions = Preconditions {
            uid: text(preconditions, "uid")?,
            resource_version: text(preconditions, "resourceVersion")?,
        };
        let dry_run = match &body["dryRun"] {
            Value::Null => false,
            Value::Array(list) if list.is_empty() => false,
            Value::Array(list) if list.iter().all(|item| item == "All") => true,
            _ => return Err(invalid("dryRun", "Unsupported value: supported values: \"All\"")),
        };
        let orphan = body["orphanDependents"].as_bool().map(|orphan| if orphan { "Orphan" } else { "Background" });
        let propagation = text(body, "propagationPolicy")?.or_else(|| orphan.map(str::to_owned));
        let options = Self { grace_period_seconds, preconditions, propagation, dry_run };
        options.check()?;
        Ok(options)
    }

    /// Refuses a policy that there is not.
    ///
    /// # Errors
    /// 422.
    pub fn check(&self) -> Result<(), ApiError> {
        match self.propagation.as_deref() {
            None | Some("Orphan" | "Background" | "Foreground") => Ok(()),
            Some(other) => {
                let what = format!(
                    "Invalid value: {other:?}: must be one of \"Orphan\", \"Background\", \"Foreground\" or nil"
                );
                Err(invalid("propagationPolicy", &what))
            }
        }
    }
}

fn invalid(field: &str, message: &str) -> ApiError {
    let cause = Cause::new("FieldValueInvalid", message, field);
    ApiError::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause])
}

/// What a delete comes to.
#[derive(Debug, PartialEq)]
enum Decision {
    /// It goes now; this is its last state.
    Remove(Value),
    /// It is marked.
    Mark(Value),
    /// It is on its way already, and nothing about that changes.
    Going,
}

/// How many seconds an object has. What nobody runs has none.
fn grace(kind: &Kind, object: &Value, options: &DeleteOptions) -> i64 {
    match kind.strategy.deletion {
        Deletion::Plain | Deletion::Namespace | Deletion::Definition => 0,
        Deletion::Graceful => {
            let bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
            if !bound || is_done(object) {
                return 0;
            }
            let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
            // A negative one is "at once", which for a running Pod is one second.
            match options.grace_period_seconds.or(own).unwrap_or(30) {
                ..0 => 1,
                seconds => seconds,
            }
        }
    }
}

/// Decides on a delete: pure.
fn decide(place: Place<'_>, object: &Value, options: &DeleteOptions, now: Timestamp) -> Result<Decision, ApiError> {
    options.preconditions.hold(place, object)?;
    let kind = place.kind;
    if kind.strategy.deletion == Deletion::Namespace && IMMORTAL.contains(&place.name) {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(kind.group, kind.plural, place.name, why));
    }
    let mut new = object.clone();
    let mut seconds = grace(kind, object, options);
    if meta::is_deleting(object) {
        let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        seconds = seconds.min(left);
        if seconds == left && !(is_free(kind, object)) {
            return Ok(Decision::Going);
        }
    } else {
        let own = (kind.strategy.deletion == Deletion::Definition).then_some(custom::FINALIZER);
        hold(&mut new, options.propagation.as_deref(), own);
    }
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let metadata = meta::of(&mut new);
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
    metadata.insert("deletionTimestamp".to_owned(), meta::time(end).into());
    if kind.strategy.deletion == Deletion::Definition {
        metadata.remove("deletionGracePeriodSeconds");
    } else if kind.generation && !meta::is_deleting(object) {
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        metadata.insert("generation".to_owned(), generation.into());
    }
    match kind.strategy.deletion {
        Deletion::Plain | Deletion::Graceful => {}
        Deletion::Namespace => new["status"]["phase"] = "Terminating".into(),
        Deletion::Definition => custom::terminating(&mut new, &meta::time(now)),
    }
    if is_free(kind, &new) {
        // Watchers see it as it was, not as it would have been marked.
        return Ok(Decision::Remove(object.clone()));
    }
    Ok(Decision::Mark(new))
}

/// Adds what the policy asks for, dependents are dealt with before it goes, and what the server itself has to do first.
fn hold(object: &mut Value, propagation: Option<&str>, own: Option<&str>) {
    let mut held: Vec<String> = meta::finalizers(object).into_iter().map(str::to_owned).collect();
    if let Some(policy) = propagation {
        held.retain(|name| name != ORPHAN && name != FOREGROUND);
        match policy {
            "Orphan" => held.push(ORPHAN.to_owned()),
            "Foreground" => held.push(FOREGROUND.to_owned()),
            _ => {}
        }
    }
    if let Some(own) = own.filter(|own| !held.iter().any(|held| held == own)) {
        held.push(own.to_owned());
    }
    let metadata = meta::of(object);
    match held.is_empty() {
        true => drop(metadata.remove("finalizers")),
        false => drop(metadata.insert("finalizers".to_owned(), json!(held))),
    }
}

/// Of a collection. Writes that wait at one time share a commit, so that one after the other takes the disk's time for each.
const DELETES_AT_ONCE: usize = 16;

impl Engine {
    /// Deletes an object.
    ///
    /// # Errors
    /// 403 for what must stay, 404, 409 if it is not the one that was meant.
    pub async fn delete(&self, place: Place<'_>, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        options.check()?;
        for _ in 0..MOST_TRIES {
            let (entry, object) = self.load(place)?;
            let decision = decide(place, &object, options, self.clock.now())?;
            let (change, gone) = match decision {
                Decision::Going => return Ok(Deleted::Going(entry)),
                Decision::Remove(last) => (Change::Delete(Some(draft(place.kind, &last))), true),
                Decision::Mark(new) => {
                    let attributes = Arc::new(place.kind.attributes(&new));
                    (Change::Put(draft(place.kind, &new), attributes), false)
                }
            };
            let written = match options.dry_run {
                true => Some(entry),
                false => self.swap(place, entry.revision, change).await?,
            };
            if let Some(written) = written {
                self.defined(place.kind).await;
                return Ok(if gone { Deleted::Gone(written) } else { Deleted::Going(written) });
            }
        }
        Err(place.modified())
    }

    /// Deletes all objects that are selected; answers what they were.
    ///
    /// # Errors
    /// Those of lists and deletes; what was deleted before the error stays so.
    pub async fn delete_collection(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, ApiError> {
        let found = self.list(kind, namespace, list)?;
        let deletes = stream::iter(found.entries.clone()).map(|entry| self.delete_listed(kind, entry, options));
        deletes.buffer_unordered(DELETES_AT_ONCE).try_collect::<()>().await?;
        Ok(found)
    }

    async fn delete_listed(
        &self,
        kind: &'static Kind,
        entry: Arc<Entry>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let object = entry.parse().map_err(ApiError::internal)?;
        let (namespace, name) = (meta::text(&object, "namespace"), meta::text(&object, "name"));
        match self.delete(Place { kind, namespace, name }, options).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

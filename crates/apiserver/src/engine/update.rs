//! Changing what is there: update, and what patches have in common with it.

use std::sync::Arc;

use serde_json::Value;

use super::options::WriteOptions;
use super::{Engine, MOST_TRIES, Part, Place, draft, error, meta, track};
use crate::error::ApiError;
use crate::kinds::certificate::{self, Writes};
use crate::kinds::{Deletion, Kind, ephemeral, resize, take_ephemeral, take_resources, without_ephemeral};
use crate::store::{Change, Entry, Expect, Proposal, Refused, StoreError};

/// Metadata that stays whatever a writer says.
const KEPT: [&str; 6] =
    ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// The new object as it will be kept: what is not the writer's is the old one's.
fn merge(kind: &Kind, part: Part, mut new: Value, old: &Value) -> Value {
    let metadata = meta::of(&mut new);
    for field in KEPT {
        match old["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    match part {
        // What somebody asked for and what came of it: neither is changed by writing the object.
        Part::Main if kind.approved => carry(&mut new, old, |field| matches!(field, "spec" | "status")),
        Part::Main if kind.status => carry(&mut new, old, |field| field == "status"),
        Part::Main => {}
        Part::Ephemeral => return taken(take_ephemeral(&new, old), &new),
        Part::Resize => return taken(take_resources(&new, old), &new),
        Part::Approval => {
            let status = certificate::take_approval(&new, old);
            carry(&mut new, old, |field| !matches!(field, "metadata" | "kind" | "apiVersion"));
            new["status"] = status;
        }
        Part::Status => {
            if kind.approved {
                new["status"] = certificate::take_status(&new, old);
            }
            carry(&mut new, old, |field| !matches!(field, "status" | "metadata" | "kind" | "apiVersion"));
            let owners = old["metadata"].get("ownerReferences").cloned();
            let metadata = meta::of(&mut new);
            match owners {
                Some(owners) => drop(metadata.insert("ownerReferences".to_owned(), owners)),
                None => drop(metadata.remove("ownerReferences")),
            }
        }
    }
    // A namespace's own finalizers have a subresource; what holds it is the server's.
    if kind.strategy.deletion == Deletion::Namespace {
        new["spec"] = old["spec"].clone();
    }
    new
}

/// A Pod of which only a part was taken, with what the writer says about which one it means.
fn taken(mut pod: Value, new: &Value) -> Value {
    for field in ["resourceVersion", "uid", "managedFields"] {
        match new["metadata"].get(field) {
            Some(value) => drop(meta::of(&mut pod).insert(field.to_owned(), value.clone())),
            None => drop(meta::of(&mut pod).remove(field)),
        }
    }
    pod
}

/// Fields that `which` names become what they are in the old object.
fn carry(new: &mut Value, old: &Value, which: impl Fn(&str) -> bool) {
    let (Some(map), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    map.retain(|field, _| !which(field));
    map.extend(old.iter().filter(|(field, _)| which(field)).map(|(field, value)| (field.clone(), value.clone())));
}

/// Whether anything but metadata and status differs.
fn spec_changed(new: &Value, old: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        if let Some(map) = value.as_object_mut() {
            map.remove("metadata");
            map.remove("status");
        }
        value
    };
    rest(new) != rest(old)
}

/// Whether what may differ without a change does.
fn same(new: &Value, old: &Value) -> bool {
    let bare = |value: &Value| {
        let mut value = value.clone();
        meta::of(&mut value).remove("resourceVersion");
        value
    };
    bare(new) == bare(old)
}

/// What a write based on this picture comes to.
pub(super) enum Decision {
    /// Nothing changes.
    Same,
    /// The object is to be this.
    Put(Value),
    /// Nothing holds it any more: it goes.
    Remove(Value),
}

/// Decides on an update: pure.
pub(super) fn decide(
    place: Place<'_>,
    part: Part,
    new: Value,
    old: &Value,
    own: impl FnOnce(Value) -> Value,
) -> Result<Decision, ApiError> {
    let kind = place.kind;
    let uid = meta::text(&new, "uid");
    if !uid.is_empty() && uid != meta::text(old, "uid") {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::text(old, "uid"));
        return Err(place.conflict(&why));
    }
    let new = meta::complete(kind, merge(kind, part, new, old))?;
    let mut causes = match kind.strategy.deletion {
        Deletion::Graceful => kind.validate(&without_ephemeral(&new), Some(old)),
        Deletion::Plain | Deletion::Namespace | Deletion::Definition => kind.validate(&new, Some(old)),
    };
    match part {
        Part::Main => causes.extend((kind.strategy.validate_update)(&new, old)),
        Part::Ephemeral => causes.extend(ephemeral(&new, old)),
        Part::Resize => causes.extend(resize(&new, old)),
        Part::Approval => causes.extend(certificate::changes(&new, old, Writes::Approval)),
        Part::Status if kind.approved => causes.extend(certificate::changes(&new, old, Writes::Outcome)),
        Part::Status => {}
    }
    if meta::is_deleting(old) {
        let held = meta::finalizers(old);
        let more: Vec<&str> = meta::finalizers(&new).into_iter().filter(|name| !held.contains(name)).collect();
        if !more.is_empty() {
            let why =
                format!("no new finalizers can be added if the object is being deleted, found new finalizers {more:?}");
            causes.push(crate::kinds::forbidden("metadata.finalizers", &why));
        }
    }
    meta::accept(place, causes)?;
    let mut new = new;
    if kind.generation && spec_changed(&new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        meta::of(&mut new).insert("generation".to_owned(), generation.into());
    }
    let new = own(new);
    if meta::is_deleting(&new) && is_free(kind, &new) {
        return Ok(Decision::Remove(new));
    }
    Ok(if same(&new, old) { Decision::Same } else { Decision::Put(new) })
}

/// Whether nothing holds an object that is being deleted.
pub(super) fn is_free(kind: &Kind, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let held = match kind.strategy.deletion {
        Deletion::Plain | Deletion::Graceful | Deletion::Definition => false,
        Deletion::Namespace => object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()),
    };
    meta::finalizers(object).is_empty() && grace == 0 && !held
}

/// The revision that an object says it is based on.
fn based_on(place: Place<'_>, object: &Value) -> Result<Option<u64>, ApiError> {
    match meta::text(object, "resourceVersion") {
        "" | "0" => Ok(None),
        text => match text.parse() {
            Ok(revision) => Ok(Some(revision)),
            Err(_) => {
                let cause = crate::kinds::invalid("metadata.resourceVersion", &text.into(), "must be a decimal number");
                Err(ApiError::invalid(place.kind.group, place.kind.kind, place.name, vec![cause]))
            }
        },
    }
}

impl Engine {
    /// Replaces an object, or its status.
    ///
    /// # Errors
    /// 400, 404, 409 if it has changed since the revision that the new one names, 422.
    pub async fn update(
        &self,
        place: Place<'_>,
        part: Part,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Entry>, ApiError> {
        let new = meta::expect_kind(place.kind, place.namespace, object)?;
        let name = meta::text(&new, "name");
        if name.is_empty() {
            let cause =
                crate::error::Cause::new("FieldValueRequired", "Required value: name is required", "metadata.name");
            return Err(ApiError::invalid(place.kind.group, place.kind.kind, "", vec![cause]));
        }
        if name != place.name {
            let message =
                format!("the name of the object ({name}) does not match the name on the URL ({})", place.name);
            return Err(ApiError::bad_request(message));
        }
        let base = based_on(place, &new)?;
        if base.is_none() && !place.kind.unconditional {
            let cause = crate::kinds::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            // Upstream names the resource here, not the kind.
            return Err(ApiError::invalid(place.kind.group, place.kind.plural, place.name, vec![cause]));
        }
        let changed = self.change(place, part, options, |_| Ok(new.clone())).await;
        self.defined(place.kind).await;
        changed
    }

    /// Changes an object by a function of what it is; called again if somebody is faster and the result names no revision.
    pub(super) async fn change(
        &self,
        place: Place<'_>,
        part: Part,
        options: &WriteOptions,
        change: impl Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Arc<Entry>, ApiError> {
        let _allocating = self.allocating(place.kind).await;
        for _ in 0..MOST_TRIES {
            let (entry, old) = self.load(place)?;
            let mut new = change(&old)?;
            if part == Part::Main {
                self.give_address(place, &mut new, Some(&old))?;
            }
            if place.kind.approved && part != Part::Main {
                certificate::stamp(&mut new, &old, &self.now());
            }
            let base = based_on(place, &new)?;
            if base.is_some_and(|base| base != entry.revision) {
                return Err(place.modified());
            }
            let own = |new| track::tracked(place.kind, part, &options.field_manager, &self.now(), &old, new);
            let (value, change) = match decide(place, part, new, &old, own)? {
                Decision::Same => return Ok(entry),
                Decision::Put(value) => {
                    let attributes = Arc::new(place.kind.attributes(&value));
                    let draft = draft(place.kind, &value);
                    (value, Change::Put(draft, attributes))
                }
                Decision::Remove(value) => {
                    let draft = draft(place.kind, &value);
                    (value, Change::Delete(Some(draft)))
                }
            };
            if options.dry_run {
                let attributes = Arc::new(place.kind.attributes(&value));
                return Ok(Arc::new(Entry::new(&draft(place.kind, &value), entry.revision, entry.created, attributes)));
            }
            // Or somebody was faster: on what there is now, unless the writer knows which one it means.
            if let Some(entry) = self.swap(place, entry.revision, change).await? {
                return Ok(entry);
            }
        }
        Err(place.modified())
    }

    /// Proposes a change against a revision; `None` if it has passed.
    pub(super) async fn swap(
        &self,
        place: Place<'_>,
        revision: u64,
        change: Change,
    ) -> Result<Option<Arc<Entry>>, ApiError> {
        let proposal = Proposal { key: place.key(), expect: Expect::Revision(revision), guard: None, change };
        match self.store.propose(proposal).await {
            Ok(event) => Ok(Some(event.entry.clone())),
            Err(StoreError::Refused(Refused::Absent)) => Err(place.not_found()),
            Err(StoreError::Refused(_)) => Ok(None),
            Err(error) => Err(error::failed(&error, place)),
        }
    }
}

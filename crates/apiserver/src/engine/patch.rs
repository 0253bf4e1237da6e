//! Patches: the pure functions over what is stored, then the same way as an update.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::options::WriteOptions;
use super::{Engine, Part, Place, meta, track};
use crate::apply::{Writer, apply};
use crate::error::{ApiError, Cause};
use crate::kinds::Kind;
use crate::patch::{json_patch, merge_patch, strategic_merge_patch};
use crate::store::Entry;
use crate::strict::{FieldValidation, prune, typed};

/// The language of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml`.
    Apply,
}

/// The languages that are read, as content types.
pub const PATCH_TYPES: [(&str, PatchKind); 4] = [
    ("application/json-patch+json", PatchKind::Json),
    ("application/merge-patch+json", PatchKind::Merge),
    ("application/strategic-merge-patch+json", PatchKind::Strategic),
    ("application/apply-patch+yaml", PatchKind::Apply),
];

fn patched(
    place: Place<'_>,
    kind: PatchKind,
    old: &Value,
    patch: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    match kind {
        PatchKind::Json => Ok(json_patch(old, patch)?),
        PatchKind::Merge if !patch.is_object() => Err(ApiError::bad_request("a merge patch must be an object")),
        PatchKind::Merge => Ok(merge_patch(old, patch)),
        // How the lists of a custom kind merge is nowhere said.
        PatchKind::Strategic if place.kind.slot.is_some() => {
            let without: Vec<&str> =
                PATCH_TYPES.iter().filter(|(_, kind)| *kind != PatchKind::Strategic).map(|(name, _)| *name).collect();
            Err(ApiError::unsupported_media_type(&without))
        }
        PatchKind::Strategic => {
            let patched = place.kind.with_type(|types, schema| strategic_merge_patch(types, schema, old, patch));
            Ok(patched.ok_or_else(ApiError::no_resource)??)
        }
        PatchKind::Apply => {
            let applied = place.kind.with_type(|types, schema| apply(types, schema, old, patch, writer, force));
            Ok(applied.ok_or_else(ApiError::no_resource)??)
        }
    }
}

fn check_name(place: Place<'_>, new: &Value) -> Result<(), ApiError> {
    if meta::text(new, "name") == place.name {
        return Ok(());
    }
    Err(ApiError::bad_request("the name of the object does not match the name on the URL"))
}

/// What a patch has come to.
#[derive(Debug, Clone)]
pub struct Patched {
    /// The object.
    pub entry: Arc<Entry>,
    /// Whether it is new, as apply makes it.
    pub created: bool,
    /// What its writer is warned of.
    pub warnings: Vec<String>,
}

/// The fields of a patched object that its kind does not have, as warnings, or refused where they may not be.
fn unknown(kind: &Kind, object: &Value, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
    let refuse = |why: String| {
        // A Secret's values are nobody's to read in an error.
        let shown = if kind.kind == "Secret" { String::new() } else { object.to_string() };
        let cause = crate::kinds::invalid("patch", &shown.into(), &why);
        ApiError::invalid("", "", "", vec![cause])
    };
    let found = kind.with_type(|types, schema| match kind.slot {
        Some(_) => Ok(prune(types, schema, &mut object.clone())),
        None => typed(types, schema, object.clone()).map(|typed| typed.unknown),
    });
    let found = found.transpose().map_err(|error| refuse(error.to_string()))?.unwrap_or_default();
    let found = found.iter().map(|path| format!("unknown field {path:?}")).collect();
    validation.judge(found).map_err(|error| refuse(error.to_string()))
}

impl Engine {
    /// Patches an object, or its status.
    ///
    /// # Errors
    /// 400, 404, 409 if the patch names a revision that has passed, 415, 422.
    pub async fn patch(
        &self,
        place: Place<'_>,
        part: Part,
        kind: PatchKind,
        patch: &Value,
        options: &WriteOptions,
    ) -> Result<Patched, ApiError> {
        let (api_version, now) = (place.kind.api_version(), self.now());
        let writer = track::writer(&options.field_manager, &api_version, place.kind, part, &now);
        if kind == PatchKind::Apply {
            if options.field_manager.is_empty() {
                let cause =
                    Cause::new("FieldValueRequired", "Required value: is required for apply patch", "fieldManager");
                return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
            }
            if part == Part::Main && self.store.get(&place.key()).is_none() {
                let new = patched(place, kind, &Value::Null, patch, &writer, options.force)?;
                check_name(place, &new)?;
                let quiet = WriteOptions { field_manager: String::new(), ..options.clone() };
                match self.create(place.kind, place.namespace, new, &quiet).await {
                    // Somebody was faster: it is applied to what they made.
                    Err(error) if error.reason == crate::error::Reason::AlreadyExists => {}
                    other => return other.map(|entry| Patched { entry, created: true, warnings: Vec::new() }),
                }
            }
        } else if options.force {
            let cause =
                Cause::new("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        // Apply has written down itself who owns what.
        let quiet = WriteOptions { field_manager: String::new(), ..options.clone() };
        let options = if kind == PatchKind::Apply { &quiet } else { options };
        let force = options.force;
        let warnings = Mutex::new(Vec::new());
        let changed = self.change(place, part, options, |old| {
            let mut new = patched(place, kind, old, patch, &writer, force)?;
            let told = unknown(place.kind, &new, options.validation)?;
            *warnings.lock().unwrap_or_else(PoisonError::into_inner) = told;
            // What the picture says about its revision is no wish of the patch.
            if meta::text(&new, "resourceVersion") == meta::text(old, "resourceVersion") && new.is_object() {
                meta::of(&mut new).remove("resourceVersion");
            }
            let new = meta::expect_kind(place.kind, place.namespace, new)?;
            check_name(place, &new)?;
            Ok(new)
        });
        let changed = changed.await;
        self.defined(place.kind).await;
        let warnings = warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        changed.map(|entry| Patched { entry, created: false, warnings })
    }
}

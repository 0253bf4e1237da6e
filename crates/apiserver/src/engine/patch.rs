//! Patches: the pure functions over what is stored, then the same way as an update.

use std::sync::Arc;

use serde_json::Value;

use super::options::WriteOptions;
use super::{Engine, Part, Place, meta, track};
use crate::apply::{Writer, apply};
use crate::error::{ApiError, Cause};
use crate::patch::{json_patch, merge_patch, strategic_merge_patch};
use crate::schema::builtin;
use crate::store::Entry;

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
        PatchKind::Strategic => {
            let types = builtin();
            let Some(schema) = types.kind(&place.kind.api_version(), place.kind.kind) else {
                return Err(ApiError::unsupported_media_type(&[
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ]));
            };
            Ok(strategic_merge_patch(types, &schema, old, patch)?)
        }
        PatchKind::Apply => {
            let types = builtin();
            let Some(schema) = types.kind(&place.kind.api_version(), place.kind.kind) else {
                return Err(ApiError::internal(format!("{} has no schema", place.kind.kind)));
            };
            Ok(apply(types, &schema, old, patch, writer, force)?)
        }
    }
}

fn check_name(place: Place<'_>, new: &Value) -> Result<(), ApiError> {
    if meta::text(new, "name") == place.name {
        return Ok(());
    }
    Err(ApiError::bad_request("the name of the object does not match the name on the URL"))
}

impl Engine {
    /// Patches an object, or its status; says whether it was created, as apply does.
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
    ) -> Result<(Arc<Entry>, bool), ApiError> {
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
                    other => return other.map(|entry| (entry, true)),
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
        self.change(place, part, options, |old| {
            let mut new = patched(place, kind, old, patch, &writer, force)?;
            // What the picture says about its revision is no wish of the patch.
            if meta::text(&new, "resourceVersion") == meta::text(old, "resourceVersion") && new.is_object() {
                meta::of(&mut new).remove("resourceVersion");
            }
            let new = meta::expect_kind(place.kind, place.namespace, new)?;
            check_name(place, &new)?;
            Ok(new)
        })
        .await
        .map(|entry| (entry, false))
    }
}

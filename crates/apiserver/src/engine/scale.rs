//! The scale of custom objects: read and written as `autoscaling/v1 Scale`, kept in the objects themselves.

use serde_json::Value;

use super::options::WriteOptions;
use super::{Engine, Part, PatchKind, Place, meta};
use crate::custom::{Scale, replicas_of, scale_of, scaled};
use crate::error::ApiError;
use crate::patch::{json_patch, merge_patch};

fn scale(place: Place<'_>) -> Result<Scale, ApiError> {
    place.kind.definition().and_then(|definition| definition.scale.clone()).ok_or_else(ApiError::no_resource)
}

fn read(place: Place<'_>, scale: &Scale, object: &Value) -> Result<Value, ApiError> {
    let missing = || {
        let path = scale.spec_replicas.join(".");
        ApiError::internal(format!("the spec replicas field \".{path}\" of {:?} does not exist", place.name))
    };
    scale_of(scale, object).ok_or_else(missing)
}

impl Engine {
    /// The scale of an object.
    ///
    /// # Errors
    /// 404 for objects that are not there or have no scale; 500 if it does not say how many it wants, as upstream.
    pub fn get_scale(&self, place: Place<'_>) -> Result<Value, ApiError> {
        let scale = scale(place)?;
        let (_, object) = self.load(place)?;
        read(place, &scale, &object)
    }

    /// Writes the scale of an object: a whole `Scale`, or a patch of it.
    ///
    /// # Errors
    /// Those of [`Engine::get_scale`] and of updating; 400 and 422 for what is no scale, 415 for patches of other kinds.
    pub async fn put_scale(
        &self,
        place: Place<'_>,
        patch: Option<PatchKind>,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let scale = scale(place)?;
        let change = |old: &Value| {
            let wanted = match patch {
                None => body.clone(),
                Some(PatchKind::Merge) => merge_patch(&read(place, &scale, old)?, body),
                Some(PatchKind::Json) => json_patch(&read(place, &scale, old)?, body)?,
                Some(PatchKind::Strategic | PatchKind::Apply) => {
                    let read = ["application/json-patch+json", "application/merge-patch+json"];
                    return Err(ApiError::unsupported_media_type(&read));
                }
            };
            if wanted["kind"] != "Scale" || meta::text(&wanted, "name") != place.name {
                return Err(ApiError::bad_request("the body is not the Scale of the object that the URL names"));
            }
            let replicas = replicas_of(&wanted).ok_or_else(|| {
                let why = "must be a number that is not negative";
                let cause = crate::kinds::invalid("spec.replicas", &wanted["spec"]["replicas"], why);
                ApiError::invalid("autoscaling", "Scale", place.name, vec![cause])
            })?;
            let mut new = scaled(&scale, old.clone(), replicas);
            // The scale's revision is the object's; a patch names none unless it means to.
            let base = match patch {
                None => meta::text(&wanted, "resourceVersion"),
                Some(_) => meta::text(body, "resourceVersion"),
            };
            match base {
                "" => drop(meta::of(&mut new).remove("resourceVersion")),
                base => drop(meta::of(&mut new).insert("resourceVersion".to_owned(), base.into())),
            }
            Ok(new)
        };
        let entry = self.change(place, Part::Main, options, change).await?;
        let mut object = entry.parse().map_err(ApiError::internal)?;
        object["apiVersion"] = place.kind.api_version().into();
        read(place, &scale, &object)
    }
}

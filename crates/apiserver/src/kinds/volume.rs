//! PersistentVolumes and claims: objects only, nobody binds them here.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::plain::metadata;
use super::strategy::{forbidden, invalid, typed_with};
use crate::error::Cause;

pub(super) fn complete_claim(value: Value) -> Result<Value, serde_json::Error> {
    typed_with::<PersistentVolumeClaim>(value, |claim| {
        if let Some(spec) = &mut claim.spec {
            spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
        }
    })
}

pub(super) fn complete_volume(value: Value) -> Result<Value, serde_json::Error> {
    typed_with::<PersistentVolume>(value, |volume| {
        if let Some(spec) = &mut volume.spec {
            spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
            spec.persistent_volume_reclaim_policy.get_or_insert_with(|| "Retain".to_owned());
        }
    })
}

pub(super) fn pending(value: &mut Value) {
    value["status"] = json!({"phase": "Pending"});
}

const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

fn access_modes(object: &Value) -> Vec<Cause> {
    let mut found = metadata(object);
    let modes = object["spec"]["accessModes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if modes.is_empty() {
        let message = "Required value: at least 1 access mode is required";
        found.push(Cause::new("FieldValueRequired", message, "spec.accessModes"));
    }
    for mode in modes.iter().filter(|mode| !MODES.iter().any(|known| *mode == *known)) {
        let message = format!("Unsupported value: {mode}: supported values: \"{}\"", MODES.join("\", \""));
        found.push(Cause::new("FieldValueNotSupported", message, "spec.accessModes"));
    }
    found
}

fn storage(object: &Value, at: &str, found: &mut Vec<Cause>) {
    let field = format!("spec{}", at.replace('/', "."));
    match object["spec"].pointer(at) {
        None => found.push(Cause::new("FieldValueRequired", "Required value", field)),
        Some(amount) => {
            let positive = amount.as_str().and_then(|text| minke_core::resources::Amount::parse(text).ok());
            if positive.is_none_or(|amount| amount <= minke_core::resources::Amount::default()) {
                found.push(invalid(&field, amount, "must be greater than zero"));
            }
        }
    }
}

pub(super) fn claim(object: &Value) -> Vec<Cause> {
    let mut found = access_modes(object);
    storage(object, "/resources/requests/storage", &mut found);
    found
}

pub(super) fn volume(object: &Value) -> Vec<Cause> {
    let mut found = access_modes(object);
    storage(object, "/capacity/storage", &mut found);
    found
}

/// A claim's spec stays, but for its size and, once, the volume that it is bound to.
pub(super) fn claim_update(new: &Value, old: &Value) -> Vec<Cause> {
    let stays = |value: &Value| {
        let mut spec = value["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            map.remove("resources");
            map.remove("volumeAttributesClassName");
            if old["spec"].get("volumeName").is_none() {
                map.remove("volumeName");
            }
        }
        spec
    };
    if stays(new) == stays(old) {
        return Vec::new();
    }
    let why =
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    vec![forbidden("spec", why)]
}

//! ConfigMaps and Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;

use super::strategy::{causes, forbidden, immutable, typed_with};
use crate::error::Cause;

pub(super) fn config_map(object: &Value) -> Vec<Cause> {
    match serde_json::from_value::<ConfigMap>(object.clone()) {
        Ok(map) => causes(minke_core::validation::validate_config_map(&map)),
        Err(error) => vec![Cause::new("FieldValueTypeInvalid", format!("Invalid value: {error}"), "data")],
    }
}

pub(super) fn secret(object: &Value) -> Vec<Cause> {
    match serde_json::from_value::<Secret>(object.clone()) {
        Ok(secret) => causes(minke_core::validation::validate_secret(&secret)),
        // The text of the error may have a part of the secret.
        Err(_) => vec![Cause::new("FieldValueTypeInvalid", "Invalid value: not a Secret", "data")],
    }
}

/// `stringData` goes into `data`; the type is `Opaque` where none is said.
pub(super) fn complete_secret(mut value: Value) -> Result<Value, serde_json::Error> {
    if let Some(plain) = value.as_object_mut().and_then(|map| map.remove("stringData"))
        && let Value::Object(plain) = plain
    {
        for (key, text) in plain {
            // What is no text is left for the type to refuse.
            value["data"][key] = match text {
                Value::String(text) => STANDARD.encode(text).into(),
                other => other,
            };
        }
    }
    typed_with::<Secret>(value, |secret| {
        secret.type_.get_or_insert_with(|| "Opaque".to_owned());
    })
}

fn frozen(new: &Value, old: &Value, fields: &[&str]) -> Vec<Cause> {
    let mut found = Vec::new();
    if old["immutable"] == true {
        if new["immutable"] != true {
            found.push(forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for field in fields.iter().filter(|field| new.get(**field) != old.get(**field)) {
            found.push(forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
    found
}

pub(super) fn config_map_update(new: &Value, old: &Value) -> Vec<Cause> {
    frozen(new, old, &["data", "binaryData"])
}

pub(super) fn secret_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut found: Vec<Cause> = immutable(new, old, "/type").into_iter().collect();
    found.extend(frozen(new, old, &["data"]));
    found
}

//! The part of objects that all kinds share: who they are, when they came, who holds them.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::Place;
use crate::error::{ApiError, Cause};
use crate::kinds::Kind;

/// Letters and digits without those that make words or are mistaken for each other: upstream's set for generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Random text of this length for names, and, long enough, for tokens.
///
/// # Errors
/// The kernel has no random bytes.
pub fn random_text(length: usize) -> Result<String, ApiError> {
    let mut text = String::with_capacity(length);
    let mut bytes = [0u8; 32];
    while text.len() < length {
        getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
        // 27 * 9 = 243: above it the first letters would be likelier.
        let letters =
            bytes.iter().filter(|byte| **byte < 243).map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()]);
        text.extend(letters.take(length - text.len()).map(char::from));
    }
    Ok(text)
}

/// A random uid (version 4).
pub(super) fn uid() -> Result<String, ApiError> {
    let mut b = [0u8; 16];
    getrandom::fill(&mut b).map_err(ApiError::internal)?;
    b[6] = b[6] & 0x0f | 0x40;
    b[8] = b[8] & 0x3f | 0x80;
    let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// As Kubernetes writes a `Time`.
pub(super) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As Kubernetes writes a `MicroTime`.
pub(crate) fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

pub(super) fn split_api_version(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or(("", text))
}

/// A text of the metadata, empty where there is none.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The finalizers.
pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether it is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The metadata to change; what is no object becomes one.
pub(super) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    // Just made one.
    object["metadata"].as_object_mut().unwrap_or_else(|| unreachable!())
}

/// Body → object of this kind: kind and version are this kind's or absent, and so is the namespace.
pub(super) fn expect_kind(kind: &Kind, namespace: &str, mut object: Value) -> Result<Value, ApiError> {
    let Some(map) = object.as_object_mut() else {
        return Err(ApiError::bad_request("the body of the request is no object"));
    };
    let api_version = kind.api_version();
    for (field, expected) in [("kind", kind.kind), ("apiVersion", &api_version)] {
        match map.get(field).and_then(Value::as_str).filter(|found| !found.is_empty()) {
            Some(found) if found != expected => {
                let what = if field == "kind" { "kind" } else { "API version" };
                let message =
                    format!("the {what} in the data ({found}) does not match the expected {what} ({expected})");
                return Err(ApiError::bad_request(message));
            }
            Some(_) => {}
            None => drop(map.insert(field.to_owned(), expected.into())),
        }
    }
    if !map.get("metadata").is_none_or(Value::is_object) {
        return Err(ApiError::bad_request("metadata is no object"));
    }
    let given = text(&object, "namespace");
    if kind.namespaced && !given.is_empty() && given != namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    match kind.namespaced {
        true => drop(of(&mut object).insert("namespace".to_owned(), namespace.into())),
        false => drop(of(&mut object).remove("namespace")),
    }
    Ok(object)
}

/// Runs the kind's type and defaults over an object.
pub(super) fn complete(kind: &Kind, object: Value) -> Result<Value, ApiError> {
    kind.complete(object).map_err(|error| {
        let (version, name) = (kind.api_version(), kind.kind);
        // For Secrets the decoder's words could have a value in them.
        let why = if name == "Secret" { "a field has the wrong type".to_owned() } else { error.to_string() };
        ApiError::bad_request(format!("{name} in version {version:?} cannot be handled as a {name}: {why}"))
    })
}

/// 422 if there is any cause.
pub(super) fn accept(place: Place<'_>, causes: Vec<Cause>) -> Result<(), ApiError> {
    match causes.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid(place.kind.group, place.kind.kind, place.name, causes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_are_of_their_alphabet_and_differ() {
        let (a, b) = (random_text(40).unwrap(), random_text(40).unwrap());
        assert_eq!((a.len(), b.len()), (40, 40));
        assert_ne!(a, b);
        assert!(a.bytes().all(|byte| ALPHABET.contains(&byte)));
        let uid = uid().unwrap();
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    }
}

//! ConfigMaps and Secrets. No message has a value in it.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::error::{Errors, ValidationError};
use super::metadata::metadata;
use super::names::config_key;
use super::path::FieldPath;

/// Most bytes of all values together; a server's limit.
const SIZE_MAX: usize = 1024 * 1024;

/// What a server would refuse in a ConfigMap.
#[must_use]
pub fn validate_config_map(map: &ConfigMap) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    metadata(&mut errors, &map.metadata, &FieldPath::of("metadata"));
    let texts = map.data.iter().flatten().map(|(key, value)| ("data", key, value.len()));
    let bytes = map.binary_data.iter().flatten().map(|(key, ByteString(value))| ("binaryData", key, value.len()));
    entries(&mut errors, texts.chain(bytes));
    for key in map.data.iter().flatten().map(|(key, _)| key) {
        if map.binary_data.as_ref().is_some_and(|binary| binary.contains_key(key)) {
            let detail = format!("duplicate of key {key:?} present in binaryData");
            errors.invalid(&FieldPath::of("data").key(key), key, &detail);
        }
    }
    errors.into_vec()
}

/// What a server would refuse in a Secret. Its `stringData` has been merged into its `data`.
#[must_use]
pub fn validate_secret(secret: &Secret) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    metadata(&mut errors, &secret.metadata, &FieldPath::of("metadata"));
    let data = secret.data.iter().flatten().map(|(key, ByteString(value))| ("data", key, value.len()));
    entries(&mut errors, data);
    let path = FieldPath::of("data");
    let value = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|ByteString(bytes)| bytes);
    let mut require = |keys: &[&str]| {
        for key in keys {
            if value(key).is_none() {
                errors.required(&path.key(*key), "");
            }
        }
    };
    match secret.type_.as_deref() {
        Some("kubernetes.io/dockercfg") => require(&[".dockercfg"]),
        Some("kubernetes.io/dockerconfigjson") => require(&[".dockerconfigjson"]),
        Some("kubernetes.io/tls") => require(&["tls.crt", "tls.key"]),
        Some("kubernetes.io/ssh-auth") => require(&["ssh-privatekey"]),
        Some("kubernetes.io/basic-auth") => {
            if value("username").is_none() && value("password").is_none() {
                errors.required(&path.key("username"), "");
                errors.required(&path.key("password"), "");
            }
        }
        Some(_) | None => {}
    }
    for key in [".dockercfg", ".dockerconfigjson"] {
        let is_config = secret.type_.as_deref() == Some(&format!("kubernetes.io/{}", &key[1..]));
        if is_config && value(key).is_some_and(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).is_err()) {
            errors.invalid(&path.key(key), "<secret contents redacted>", "is not JSON");
        }
    }
    errors.into_vec()
}

fn entries<'a>(errors: &mut Errors, entries: impl Iterator<Item = (&'static str, &'a String, usize)>) {
    let mut size = 0;
    for (field, key, bytes) in entries {
        size += bytes;
        if let Some(problem) = config_key(key) {
            errors.invalid(&FieldPath::of(field).key(key), key, problem);
        }
    }
    if size > SIZE_MAX {
        errors.too_long(&FieldPath::of("data"), SIZE_MAX);
    }
}

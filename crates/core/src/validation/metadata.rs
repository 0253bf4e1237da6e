//! Names, labels and annotations of objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::error::Errors;
use super::names::{dns_label, dns_subdomain, label_value, qualified_name};
use super::path::FieldPath;
use crate::identity::PodUid;

/// Most bytes of all annotations together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The metadata of an object in a namespace whose name is a DNS subdomain, as Pods', ConfigMaps' and Secrets' are.
pub(crate) fn metadata(errors: &mut Errors, meta: &ObjectMeta, path: &FieldPath) {
    match (meta.name.as_deref().unwrap_or(""), meta.generate_name.as_deref().unwrap_or("")) {
        ("", "") => errors.required(&path.field("name"), "name or generateName is required"),
        ("", prefix) => {
            // What is appended makes a trailing '-' or '.' good.
            if let Some(problem) = dns_subdomain(&format!("{prefix}a")) {
                errors.invalid(&path.field("generateName"), prefix, problem);
            }
        }
        (name, _) => {
            if let Some(problem) = dns_subdomain(name) {
                errors.invalid(&path.field("name"), name, problem);
            }
        }
    }
    if let Some(namespace) = meta.namespace.as_deref()
        && let Some(problem) = dns_label(namespace)
    {
        errors.invalid(&path.field("namespace"), namespace, problem);
    }
    if let Some(uid) = meta.uid.as_deref()
        && PodUid::new(uid).is_err()
    {
        errors.invalid(
            &path.field("uid"),
            uid,
            "must be 1 to 253 letters, digits, '-', '_' or '.', without a leading '.'",
        );
    }
    template_metadata(errors, meta, path);
}

/// The part of metadata that a Pod template has too.
pub(crate) fn template_metadata(errors: &mut Errors, meta: &ObjectMeta, path: &FieldPath) {
    if let Some(found) = &meta.labels {
        labels(errors, found, &path.field("labels"));
    }
    let annotations = path.field("annotations");
    let mut size = 0;
    for (key, value) in meta.annotations.iter().flatten() {
        size += key.len() + value.len();
        // Case does not matter in the key of an annotation.
        if let Some(problem) = qualified_name(&key.to_lowercase()) {
            errors.invalid(&annotations, key, problem);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(&annotations, ANNOTATIONS_MAX);
    }
}

/// Labels, and whatever else is a set of them.
pub(crate) fn labels(errors: &mut Errors, labels: &BTreeMap<String, String>, path: &FieldPath) {
    for (key, value) in labels {
        if let Some(problem) = qualified_name(key) {
            errors.invalid(&path.key(key), key, problem);
        }
        if let Some(problem) = label_value(value) {
            errors.invalid(&path.key(key), value, problem);
        }
    }
}

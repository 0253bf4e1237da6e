//! Environment variables and where their values come from.

use k8s_openapi::api::core::v1::{Container, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};

use super::error::Errors;
use super::names::{config_key, env_name, qualified_name};
use super::path::FieldPath;

pub(crate) fn env(errors: &mut Errors, container: &Container, path: &FieldPath) {
    for (i, variable) in container.env.iter().flatten().enumerate() {
        let path = path.index(i);
        if variable.name.is_empty() {
            errors.required(&path.field("name"), "");
        } else if let Some(problem) = env_name(&variable.name) {
            errors.invalid(&path.field("name"), &variable.name, problem);
        }
        if let Some(source) = &variable.value_from {
            let has_value = variable.value.as_deref().is_some_and(|value| !value.is_empty());
            value_from(errors, source, has_value, &path.field("valueFrom"));
        }
    }
}

fn value_from(errors: &mut Errors, source: &EnvVarSource, has_value: bool, path: &FieldPath) {
    let mut given = 0;
    if let Some(field) = &source.field_ref {
        given += 1;
        field_ref(errors, field, FieldUse::Env, &path.field("fieldRef"));
    }
    if let Some(resource) = &source.resource_field_ref {
        given += 1;
        resource_field_ref(errors, resource, FieldUse::Env, &path.field("resourceFieldRef"));
    }
    if let Some(key) = &source.config_map_key_ref {
        given += 1;
        key_ref(errors, &key.name, &key.key, &path.field("configMapKeyRef"));
    }
    if let Some(key) = &source.secret_key_ref {
        given += 1;
        key_ref(errors, &key.name, &key.key, &path.field("secretKeyRef"));
    }
    if source.file_key_ref.is_some() {
        given += 1;
    }
    match given {
        0 => errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        ),
        1 if has_value => errors.invalid(path, "", "may not be specified when `value` is not empty"),
        1 => {}
        _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn key_ref(errors: &mut Errors, name: &str, key: &str, path: &FieldPath) {
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    }
    if key.is_empty() {
        errors.required(&path.field("key"), "");
    } else if let Some(problem) = config_key(key) {
        errors.invalid(&path.field("key"), key, problem);
    }
}

/// Where a field of the Pod is wanted: some are known only while it runs, others are too many for a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldUse {
    Env,
    Volume,
}

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

pub(crate) fn field_ref(errors: &mut Errors, field: &ObjectFieldSelector, used: FieldUse, path: &FieldPath) {
    match field.api_version.as_deref() {
        None | Some("v1") => {}
        Some(other) => errors.unsupported(&path.field("apiVersion"), other, &["v1"]),
    }
    let at = path.field("fieldPath");
    let known: &[&str] = match used {
        FieldUse::Env => &ENV_FIELDS,
        FieldUse::Volume => &VOLUME_FIELDS,
    };
    if field.field_path.is_empty() {
        errors.required(&at, "");
    } else if let Some((map, key)) = subscript(&field.field_path) {
        let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        if let Some(problem) = qualified_name(&key) {
            errors.invalid(&at, &field.field_path, problem);
        }
    } else if !known.contains(&field.field_path.as_str()) {
        errors.unsupported(&at, &field.field_path, known);
    }
}

/// `metadata.labels['key']` as map and key.
fn subscript(path: &str) -> Option<(&'static str, &str)> {
    ["metadata.labels", "metadata.annotations"].into_iter().find_map(|map| {
        let key = path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']")?;
        Some((map, key))
    })
}

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZE_DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(crate) fn resource_field_ref(
    errors: &mut Errors,
    resource: &ResourceFieldSelector,
    used: FieldUse,
    path: &FieldPath,
) {
    if used == FieldUse::Volume && resource.container_name.as_deref().unwrap_or("").is_empty() {
        errors.required(&path.field("containerName"), "");
    }
    let name = resource.resource.as_str();
    let is_huge_pages = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if name.is_empty() {
        errors.required(&path.field("resource"), "");
        return;
    }
    if !is_huge_pages && !RESOURCES.contains(&name) {
        errors.unsupported(&path.field("resource"), name, &RESOURCES);
        return;
    }
    let Some(divisor) = resource.divisor.as_ref().map(|divisor| divisor.0.as_str()) else { return };
    let known: &[&str] = if name.ends_with(".cpu") { &["1", "1m"] } else { &SIZE_DIVISORS };
    if !matches!(divisor, "" | "0") && !known.contains(&divisor) {
        errors.unsupported(&path.field("divisor"), divisor, known);
    }
}

pub(crate) fn env_from(errors: &mut Errors, container: &Container, path: &FieldPath) {
    for (i, source) in container.env_from.iter().flatten().enumerate() {
        let path = path.index(i);
        if let Some(prefix) = source.prefix.as_deref().filter(|prefix| !prefix.is_empty())
            && let Some(problem) = env_name(prefix)
        {
            errors.invalid(&path.field("prefix"), prefix, problem);
        }
        let names = [
            (source.config_map_ref.as_ref().map(|map| &map.name), "configMapRef"),
            (source.secret_ref.as_ref().map(|secret| &secret.name), "secretRef"),
        ];
        for (name, field) in &names {
            if name.is_some_and(String::is_empty) {
                errors.required(&path.field(*field).field("name"), "");
            }
        }
        match names.iter().filter(|(name, _)| name.is_some()).count() {
            0 => errors.invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(&path, "", "may not have more than one field specified at a time"),
        }
    }
}

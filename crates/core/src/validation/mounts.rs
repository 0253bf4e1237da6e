//! Where a container mounts volumes.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::containers::ContainerContext;
use super::error::Errors;
use super::names::local_path;
use super::path::FieldPath;
use super::pod::one_of;

pub(crate) fn mounts(errors: &mut Errors, container: &Container, context: &ContainerContext<'_>, path: &FieldPath) {
    let privileged = container.security_context.as_ref().and_then(|security| security.privileged) == Some(true);
    let mut places = HashSet::new();
    for (i, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = path.index(i);
        if mount.name.is_empty() {
            errors.required(&path.field("name"), "");
        } else if !context.volume_names.contains(mount.name.as_str()) {
            errors.not_found(&path.field("name"), &mount.name);
        }
        if mount.mount_path.is_empty() {
            errors.required(&path.field("mountPath"), "");
        } else if !places.insert(&mount.mount_path) {
            errors.invalid(&path.field("mountPath"), &mount.mount_path, "must be unique");
        }
        sub_path(errors, mount, &path);
        propagation(errors, mount, privileged, &path);
        recursive_read_only(errors, mount, &path.field("recursiveReadOnly"));
    }
}

fn sub_path(errors: &mut Errors, mount: &VolumeMount, path: &FieldPath) {
    let fields = [(&mount.sub_path, "subPath"), (&mount.sub_path_expr, "subPathExpr")];
    let given = fields.iter().filter(|(value, _)| value.as_deref().is_some_and(|value| !value.is_empty())).count();
    if given > 1 {
        let expression = mount.sub_path_expr.as_deref().unwrap_or("");
        errors.invalid(&path.field("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
    }
    for (value, field) in fields {
        if let Some(value) = value
            && let Some(problem) = local_path(value)
        {
            errors.invalid(&path.field(field), value, problem);
        }
    }
}

fn propagation(errors: &mut Errors, mount: &VolumeMount, privileged: bool, path: &FieldPath) {
    let path = path.field("mountPropagation");
    let value = mount.mount_propagation.as_deref();
    one_of(errors, value, &["Bidirectional", "HostToContainer", "None"], &path);
    if value == Some("Bidirectional") && !privileged {
        errors.forbidden(&path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(errors: &mut Errors, mount: &VolumeMount, path: &FieldPath) {
    let value = mount.recursive_read_only.as_deref();
    one_of(errors, value, &["Disabled", "Enabled", "IfPossible"], path);
    if matches!(value, Some("Enabled" | "IfPossible")) {
        if mount.read_only != Some(true) {
            errors.forbidden(path, "may only be specified when readOnly is true");
        }
        if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
            errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
        }
    }
}

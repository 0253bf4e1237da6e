//! Volumes: one source each, and the rules of the sources that hold files or directories of this machine.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, HostPathVolumeSource, ImageVolumeSource, KeyToPath, PodSpec, Volume,
};

use super::env::{FieldUse, field_ref, resource_field_ref};
use super::error::Errors;
use super::names::{config_key, dns_label, local_path, no_backsteps};
use super::path::FieldPath;
use super::pod::one_of;
use super::projected::projected;
use super::volume_kinds::sources;
use crate::resources::Amount;

pub(crate) fn volumes(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    let mut names = HashSet::new();
    for (i, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.index(i);
        if volume.name.is_empty() {
            errors.required(&path.field("name"), "");
        } else if let Some(problem) = dns_label(&volume.name) {
            errors.invalid(&path.field("name"), &volume.name, problem);
        } else if !names.insert(&volume.name) {
            errors.duplicate(&path.field("name"), &volume.name);
        }
        one_source(errors, volume, &path);
        source(errors, volume, &path);
    }
}

fn one_source(errors: &mut Errors, volume: &Volume, path: &FieldPath) {
    let mut given = sources(volume).into_iter().filter(|source| source.given);
    if given.next().is_none() {
        errors.required(path, "must specify a volume type");
    }
    for another in given {
        errors.forbidden(&path.field(another.field), "may not specify more than 1 volume type");
    }
}

fn source(errors: &mut Errors, volume: &Volume, path: &FieldPath) {
    if let Some(host_path) = &volume.host_path {
        self::host_path(errors, host_path, &path.field("hostPath"));
    }
    if let Some(directory) = &volume.empty_dir {
        empty_dir(errors, directory, &path.field("emptyDir"));
    }
    if let Some(image) = &volume.image {
        self::image(errors, image, &path.field("image"));
    }
    if let Some(map) = &volume.config_map {
        let path = path.field("configMap");
        if map.name.is_empty() {
            errors.required(&path.field("name"), "");
        }
        mode(errors, map.default_mode, &path.field("defaultMode"));
        key_paths(errors, map.items.as_deref(), &path.field("items"));
    }
    if let Some(secret) = &volume.secret {
        let path = path.field("secret");
        if secret.secret_name.as_deref().unwrap_or("").is_empty() {
            errors.required(&path.field("secretName"), "");
        }
        mode(errors, secret.default_mode, &path.field("defaultMode"));
        key_paths(errors, secret.items.as_deref(), &path.field("items"));
    }
    if let Some(source) = &volume.downward_api {
        let path = path.field("downwardAPI");
        mode(errors, source.default_mode, &path.field("defaultMode"));
        downward_files(errors, source.items.as_deref(), &path.field("items"));
    }
    if let Some(source) = &volume.projected {
        projected(errors, source, &path.field("projected"));
    }
}

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn host_path(errors: &mut Errors, source: &HostPathVolumeSource, path: &FieldPath) {
    let at = path.field("path");
    if source.path.is_empty() {
        errors.required(&at, "");
    } else if let Some(problem) = no_backsteps(&source.path) {
        errors.invalid(&at, &source.path, problem);
    }
    one_of(errors, source.type_.as_deref(), &HOST_PATH_TYPES, &path.field("type"));
}

fn empty_dir(errors: &mut Errors, source: &EmptyDirVolumeSource, path: &FieldPath) {
    if let Some(limit) = &source.size_limit {
        match Amount::of(limit) {
            Ok(amount) if amount < Amount::ZERO => {
                errors.forbidden(&path.field("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
            Ok(_) => {}
            Err(_) => errors.invalid(&path.field("sizeLimit"), &limit.0, "is not a quantity"),
        }
    }
    let medium = source.medium.as_deref().unwrap_or("");
    if !medium.starts_with("HugePages-") {
        one_of(errors, Some(medium), &["", "HugePages", "Memory"], &path.field("medium"));
    }
}

fn image(errors: &mut Errors, source: &ImageVolumeSource, path: &FieldPath) {
    if source.reference.as_deref().unwrap_or("").is_empty() {
        errors.required(&path.field("reference"), "");
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(errors, source.pull_policy.as_deref(), &policies, &path.field("pullPolicy"));
}

/// The permission bits of a file.
pub(crate) fn mode(errors: &mut Errors, mode: Option<i32>, path: &FieldPath) {
    if let Some(mode) = mode
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Which keys become which files.
pub(crate) fn key_paths(errors: &mut Errors, items: Option<&[KeyToPath]>, path: &FieldPath) {
    for (i, item) in items.into_iter().flatten().enumerate() {
        let path = path.index(i);
        if item.key.is_empty() {
            errors.required(&path.field("key"), "");
        } else if let Some(problem) = config_key(&item.key) {
            errors.invalid(&path.field("key"), &item.key, problem);
        }
        file_path(errors, &item.path, &path.field("path"));
        mode(errors, item.mode, &path.field("mode"));
    }
}

/// A file in a volume that Minke writes. Names with two leading dots belong to the writer.
fn file_path(errors: &mut Errors, file: &str, path: &FieldPath) {
    if file.is_empty() {
        errors.required(path, "");
    } else if let Some(problem) = local_path(file) {
        errors.invalid(path, file, problem);
    } else if file.starts_with("..") {
        errors.invalid(path, file, "must not start with '..'");
    }
}

/// Files with fields of the Pod.
pub(crate) fn downward_files(errors: &mut Errors, items: Option<&[DownwardAPIVolumeFile]>, path: &FieldPath) {
    for (i, item) in items.into_iter().flatten().enumerate() {
        let path = path.index(i);
        file_path(errors, &item.path, &path.field("path"));
        mode(errors, item.mode, &path.field("mode"));
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), None) => field_ref(errors, field, FieldUse::Volume, &path.field("fieldRef")),
            (None, Some(resource)) => {
                resource_field_ref(errors, resource, FieldUse::Volume, &path.field("resourceFieldRef"));
            }
            (Some(_), Some(_)) => {
                errors.invalid(&path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
            (None, None) => errors.required(&path, "one of fieldRef and resourceFieldRef is required"),
        }
    }
}

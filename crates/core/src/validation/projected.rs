//! Projected volumes: files of several sources in one directory.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::ProjectedVolumeSource;

use super::error::Errors;
use super::path::FieldPath;
use super::volumes::{downward_files, key_paths, mode};

pub(crate) fn projected(errors: &mut Errors, volume: &ProjectedVolumeSource, path: &FieldPath) {
    mode(errors, volume.default_mode, &path.field("defaultMode"));
    let mut files: HashSet<&str> = HashSet::new();
    for (i, source) in volume.sources.iter().flatten().enumerate() {
        let path = path.field("sources").index(i);
        let mut claimed: Vec<&str> = Vec::new();
        let mut given = 0;
        if let Some(map) = &source.config_map {
            given += 1;
            if map.name.is_empty() {
                errors.required(&path.field("configMap").field("name"), "");
            }
            key_paths(errors, map.items.as_deref(), &path.field("configMap").field("items"));
            claimed.extend(map.items.iter().flatten().map(|item| item.path.as_str()));
        }
        if let Some(secret) = &source.secret {
            given += 1;
            if secret.name.is_empty() {
                errors.required(&path.field("secret").field("name"), "");
            }
            key_paths(errors, secret.items.as_deref(), &path.field("secret").field("items"));
            claimed.extend(secret.items.iter().flatten().map(|item| item.path.as_str()));
        }
        if let Some(fields) = &source.downward_api {
            given += 1;
            downward_files(errors, fields.items.as_deref(), &path.field("downwardAPI").field("items"));
            claimed.extend(fields.items.iter().flatten().map(|item| item.path.as_str()));
        }
        let foreign = [
            source.service_account_token.is_some(),
            source.cluster_trust_bundle.is_some(),
            source.pod_certificate.is_some(),
        ];
        given += foreign.into_iter().filter(|is_given| *is_given).count();
        match given {
            0 => errors.required(&path, "must specify a source"),
            1 => {}
            _ => errors.forbidden(&path, "may not specify more than 1 volume type per source"),
        }
        for file in claimed {
            if !file.is_empty() && !files.insert(file) {
                errors.invalid(&path, file, "conflicting duplicate paths");
            }
        }
    }
}

//! Defaults of volumes.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, EmptyDirVolumeSource, Volume};

use super::container::pull_policy;
use super::pod::fill;
use crate::validation::sources;

/// The permission bits of a file in a volume.
const FILE_MODE: i32 = 0o644;
/// How long the token of a service account is good for, in seconds.
const TOKEN_SECONDS: i64 = 3600;

pub(super) fn default_volume(volume: &mut Volume) {
    if !sources(volume).iter().any(|source| source.given) {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(map) = &mut volume.config_map {
        map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(fields) = &mut volume.downward_api {
        fields.default_mode.get_or_insert(FILE_MODE);
        default_fields(fields.items.as_deref_mut());
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        for source in projected.sources.iter_mut().flatten() {
            if let Some(fields) = &mut source.downward_api {
                default_fields(fields.items.as_deref_mut());
            }
            if let Some(token) = &mut source.service_account_token {
                token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
            }
        }
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(image) = &mut volume.image {
        let policy = pull_policy(image.reference.as_deref().unwrap_or(""));
        fill(&mut image.pull_policy, policy);
    }
}

fn default_fields(items: Option<&mut [DownwardAPIVolumeFile]>) {
    for field in items.into_iter().flatten().filter_map(|item| item.field_ref.as_mut()) {
        fill(&mut field.api_version, "v1");
    }
}

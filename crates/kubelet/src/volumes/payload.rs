//! The files of configMap, secret, downwardAPI and projected volumes. Pure.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, ProjectedVolumeSource,
    SecretVolumeSource, VolumeProjection,
};
use minke_core::env::DownwardFacts;
use minke_core::objects::ObjectSet;

use super::VolumeFailure;
use super::atomic_writer::{FileContent, Payload, check_path};

const DEFAULT_MODE: u32 = 0o644;
/// Upstream's default lifetime of a token.
const TOKEN_SECONDS: i64 = 3600;

/// Where files come from.
pub(super) struct Source<'a> {
    pub(super) namespace: &'a str,
    pub(super) objects: &'a ObjectSet,
    pub(super) facts: &'a DownwardFacts<'a>,
}

/// All keys of an object, or why there are none.
type Data = Vec<(String, Vec<u8>)>;

impl Source<'_> {
    pub(super) fn config_map_volume(&self, volume: &ConfigMapVolumeSource) -> Result<Payload, VolumeFailure> {
        let optional = volume.optional.unwrap_or(false);
        let mode = mode(volume.default_mode)?;
        let mut payload = Payload::new();
        self.config_map(&volume.name, volume.items.as_deref(), optional, mode, &mut payload)?;
        Ok(payload)
    }

    pub(super) fn secret_volume(&self, volume: &SecretVolumeSource) -> Result<Payload, VolumeFailure> {
        let optional = volume.optional.unwrap_or(false);
        let name = volume.secret_name.as_deref().unwrap_or_default();
        let mode = mode(volume.default_mode)?;
        let mut payload = Payload::new();
        self.secret(name, volume.items.as_deref(), optional, mode, &mut payload)?;
        Ok(payload)
    }

    pub(super) fn downward_volume(&self, volume: &DownwardAPIVolumeSource) -> Result<Payload, VolumeFailure> {
        let mode = mode(volume.default_mode)?;
        let mut payload = Payload::new();
        for item in volume.items.iter().flatten() {
            self.downward(item, mode, &mut payload)?;
        }
        Ok(payload)
    }

    /// Sources in order; a later file of the same path wins, as upstream.
    pub(super) fn projected_volume(&self, volume: &ProjectedVolumeSource) -> Result<Payload, VolumeFailure> {
        let mode = mode(volume.default_mode)?;
        let mut payload = Payload::new();
        for source in volume.sources.iter().flatten() {
            self.projection(source, mode, &mut payload)?;
        }
        Ok(payload)
    }

    fn projection(&self, source: &VolumeProjection, mode: u32, payload: &mut Payload) -> Result<(), VolumeFailure> {
        if let Some(map) = &source.config_map {
            self.config_map(&map.name, map.items.as_deref(), map.optional.unwrap_or(false), mode, payload)?;
        }
        if let Some(secret) = &source.secret {
            self.secret(&secret.name, secret.items.as_deref(), secret.optional.unwrap_or(false), mode, payload)?;
        }
        for item in source.downward_api.iter().flat_map(|d| d.items.iter().flatten()) {
            self.downward(item, mode, payload)?;
        }
        if let Some(wanted) = &source.service_account_token {
            let audience = wanted.audience.as_deref().unwrap_or_default();
            let token = self.objects.token(audience, wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS));
            let none = || {
                let what = "projected serviceAccountToken (there is no API server to issue tokens)";
                VolumeFailure::Unsupported(what.to_owned())
            };
            insert(payload, &wanted.path, token.ok_or_else(none)?.as_bytes().to_vec(), None, mode)?;
        }
        let refused = [
            (source.cluster_trust_bundle.is_some(), "projected clusterTrustBundle"),
            (source.pod_certificate.is_some(), "projected podCertificate"),
        ];
        match refused.into_iter().find(|(given, _)| *given) {
            Some((_, what)) => Err(VolumeFailure::Unsupported(what.to_owned())),
            None => Ok(()),
        }
    }

    fn config_map(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: bool,
        mode: u32,
        payload: &mut Payload,
    ) -> Result<(), VolumeFailure> {
        let data: Data = match self.objects.config_map(self.namespace, name) {
            None if optional => Vec::new(),
            None => return Err(VolumeFailure::NoConfigMap(name.to_owned())),
            Some(map) => {
                let text = map.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone().into_bytes()));
                let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
                text.chain(binary).collect()
            }
        };
        files("config", data, items, optional, mode, payload)
    }

    fn secret(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: bool,
        mode: u32,
        payload: &mut Payload,
    ) -> Result<(), VolumeFailure> {
        let data: Data = match self.objects.secret(self.namespace, name) {
            None if optional => Vec::new(),
            None => return Err(VolumeFailure::NoSecret(name.to_owned())),
            Some(secret) => secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect(),
        };
        files("secret", data, items, optional, mode, payload)
    }

    fn downward(&self, item: &DownwardAPIVolumeFile, mode: u32, payload: &mut Payload) -> Result<(), VolumeFailure> {
        let text = if let Some(field) = &item.field_ref {
            self.facts.file_field(&field.field_path).map_err(VolumeFailure::Downward)?
        } else if let Some(resource) = &item.resource_field_ref {
            self.facts.resource(resource, None).map_err(VolumeFailure::Downward)?
        } else {
            String::new()
        };
        insert(payload, &item.path, text.into_bytes(), item.mode, mode)
    }
}

/// The items of an object, or all of its keys.
fn files(
    kind: &'static str,
    data: Data,
    items: Option<&[KeyToPath]>,
    optional: bool,
    mode: u32,
    payload: &mut Payload,
) -> Result<(), VolumeFailure> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return data.into_iter().try_for_each(|(key, bytes)| insert(payload, &key, bytes, None, mode));
    };
    for item in items {
        match data.iter().find(|(key, _)| *key == item.key) {
            Some((_, bytes)) => insert(payload, &item.path, bytes.clone(), item.mode, mode)?,
            None if optional => {}
            None => return Err(VolumeFailure::NoKey { kind, key: item.key.clone() }),
        }
    }
    Ok(())
}

fn insert(
    payload: &mut Payload,
    path: &str,
    bytes: Vec<u8>,
    own: Option<i32>,
    default: u32,
) -> Result<(), VolumeFailure> {
    check_path(path)?;
    let mode = match own {
        Some(_) => mode(own)?,
        None => default,
    };
    payload.insert(path.to_owned(), FileContent { bytes, mode });
    Ok(())
}

fn mode(bits: Option<i32>) -> Result<u32, VolumeFailure> {
    match bits {
        None => Ok(DEFAULT_MODE),
        Some(bits) => {
            let mode = u32::try_from(bits).ok().filter(|mode| *mode <= 0o777);
            mode.ok_or_else(|| VolumeFailure::BadValue { field: "mode", value: bits.to_string() })
        }
    }
}

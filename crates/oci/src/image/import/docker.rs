//! What `docker save` writes: `manifest.json`, configurations and plain layers. Layers have no digests of their own
//! there; the configuration names the digests of their contents.

use serde::Deserialize;

use super::archive::Archive;
use super::{Blob, Candidate, ImportError, canonical};
use crate::image::unpack::UnpackError;
use crate::image::{Digest, ImageConfig};
use crate::snapshot::MAX_LAYERS;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Option<Vec<String>>,
}

/// The images of an archive.
pub(super) fn candidates(archive: &Archive, manifest: &[u8]) -> Result<Vec<Candidate>, ImportError> {
    let saved: Vec<Saved> =
        serde_json::from_slice(manifest).map_err(|error| ImportError::bad(format!("manifest.json: {error}")))?;
    saved.into_iter().map(|saved| candidate(archive, saved)).collect()
}

fn candidate(archive: &Archive, saved: Saved) -> Result<Candidate, ImportError> {
    let config_bytes = archive
        .read_small(&saved.config)?
        .ok_or_else(|| ImportError::bad(format!("{:?} is missing from it", saved.config)))?;
    let config_digest = Digest::sha256(&config_bytes);
    // `<hex>.json`, or `blobs/sha256/<hex>` in archives of newer versions.
    let file = saved.config.rsplit('/').next().unwrap_or_default();
    let promised = format!("sha256:{}", file.strip_suffix(".json").unwrap_or(file)).parse::<Digest>();
    if let Ok(promised) = promised
        && promised != config_digest
    {
        return Err(ImportError::Unpack(UnpackError::Digest {
            expected: promised.to_string(),
            found: config_digest.to_string(),
        }));
    }
    let config = ImageConfig::parse(&config_bytes).map_err(ImportError::bad)?;
    let layers = saved.layers.unwrap_or_default();
    if layers.len() != config.diff_ids.len() {
        return Err(ImportError::bad(format!(
            "manifest.json has {} layers but the configuration {}",
            layers.len(),
            config.diff_ids.len()
        )));
    }
    if layers.len() > MAX_LAYERS {
        return Err(ImportError::bad(format!("it has {} layers; overlayfs stacks at most {MAX_LAYERS}", layers.len())));
    }
    let names = saved.repo_tags.unwrap_or_default().iter().map(|name| canonical(name)).collect::<Result<_, _>>()?;
    let layers = layers.into_iter().map(|file| Blob { file, expected: None }).collect();
    Ok(Candidate { names, config_digest, config_bytes, config, layers })
}

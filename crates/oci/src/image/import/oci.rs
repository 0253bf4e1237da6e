//! OCI image layouts.

use std::collections::BTreeMap;

use super::archive::Archive;
use super::{Blob, Candidate, ImportError, canonical};
use crate::image::manifest::{Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, Manifest, Platform, select};
use crate::image::unpack::{ExpectedBlob, UnpackError};

/// How deep indexes may nest.
const MAX_DEPTH: usize = 4;

/// The images of a layout, one for each name, each for this machine.
pub(super) fn candidates(archive: &Archive, index: &[u8], platform: &Platform) -> Result<Vec<Candidate>, ImportError> {
    let descriptors =
        match Document::parse(index).map_err(|message| ImportError::bad(format!("index.json: {message}")))? {
            Document::Index(descriptors) => descriptors,
            Document::Image(_) => return Err(ImportError::bad("index.json is not an index")),
        };
    // Images of one name, or without, are one image for several kinds of machines.
    let mut groups: BTreeMap<Option<String>, Vec<&Descriptor>> = BTreeMap::new();
    for descriptor in &descriptors {
        groups.entry(name(descriptor)?).or_default().push(descriptor);
    }
    let mut candidates: Vec<Candidate> = Vec::new();
    for (name, group) in groups {
        let manifest = resolve(archive, &group, platform, MAX_DEPTH)?;
        match candidates.iter_mut().find(|candidate| candidate.config_digest == manifest.config.digest) {
            Some(known) => known.names.extend(name),
            None => candidates.push(candidate(archive, &manifest, name)?),
        }
    }
    Ok(candidates)
}

/// The name that a layout gives an image. A bare tag, as some tools write it, is the name of nothing.
fn name(descriptor: &Descriptor) -> Result<Option<String>, ImportError> {
    let full = descriptor.annotation("io.containerd.image.name");
    let plain = descriptor.annotation("org.opencontainers.image.ref.name").filter(|name| name.contains(['/', ':']));
    full.or(plain).map(canonical).transpose()
}

fn resolve(
    archive: &Archive,
    descriptors: &[&Descriptor],
    platform: &Platform,
    depth: usize,
) -> Result<Manifest, ImportError> {
    let chosen = match descriptors {
        // Alone, its configuration tells whether it suits.
        [one] => one,
        several => select(several.iter().copied(), platform)
            .map_err(|found| ImportError::Platform { wanted: platform.clone(), found })?,
    };
    let bytes = blob(archive, chosen, MAX_MANIFEST)?;
    match (Document::parse(&bytes).map_err(ImportError::bad)?, depth.checked_sub(1)) {
        (Document::Image(manifest), _) => {
            manifest.check().map_err(ImportError::bad)?;
            Ok(manifest)
        }
        (Document::Index(inner), Some(depth)) => {
            let chosen =
                select(&inner, platform).map_err(|found| ImportError::Platform { wanted: platform.clone(), found })?;
            resolve(archive, &[chosen], platform, depth)
        }
        (Document::Index(_), None) => Err(ImportError::bad("its indexes are nested too deeply")),
    }
}

fn candidate(archive: &Archive, manifest: &Manifest, name: Option<String>) -> Result<Candidate, ImportError> {
    let config_bytes = blob(archive, &manifest.config, MAX_CONFIG)?;
    let config = manifest.config(&config_bytes).map_err(ImportError::bad)?;
    let layers = manifest
        .layers
        .iter()
        .map(|layer| Blob {
            file: path(layer),
            expected: Some(ExpectedBlob { digest: layer.digest.clone(), size: layer.size }),
        })
        .collect();
    Ok(Candidate {
        names: name.into_iter().collect(),
        config_digest: manifest.config.digest.clone(),
        config_bytes,
        config,
        layers,
    })
}

fn path(descriptor: &Descriptor) -> String {
    format!("blobs/{}", descriptor.digest.to_string().replace(':', "/"))
}

/// A small blob, checked.
fn blob(archive: &Archive, descriptor: &Descriptor, limit: u64) -> Result<Vec<u8>, ImportError> {
    if descriptor.size > limit {
        return Err(ImportError::bad(format!("{} is larger than {limit} bytes", descriptor.digest)));
    }
    let bytes = archive
        .read_small(&path(descriptor))?
        .ok_or_else(|| ImportError::bad(format!("{} is missing from it", descriptor.digest)))?;
    if bytes.len() as u64 != descriptor.size || !descriptor.digest.matches(&bytes) {
        return Err(ImportError::Unpack(UnpackError::Digest {
            expected: format!("{} of {} bytes", descriptor.digest, descriptor.size),
            found: format!("other content of {} bytes", bytes.len()),
        }));
    }
    Ok(bytes)
}

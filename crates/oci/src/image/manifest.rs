//! Manifests and indexes: what an image consists of, and which image is for this machine.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::{Digest, ImageConfig};
use crate::snapshot::MAX_LAYERS;

/// Media types to ask a registry for, most wanted first.
pub(crate) const ACCEPTED: &[&str] = &[INDEX, DOCKER_INDEX, MANIFEST, DOCKER_MANIFEST];

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Largest manifest or index that is read; registries refuse larger ones.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// Largest configuration that is read.
pub(crate) const MAX_CONFIG: u64 = 8 << 20;

/// A reference to content.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// The machine that an image is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) variant: Option<String>,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) if !variant.is_empty() => write!(f, "/{variant}"),
            _ => Ok(()),
        }
    }
}

impl Platform {
    /// This machine.
    pub(crate) fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "x86" => ("386", None),
            "aarch64" => ("arm64", None),
            "arm" => ("arm", Some("v7".to_owned())),
            "powerpc64" => ("ppc64le", None),
            other => (other, None),
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant }
    }

    /// How well an image for `other` suits this machine: less is better, `None` not at all.
    pub(crate) fn distance(&self, other: &Self) -> Option<u32> {
        if self.os != other.os {
            return None;
        }
        let variant = other.variant.as_deref().unwrap_or_default();
        match (self.architecture.as_str(), other.architecture.as_str(), variant) {
            ("amd64", "amd64", "" | "v1") | ("arm64", "arm64", "" | "v8") => Some(0),
            // The kernel runs the programs of the 32-bit ancestor.
            ("amd64", "386", _) => Some(1),
            ("arm", "arm", variant) => {
                let number = |text: &str| text.trim_start_matches('v').parse::<u32>().ok();
                let ours = self.variant.as_deref().and_then(number).unwrap_or(7);
                ours.checked_sub(number(variant).unwrap_or(7))
            }
            (ours, theirs, "") if ours == theirs => Some(0),
            _ => None,
        }
    }
}

/// A manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Document {
    Image(Manifest),
    Index(Vec<Descriptor>),
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    /// Lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    schema_version: u32,
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

impl Document {
    /// Reads a manifest or index; the error says what is wrong with it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| format!("malformed manifest: {error}"))?;
        if wire.schema_version == 1 {
            return Err("its manifest has the old schema 1, which carries no trustworthy digests; push it again with \
                        a current tool"
                .to_owned());
        }
        if wire.schema_version != 2 {
            return Err(format!("manifest schema {} is unknown", wire.schema_version));
        }
        let document = match (wire.config, wire.layers, wire.manifests) {
            (Some(config), layers, None) => Self::Image(Manifest { config, layers: layers.unwrap_or_default() }),
            (None, None, Some(manifests)) => Self::Index(manifests),
            // Different tools would see different images in it.
            (_, _, Some(_)) => return Err("it is a manifest and an index at once".to_owned()),
            (None, _, None) => return Err("its manifest names no configuration".to_owned()),
        };
        match (&document, wire.media_type.as_deref()) {
            (_, None) | (Self::Image(_), Some(MANIFEST | DOCKER_MANIFEST)) => Ok(document),
            (Self::Index(_), Some(INDEX | DOCKER_INDEX)) => Ok(document),
            (_, Some(other)) => Err(format!("{other:?} is not the media type of an image")),
        }
    }
}

impl Manifest {
    /// Whether this is an image that a container can have.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.config.media_type.as_str() {
            "application/vnd.oci.image.config.v1+json" | "application/vnd.docker.container.image.v1+json" => {}
            other => return Err(format!("it is no container image but has a configuration of type {other:?}")),
        }
        if self.config.size > MAX_CONFIG {
            return Err(format!("its configuration is larger than {MAX_CONFIG} bytes"));
        }
        if self.layers.len() > MAX_LAYERS {
            return Err(format!("it has {} layers; overlayfs stacks at most {MAX_LAYERS}", self.layers.len()));
        }
        self.layers.iter().try_for_each(|layer| check_layer_type(&layer.media_type))
    }

    /// The configuration, if it fits this manifest.
    pub(crate) fn config(&self, bytes: &[u8]) -> Result<ImageConfig, String> {
        let config = ImageConfig::parse(bytes)?;
        if config.diff_ids.len() != self.layers.len() {
            return Err(format!(
                "its manifest has {} layers but its configuration {}",
                self.layers.len(),
                config.diff_ids.len()
            ));
        }
        Ok(config)
    }
}

fn check_layer_type(media_type: &str) -> Result<(), String> {
    match media_type {
        "application/vnd.oci.image.layer.v1.tar"
        | "application/vnd.oci.image.layer.v1.tar+gzip"
        | "application/vnd.oci.image.layer.v1.tar+zstd"
        | "application/vnd.docker.image.rootfs.diff.tar"
        | "application/vnd.docker.image.rootfs.diff.tar.gzip"
        | "application/vnd.docker.image.rootfs.diff.tar.zstd" => Ok(()),
        other if other.contains("nondistributable") || other.contains("foreign") => {
            Err(format!("it has a layer that registries don't hold ({other})"))
        }
        other => Err(format!("it has a layer of type {other:?}, which is not a file system layer")),
    }
}

/// Why no image of an index was chosen: what there is, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPlatform {
    pub(crate) available: String,
}

/// The image of an index that suits `platform` best; the first of equals.
pub(crate) fn select<'a>(
    descriptors: impl IntoIterator<Item = &'a Descriptor>,
    platform: &Platform,
) -> Result<&'a Descriptor, NoPlatform> {
    let mut available = Vec::new();
    let mut best: Option<(u32, &Descriptor)> = None;
    for descriptor in descriptors {
        let distance = match &descriptor.platform {
            // Build attestations, not images.
            Some(theirs) if theirs.os == "unknown" => continue,
            Some(theirs) => {
                available.push(theirs.to_string());
                platform.distance(theirs)
            }
            // It may be for any machine; its configuration tells.
            None => Some(u32::MAX),
        };
        if let Some(distance) = distance
            && best.is_none_or(|(best, _)| distance < best)
        {
            best = Some((distance, descriptor));
        }
    }
    let nothing =
        || NoPlatform { available: if available.is_empty() { "nothing".to_owned() } else { available.join(", ") } };
    best.map(|(_, descriptor)| descriptor).ok_or_else(nothing)
}

/// Whether the configuration says that the image is for another kind of machine.
pub(crate) fn check_platform(config: &ImageConfig, platform: &Platform) -> Result<(), NoPlatform> {
    if config.os.is_empty() || config.architecture.is_empty() {
        return Ok(());
    }
    let theirs = Platform { os: config.os.clone(), architecture: config.architecture.clone(), variant: None };
    match platform.distance(&theirs) {
        Some(_) => Ok(()),
        None => Err(NoPlatform { available: theirs.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_owned);
        Platform { os: parts.next().unwrap(), architecture: parts.next().unwrap(), variant: parts.next() }
    }

    fn descriptor(text: &str) -> Descriptor {
        Descriptor {
            media_type: MANIFEST.into(),
            digest: Digest::sha256(text.as_bytes()),
            size: 1,
            platform: Some(platform(text)),
            annotations: None,
        }
    }

    #[test]
    fn the_best_platform_is_selected() {
        for (host, available, chosen) in [
            ("linux/amd64", &["linux/arm64", "linux/386", "linux/amd64"][..], Some("linux/amd64")),
            ("linux/amd64", &["linux/386", "linux/arm64"], Some("linux/386")),
            ("linux/amd64", &["linux/amd64/v3", "linux/amd64/v1"], Some("linux/amd64/v1")),
            ("linux/amd64", &["windows/amd64", "linux/s390x"], None),
            ("linux/arm64", &["linux/arm/v7", "linux/arm64/v8"], Some("linux/arm64/v8")),
            ("linux/arm/v7", &["linux/arm/v5", "linux/arm/v6", "linux/arm/v8"], Some("linux/arm/v6")),
            ("linux/riscv64", &["linux/riscv64"], Some("linux/riscv64")),
            ("linux/amd64", &["unknown/unknown"], None),
            ("linux/amd64", &[], None),
        ] {
            let descriptors: Vec<_> = available.iter().map(|text| descriptor(text)).collect();
            let selected = select(&descriptors, &platform(host)).ok().and_then(|d| d.platform.as_ref());
            assert_eq!(selected.map(ToString::to_string).as_deref(), chosen, "{host} of {available:?}");
        }
        let both = [descriptor("windows/amd64"), descriptor("linux/arm64/v8")];
        let error = select(&both, &platform("linux/amd64")).unwrap_err();
        assert_eq!(error.available, "windows/amd64, linux/arm64/v8");
    }

    #[test]
    fn documents_are_told_apart() {
        let config = format!(r#"{{"mediaType":"x","digest":"{}","size":1}}"#, Digest::sha256(b""));
        let image = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[]}}"#);
        assert!(matches!(Document::parse(image.as_bytes()), Ok(Document::Image(_))));
        assert!(matches!(Document::parse(br#"{"schemaVersion":2,"manifests":[]}"#), Ok(Document::Index(_))));
        for (text, words) in [
            (r#"{"schemaVersion":1,"fsLayers":[]}"#.to_owned(), "schema 1"),
            (format!(r#"{{"schemaVersion":2,"config":{config},"layers":[],"manifests":[]}}"#), "at once"),
            (format!(r#"{{"schemaVersion":2,"mediaType":"{INDEX}","config":{config}}}"#), "media type"),
            (r#"{"schemaVersion":2}"#.to_owned(), "no configuration"),
            (r#"{"schemaVersion":7}"#.to_owned(), "unknown"),
            ("[".to_owned(), "malformed"),
        ] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_no_container_image_is_refused() {
        let config = Descriptor { media_type: "application/vnd.oci.image.config.v1+json".into(), ..descriptor("a/b") };
        let layer = |kind: &str| Descriptor { media_type: kind.into(), ..descriptor("a/b") };
        let manifest = |layers| Manifest { config: config.clone(), layers };
        let good = "application/vnd.oci.image.layer.v1.tar+gzip";
        assert_eq!(manifest(vec![layer(good)]).check(), Ok(()));
        let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
        assert!(manifest(vec![layer(foreign)]).check().unwrap_err().contains("registries don't hold"));
        assert!(manifest(vec![layer("text/plain")]).check().unwrap_err().contains("not a file system layer"));
        assert!(manifest(vec![layer(good); 501]).check().unwrap_err().contains("at most 500"));
        let chart = Manifest { config: layer("application/vnd.cncf.helm.config.v1+json"), layers: vec![] };
        assert!(chart.check().unwrap_err().contains("helm"));
    }
}

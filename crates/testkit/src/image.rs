//! Images made in memory.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::Layer;

/// Media types of what [`Image`] consists of.
pub(crate) mod media {
    pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
}

/// How layers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    None,
    /// With gzip.
    #[default]
    Gzip,
    /// With zstd.
    Zstd,
}

impl Compression {
    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "+gzip",
            Self::Zstd => "+zstd",
        }
    }

    /// Compresses `bytes`. Writing into memory can't fail.
    pub(crate) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::None => bytes.to_vec(),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
            }
            Self::Zstd => zstd::encode_all(bytes, 3).unwrap_or_default(),
        }
    }
}

/// Bytes with the type and digest under which a manifest names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Media type.
    pub media_type: String,
    /// `sha256:…` of `bytes`; a test may put another one here.
    pub digest: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Blob {
    pub(crate) fn new(media_type: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { media_type: media_type.into(), digest: sha256(&bytes), bytes }
    }

    pub(crate) fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len() })
    }
}

/// `sha256:…` of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// The machine that an image is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// For example `linux`.
    pub os: String,
    /// For example `amd64`.
    pub architecture: String,
    /// For example `v7`.
    pub variant: Option<String>,
}

impl Platform {
    /// A platform from its parts.
    #[must_use]
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Self {
        Self { os: os.into(), architecture: architecture.into(), variant: variant.map(Into::into) }
    }

    /// The platform of the machine that this runs on.
    #[must_use]
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self::new("linux", architecture, None)
    }

    fn json(&self) -> Value {
        let mut value = json!({ "os": self.os, "architecture": self.architecture });
        if let Some(variant) = &self.variant {
            value["variant"] = json!(variant);
        }
        value
    }
}

/// Builds an [`Image`].
///
/// ```
/// use minke_testkit::{ImageBuilder, Layer};
/// let image = ImageBuilder::new()
///     .name("example.test/hello:1")
///     .layer(Layer::new().file("hello", 0o755, "#!/bin/true"))
///     .entrypoint(["/hello"])
///     .build();
/// assert!(image.id().starts_with("sha256:"));
/// ```
#[derive(Debug, Clone)]
pub struct ImageBuilder {
    names: Vec<String>,
    platform: Platform,
    compression: Compression,
    layers: Vec<Layer>,
    config: BTreeMap<&'static str, Value>,
    env: Vec<String>,
    labels: BTreeMap<String, String>,
    volumes: BTreeMap<String, Value>,
    diff_ids: Option<Vec<String>>,
}

impl Default for ImageBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ImageBuilder {
    /// An image for this machine without layers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            names: Vec::new(),
            platform: Platform::host(),
            compression: Compression::default(),
            layers: Vec::new(),
            config: BTreeMap::new(),
            env: Vec::new(),
            labels: BTreeMap::new(),
            volumes: BTreeMap::new(),
            diff_ids: None,
        }
    }

    /// A name that archives carry. Several are possible.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    /// Adds a layer on top.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Sets how layers are compressed; gzip otherwise.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the machine that it is for; this one otherwise.
    #[must_use]
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = platform;
        self
    }

    /// `ENTRYPOINT`.
    #[must_use]
    pub fn entrypoint<S: Into<String>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        self.config.insert("Entrypoint", strings(argv));
        self
    }

    /// `CMD`.
    #[must_use]
    pub fn cmd<S: Into<String>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        self.config.insert("Cmd", strings(argv));
        self
    }

    /// `ENV`.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push(format!("{name}={value}"));
        self
    }

    /// `USER`.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.config.insert("User", json!(user));
        self
    }

    /// `WORKDIR`.
    #[must_use]
    pub fn working_dir(mut self, dir: &str) -> Self {
        self.config.insert("WorkingDir", json!(dir));
        self
    }

    /// `STOPSIGNAL`.
    #[must_use]
    pub fn stop_signal(mut self, signal: &str) -> Self {
        self.config.insert("StopSignal", json!(signal));
        self
    }

    /// `LABEL`.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// `VOLUME`.
    #[must_use]
    pub fn volume(mut self, path: &str) -> Self {
        self.volumes.insert(path.to_owned(), json!({}));
        self
    }

    /// Claims these diff ids instead of the true ones.
    #[must_use]
    pub fn diff_ids<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.diff_ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// The image. The same input always gives the same digests.
    #[must_use]
    pub fn build(self) -> Image {
        let tars: Vec<Vec<u8>> = self.layers.iter().map(Layer::tar).collect();
        let diff_ids = self.diff_ids.unwrap_or_else(|| tars.iter().map(|tar| sha256(tar)).collect());
        let mut inner: serde_json::Map<String, Value> =
            self.config.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if !self.env.is_empty() {
            inner.insert("Env".into(), json!(self.env));
        }
        if !self.labels.is_empty() {
            inner.insert("Labels".into(), json!(self.labels));
        }
        if !self.volumes.is_empty() {
            inner.insert("Volumes".into(), json!(self.volumes));
        }
        let mut config = self.platform.json();
        config["config"] = Value::Object(inner);
        config["rootfs"] = json!({ "type": "layers", "diff_ids": diff_ids });
        let config = Blob::new(media::CONFIG, config.to_string().into_bytes());
        let layer_type = format!("{}{}", media::LAYER, self.compression.suffix());
        let layers: Vec<Blob> =
            tars.iter().map(|tar| Blob::new(layer_type.clone(), self.compression.compress(tar))).collect();
        Image::assemble(self.names, self.platform, config, layers, tars)
    }
}

fn strings<S: Into<String>>(items: impl IntoIterator<Item = S>) -> Value {
    Value::Array(items.into_iter().map(|item| Value::String(item.into())).collect())
}

/// A finished image.
#[derive(Debug, Clone)]
pub struct Image {
    /// Names that archives carry.
    pub names: Vec<String>,
    /// The machine that it is for.
    pub platform: Platform,
    /// Its manifest.
    pub manifest: Blob,
    /// Its configuration.
    pub config: Blob,
    /// Its layers, lowest first, compressed.
    pub layers: Vec<Blob>,
    /// Its layers, uncompressed.
    pub(crate) tars: Vec<Vec<u8>>,
}

impl Image {
    fn assemble(names: Vec<String>, platform: Platform, config: Blob, layers: Vec<Blob>, tars: Vec<Vec<u8>>) -> Self {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media::MANIFEST,
            "config": config.descriptor(),
            "layers": layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
        });
        let manifest = Blob::new(media::MANIFEST, manifest.to_string().into_bytes());
        Self { names, platform, manifest, config, layers, tars }
    }

    /// The image's id: the digest of its configuration.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.config.digest
    }

    /// The digest of its manifest.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.manifest.digest
    }

    /// Manifest, configuration and layers.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        [&self.manifest, &self.config].into_iter().chain(&self.layers)
    }
}

/// Several images under one name, for several kinds of machines.
#[derive(Debug, Clone)]
pub struct ImageIndex {
    /// The index itself.
    pub index: Blob,
    /// What it lists.
    pub images: Vec<Image>,
}

impl ImageIndex {
    /// An index of these images, in this order.
    #[must_use]
    pub fn new(images: Vec<Image>) -> Self {
        let manifests: Vec<Value> = images
            .iter()
            .map(|image| {
                let mut descriptor = image.manifest.descriptor();
                descriptor["platform"] = image.platform.json();
                descriptor
            })
            .collect();
        let index = json!({ "schemaVersion": 2, "mediaType": media::INDEX, "manifests": manifests });
        Self { index: Blob::new(media::INDEX, index.to_string().into_bytes()), images }
    }
}

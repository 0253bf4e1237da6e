//! Images as files: OCI layout, OCI archive, docker archive.

use std::io;
use std::path::Path;

use serde_json::json;

use crate::image::{media, sha256};
use crate::{Compression, Image, Layer};

impl Image {
    /// The files of an OCI image layout: relative path and contents.
    fn layout_files(&self) -> Vec<(String, Vec<u8>)> {
        let descriptor = |name: Option<&String>| {
            let mut descriptor = self.manifest.descriptor();
            if let Some(name) = name {
                descriptor["annotations"] = json!({
                    "io.containerd.image.name": name,
                    "org.opencontainers.image.ref.name": name.rsplit_once(':').map_or("latest", |(_, tag)| tag),
                });
            }
            descriptor
        };
        let manifests: Vec<_> = if self.names.is_empty() {
            vec![descriptor(None)]
        } else {
            self.names.iter().map(|name| descriptor(Some(name))).collect()
        };
        let index = json!({ "schemaVersion": 2, "mediaType": media::INDEX, "manifests": manifests });
        let mut files = vec![
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ];
        for blob in self.blobs() {
            files.push((format!("blobs/{}", blob.digest.replace(':', "/")), blob.bytes.clone()));
        }
        files
    }

    /// Writes an OCI image layout into a directory, which is made if needed.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write_oci_layout(&self, dir: &Path) -> io::Result<()> {
        for (path, contents) in self.layout_files() {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, contents)?;
        }
        Ok(())
    }

    /// The image as an OCI archive: a tar of its layout.
    #[must_use]
    pub fn oci_archive(&self) -> Vec<u8> {
        to_tar(&self.layout_files())
    }

    /// The image as `docker save` writes it: `manifest.json`, configuration, layers as plain tars.
    #[must_use]
    pub fn docker_archive(&self) -> Vec<u8> {
        let config = format!("{}.json", self.config.digest.trim_start_matches("sha256:"));
        let mut files = vec![(config.clone(), self.config.bytes.clone())];
        let mut layers = Vec::new();
        for tar in &self.tars {
            let path = format!("{}/layer.tar", sha256(tar).trim_start_matches("sha256:"));
            if !layers.contains(&path) {
                files.push((path.clone(), tar.clone()));
            }
            layers.push(path);
        }
        let manifest = json!([{ "Config": config, "RepoTags": self.names, "Layers": layers }]);
        files.push(("manifest.json".to_owned(), manifest.to_string().into_bytes()));
        to_tar(&files)
    }

    /// Writes [`Image::oci_archive`] to a file.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write_oci_archive(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.oci_archive())
    }

    /// Writes [`Image::docker_archive`] to a file, compressed as asked.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write_docker_archive(&self, path: &Path, compression: Compression) -> io::Result<()> {
        std::fs::write(path, compression.compress(&self.docker_archive()))
    }
}

fn to_tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    files.iter().fold(Layer::new(), |layer, (path, contents)| layer.file(path, 0o644, contents)).tar()
}

//! Questions to the store, and the publication of an image.

use std::path::PathBuf;

use minke_core::runtime::{FsInfo, ImageId, ImageStatus};

use super::names::NameRecord;
use super::{ImageStore, Inner, LayerHold, files};
use crate::image::{Digest, ImageConfig, Reference, StoreError};

/// Fewest digits of a short id.
const MIN_SHORT_ID: usize = 6;

impl ImageStore {
    /// The image that a name, `name@digest`, id or short id (6 digits or more) points to, if it is there.
    ///
    /// # Errors
    /// When `image` is neither a name nor an id, when a short id fits several images, or when the store can't be
    /// read.
    pub fn status(&self, image: &str) -> Result<Option<ImageStatus>, StoreError> {
        let Some(id) = self.inner.resolve(image)? else {
            return Ok(None);
        };
        let names = self.inner.names()?;
        match self.inner.image(&id)? {
            Some(config) => self.inner.image_status(id, &config, &names).map(Some),
            None => Ok(None),
        }
    }

    /// Every image, in the order of their ids.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn list(&self) -> Result<Vec<ImageStatus>, StoreError> {
        let names = self.inner.names()?;
        let images = self.inner.images()?;
        images.into_iter().map(|(id, config)| self.inner.image_status(id, &config, &names)).collect()
    }

    /// The configuration of an image.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it is not there.
    pub fn image_config(&self, id: &ImageId) -> Result<ImageConfig, StoreError> {
        self.inner.image(id)?.ok_or_else(|| StoreError::NotFound { image: id.to_string() })
    }

    /// The unpacked layers of an image, **lowest first**. They stay while somebody holds a [`super::Lease`] or the
    /// `in_use` of removals says so; nothing may write to them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it is not there.
    pub fn layers(&self, id: &ImageId) -> Result<Vec<PathBuf>, StoreError> {
        let config = self.image_config(id)?;
        Ok(self.inner.visible_layers(id, &config)?.into_iter().map(|(path, _)| path).collect())
    }

    /// How much the store takes, and how full its file system is.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn fs_info(&self) -> Result<FsInfo, StoreError> {
        let dir = self.inner.dir("layers");
        let (mut used_bytes, mut used_inodes) = (0, 0);
        for name in files::list(&dir)? {
            // One that vanishes between listing and reading was removed just now.
            if let Ok(meta) = Inner::layer_meta(&dir.join(name)) {
                used_bytes += meta.size_bytes;
                used_inodes += meta.inodes;
            }
        }
        let fs = rustix::fs::statvfs(&dir).map_err(|error| StoreError::io("query", &dir)(error.into()))?;
        Ok(FsInfo {
            used_bytes,
            used_inodes,
            available_bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            capacity_bytes: fs.f_blocks.saturating_mul(fs.f_frsize),
            directory: dir,
        })
    }
}

impl Inner {
    pub(super) fn image_path(&self, id: &ImageId) -> Result<PathBuf, StoreError> {
        let digest: Digest = id.0.parse().map_err(|_| StoreError::NotFound { image: id.to_string() })?;
        Ok(self.dir("images").join(format!("{}.json", digest.file_name())))
    }

    pub(super) fn image(&self, id: &ImageId) -> Result<Option<ImageConfig>, StoreError> {
        let path = self.image_path(id)?;
        let Some(bytes) = files::read(&path)? else {
            return Ok(None);
        };
        ImageConfig::parse(&bytes).map(Some).map_err(|message| StoreError::Damaged { path, message })
    }

    /// The configuration of an image as it was written.
    pub(crate) fn config_bytes(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        files::read(&self.image_path(&ImageId(digest.to_string()))?)
    }

    /// Every image, in the order of their ids.
    pub(super) fn images(&self) -> Result<Vec<(ImageId, ImageConfig)>, StoreError> {
        let mut images = Vec::new();
        for id in self.image_ids()? {
            if let Some(config) = self.image(&id)? {
                images.push((id, config));
            }
        }
        Ok(images)
    }

    fn image_ids(&self) -> Result<Vec<ImageId>, StoreError> {
        let mut ids: Vec<ImageId> = files::list(&self.dir("images"))?
            .iter()
            .filter_map(|name| Digest::from_file_name(name.to_str()?.strip_suffix(".json")?))
            .map(|digest| ImageId(digest.to_string()))
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// What `image` points to. Names go before short ids, as `cafe` may be either.
    pub(super) fn resolve(&self, image: &str) -> Result<Option<ImageId>, StoreError> {
        let hex = image.strip_prefix("sha256:").unwrap_or(image);
        if let Some(digest) = image.parse::<Digest>().ok().or_else(|| format!("sha256:{hex}").parse().ok()) {
            let id = ImageId(digest.to_string());
            return Ok(self.image_path(&id)?.exists().then_some(id));
        }
        let name = Reference::parse(image);
        if let Ok(reference) = &name
            && let Some(record) = self.get_name(&reference.canonical())?
        {
            return Ok(Some(record.image));
        }
        if hex.len() >= MIN_SHORT_ID && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            let start = format!("sha256:{hex}");
            let mut found = self.image_ids()?.into_iter().filter(|id| id.0.starts_with(&start));
            return match (found.next(), found.next()) {
                (Some(_), Some(_)) => Err(StoreError::Ambiguous { image: image.to_owned() }),
                (found, _) => Ok(found),
            };
        }
        match name {
            Ok(_) => Ok(None),
            Err(message) => Err(StoreError::InvalidName { image: image.to_owned(), message }),
        }
    }

    fn image_status(&self, id: ImageId, config: &ImageConfig, names: &[NameRecord]) -> Result<ImageStatus, StoreError> {
        let size_bytes = self.layers_of(&id, config)?.iter().map(|(_, meta)| meta.size_bytes).sum();
        let ours = names.iter().filter(|record| record.image == id);
        let (tags, digests): (Vec<_>, Vec<_>) = ours.partition(|record| record.is_tag());
        // A pull leaves the digest beside the tag; what was imported under a tag no registry needs to have.
        let fetched = |tag: &&NameRecord| digests.iter().any(|digest| digest.repository() == tag.repository());
        let pinned = !tags.iter().all(fetched);
        let texts = |records: Vec<&NameRecord>| records.into_iter().map(|record| record.name.clone()).collect();
        let user = config.image_user();
        Ok(ImageStatus { id, tags: texts(tags), digests: texts(digests), size_bytes, user, pinned })
    }

    /// Makes an image known whose layers are all in the store and held, then its names.
    pub(crate) fn publish_image(
        &self,
        id: &ImageId,
        config: &[u8],
        names: &[String],
        _layers: &[LayerHold],
    ) -> Result<(), StoreError> {
        let path = self.image_path(id)?;
        if !path.exists() {
            self.sync()?;
        }
        let lock = self.lock_shared()?;
        if !path.exists() {
            self.write(&path, config, &lock)?;
        }
        names.iter().try_for_each(|name| self.set_name(name, id, &lock))
    }
}

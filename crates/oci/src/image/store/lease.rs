//! The hold that a container has on its image while it is being created.

use std::fs::File;
use std::path::PathBuf;

use minke_core::runtime::ImageId;
use rustix::fs::FlockOperation;

use super::{ImageStore, RootAttributes, lock};
use crate::image::{ImageConfig, StoreError};

/// Keeps an image and its layers in the store, against every process, until dropped or the process ends.
///
/// Hold it from looking the image up until the container is on disk where the `in_use` of
/// [`ImageStore::remove`] and [`ImageStore::prune`] finds it.
#[derive(Debug)]
pub struct Lease {
    /// The image.
    pub id: ImageId,
    /// Its configuration.
    pub config: ImageConfig,
    /// Its unpacked layers, **lowest first**.
    pub layers: Vec<PathBuf>,
    /// Owner and mode of its root directory.
    pub root: RootAttributes,
    _lock: File,
}

impl ImageStore {
    /// Takes hold of an image.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it is not there.
    pub fn lease(&self, id: &ImageId) -> Result<Lease, StoreError> {
        let inner = &self.inner;
        let path = inner.image_path(id)?;
        let _guard = inner.lock_shared()?;
        let config = inner.image(id)?.ok_or_else(|| StoreError::NotFound { image: id.to_string() })?;
        let file = File::open(&path).map_err(StoreError::io("open", &path))?;
        // Exclusive holders have the store's lock as well, so this can't be refused.
        lock::try_lock(&file, FlockOperation::NonBlockingLockShared).map_err(StoreError::io("lock", &path))?;
        let layers = inner.visible_layers(id, &config)?;
        let root = layers.iter().rev().find_map(|(_, meta)| meta.root).unwrap_or_default();
        let layers = layers.into_iter().map(|(path, _)| path).collect();
        Ok(Lease { id: id.clone(), config, layers, root, _lock: file })
    }
}

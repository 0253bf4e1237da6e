//! What goes: one name, one image, or everything that nobody needs.

use std::fs::File;

use minke_core::runtime::ImageId;
use rustix::fs::FlockOperation;

use super::{ImageStore, Inner, Scratch, files, lock};
use crate::image::{Reference, StoreError};

/// Which unused images a prune leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Those that have a name with a tag.
    Tagged,
    /// None.
    Nothing,
}

/// What a prune removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Images.
    pub images: Vec<ImageId>,
    /// How many layers.
    pub layers: usize,
    /// Bytes on disk.
    pub bytes: u64,
}

impl ImageStore {
    /// Removes a name, and with its last tag the image; with an id, the image and all its names. Idempotent.
    ///
    /// `in_use` says whether a container has an image. It is asked while no lease on that image can be taken, and
    /// must look at the containers then, not before.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when the image would go while a container has it, or is being created with it.
    pub fn remove(&self, image: &str, in_use: &dyn Fn(&ImageId) -> bool) -> Result<Pruned, StoreError> {
        let inner = &self.inner;
        let scratch = inner.scratch()?;
        let _guard = inner.lock_exclusive()?;
        let Some(id) = inner.resolve(image)? else {
            return Ok(Pruned::default());
        };
        let names = inner.names()?;
        let ours = || names.iter().filter(|record| record.image == id);
        let asked = Reference::parse(image).ok().map(|reference| reference.canonical());
        let (gone, left): (Vec<_>, Vec<_>) = match ours().find(|record| Some(&record.name) == asked.as_ref()) {
            // By id: every name goes.
            None => (ours().collect(), Vec::new()),
            Some(named) => {
                let last_tag = named.is_tag()
                    && !ours().any(|r| r.is_tag() && r.name != named.name && r.repository() == named.repository());
                // With the last tag of a repository go its digests: nobody would ask for them any more.
                ours().partition(|r| {
                    r.name == named.name || (last_tag && !r.is_tag() && r.repository() == named.repository())
                })
            }
        };
        if !left.is_empty() {
            gone.iter().try_for_each(|record| inner.unset_name(&record.name))?;
            return Ok(Pruned::default());
        }
        if !inner.remove_image(&id, in_use, || gone.iter().try_for_each(|record| inner.unset_name(&record.name)))? {
            return Err(StoreError::InUse { image: image.to_owned() });
        }
        let mut pruned = inner.evict_unreferenced(&scratch)?;
        pruned.images.push(id);
        Ok(pruned)
    }

    /// Removes every image that no container has, and layers that no image has. Images that are in use stay.
    ///
    /// `in_use` is asked as in [`ImageStore::remove`].
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub fn prune(&self, in_use: &dyn Fn(&ImageId) -> bool, keep: Keep) -> Result<Pruned, StoreError> {
        let inner = &self.inner;
        let scratch = inner.scratch()?;
        let _guard = inner.lock_exclusive()?;
        let names = inner.names()?;
        let mut images = Vec::new();
        for (id, _) in inner.images()? {
            let mut ours = names.iter().filter(|record| record.image == id);
            match keep {
                Keep::Tagged if ours.clone().any(|record| record.is_tag()) => continue,
                Keep::Tagged | Keep::Nothing => {}
            }
            if inner.remove_image(&id, in_use, || ours.try_for_each(|record| inner.unset_name(&record.name)))? {
                images.push(id);
            }
        }
        Ok(Pruned { images, ..inner.evict_unreferenced(&scratch)? })
    }
}

impl Inner {
    /// Removes an image after its names, unless it is in use. The caller holds the exclusive lock.
    fn remove_image(
        &self,
        id: &ImageId,
        in_use: &dyn Fn(&ImageId) -> bool,
        unset_names: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let path = self.image_path(id)?;
        match File::open(&path) {
            Ok(file) => {
                let free = lock::try_lock(&file, FlockOperation::NonBlockingLockExclusive)
                    .map_err(StoreError::io("lock", &path))?;
                if !free || in_use(id) {
                    return Ok(false);
                }
                unset_names()?;
                files::remove(&path)?;
            }
            // Names of an image that is gone.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => unset_names()?,
            Err(error) => return Err(StoreError::io("open", &path)(error)),
        }
        Ok(true)
    }

    /// Moves layers that no image has and no pull holds out of the store. They are deleted with the scratch
    /// directory, after the lock is released.
    fn evict_unreferenced(&self, scratch: &Scratch) -> Result<Pruned, StoreError> {
        let referenced = self.referenced_layers()?;
        let dir = self.dir("layers");
        let mut pruned = Pruned::default();
        for name in files::list(&dir)? {
            let path = dir.join(&name);
            if name.to_str().is_some_and(|name| referenced.contains(name)) {
                continue;
            }
            let file = File::open(&path).map_err(StoreError::io("open", &path))?;
            if !lock::try_lock(&file, FlockOperation::NonBlockingLockExclusive)
                .map_err(StoreError::io("lock", &path))?
            {
                continue;
            }
            pruned.bytes += Self::layer_meta(&path).map_or(0, |meta| meta.size_bytes);
            pruned.layers += 1;
            self.evict(&path, scratch)?;
        }
        Ok(pruned)
    }
}

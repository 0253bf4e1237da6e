//! Layers: which there are, how they come in, and how a pull keeps them from going.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use minke_core::runtime::ImageId;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::{Inner, Scratch, files, lock};
use crate::image::{Digest, ImageConfig, StoreError};

/// Name of a layer's tree in its directory.
const TREE: &str = "fs";
/// Name of a layer's facts in its directory.
const META: &str = "meta.json";

/// Owner and mode of a root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootAttributes {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Default for RootAttributes {
    /// What a root is like that no layer says anything about.
    fn default() -> Self {
        Self { mode: 0o755, uid: 0, gid: 0 }
    }
}

/// Facts of an unpacked layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerMeta {
    /// Bytes on disk, in whole blocks.
    pub(crate) size_bytes: u64,
    /// Files, directories and links.
    pub(crate) inodes: u64,
    /// Attributes of the root directory, if the layer sets them.
    pub(crate) root: Option<RootAttributes>,
    /// Whether it hides everything below it. Overlayfs does not look for that mark on roots.
    pub(crate) opaque: bool,
    /// During which boot it was unpacked; filled in by the store.
    pub(crate) boot_id: String,
}

/// A layer at its place in an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LayerKey {
    /// Digest of its content.
    pub(crate) diff_id: Digest,
    /// Digest of its content and of all that is below.
    pub(crate) chain_id: Digest,
}

impl LayerKey {
    /// The layers of an image, lowest first.
    pub(crate) fn of(diff_ids: &[Digest]) -> Vec<Self> {
        let mut below: Option<Digest> = None;
        diff_ids
            .iter()
            .map(|diff_id| {
                let chain_id = match &below {
                    None => diff_id.clone(),
                    Some(below) => Digest::sha256(format!("{below} {diff_id}").as_bytes()),
                };
                below = Some(chain_id.clone());
                Self { diff_id: diff_id.clone(), chain_id }
            })
            .collect()
    }

    /// The directory name when it stands by itself, and when it belongs to this chain only.
    fn file_names(&self) -> [String; 2] {
        [format!("chain-{}", self.chain_id.file_name()), self.diff_id.file_name()]
    }
}

/// Keeps a layer from being removed.
#[derive(Debug)]
pub(crate) struct LayerHold {
    _lock: File,
    path: PathBuf,
}

impl LayerHold {
    /// The layer's tree.
    pub(crate) fn tree(&self) -> PathBuf {
        self.path.join(TREE)
    }
}

/// The right to fetch a layer; only one process (and one pull in it) has it.
#[derive(Debug)]
pub(crate) struct FetchLock {
    _lock: File,
    path: PathBuf,
}

impl Drop for FetchLock {
    fn drop(&mut self) {
        // Removed while still locked: whoever waits for it sees that the file is not current and makes a new one.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Inner {
    /// Whether it is there, and where.
    pub(super) fn layer_path(&self, key: &LayerKey) -> Option<PathBuf> {
        let dir = self.dir("layers");
        key.file_names().into_iter().map(|name| dir.join(name)).find(|path| path.join(META).exists())
    }

    pub(super) fn layer_meta(path: &Path) -> Result<LayerMeta, StoreError> {
        let path = path.join(META);
        let damaged = |message: String| StoreError::Damaged { path: path.clone(), message };
        let bytes = files::read(&path)?.ok_or_else(|| damaged("it is missing".to_owned()))?;
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
    }

    /// Trees of an image, lowest first, with their facts.
    pub(super) fn layers_of(
        &self,
        id: &ImageId,
        config: &ImageConfig,
    ) -> Result<Vec<(PathBuf, LayerMeta)>, StoreError> {
        LayerKey::of(&config.diff_ids)
            .iter()
            .map(|key| {
                let path = self.layer_path(key).ok_or_else(|| StoreError::Damaged {
                    path: self.dir("layers"),
                    message: format!("layer {} of image {id} is missing", key.diff_id),
                })?;
                let meta = Self::layer_meta(&path)?;
                Ok((path.join(TREE), meta))
            })
            .collect()
    }

    /// Trees of an image that show, lowest first, with their facts.
    pub(super) fn visible_layers(
        &self,
        id: &ImageId,
        config: &ImageConfig,
    ) -> Result<Vec<(PathBuf, LayerMeta)>, StoreError> {
        let mut layers = self.layers_of(id, config)?;
        let hidden = layers.iter().rposition(|(_, meta)| meta.opaque).unwrap_or(0);
        Ok(layers.split_off(hidden))
    }

    /// Directory names of every layer that some image has.
    pub(super) fn referenced_layers(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut names = BTreeSet::new();
        for (_, config) in self.images()? {
            names.extend(LayerKey::of(&config.diff_ids).iter().flat_map(LayerKey::file_names));
        }
        Ok(names)
    }

    /// Takes hold of a layer, if it is there and whole.
    pub(crate) fn hold_layer(&self, key: &LayerKey) -> Result<Option<LayerHold>, StoreError> {
        let _guard = self.lock_shared()?;
        let Some(path) = self.layer_path(key) else {
            return Ok(None);
        };
        if self.is_whole(&path)? { Self::hold(path).map(Some) } else { Ok(None) }
    }

    /// Whether the contents of a layer's files are surely there: it was unpacked since the machine came up, or it
    /// was synced, as the layers of an image are.
    fn is_whole(&self, path: &Path) -> Result<bool, StoreError> {
        if Self::layer_meta(path)?.boot_id == self.boot_id {
            return Ok(true);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(self.referenced_layers()?.contains(&name))
    }

    fn hold(path: PathBuf) -> Result<LayerHold, StoreError> {
        let lock = File::open(&path).map_err(StoreError::io("open", &path))?;
        // Exclusive holders have the store's lock as well, so this can't be refused.
        lock::try_lock(&lock, FlockOperation::NonBlockingLockShared).map_err(StoreError::io("lock", &path))?;
        Ok(LayerHold { _lock: lock, path })
    }

    /// Puts an unpacked layer, `fs/` in the scratch directory, into the store and takes hold of it.
    pub(crate) fn publish_layer(
        &self,
        key: &LayerKey,
        needs_chain: bool,
        scratch: &Scratch,
        mut meta: LayerMeta,
    ) -> Result<LayerHold, StoreError> {
        let [chain, own] = key.file_names();
        let path = self.dir("layers").join(if needs_chain { chain } else { own });
        meta.boot_id.clone_from(&self.boot_id);
        let bytes = serde_json::to_vec(&meta).map_err(|error| StoreError::io("encode", &path)(error.into()))?;
        let staged = scratch.path().join("layer");
        let stage = || {
            std::fs::create_dir(&staged)?;
            std::fs::write(staged.join(META), bytes)?;
            std::fs::rename(scratch.path().join(TREE), staged.join(TREE))
        };
        stage().map_err(StoreError::io("write", &staged))?;
        let _guard = self.lock_exclusive()?;
        if path.join(META).exists() {
            if self.is_whole(&path)? {
                // Somebody was faster; theirs may be in use by now.
                return Self::hold(path);
            }
            self.evict(&path, scratch)?;
        }
        std::fs::rename(&staged, &path).map_err(StoreError::io("write", &path))?;
        Self::hold(path)
    }

    /// Takes the right to fetch a layer, unless somebody has it.
    pub(crate) fn try_fetch_lock(&self, key: &LayerKey) -> Result<Option<FetchLock>, StoreError> {
        self.take_fetch_lock(key, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the right to fetch a layer, after whoever has it.
    pub(crate) fn fetch_lock(&self, key: &LayerKey) -> Result<FetchLock, StoreError> {
        loop {
            if let Some(lock) = self.take_fetch_lock(key, FlockOperation::LockExclusive)? {
                return Ok(lock);
            }
        }
    }

    fn take_fetch_lock(&self, key: &LayerKey, operation: FlockOperation) -> Result<Option<FetchLock>, StoreError> {
        let path = self.dir("locks").join(key.diff_id.file_name());
        let take = || -> std::io::Result<Option<FetchLock>> {
            loop {
                let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
                if !lock::try_lock(&file, operation)? {
                    return Ok(None);
                }
                if lock::is_current(&file, &path)? {
                    return Ok(Some(FetchLock { _lock: file, path: path.clone() }));
                }
            }
        };
        take().map_err(StoreError::io("lock", &path))
    }

    /// Writes everything of the store's file system to disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let sync = || rustix::fs::syncfs(File::open(&self.root)?.as_fd()).map_err(std::io::Error::from);
        sync().map_err(StoreError::io("sync", &self.root))
    }
}

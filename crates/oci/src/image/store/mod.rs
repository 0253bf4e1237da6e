//! The store on disk, used by several processes at once, without a daemon.
//!
//! ```text
//! <root>/
//!   images/sha256-<id>.json        an image: its configuration, verbatim; its name is its digest
//!   names/<sha256 of name>.json    a name and the image that it points to
//!   layers/sha256-<diff id>/       a layer, shared by all images that have it: fs/ (the tree), meta.json
//!   layers/chain-sha256-<chain>/   a layer that can't stand without those below it (see `unpack::parents`)
//!   tmp/<random>/                  work in progress; swept when nobody holds its lock
//!   locks/<layer>                  held while a process fetches that layer
//!   lock                           see below
//! ```
//! Everything is written elsewhere and renamed into place, layers before images before names, so that a process
//! killed at any instant leaves a store that works: at worst a scratch directory that the next open sweeps, and
//! finished layers that the next pull finds done.
//!
//! After a power cut the contents of files may be lost although their names are there. So the file system is synced
//! before an image is published, and a layer that no image has counts only until the machine reboots.
//!
//! Locks are `flock`s, which the kernel releases when their holder dies. In the order of taking them:
//! 1. `lock`: shared while something is added or leased, exclusive while it is decided what goes. Held for an
//!    instant only; neither downloads nor deletions happen under it.
//! 2. An image's file, shared, by a [`Lease`]: while a container of it is being created.
//! 3. A layer's directory, shared, by a pull that counts on it; a scratch directory, exclusive, by its owner.

mod files;
mod gc;
mod layers;
mod lease;
mod lock;
mod names;
mod query;
mod scratch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pull::{PullConfig, Puller};
use super::{Limits, StoreError};
pub(crate) use layers::{LayerHold, LayerKey, LayerMeta};
pub(crate) use scratch::Scratch;

pub use gc::{Keep, Pruned};
pub use layers::RootAttributes;
pub use lease::Lease;

/// Settings of a store.
#[derive(Debug, Clone, Default)]
pub struct StoreConfig {
    /// Caps on each image.
    pub limits: Limits,
    /// How images are pulled.
    pub pull: PullConfig,
}

/// The images of one state directory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ImageStore {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    root: PathBuf,
    pub(super) config: StoreConfig,
    /// Identifies the time since the machine came up.
    boot_id: String,
    pub(super) puller: Puller,
}

impl ImageStore {
    /// Opens the store in `root`, making it if needed, and sweeps what dead processes left behind.
    ///
    /// # Errors
    /// When `root` can't be written.
    pub fn open(root: &Path, config: StoreConfig) -> Result<Self, StoreError> {
        for dir in ["images", "names", "layers", "tmp", "locks"] {
            let path = root.join(dir);
            std::fs::create_dir_all(&path).map_err(StoreError::io("create", &path))?;
        }
        files::restrict(root)?;
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let store = Self {
            inner: Arc::new(Inner { root: root.to_owned(), puller: Puller::new(config.pull.clone()), config, boot_id }),
        };
        store.inner.sweep()?;
        Ok(store)
    }
}

impl Inner {
    fn dir(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

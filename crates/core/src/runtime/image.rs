//! Images of the runtime's store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::RuntimeError;

/// The id of an image: the digest of its configuration, `sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImageId(pub String);

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A login at one registry. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// User and password.
    Basic {
        /// User.
        username: String,
        /// Password.
        password: String,
    },
    /// A token for the registry's token service (`identitytoken`).
    IdentityToken(String),
    /// A bearer token for the registry itself (`registrytoken`).
    RegistryToken(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic(…)",
            Self::IdentityToken(_) => "IdentityToken(…)",
            Self::RegistryToken(_) => "RegistryToken(…)",
        })
    }
}

/// Progress of a pull, for people. Called often; must not block.
pub trait PullProgress: Send + Sync + 'static {
    /// `done` of `total` bytes (`total` 0 while unknown) of the layer with this digest.
    fn layer(&self, digest: &str, done: u64, total: u64);
}

/// A [`PullProgress`] that shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl PullProgress for NoProgress {
    fn layer(&self, _digest: &str, _done: u64, _total: u64) {}
}

/// One pull.
#[derive(Clone)]
pub struct PullRequest {
    /// The image as the manifest names it; `docker.io/library` and `:latest` are understood.
    pub image: String,
    /// Logins to try, in order, for the image's registry: first the Pod's pull secrets. Empty: the machine's own
    /// docker configuration, then anonymous. They serve this pull only.
    pub credentials: Vec<Credential>,
    /// Gets told how far it is.
    pub progress: Arc<dyn PullProgress>,
}

impl fmt::Debug for PullRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullRequest").field("image", &self.image).field("credentials", &self.credentials).finish()
    }
}

/// Why a pull failed, in the kinds that a watcher tells apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The name can't be parsed: reason `InvalidImageName`.
    #[error("{image:?} is not an image name: {message}")]
    InvalidName {
        /// As given.
        image: String,
        /// What is wrong.
        message: String,
    },
    /// No such repository, tag or digest.
    #[error("{image} does not exist in its registry")]
    NotFound {
        /// The image.
        image: String,
    },
    /// Login missing, wrong or not enough.
    #[error("the registry of {image} refuses: {message}")]
    Denied {
        /// The image.
        image: String,
        /// What the registry says.
        message: String,
    },
    /// The registry asks to slow down.
    #[error("the registry of {image} limits the rate of pulls: {message}")]
    RateLimited {
        /// The image.
        image: String,
        /// What the registry says.
        message: String,
    },
    /// The registry can't be reached, or the connection broke or stalled: reason `RegistryUnavailable`.
    #[error("the registry of {image} can't be reached: {message}")]
    Network {
        /// The image.
        image: String,
        /// What failed.
        message: String,
    },
    /// What came is not what its digest promises.
    #[error("{image}: content does not match its digest: {message}")]
    DigestMismatch {
        /// The image.
        image: String,
        /// Expected and found.
        message: String,
    },
    /// The image has no variant for this machine.
    #[error("{image} has no variant for {platform}; it has {available}")]
    NoPlatform {
        /// The image.
        image: String,
        /// This machine, `linux/amd64`.
        platform: String,
        /// What there is.
        available: String,
    },
    /// Malformed or hostile content, or over a cap on size or inodes.
    #[error("{image} can't be used: {message}")]
    BadContent {
        /// The image.
        image: String,
        /// What is wrong.
        message: String,
    },
    /// The store's disk is full, or its write failed.
    #[error("can't store {image}: {message}")]
    Storage {
        /// The image.
        image: String,
        /// What failed, and where.
        message: String,
    },
}

/// The user that an image's `USER` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageUser {
    /// None: root.
    Root,
    /// A number.
    Uid(u32),
    /// A name; only its `/etc/passwd` tells the number.
    Name(String),
}

/// An image of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageStatus {
    /// Its id.
    pub id: ImageId,
    /// Names with a tag that point to it.
    pub tags: Vec<String>,
    /// Names with a digest that point to it, `registry/repo@sha256:…`.
    pub digests: Vec<String>,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Its `USER`.
    pub user: ImageUser,
    /// It stays however full the disk is, unless somebody removes it by hand: the runtime needs it, or it came from no registry and
    /// can't be fetched again.
    #[serde(default)]
    pub pinned: bool,
}

/// How full the store's disk is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsInfo {
    /// Bytes used by images.
    pub used_bytes: u64,
    /// Inodes used by images.
    pub used_inodes: u64,
    /// Bytes free on the file system.
    pub available_bytes: u64,
    /// Bytes of the file system.
    pub capacity_bytes: u64,
    /// A directory on it.
    pub directory: PathBuf,
}

/// Images. All calls are cancel-safe in the sense of the port's contract.
#[async_trait]
pub trait ImageService: Send + Sync + 'static {
    /// Fetches an image, verifies and stores it. Several pulls of one image with the same credentials are one.
    async fn pull_image(&self, request: &PullRequest) -> Result<ImageId, PullError>;
    /// The image that this name, `name@digest` or id points to, if it is in the store.
    async fn image_status(&self, image: &str) -> Result<Option<ImageStatus>, RuntimeError>;
    /// Every image.
    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError>;
    /// Removes a name (or with an id, the image and all its names). Refused while a container uses it. Idempotent.
    async fn remove_image(&self, image: &str) -> Result<(), RuntimeError>;
    /// Disk use.
    async fn image_fs_info(&self) -> Result<FsInfo, RuntimeError>;
}

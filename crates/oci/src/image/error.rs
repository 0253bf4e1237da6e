//! Why a call on the store failed.

use std::io;
use std::path::{Path, PathBuf};

use minke_core::runtime::{Operation, RuntimeError};

/// A failed call on the store. Pulls and imports have [`minke_core::runtime::PullError`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// There is no such image.
    #[error("no image {image} in the store")]
    NotFound {
        /// As asked for.
        image: String,
    },
    /// Not a name, not an id.
    #[error("{image:?} is not an image name: {message}")]
    InvalidName {
        /// As asked for.
        image: String,
        /// What is wrong with it.
        message: String,
    },
    /// A short id that several images share.
    #[error("{image} is the beginning of several image ids; give more digits")]
    Ambiguous {
        /// As asked for.
        image: String,
    },
    /// A container uses it, or is about to.
    #[error("image {image} is in use by a container")]
    InUse {
        /// As asked for.
        image: String,
    },
    /// A file of the store is not what the store wrote.
    #[error("the image store is damaged: {}: {message}; remove the image and pull it again", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

impl StoreError {
    /// For `map_err`: an I/O error with what was tried on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// This error as one of the Runtime port.
    #[must_use]
    pub fn into_runtime(self, operation: Operation) -> RuntimeError {
        match self {
            Self::NotFound { image } => RuntimeError::NotFound { operation, what: "image", id: image },
            error @ (Self::InvalidName { .. } | Self::Ambiguous { .. } | Self::InUse { .. }) => {
                RuntimeError::Invalid { operation, message: error.to_string() }
            }
            error @ (Self::Io { .. } | Self::Damaged { .. }) => RuntimeError::failed(operation, error),
        }
    }
}

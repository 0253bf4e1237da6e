//! Why a root could not be mounted or removed.

use std::io;
use std::path::{Path, PathBuf};

use minke_core::runtime::{Operation, RuntimeError};

/// A failed call on snapshots.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
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
    /// The machine does not allow it.
    #[error("can't mount a container's root: {message}")]
    NotPermitted {
        /// What is missing and how to get it.
        message: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// More than the kernel stacks.
    #[error("the image has {layers} layers; overlayfs stacks at most {}", super::MAX_LAYERS)]
    TooManyLayers {
        /// How many there are.
        layers: usize,
    },
}

impl SnapshotError {
    /// For `map_err`: an I/O error with what was tried on which file.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// This error as one of the Runtime port.
    #[must_use]
    pub fn into_runtime(self, operation: Operation) -> RuntimeError {
        match self {
            Self::NotPermitted { message, source } => {
                RuntimeError::NotPermitted { operation, message: format!("{message} ({source})") }
            }
            error @ Self::TooManyLayers { .. } => RuntimeError::Invalid { operation, message: error.to_string() },
            error @ Self::Io { .. } => RuntimeError::failed(operation, error),
        }
    }
}

//! Why a volume can't be had.

use std::io;
use std::path::PathBuf;

/// A volume that can't be had, by name.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?}")]
pub struct VolumeError {
    /// The volume's name in the Pod.
    pub volume: String,
    /// Why.
    #[source]
    pub failure: VolumeFailure,
}

/// Why a volume can't be had. Never shows content.
#[derive(Debug, thiserror::Error)]
pub enum VolumeFailure {
    /// The ConfigMap does not exist and is not optional.
    #[error("configmap {0:?} not found")]
    NoConfigMap(String),
    /// The Secret does not exist and is not optional.
    #[error("secret {0:?} not found")]
    NoSecret(String),
    /// An item names a key that the object lacks.
    #[error("references non-existent {kind} key: {key}")]
    NoKey {
        /// `config` or `secret`.
        kind: &'static str,
        /// The key.
        key: String,
    },
    /// A field of the downward API.
    #[error("downward API")]
    Downward(#[source] minke_core::env::DownwardError),
    /// A file name that leads out of the volume, or can't be written.
    #[error("invalid path {path:?}: {why}")]
    BadPath {
        /// The path.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// A number or size that is out of range.
    #[error("{field} {value} can't be used")]
    BadValue {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The kind of volume is not known here.
    #[error("{0} volumes are not supported by minke")]
    Unsupported(String),
    /// The host path is not what its type says.
    #[error("hostPath type check failed: {path} {why}", path = path.display())]
    HostPathType {
        /// The path.
        path: PathBuf,
        /// "is not a directory", …
        why: &'static str,
    },
    /// A `subPath` that leads out of its volume.
    #[error("subPath {0:?} leads out of its volume")]
    SubPathEscapes(String),
    /// A `subPathExpr` without a value.
    #[error("subPathExpr {expression:?}")]
    SubPathExpr {
        /// The expression.
        expression: String,
        /// Which name has no value.
        #[source]
        source: minke_core::env::MissingValue,
    },
    /// A mount names a volume that the Pod lacks.
    #[error("the pod has no such volume")]
    NoVolume,
    /// Something is still mounted where files would be deleted.
    #[error("{path} is still a mount point; unmount it and try again", path = .0.display())]
    StillMounted(PathBuf),
    /// The machine refused.
    #[error("{what} {path}", path = path.display())]
    Io {
        /// What was done: "create", "mount", …
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl VolumeFailure {
    pub(super) fn of(self, volume: &str) -> VolumeError {
        VolumeError { volume: volume.to_owned(), failure: self }
    }

    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

/// Turns an error of the system into [`io::Error`].
pub(super) fn os(error: rustix::io::Errno) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error())
}

//! Why a layer could not be unpacked.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::image::StoreError;

/// A failed unpack.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// Malformed or hostile content, or over a cap.
    #[error("{0}")]
    Bad(String),
    /// What came is not what its digest promises.
    #[error("expected {expected}, found {found}")]
    Digest {
        /// As promised.
        expected: String,
        /// As computed.
        found: String,
    },
    /// The bytes could not be had.
    #[error("can't read the layer")]
    Source(#[source] io::Error),
    /// They could not be written.
    #[error("can't {action} {}", path.display())]
    Storage {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl UnpackError {
    /// For `map_err`: an I/O error with what was tried on which file.
    pub(crate) fn storage(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Storage { action, path: path.to_owned(), source }
    }

    /// For `map_err`: a system call that failed on an entry. Some errors can only come from what the entry says;
    /// the others are the disk's.
    pub(super) fn entry(action: &'static str, path: &[u8]) -> impl FnOnce(Errno) -> Self {
        move |error| match error {
            Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::EXIST
            | Errno::NOENT
            | Errno::INVAL
            | Errno::MLINK => Self::Bad(format!("can't {action} {}: {}", shown(path), io::Error::from(error))),
            _ => Self::Storage {
                action,
                path: PathBuf::from(String::from_utf8_lossy(path).into_owned()),
                source: error.into(),
            },
        }
    }

    /// Sends it through a reader, whose errors are `io::Error`s.
    pub(super) fn into_io(self) -> io::Error {
        io::Error::other(self)
    }

    /// What came out of a reader: one of ours that was sent through, or a failure of the source.
    pub(super) fn from_io(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => error,
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof => Self::Bad("the layer ends in the middle".to_owned()),
                _ => Self::Source(error),
            },
        }
    }
}

/// A path of an archive for a message: quoted, and cut where it would flood the terminal.
pub(super) fn shown(path: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(&path[..path.len().min(LONGEST)]);
    if path.len() > LONGEST { format!("{text:?}…") } else { format!("{text:?}") }
}

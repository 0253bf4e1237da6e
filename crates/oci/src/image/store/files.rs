//! Files written whole or not at all.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::Inner;
use super::lock::StoreLock;
use crate::image::StoreError;

/// Keeps everybody but the owner out: the trees inside hold setuid programs of images.
pub(super) fn restrict(root: &Path) -> Result<(), StoreError> {
    std::fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(StoreError::io("restrict", root))
}

/// Names of a directory's entries.
pub(super) fn list(dir: &Path) -> Result<Vec<OsString>, StoreError> {
    std::fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect())
        .map_err(StoreError::io("list", dir))
}

/// Reads a file that may be gone.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Removes a file that may be gone.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

impl Inner {
    /// Writes a file so that it holds either what was there before or all of `bytes`, also after a power cut.
    ///
    /// `_lock` is the store's lock, in either way: a sweep takes what it finds in `tmp/` for abandoned.
    pub(super) fn write(&self, path: &Path, bytes: &[u8], _lock: &StoreLock) -> Result<(), StoreError> {
        let write = || {
            let mut file = tempfile::Builder::new().prefix("file-").tempfile_in(self.dir("tmp"))?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            match path.parent() {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            }
        };
        write().map_err(StoreError::io("write", path))
    }
}

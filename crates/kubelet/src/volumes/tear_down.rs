//! Undoes a Pod's volumes and files. Resumable: whatever was left is found and undone.
//!
//! First everything below the Pod's directory is unmounted; only when the kernel confirms that nothing is mounted
//! there any more are files deleted, without following links. So a path of the host that was bound as a `subPath` can
//! lose its mount, never its content.

use std::fs;
use std::io;
use std::path::Path;

use super::mount_table::unmount_below;
use super::{VolumeError, VolumeFailure};

/// What of a Pod's directory is ours; the rest (checkpoint) belongs to others.
const OURS: [&str; 4] = ["volume-subpaths", "volumes", "containers", "etc-hosts"];

/// Removes the volumes and files of a Pod. Blocks.
///
/// # Errors
/// What could not be unmounted or removed; call again.
pub fn tear_down(pod_directory: &Path) -> Result<(), VolumeError> {
    let undo = || {
        // Mounts are listed under the path that the kernel knows.
        let Ok(real) = fs::canonicalize(pod_directory) else { return Ok(()) };
        for name in OURS {
            let path = real.join(name);
            unmount_below(&path)?;
            remove(&path)?;
        }
        Ok(())
    };
    undo().map_err(|failure: VolumeFailure| failure.of("(teardown)"))
}

fn remove(path: &Path) -> Result<(), VolumeFailure> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(VolumeFailure::io("remove", path)(error)),
    }
}

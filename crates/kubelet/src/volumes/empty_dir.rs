//! Empty directories, on disk or in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::VolumeFailure;
use super::mount_table::{is_mount_point, mount_tmpfs};

/// Makes a directory with these bits. What is in it stays: containers come and go, their volume does not.
pub(super) fn on_disk(path: &Path, mode: u32) -> Result<(), VolumeFailure> {
    let fresh = !path.exists();
    fs::create_dir_all(path).map_err(VolumeFailure::io("create", path))?;
    if fresh {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(VolumeFailure::io("change the mode of", path))?;
    }
    Ok(())
}

/// Mounts a tmpfs, unless one is mounted already. Returns whether it is new.
pub(super) fn in_memory(path: &Path, mode: u32, size_bytes: Option<u64>) -> Result<bool, VolumeFailure> {
    fs::create_dir_all(path).map_err(VolumeFailure::io("create", path))?;
    if is_mount_point(path)? {
        return Ok(false);
    }
    let size = size_bytes.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    mount_tmpfs(path, &format!("mode={mode:04o}{size}"))?;
    Ok(true)
}

//! Root file systems of containers: an overlay of the image's layers and a directory of the container's own.
//!
//! ```text
//! <directory>/upper   what the container wrote
//! <directory>/work    overlayfs' own; made anew for each mount
//! <directory>/lower   mount points of id-mapped layers, while a mount is being made
//! ```
//! There is always an upper directory, also for `readOnlyRootFilesystem`: the runtime has to create mount points in
//! the root (`/proc`, volumes, `/etc/hosts`) and makes it read-only afterwards by a remount, which the container
//! can't undo.
//!
//! The mounts are `volatile` where the kernel can: what a container writes to its root lives as long as the
//! container, which no power cut outlasts, and without this flag each unmount would sync the whole file system.
//!
//! For a Pod with a user namespace the layers are shown id-mapped, so that images stay shared and need no chown;
//! the overlay itself can't be id-mapped.

mod error;
mod idmap;
mod overlay;
mod usage;

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use minke_core::runtime::IdMapping;
use rustix::mount::{UnmountFlags, unmount as umount};

pub use crate::image::RootAttributes;
pub use error::SnapshotError;
pub use usage::{Usage, usage};

/// Most layers that overlayfs stacks.
pub const MAX_LAYERS: usize = 500;

/// What to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// Trees of the image's layers, **lowest first**, as [`crate::image::Lease::layers`] has them.
    pub layers: Vec<PathBuf>,
    /// Owner and mode of the root directory, as seen in the container.
    pub root: RootAttributes,
    /// The container's own directory; made if needed.
    pub directory: PathBuf,
    /// The Pod's user namespace, if it has one.
    pub user: Option<IdMapping>,
}

impl SnapshotSpec {
    /// Where the container's own files are.
    #[must_use]
    pub fn upper(&self) -> PathBuf {
        self.directory.join("upper")
    }
}

/// Mounts a container's root on `target`, an existing directory, in the caller's mount namespace. What the container
/// wrote before is still there.
///
/// # Errors
/// When the machine refuses; nothing stays mounted then.
pub fn mount(spec: &SnapshotSpec, target: &Path) -> Result<(), SnapshotError> {
    if spec.layers.len() > MAX_LAYERS {
        return Err(SnapshotError::TooManyLayers { layers: spec.layers.len() });
    }
    let work = spec.directory.join("work");
    prepare(spec, &work)?;
    let upper = spec.upper();
    let mut lower = spec.layers.clone();
    if lower.is_empty() {
        // Overlayfs wants at least one; an image without layers is legal.
        let empty = spec.directory.join("empty");
        make_dir(&empty)?;
        lower.push(empty);
    }
    let mapped = spec.user.map(|user| idmap::MappedLayers::mount(&lower, user, &spec.directory.join("lower")));
    let mapped = mapped.transpose()?;
    if let Some(mapped) = &mapped {
        lower = mapped.paths().to_vec();
    }
    overlay::mount(&lower, &upper, &work, target)
    // Dropping `mapped` takes its mount points away again; the overlay has clones of its own.
}

/// Unmounts a container's root, and whatever is mounted below it. Idempotent; a target that does not exist is fine.
/// Never follows a symbolic link at the end of `target`.
///
/// # Errors
/// When the kernel refuses.
pub fn unmount(target: &Path) -> Result<(), SnapshotError> {
    loop {
        // Detached rather than waited for: a process elsewhere that still has a file open must not hold up the
        // removal of a container. Repeated, because mounts stack.
        match umount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(SnapshotError::io("unmount", target)(error.into())),
        }
    }
}

/// Removes a container's own directory with all that it wrote, and mounts that a killed [`mount`] left in it.
/// Idempotent.
///
/// # Errors
/// When something can't be removed.
pub fn remove(directory: &Path) -> Result<(), SnapshotError> {
    idmap::MappedLayers::clean_up(&directory.join("lower"))?;
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SnapshotError::io("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// Makes the directories that an overlay needs.
fn prepare(spec: &SnapshotSpec, work: &Path) -> Result<(), SnapshotError> {
    let upper = spec.upper();
    make_dir(&upper)?;
    // The root of an overlay has the attributes of its upper directory.
    let base = spec.user.map_or(0, |user| user.host_id);
    let RootAttributes { mode, uid, gid } = spec.root;
    chown(&upper, Some(base.saturating_add(uid)), Some(base.saturating_add(gid)))
        .and_then(|()| std::fs::set_permissions(&upper, Permissions::from_mode(mode)))
        .map_err(SnapshotError::io("prepare", &upper))?;
    // A volatile overlay leaves a mark in here that forbids a second mount.
    match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(SnapshotError::io("remove", work)(error)),
        _ => {}
    }
    make_dir(work)
}

fn make_dir(path: &Path) -> Result<(), SnapshotError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(SnapshotError::io("create", path))
}

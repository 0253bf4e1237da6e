//! `subPath`: a part of a volume as a mount of its own.
//!
//! A container of the Pod may write to the volume while another one is being started, so a path that was checked may
//! be a link a moment later. Therefore the path is opened once, by the kernel, with a promise not to leave the volume
//! (`openat2` with `RESOLVE_BENEATH`), and what was opened is bind-mounted to a place that no container can reach.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use super::VolumeFailure;
use super::error::os;
use super::mount_table::{is_mount_point, unmount_below};

/// Opens `sub` in `volume`; a directory is made where nothing is.
pub(super) fn open(volume: &Path, sub: &str) -> Result<OwnedFd, VolumeFailure> {
    let escapes = || VolumeFailure::SubPathEscapes(sub.to_owned());
    let relative = Path::new(sub);
    if !relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(escapes());
    }
    let failed = |error: Errno| match error {
        Errno::XDEV | Errno::LOOP => escapes(),
        error => VolumeFailure::io("open", volume.join(sub))(os(error)),
    };
    let root = rustix::fs::open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    match beneath(&root, relative) {
        Ok(found) => Ok(found),
        Err(Errno::NOENT) => make(&root, relative).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

fn beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        // The kernel asks to try again when something was renamed meanwhile.
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Makes the directories that are missing, one by one. A link that dangles is not followed to make its target.
fn make(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut reached = PathBuf::new();
    let mut parent = root.try_clone().map_err(|_| Errno::MFILE)?;
    for part in path.components() {
        let Component::Normal(name) = part else { continue };
        reached.push(name);
        let next = match beneath(root, &reached) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o750)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error),
                }
                let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
                rustix::fs::openat(&parent, name, flags, Mode::empty())?
            }
            result => result?,
        };
        parent = next;
    }
    Ok(parent)
}

/// Binds what was opened to a place of our own, and returns the place. Idempotent.
pub(super) fn bind(found: &OwnedFd, place: &Path) -> Result<(), VolumeFailure> {
    let failed = |what| move |error: Errno| VolumeFailure::io(what, place)(os(error));
    if is_mount_point(place)? {
        unmount_below(place)?;
    }
    let stat = rustix::fs::fstat(found).map_err(failed("look at what is to be mounted on"))?;
    let parent = place.parent().unwrap_or(place);
    fs::create_dir_all(parent).map_err(VolumeFailure::io("create", parent))?;
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    // A place of the wrong kind is left from another time.
    if place.symlink_metadata().is_ok_and(|m| m.is_dir() != is_directory) {
        let removed = if is_directory { fs::remove_file(place) } else { fs::remove_dir(place) };
        removed.map_err(VolumeFailure::io("remove", place))?;
    }
    if is_directory {
        fs::create_dir_all(place).map_err(VolumeFailure::io("create", place))?;
    } else {
        let made = fs::File::options().write(true).create(true).truncate(false).open(place);
        made.map_err(VolumeFailure::io("create", place))?;
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(found.as_fd(), "", flags).map_err(failed("clone the tree for"))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree.as_fd(), "", CWD, place, flags).map_err(failed("mount on"))
}

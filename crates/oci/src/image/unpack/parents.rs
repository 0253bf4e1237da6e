//! What a layer may need from those below it.
//!
//! Most layers need nothing: their archives describe every directory that they touch and every file that they link
//! to. Some builders leave directories out (an archive with just `tmp/x` says nothing about `/tmp`, whose mode the
//! overlay would take from this layer), or link to a file of a layer below. Such a layer is completed here with
//! copies from below, and stored under its chain's digest, because the result belongs to that chain only.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::fs::{chmodat, chownat, lgetxattr, llistxattr, lsetxattr, openat, readlinkat, symlinkat, utimensat};
use rustix::io::Errno;

use super::error::shown;
use super::tree::{self, SafePath, Tree};
use super::{Budget, UnpackError};

/// What a layer lacks by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Needs {
    /// Directories that no entry describes.
    pub(super) directories: Vec<SafePath>,
    /// Hard links whose target it does not have: path and target.
    pub(super) links: Vec<(SafePath, SafePath)>,
}

impl Needs {
    /// Whether it stands by itself.
    pub(crate) fn is_empty(&self) -> bool {
        self.directories.is_empty() && self.links.is_empty()
    }
}

/// Disk space that copies took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extra {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

/// Gives the layer at `root` what it needs from the trees below it, lowest first.
pub(super) fn complete(root: &Path, needs: &Needs, below: &[PathBuf], budget: &Budget) -> Result<Extra, UnpackError> {
    let mut extra = Extra::default();
    if needs.is_empty() {
        return Ok(extra);
    }
    let mut layer = Tree::open(root)?;
    let below: Vec<OwnedFd> = below
        .iter()
        .rev()
        .map(|path| File::open(path).map(OwnedFd::from).map_err(UnpackError::storage("open", path)))
        .collect::<Result<_, _>>()?;
    for path in &needs.directories {
        copy_directory_attributes(&layer, path, &below)
            .map_err(UnpackError::entry("set attributes of", path.bytes()))?;
    }
    for (path, target) in &needs.links {
        copy_up(&mut layer, path, target, &below, budget, &mut extra)?;
        if !layer.hardlink(path, target)? {
            return Err(missing(path, target));
        }
        let made = std::mem::take(&mut layer.implicit);
        extra.inodes += made.len() as u64;
        for path in &made {
            copy_directory_attributes(&layer, path, &below)
                .map_err(UnpackError::entry("set attributes of", path.bytes()))?;
        }
    }
    Ok(extra)
}

fn missing(path: &SafePath, target: &SafePath) -> UnpackError {
    UnpackError::Bad(format!(
        "{}: a hard link to {}, which is neither in this layer nor in one below",
        shown(path.bytes()),
        shown(target.bytes())
    ))
}

/// What the layers below show at a path, topmost first; deletions and opaque directories are honoured.
fn find(below: &[OwnedFd], path: &SafePath) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    for layer in below {
        let Some((parent, name)) = path.split() else {
            return Ok(None);
        };
        match open_plain(layer.as_fd(), &parent)? {
            Lookup::Found(dir) => match tree::look(dir.as_fd(), name)? {
                Some(stat) if tree::is_whiteout(&stat) => return Ok(None),
                Some(stat) => return Ok(Some((dir, stat))),
                None if is_opaque(layer.as_fd(), &parent)? => return Ok(None),
                None => {}
            },
            Lookup::Absent if has_opaque(layer.as_fd(), b".")? => return Ok(None),
            Lookup::Absent => {}
            Lookup::Hidden => return Ok(None),
        }
    }
    Ok(None)
}

enum Lookup {
    Found(OwnedFd),
    /// Not in this layer; it may be in one below.
    Absent,
    /// Deleted here, or its parent is something else here.
    Hidden,
}

/// Walks down without following links: what is a link in one layer may be a directory in another, and only the
/// overlay could tell.
fn open_plain(layer: BorrowedFd<'_>, path: &SafePath) -> Result<Lookup, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = openat(layer, ".", flags, Mode::empty())?;
    let mut opaque = false;
    for name in path.bytes().split(|&b| b == b'/').filter(|name| !name.is_empty()) {
        match openat(&dir, name, flags, Mode::empty()) {
            Ok(next) => {
                opaque |= has_opaque(dir.as_fd(), name)?;
                dir = next;
            }
            Err(Errno::NOENT) if opaque => return Ok(Lookup::Hidden),
            Err(Errno::NOENT) => return Ok(Lookup::Absent),
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Lookup::Hidden),
            Err(error) => return Err(error),
        }
    }
    Ok(Lookup::Found(dir))
}

/// Whether a directory or one above it, the root included, hides what the layers below have in it.
fn is_opaque(layer: BorrowedFd<'_>, path: &SafePath) -> Result<bool, Errno> {
    let mut at = path.clone();
    while let Some((parent, name)) = at.split() {
        if let Lookup::Found(dir) = open_plain(layer, &parent)?
            && has_opaque(dir.as_fd(), name)?
        {
            return Ok(true);
        }
        at = parent;
    }
    has_opaque(layer, b".")
}

fn has_opaque(dir: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    let mut value = [0; 8];
    match lgetxattr(tree::proc_path(dir, name), "trusted.overlay.opaque", &mut value[..]) {
        Ok(length) => Ok(value.get(..length).is_some_and(|value| value == b"y")),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(error) => Err(error),
    }
}

fn copy_directory_attributes(layer: &Tree, path: &SafePath, below: &[OwnedFd]) -> Result<(), Errno> {
    let Some((parent, name)) = path.split() else {
        return Ok(());
    };
    match find(below, path)? {
        Some((from, stat)) if tree::file_type(&stat) == FileType::Directory => {
            let parent = tree::open_dir(layer.root(), parent.bytes())?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&parent, name, flags, Mode::empty()) {
                Ok(to) => copy_attributes(&tree::proc_path(from.as_fd(), name), &stat, to.as_fd(), b"."),
                // A later entry made something else of it, which is none of the layers below's business.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(()),
                Err(error) => Err(error),
            }
        }
        _ => Ok(()),
    }
}

/// Gives a name in a directory owner, mode, attributes and times of `from`. The name must not be a symbolic link
/// unless `stat` is one, because a change of mode would follow it.
fn copy_attributes(from: &Path, stat: &Stat, to: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if tree::file_type(stat) != FileType::Symlink {
        chmodat(to, name, Mode::from_raw_mode(stat.st_mode), AtFlags::empty())?;
        copy_xattrs(from, &tree::proc_path(to, name))?;
    }
    let time = |seconds: i64, nanos: u64| Timespec { tv_sec: seconds, tv_nsec: nanos.cast_signed() };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    utimensat(to, name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Extended attributes, but not overlayfs' own.
fn copy_xattrs(from: &Path, to: &Path) -> Result<(), Errno> {
    let mut names = vec![0; 64 * 1024];
    let length = match llistxattr(from, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    let mut value = vec![0; 64 * 1024];
    for name in names[..length].split(|&b| b == 0).filter(|n| !n.is_empty() && !n.starts_with(b"trusted.overlay.")) {
        let length = lgetxattr(from, name, &mut value[..])?;
        lsetxattr(to, name, &value[..length], rustix::fs::XattrFlags::empty())?;
    }
    Ok(())
}

/// Copies a file or a symbolic link from below into the layer, as overlayfs does before it links.
fn copy_up(
    layer: &mut Tree,
    path: &SafePath,
    target: &SafePath,
    below: &[OwnedFd],
    budget: &Budget,
    extra: &mut Extra,
) -> Result<(), UnpackError> {
    let failed = |error| UnpackError::entry("copy from a layer below", target.bytes())(error);
    let Some((parent, name)) = target.split() else {
        return Err(missing(path, target));
    };
    let to = layer.dir(&parent)?.try_clone_to_owned().map_err(UnpackError::storage("open", Path::new("a layer")))?;
    if tree::look(to.as_fd(), name).map_err(failed)?.is_some() {
        // The target of an earlier link, copied already.
        return Ok(());
    }
    let Some((from, stat)) = find(below, target).map_err(failed)? else {
        return Err(missing(path, target));
    };
    match tree::file_type(&stat) {
        FileType::RegularFile => {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            budget.bytes(size)?;
            extra.bytes += size;
            let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut source = File::from(openat(&from, name, read, Mode::empty()).map_err(failed)?);
            let mut copy = File::from(openat(&to, name, write, Mode::RUSR | Mode::WUSR).map_err(failed)?);
            io::copy(&mut source, &mut copy)
                .map_err(UnpackError::storage("copy from a layer below", &tree::proc_path(to.as_fd(), name)))?;
        }
        FileType::Symlink => {
            let link = readlinkat(&from, name, Vec::new()).map_err(failed)?;
            symlinkat(link.as_c_str(), &to, name).map_err(failed)?;
        }
        _ => return Err(missing(path, target)),
    }
    extra.inodes += 1;
    copy_attributes(&tree::proc_path(from.as_fd(), name), &stat, to.as_fd(), name).map_err(failed)
}

//! The tree of a layer, written relative to directory file descriptors. The kernel resolves every path inside the
//! root (`openat2` with `RESOLVE_IN_ROOT`), so that symbolic links of the layer lead nowhere else.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dev, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat,
    chownat, fchmod, fchown, fsetxattr, futimens, linkat, lsetxattr, mkdirat, mknodat, openat, openat2, readlinkat,
    statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::UnpackError;
use super::error::shown;
use super::stream::Entry;

/// The attribute that makes overlayfs hide what the layers below have in a directory.
const OPAQUE: &str = "trusted.overlay.opaque";

/// How often a path is looked up anew when the kernel could not rule out that a rename elsewhere interfered.
const LOOKUPS: usize = 128;

/// Most symbolic links that are followed on the way to a directory that is to be made, as in the kernel.
const MAX_LINKS: usize = 40;

/// A path of an archive, made safe: no empty parts, no `.`, no `..`, relative.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct SafePath(Vec<u8>);

impl SafePath {
    /// Cleans a path. Absolute ones are taken relative to the root, as all unpackers do.
    pub(super) fn new(path: &[u8]) -> Result<Self, UnpackError> {
        let mut clean = Vec::with_capacity(path.len());
        for part in path.split(|&b| b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(UnpackError::Bad(format!("{}: a path with \"..\"", shown(path)))),
                part if part.contains(&0) => {
                    return Err(UnpackError::Bad(format!("{}: a path with a zero byte", shown(path))));
                }
                part => {
                    if !clean.is_empty() {
                        clean.push(b'/');
                    }
                    clean.extend_from_slice(part);
                }
            }
        }
        Ok(Self(clean))
    }

    /// The path, empty for the root.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is `other` or below it.
    fn is_within(&self, other: &Self) -> bool {
        self.0.strip_prefix(&other.0[..]).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Parent and last part; `None` for the root.
    pub(super) fn split(&self) -> Option<(Self, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|&b| b == b'/') {
            Some(slash) => (Self(self.0[..slash].to_vec()), &self.0[slash + 1..]),
            None => (Self::default(), &self.0[..]),
        })
    }
}

/// Opens a directory of a tree, inside the tree whatever symbolic links there are; the root for an empty path.
pub(super) fn open_dir(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..LOOKUPS {
        result = openat2(root, path, flags, Mode::empty(), resolve);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

/// What is at a name, itself, not what it points to.
pub(super) fn look(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Whether it is what overlayfs takes for a deleted file.
pub(super) fn is_whiteout(stat: &Stat) -> bool {
    file_type(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// A path for the few calls that take no directory file descriptor. The last part is not followed by them.
pub(super) fn proc_path(dir: BorrowedFd<'_>, name: &[u8]) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(OsStr::from_bytes(name))
}

/// One step on the way to a directory.
enum Step {
    Open(OwnedFd),
    /// It is somewhere else.
    Follow(SafePath),
}

/// A tree that is being written.
pub(super) struct Tree {
    root: OwnedFd,
    /// The directory of the entry before: most entries follow others of their directory.
    last: Option<(SafePath, OwnedFd)>,
    /// Directories that no entry described, made because something is in them.
    pub(super) implicit: Vec<SafePath>,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, UnpackError> {
        let open = File::open(root).map_err(UnpackError::storage("open", root))?;
        Ok(Self { root: open.into(), last: None, implicit: Vec::new() })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The directory at `path`, made with those above it where they are missing.
    pub(super) fn dir(&mut self, path: &SafePath) -> Result<BorrowedFd<'_>, UnpackError> {
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            let dir = self.open_or_make(path)?;
            self.last = Some((path.clone(), dir));
        }
        match &self.last {
            Some((_, dir)) => Ok(dir.as_fd()),
            None => Ok(self.root.as_fd()),
        }
    }

    fn open_or_make(&mut self, path: &SafePath) -> Result<OwnedFd, UnpackError> {
        let mut at = path.clone();
        for _ in 0..MAX_LINKS {
            match self.open_or_make_plain(&at)? {
                Step::Open(dir) => return Ok(dir),
                Step::Follow(target) => at = target,
            }
        }
        Err(UnpackError::entry("open", path.bytes())(Errno::LOOP))
    }

    /// Opens or makes a directory, until a symbolic link turns up that leads to something missing.
    fn open_or_make_plain(&mut self, path: &SafePath) -> Result<Step, UnpackError> {
        // From the deepest directory that exists downwards; not recursive, as paths may be deep.
        let mut missing = Vec::new();
        let mut existing = path.clone();
        let mut dir = loop {
            match (open_dir(self.root.as_fd(), existing.bytes()), existing.split()) {
                (Ok(dir), _) => break dir,
                (Err(Errno::NOENT), Some((parent, name))) => {
                    missing.push((existing.clone(), name.to_vec()));
                    existing = parent;
                }
                (Err(error), _) => return Err(UnpackError::entry("open", path.bytes())(error)),
            }
        };
        while let Some((path, name)) = missing.pop() {
            let failed = |error| UnpackError::entry("create", path.bytes())(error);
            let make = || {
                mkdirat(&dir, &name[..], Mode::RWXU)?;
                chmodat(&dir, &name[..], Mode::from_raw_mode(0o755), AtFlags::empty())?;
                open_dir(dir.as_fd(), &name)
            };
            let made = match make() {
                Err(Errno::EXIST) => match look(dir.as_fd(), &name).map_err(failed)? {
                    Some(stat) if is_whiteout(&stat) => {
                        unlinkat(&dir, &name[..], AtFlags::empty()).map_err(failed)?;
                        let made = make().map_err(failed)?;
                        set_opaque(dir.as_fd(), &name).map_err(failed)?;
                        Ok(made)
                    }
                    Some(stat) if file_type(&stat) == FileType::Symlink => {
                        let link = readlinkat(&dir, &name[..], Vec::new()).map_err(failed)?;
                        let rest = missing.iter().rev().map(|(_, name)| &name[..]);
                        return Ok(Step::Follow(self.follow(dir.as_fd(), link.as_bytes(), rest)?));
                    }
                    _ => Err(Errno::EXIST),
                },
                made => made,
            };
            dir = made.map_err(failed)?;
            self.implicit.push(path);
        }
        Ok(Step::Open(dir))
    }

    /// Where a symbolic link in `dir` leads, and then `rest`, seen from the root and never above it.
    fn follow<'n>(
        &self,
        dir: BorrowedFd<'_>,
        link: &[u8],
        rest: impl Iterator<Item = &'n [u8]>,
    ) -> Result<SafePath, UnpackError> {
        // The kernel knows where the directory is, whichever links led there.
        let real = |fd: BorrowedFd<'_>| {
            let path = Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string());
            std::fs::read_link(&path).map_err(UnpackError::storage("resolve", &path))
        };
        let (root, dir) = (real(self.root.as_fd())?, real(dir)?);
        let mut whole = Vec::new();
        if !link.starts_with(b"/") {
            whole.extend_from_slice(dir.strip_prefix(&root).unwrap_or(Path::new("")).as_os_str().as_bytes());
            whole.push(b'/');
        }
        whole.extend_from_slice(link);
        for name in rest {
            whole.push(b'/');
            whole.extend_from_slice(name);
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in whole.split(|&b| b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        SafePath::new(&parts.join(&b'/'))
    }

    /// Removes whatever is at a path. Directories that were looked up before may be gone then.
    fn clear(&mut self, path: &SafePath, dir: &OwnedFd, name: &[u8]) -> Result<(), UnpackError> {
        self.last = None;
        self.implicit.retain(|implicit| !implicit.is_within(path));
        match unlinkat(dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                let path = proc_path(dir.as_fd(), name);
                std::fs::remove_dir_all(&path).map_err(UnpackError::storage("replace", &path))
            }
            result => result.map_err(UnpackError::entry("replace", name)),
        }
    }

    /// Does `make` in the entry's directory; what is in its way is removed first.
    fn put<T>(
        &mut self,
        path: &SafePath,
        action: &'static str,
        make: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<(OwnedFd, T), UnpackError> {
        let Some((parent, name)) = path.split() else {
            return Err(UnpackError::Bad("the root of a layer must be a directory".to_owned()));
        };
        let dir =
            self.dir(&parent)?.try_clone_to_owned().map_err(UnpackError::storage("open", Path::new("a layer")))?;
        let made = match make(dir.as_fd(), name) {
            Err(Errno::EXIST) => {
                self.clear(path, &dir, name)?;
                make(dir.as_fd(), name)
            }
            made => made,
        };
        Ok((dir, made.map_err(UnpackError::entry(action, path.bytes()))?))
    }

    /// Makes a file; `fill` writes it.
    pub(super) fn file(
        &mut self,
        path: &SafePath,
        entry: &Entry,
        fill: impl FnOnce(&mut File) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (_, file) = self.put(path, "create", |dir, name| openat(dir, name, flags, Mode::RUSR | Mode::WUSR))?;
        let mut file = File::from(file);
        fill(&mut file)?;
        let finish = || {
            // The owner first: a change of owner takes setuid bits and capabilities away.
            fchown(&file, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))?;
            fchmod(&file, Mode::from_raw_mode(entry.mode))?;
            for (name, value) in kept_xattrs(entry) {
                fsetxattr(&file, name, value, XattrFlags::empty())?;
            }
            futimens(&file, &times(entry))
        };
        finish().map_err(UnpackError::entry("set attributes of", path.bytes()))
    }

    /// Makes a directory, or gives an existing one these attributes.
    pub(super) fn directory(&mut self, path: &SafePath, entry: &Entry) -> Result<(), UnpackError> {
        let Some((parent, name)) = path.split() else {
            return set_attributes(self.root.as_fd(), b".", entry)
                .map_err(UnpackError::entry("set attributes of", b"/"));
        };
        let dir =
            self.dir(&parent)?.try_clone_to_owned().map_err(UnpackError::storage("open", Path::new("a layer")))?;
        let there = look(dir.as_fd(), name).map_err(UnpackError::entry("look at", path.bytes()))?;
        let new = match &there {
            Some(stat) if file_type(stat) == FileType::Directory => false,
            Some(_) => {
                self.clear(path, &dir, name)?;
                true
            }
            None => true,
        };
        if new {
            mkdirat(&dir, name, Mode::RWXU).map_err(UnpackError::entry("create", path.bytes()))?;
        }
        if there.is_some_and(|stat| is_whiteout(&stat)) {
            // Deleted and made anew: nothing of the layers below shines through.
            set_opaque(dir.as_fd(), name).map_err(UnpackError::entry("mark", path.bytes()))?;
        }
        self.implicit.retain(|implicit| implicit != path);
        set_attributes(dir.as_fd(), name, entry).map_err(UnpackError::entry("set attributes of", path.bytes()))
    }

    /// Makes a symbolic link.
    pub(super) fn symlink(&mut self, path: &SafePath, entry: &Entry) -> Result<(), UnpackError> {
        let (dir, ()) = self.put(path, "create", |dir, name| symlinkat(&entry.link[..], dir, name))?;
        let name = path.split().map(|(_, name)| name.to_vec()).unwrap_or_default();
        let finish = || {
            chownat(
                &dir,
                &name[..],
                Some(Uid::from_raw(entry.uid)),
                Some(Gid::from_raw(entry.gid)),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
            utimensat(&dir, &name[..], &times(entry), AtFlags::SYMLINK_NOFOLLOW)
        };
        finish().map_err(UnpackError::entry("set attributes of", path.bytes()))
    }

    /// Makes a device node or a named pipe.
    pub(super) fn node(&mut self, path: &SafePath, entry: &Entry, kind: FileType, dev: Dev) -> Result<(), UnpackError> {
        let (dir, ()) = self.put(path, "create", |dir, name| mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, dev))?;
        let name = path.split().map(|(_, name)| name.to_vec()).unwrap_or_default();
        set_attributes(dir.as_fd(), &name, entry).map_err(UnpackError::entry("set attributes of", path.bytes()))
    }

    /// Makes a hard link to another path of this tree; `false` when that is not there.
    pub(super) fn hardlink(&mut self, path: &SafePath, target: &SafePath) -> Result<bool, UnpackError> {
        let Some((parent, target_name)) = target.split() else {
            return Err(UnpackError::Bad(format!("{}: a hard link to the root", shown(path.bytes()))));
        };
        let missing = |error| matches!(error, Errno::NOENT | Errno::NOTDIR);
        let from = match open_dir(self.root.as_fd(), parent.bytes()) {
            Ok(dir) => dir,
            Err(error) if missing(error) => return Ok(false),
            Err(error) => return Err(UnpackError::entry("open", target.bytes())(error)),
        };
        let Some(stat) = look(from.as_fd(), target_name).map_err(UnpackError::entry("look at", target.bytes()))? else {
            return Ok(false);
        };
        if file_type(&stat) == FileType::Directory || is_whiteout(&stat) {
            return Err(UnpackError::Bad(format!(
                "{}: a hard link to {}, which is a directory or deleted",
                shown(path.bytes()),
                shown(target.bytes())
            )));
        }
        if let Some((parent, name)) = path.split()
            && let Ok(dir) = open_dir(self.root.as_fd(), parent.bytes())
            && let Ok(Some(there)) = look(dir.as_fd(), name)
            && (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)
        {
            // A link to itself: removing what is in the way would remove the file.
            return Ok(true);
        }
        self.put(path, "link", |dir, name| linkat(&from, target_name, dir, name, AtFlags::empty()))?;
        Ok(true)
    }

    /// Hides a name of the layers below. What this layer itself has there stays.
    pub(super) fn whiteout(&mut self, parent: &SafePath, name: &[u8]) -> Result<(), UnpackError> {
        let dir = self.dir(parent)?;
        match look(dir, name).map_err(UnpackError::entry("look at", name))? {
            None => mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0),
            Some(stat) if file_type(&stat) == FileType::Directory => set_opaque(dir, name),
            Some(_) => Ok(()),
        }
        .map_err(UnpackError::entry("delete", name))
    }

    /// Hides everything that the layers below have in a directory.
    pub(super) fn opaque(&mut self, path: &SafePath) -> Result<(), UnpackError> {
        let dir = self.dir(path)?;
        set_opaque(dir, b".").map_err(UnpackError::entry("mark", path.bytes()))
    }

    /// Sets a directory's times, which every entry made in it has changed.
    pub(super) fn touch(&self, path: &SafePath, times: &Timestamps) -> Result<(), UnpackError> {
        let set = || match path.split() {
            None => futimens(&self.root, times),
            Some((parent, name)) => {
                let dir = open_dir(self.root.as_fd(), parent.bytes())?;
                utimensat(&dir, name, times, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        match set() {
            // Replaced by a later entry.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            result => result.map_err(UnpackError::entry("set the time of", path.bytes())),
        }
    }
}

pub(super) fn set_opaque(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    lsetxattr(proc_path(dir, name), OPAQUE, b"y", XattrFlags::empty())
}

/// Sets everything but the content; not for symbolic links.
fn set_attributes(dir: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    chmodat(dir, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())?;
    for (key, value) in kept_xattrs(entry) {
        lsetxattr(proc_path(dir, name), key, value, XattrFlags::empty())?;
    }
    utimensat(dir, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
}

pub(super) fn times(entry: &Entry) -> Timestamps {
    let (seconds, nanos) = entry.mtime;
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// The extended attributes that a layer may set: file capabilities and the user's own. Not those of overlayfs,
/// which could make one image's layer show parts of others, nor the labels of the machine that made the image.
fn kept_xattrs(entry: &Entry) -> impl Iterator<Item = (&[u8], &[u8])> {
    let kept = |name: &[u8]| {
        name == b"security.capability" || (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
    };
    entry.xattrs.iter().filter(move |(name, _)| kept(name)).map(|(name, value)| (&name[..], &value[..]))
}

/// Writes to a file of the tree.
pub(super) fn write(file: &mut File, bytes: &[u8], path: &SafePath) -> Result<(), UnpackError> {
    file.write_all(bytes)
        .map_err(|error: io::Error| UnpackError::storage("write", Path::new(OsStr::from_bytes(path.bytes())))(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        for (path, clean) in
            [("", ""), ("/", ""), ("./", ""), ("a", "a"), ("/a//b/./c/", "a/b/c"), ("a/...", "a/..."), ("..a", "..a")]
        {
            assert_eq!(SafePath::new(path.as_bytes()).unwrap().bytes(), clean.as_bytes(), "{path}");
        }
        for path in ["..", "a/../b", "/..", "a/..", "a\0b"] {
            assert!(SafePath::new(path.as_bytes()).is_err(), "{path:?}");
        }
    }
}

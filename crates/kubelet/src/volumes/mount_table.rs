//! What is mounted where, from `/proc/self/mountinfo`, and unmounting without following links.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::VolumeFailure;
use super::error::os;

/// Mount points at or below a path, children before their parents.
pub(super) fn mounts_below(path: &Path) -> Result<Vec<PathBuf>, VolumeFailure> {
    let table = fs::read("/proc/self/mountinfo").map_err(VolumeFailure::io("read", "/proc/self/mountinfo"))?;
    let mut below: Vec<PathBuf> = parse(&table).into_iter().filter(|point| point.starts_with(path)).collect();
    // The table lists a mount after what it is mounted on.
    below.reverse();
    Ok(below)
}

pub(super) fn is_mount_point(path: &Path) -> Result<bool, VolumeFailure> {
    Ok(mounts_below(path)?.iter().any(|point| point == path))
}

/// The fifth field of each line, with its octal escapes undone.
fn parse(table: &[u8]) -> Vec<PathBuf> {
    let point = |line: &[u8]| line.split(|b| *b == b' ').nth(4).map(unescape);
    table.split(|b| *b == b'\n').filter_map(point).collect()
}

fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| tail.get(..3)).flatten().and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Mounts a tmpfs of its own on a directory.
pub(super) fn mount_tmpfs(path: &Path, options: &str) -> Result<(), VolumeFailure> {
    let data = std::ffi::CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, data.as_c_str())
        .map_err(|e| VolumeFailure::io("mount a tmpfs on", path)(os(e)))
}

/// Unmounts everything at and below a path, and makes sure of it. What is busy is detached.
///
/// A bind mount of a host directory is a peer of the original: unmounting what is mounted inside the one would unmount
/// it inside the other as well. So everything is made private first.
pub(super) fn unmount_below(path: &Path) -> Result<(), VolumeFailure> {
    let points = mounts_below(path)?;
    for point in points.iter().rev() {
        match rustix::mount::mount_change(point, MountPropagationFlags::PRIVATE) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(VolumeFailure::io("make private", point)(os(error))),
        }
    }
    for point in points {
        let flags = UnmountFlags::NOFOLLOW;
        let result = match rustix::mount::unmount(&point, flags) {
            Err(rustix::io::Errno::BUSY) => rustix::mount::unmount(&point, flags | UnmountFlags::DETACH),
            result => result,
        };
        match result {
            // Gone already: somebody else was faster, or it went with its parent.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(VolumeFailure::io("unmount", point)(os(error))),
        }
    }
    match mounts_below(path)?.into_iter().next() {
        None => Ok(()),
        Some(point) => Err(VolumeFailure::StillMounted(point)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_with_odd_names() {
        let table = b"22 1 0:21 / /proc rw - proc proc rw\n23 1 0:22 / /mnt/a\\040b\\011c rw - tmpfs tmpfs rw\n24 1 0:22 / /back\\134slash rw\n";
        let expected: Vec<PathBuf> = ["/proc", "/mnt/a b\tc", "/back\\slash"].map(PathBuf::from).into();
        assert_eq!(parse(table), expected);
        assert_eq!(unescape(b"\\9x\\12"), PathBuf::from("\\9x\\12"));
    }

    #[test]
    fn proc_is_a_mount_point_and_its_files_are_not() {
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        assert!(!is_mount_point(Path::new("/proc/self/status")).unwrap());
    }
}

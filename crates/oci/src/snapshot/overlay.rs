//! The overlay mount itself.
//!
//! By the new mount API, where layers are given one by one, because the options of mount(2) end at one page: with
//! some forty layers they would be cut silently. Kernels before 6.7 don't take layers one by one; there mount(2) is
//! used with the shortest possible names of the layers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

use super::SnapshotError;

/// Longest value that fsconfig(2) takes, with its terminating zero.
const MAX_VALUE: usize = 256;
/// Room for the options of mount(2).
const PAGE: usize = 4096;

/// Mounts an overlay of `lower` (lowest first) and `upper` on `target`.
pub(super) fn mount(lower: &[PathBuf], upper: &Path, work: &Path, target: &Path) -> Result<(), SnapshotError> {
    match one_by_one(lower, upper, work, target) {
        Err(Errno::INVAL | Errno::NOSYS) => in_one_string(lower, upper, work, target),
        result => result,
    }
    .map_err(|error| explain(error, target))
}

fn one_by_one(lower: &[PathBuf], upper: &Path, work: &Path, target: &Path) -> Result<(), Errno> {
    let mut names = Names::default();
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for layer in lower.iter().rev() {
        fsconfig_set_string(&context, "lowerdir+", names.short(layer)?.as_path())?;
    }
    fsconfig_set_string(&context, "upperdir", names.short(upper)?.as_path())?;
    fsconfig_set_string(&context, "workdir", names.short(work)?.as_path())?;
    match fsconfig_set_flag(&context, "volatile") {
        // Before 5.10.
        Err(Errno::INVAL) => {}
        result => result?,
    }
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    move_mount(&mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn in_one_string(lower: &[PathBuf], upper: &Path, work: &Path, target: &Path) -> Result<(), Errno> {
    let mut names = Names::default();
    let mut options = b"lowerdir=".to_vec();
    for (index, layer) in lower.iter().rev().enumerate() {
        if index > 0 {
            options.push(b':');
        }
        options.extend_from_slice(names.open(layer)?.as_os_str().as_bytes());
    }
    for (key, path) in [("upperdir", upper), ("workdir", work)] {
        options.extend_from_slice(format!(",{key}=").as_bytes());
        options.extend_from_slice(names.open(path)?.as_os_str().as_bytes());
    }
    if options.len() + b",volatile\0".len() > PAGE {
        return Err(Errno::TOOBIG);
    }
    let attempt = |options: &[u8]| {
        let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
        rustix::mount::mount("overlay", target, "overlay", MountFlags::empty(), Some(options.as_c_str()))
    };
    match attempt(&[&options[..], b",volatile"].concat()) {
        Err(Errno::INVAL) => attempt(&options),
        result => result,
    }
}

/// Names for directories that are short and free of the characters that mean something in options.
#[derive(Default)]
struct Names {
    open: Vec<File>,
}

impl Names {
    /// The path itself, or a stand-in when it is too long for fsconfig(2).
    fn short(&mut self, path: &Path) -> Result<PathBuf, Errno> {
        if path.as_os_str().len() < MAX_VALUE { Ok(path.to_owned()) } else { self.open(path) }
    }

    /// A stand-in for the path, good until `self` goes.
    fn open(&mut self, path: &Path) -> Result<PathBuf, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let open = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let file = open.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let name = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        self.open.push(file);
        Ok(name)
    }
}

fn explain(error: Errno, target: &Path) -> SnapshotError {
    let source = io::Error::from(error);
    let message = match error {
        Errno::PERM | Errno::ACCESS => {
            "overlay mounts are not permitted: run as root with CAP_SYS_ADMIN, outside of a container that forbids \
             mounts"
        }
        Errno::NODEV => "this kernel has no overlayfs: load it with `modprobe overlay`",
        Errno::TOOBIG => "this kernel takes fewer layers than the image has: use Linux 6.7 or later",
        Errno::INVAL => {
            "the file system of the state directory can't hold an overlay's upper directory (an overlay itself, or \
             one without d_type or trusted extended attributes): choose another --state-dir, for example on ext4, \
             xfs or tmpfs"
        }
        _ => return SnapshotError::io("mount an overlay on", target)(source),
    };
    SnapshotError::NotPermitted { message: message.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_kernel_say_what_to_do() {
        for (error, words) in [
            (Errno::PERM, "CAP_SYS_ADMIN"),
            (Errno::NODEV, "modprobe overlay"),
            (Errno::INVAL, "--state-dir"),
            (Errno::TOOBIG, "Linux 6.7"),
        ] {
            let error = explain(error, Path::new("/t"));
            assert!(matches!(error, SnapshotError::NotPermitted { .. }) && error.to_string().contains(words));
        }
        assert!(matches!(explain(Errno::NOSPC, Path::new("/t")), SnapshotError::Io { .. }));
    }

    #[test]
    fn the_way_of_older_kernels_shows_the_same() {
        let name = "the_way_of_older_kernels_shows_the_same";
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        // With their own names these would not fit into one page.
        let lower: Vec<PathBuf> =
            (0..60).map(|index| make(&format!("a:layer,with a long name-{index:0>60}"))).collect();
        for (index, layer) in lower.iter().enumerate() {
            std::fs::write(layer.join("top"), index.to_string()).unwrap();
            std::fs::write(layer.join(format!("file-{index}")), "").unwrap();
        }
        let (upper, work, target) = (make("upper"), make("work"), make("target"));
        match in_one_string(&lower, &upper, &work, &target) {
            Ok(()) => {}
            Err(error @ (Errno::PERM | Errno::NODEV)) => {
                println!("SKIPPED {name}: overlay mounts: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        let top = std::fs::read_to_string(target.join("top"));
        let count = std::fs::read_dir(&target).map(Iterator::count);
        rustix::mount::unmount(&target, rustix::mount::UnmountFlags::DETACH).unwrap();
        assert_eq!((top.unwrap().as_str(), count.unwrap()), ("59", 61));
        let many = vec![lower[0].clone(); 300];
        assert_eq!(in_one_string(&many, &upper, &work, &target), Err(Errno::TOOBIG));
    }
}

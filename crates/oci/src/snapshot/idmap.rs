//! Layers as a user namespace sees them: owned by its own root.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use minke_core::runtime::IdMapping;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use super::SnapshotError;

/// Id-mapped bind mounts of layers, at mount points of their own until dropped.
#[derive(Debug)]
pub(super) struct MappedLayers {
    directory: PathBuf,
    paths: Vec<PathBuf>,
}

impl MappedLayers {
    /// Mounts each layer below `directory`.
    pub(super) fn mount(layers: &[PathBuf], mapping: IdMapping, directory: &Path) -> Result<Self, SnapshotError> {
        Self::clean_up(directory)?;
        let namespace = user_namespace(mapping).map_err(|source| SnapshotError::NotPermitted {
            message: "user namespaces are not permitted: check user.max_user_namespaces, and run as root".to_owned(),
            source,
        })?;
        let mut mapped = Self { directory: directory.to_owned(), paths: Vec::new() };
        for (index, layer) in layers.iter().enumerate() {
            let point = directory.join(index.to_string());
            super::make_dir(&point)?;
            mount_mapped(layer, namespace.as_fd(), &point).map_err(|source| match source.kind() {
                io::ErrorKind::InvalidInput => SnapshotError::NotPermitted {
                    message: format!(
                        "the file system of {} can't be id-mapped, which hostUsers: false needs: choose another \
                         --state-dir, for example on ext4, xfs or tmpfs",
                        layer.display()
                    ),
                    source,
                },
                _ => SnapshotError::io("id-map", layer)(source),
            })?;
            mapped.paths.push(point);
        }
        Ok(mapped)
    }

    /// Where the layers are, in the order in which they were given.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Takes the mount points below `directory` away, also those of a process that was killed.
    pub(super) fn clean_up(directory: &Path) -> Result<(), SnapshotError> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(SnapshotError::io("list", directory)(error)),
        };
        for entry in entries {
            let point = entry.map_err(SnapshotError::io("list", directory))?.path();
            super::unmount(&point)?;
            std::fs::remove_dir(&point).map_err(SnapshotError::io("remove", &point))?;
        }
        std::fs::remove_dir(directory).map_err(SnapshotError::io("remove", directory))
    }
}

impl Drop for MappedLayers {
    fn drop(&mut self) {
        for point in &self.paths {
            // What fails here is tried again by the next mount and by the removal of the container.
            let _ = unmount(point, UnmountFlags::DETACH);
            let _ = std::fs::remove_dir(point);
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// `MOUNT_ATTR_IDMAP` of the kernel's mount.h.
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
/// `MOUNT_ATTR_RDONLY` of the kernel's mount.h.
const MOUNT_ATTR_RDONLY: u64 = 0x0000_0001;

fn mount_mapped(layer: &Path, namespace: BorrowedFd<'_>, point: &Path) -> io::Result<()> {
    let tree = open_tree(CWD, layer, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    let attr = MountAttr {
        attr_set: MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?,
    };
    #[expect(unsafe_code, reason = "mount_setattr(2) is wrapped neither by rustix nor by libc")]
    // SAFETY: both descriptors are open for the whole call, the path is a constant C string, and the kernel reads
    // exactly `size_of::<MountAttr>()` bytes of `attr`, which has the layout of its `struct mount_attr`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(move_mount(&tree, "", CWD, point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// A user namespace with these maps and no process: only its file descriptor keeps it.
fn user_namespace(mapping: IdMapping) -> io::Result<File> {
    let holder = Holder::start()?;
    let proc = PathBuf::from(format!("/proc/{}", holder.pid));
    let map = format!("0 {} {}\n", mapping.host_id, mapping.length);
    for file in ["uid_map", "gid_map"] {
        std::fs::write(proc.join(file), &map)?;
    }
    File::open(proc.join("ns/user"))
}

/// A process that does nothing but have a user namespace of its own.
struct Holder {
    pid: libc::pid_t,
}

impl Holder {
    fn start() -> io::Result<Self> {
        // No exit signal: a waitpid for any child, as shims do, never sees this one.
        let flags = libc::c_long::from(libc::CLONE_NEWUSER);
        #[expect(unsafe_code, reason = "a process in a new user namespace needs clone(2)")]
        // SAFETY: without CLONE_VM the child has a copy of the address space and of nothing but this thread; a null
        // stack means the copy of this one. The child makes only system calls, so no lock that another thread held
        // at the time of the copy can matter.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => Self::child(),
            pid => Ok(Self { pid: libc::pid_t::try_from(pid).map_err(io::Error::other)? }),
        }
    }

    fn child() -> ! {
        #[expect(unsafe_code, reason = "only raw system calls are sound in a copy of a process with threads")]
        // SAFETY: prctl with PR_SET_PDEATHSIG takes a number only.
        unsafe {
            libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        }
        loop {
            #[expect(unsafe_code, reason = "only raw system calls are sound in a copy of a process with threads")]
            // SAFETY: ppoll of no descriptors without a time limit touches no memory.
            unsafe {
                libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0);
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a child without exit signal is waited for with __WALL, which rustix lacks")]
        // SAFETY: `pid` is our own child and is not waited for anywhere else, so it can't be another process.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
        }
        #[expect(unsafe_code, reason = "a child without exit signal is waited for with __WALL, which rustix lacks")]
        // SAFETY: a null status is allowed; see above for the pid.
        unsafe {
            libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

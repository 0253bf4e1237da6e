//! The container's root file system and the sources of its mounts, in the helper's own mount namespace.
//!
//! Every volume is cloned while this process still sees the host's mounts, then set up at a stand-in path with the
//! propagation that was asked for. With a user namespace the stand-ins, the root and the sandbox's files lie where
//! its root can reach them: the directories of state and volumes are closed to other users, which that root is.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minke_core::runtime::{MountPropagation, NamespaceMode};
use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount as mount_new, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::{CreateRequest, SandboxFacts, SandboxFiles};
use crate::cgroup::{Controller, Hierarchies};
use crate::snapshot::{self, SnapshotError, SnapshotSpec};

/// Where a helper with a user namespace mounts what the container needs. It exists everywhere, everybody can reach
/// it, and in the helper's own mount namespace nobody misses what it hides.
const REACHABLE: &str = "/dev/shm";

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RootfsError {
    /// A system call failed.
    #[error("can't {step} {path}")]
    Step {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A volume can't be shown with the container's ids.
    #[error(
        "the file system of volume {path} can't be id-mapped, which hostUsers: false needs; put it on another one, \
         for example ext4, xfs or tmpfs"
    )]
    IdMap {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The overlay can't be mounted.
    #[error("can't mount the root file system")]
    Overlay(#[source] SnapshotError),
}

fn failed<E: Into<io::Error>>(step: &'static str, path: &Path) -> impl FnOnce(E) -> RootfsError {
    let path = path.to_owned();
    move |source| RootfsError::Step { step, path, source: source.into() }
}

/// What was mounted, and where.
#[derive(Debug)]
pub(super) struct Rootfs {
    pub(super) path: PathBuf,
    /// Stand-ins of the configuration's mounts, in their order.
    pub(super) volumes: Vec<PathBuf>,
    /// The sandbox's files as this container can reach them.
    pub(super) files: SandboxFiles,
    /// The detached tree that init mounts on `/sys/fs/cgroup`, where it has to be put together.
    pub(super) cgroups: Option<OwnedFd>,
}

/// Enters a mount namespace of this process's own and mounts everything there. `cgroup` is the container's, which
/// exists.
pub(super) fn mount(
    request: &CreateRequest,
    sandbox: &SandboxFacts,
    cgroup: &str,
    user_namespace: Option<&File>,
) -> Result<Rootfs, RootfsError> {
    let mounts = &request.config.mounts;
    let volumes = mounts.iter().map(|m| clone(&m.host_path)).collect::<Result<Vec<_>, _>>()?;
    let user = sandbox.namespaces.user;
    let files = if user.is_some() { Some(clone_files(sandbox)?) } else { None };
    #[expect(unsafe_code, reason = "unshare(2) of more than namespaces could break Rust's assumptions")]
    // SAFETY: only the mount namespace is unshared, and this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(failed("unshare the mount namespace of", &request.bundle))?;
    // Mounts made here must not show on the host.
    let root = Path::new("/");
    mount_change(root, MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(failed("change the propagation of", root))?;
    let place = if user.is_some() {
        let place = PathBuf::from(REACHABLE);
        mount_new("tmpfs", &place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=1m")
            .map_err(failed("mount a tmpfs at", &place))?;
        place
    } else {
        request.bundle.clone()
    };

    let mut stand_ins = Vec::with_capacity(volumes.len());
    for (at, (tree, volume)) in volumes.iter().zip(mounts).enumerate() {
        if let Some(namespace) = user_namespace {
            id_map(tree.as_fd(), namespace)
                .map_err(|source| RootfsError::IdMap { path: volume.host_path.clone(), source })?;
        }
        let target = place.join(format!("volume{at}"));
        attach(tree, &target)?;
        let propagation = match volume.propagation {
            MountPropagation::Private => Some(MountPropagationFlags::PRIVATE),
            MountPropagation::HostToContainer => Some(MountPropagationFlags::DOWNSTREAM),
            // The clone is the host's peer where the host shares it.
            MountPropagation::Bidirectional => None,
        };
        if let Some(propagation) = propagation {
            mount_change(&target, propagation | MountPropagationFlags::REC)
                .map_err(failed("change the propagation of", &target))?;
        }
        stand_ins.push(target);
    }
    let files = match files {
        Some(files) => attach_files(&files, &place)?,
        None => sandbox.files.clone(),
    };
    let cgroups = match &sandbox.hierarchies {
        Hierarchies::V1 { controllers, systemd } if !request.config.security.privileged => {
            Some(cgroup_tree(controllers, systemd.as_deref(), cgroup, &place)?)
        }
        Hierarchies::V1 { .. } | Hierarchies::V2 { .. } => None,
    };
    let path = place.join("rootfs");
    fs::create_dir_all(&path).map_err(failed("make", &path))?;
    let spec =
        SnapshotSpec { layers: request.layers.clone(), root: request.root, directory: request.state.clone(), user };
    snapshot::mount(&spec, &path).map_err(RootfsError::Overlay)?;
    Ok(Rootfs { path, volumes: stand_ins, files, cgroups })
}

fn clone(path: &Path) -> Result<OwnedFd, RootfsError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(failed("use as a mount's source", path))
}

/// Hosts, host name, resolver and shared memory, in this order.
fn clone_files(sandbox: &SandboxFacts) -> Result<[OwnedFd; 4], RootfsError> {
    let files = &sandbox.files;
    let shm = if sandbox.namespaces.ipc == NamespaceMode::Node { Path::new(REACHABLE) } else { &files.shm };
    Ok([clone(&files.hosts)?, clone(&files.hostname)?, clone(&files.resolv_conf)?, clone(shm)?])
}

fn attach_files(clones: &[OwnedFd; 4], place: &Path) -> Result<SandboxFiles, RootfsError> {
    let at = |index: usize, name: &str| {
        let target = place.join(name);
        attach(&clones[index], &target).map(|()| target)
    };
    Ok(SandboxFiles {
        hosts: at(0, "hosts")?,
        hostname: at(1, "hostname")?,
        resolv_conf: at(2, "resolv.conf")?,
        shm: at(3, "shm")?,
    })
}

/// Puts the container's own group of each hierarchy of version 1 together, read-only: root inside could otherwise
/// raise its own limits. Here rather than one by one in the container, where that many mounts would be a third of its
/// creation; detached, so that libcontainer does not take it for the machine's hierarchies.
fn cgroup_tree(
    controllers: &[Controller],
    systemd: Option<&Path>,
    cgroup: &str,
    place: &Path,
) -> Result<OwnedFd, RootfsError> {
    let tree = place.join("cgroup");
    fs::create_dir_all(&tree).map_err(failed("make", &tree))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_new("tmpfs", &tree, "tmpfs", flags, c"mode=755,size=64k").map_err(failed("mount a tmpfs at", &tree))?;
    for dir in controllers.iter().map(|c| c.mount.as_path()).chain(systemd) {
        if let Some(name) = dir.file_name() {
            attach(&clone(&dir.join(cgroup.trim_start_matches('/')))?, &tree.join(name))?;
        }
    }
    for controller in controllers {
        // `cpu` leads to `cpu,cpuacct`, as on the host.
        for name in controller.names.iter().filter(|n| !tree.join(n).exists()) {
            if let Some(target) = controller.mount.file_name() {
                let link = tree.join(name);
                std::os::unix::fs::symlink(target, &link).map_err(failed("make", &link))?;
            }
        }
    }
    let detached = clone(&tree)?;
    unmount(&tree, UnmountFlags::DETACH).map_err(failed("unmount", &tree))?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
        ..MountAttributes::default()
    };
    set_attributes(detached.as_fd(), &attributes, libc::AT_RECURSIVE).map_err(failed("make read-only", &tree))?;
    Ok(detached)
}

/// Takes the hierarchies of version 1 out of this mount namespace. libcontainer then finds none to move the container
/// into, where it already is.
pub(super) fn hide_cgroups() -> Result<(), RootfsError> {
    let path = Path::new("/sys/fs/cgroup");
    unmount(path, UnmountFlags::DETACH).map_err(failed("unmount", path))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_new("tmpfs", path, "tmpfs", flags, c"mode=755,size=4k").map_err(failed("mount a tmpfs at", path))
}

/// Mounts a clone at a path that is made for it.
fn attach(tree: &OwnedFd, target: &Path) -> Result<(), RootfsError> {
    let status = rustix::fs::fstat(tree).map_err(failed("read the kind of", target))?;
    if rustix::fs::FileType::from_raw_mode(status.st_mode).is_dir() {
        fs::create_dir_all(target).map_err(failed("make", target))?;
    } else {
        File::create(target).map_err(failed("make", target))?;
    }
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(failed("mount", target))
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_NOEXEC: u64 = 0x8;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Shows a detached mount with the ids of a user namespace. Mounts below it stay as they are.
fn id_map(tree: BorrowedFd<'_>, namespace: &File) -> io::Result<()> {
    let attributes = MountAttributes {
        set: MOUNT_ATTR_IDMAP,
        user_namespace: u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?,
        ..MountAttributes::default()
    };
    set_attributes(tree, &attributes, 0)
}

fn set_attributes(tree: BorrowedFd<'_>, attributes: &MountAttributes, flags: libc::c_int) -> io::Result<()> {
    #[expect(unsafe_code, reason = "mount_setattr(2) has no safe wrapper")]
    // SAFETY: the descriptors are open for the whole call, the path is a C string, and the kernel reads exactly the
    // bytes of the attributes, which have the layout of its `struct mount_attr`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

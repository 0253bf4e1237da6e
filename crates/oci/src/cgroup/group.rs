//! One cgroup: its directories, its limits, its processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use minke_core::cgroup::{self, NoController};
use minke_core::runtime::LinuxResources;

use super::bpf;
use super::{CgroupError, DeviceRule, Hierarchies};

/// One path in all hierarchies of the machine, for example `/minke/burstable/pod<uid>/<container>`.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup<'a> {
    hierarchies: &'a Hierarchies,
    /// Relative: `minke/…`.
    path: PathBuf,
}

impl<'a> Cgroup<'a> {
    /// The cgroup at this path; a leading slash means nothing. Touches nothing.
    #[must_use]
    pub(crate) fn new(hierarchies: &'a Hierarchies, path: &str) -> Self {
        let path = Path::new(path).components().filter(|c| matches!(c, std::path::Component::Normal(_))).collect();
        Self { hierarchies, path }
    }

    /// The group of this name below it.
    pub(super) fn child(&self, name: &str) -> Self {
        Self { hierarchies: self.hierarchies, path: self.path.join(name) }
    }

    pub(super) fn hierarchies(&self) -> &Hierarchies {
        self.hierarchies
    }

    /// Its directory in the hierarchy of one controller.
    pub(super) fn dir(&self, controller: &str) -> Option<PathBuf> {
        self.hierarchies.dir(controller, &self.path)
    }

    /// Its directories in all hierarchies.
    #[must_use]
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        self.hierarchies.mounts().into_iter().map(|m| m.join(&self.path)).collect()
    }

    /// Makes it with its parents and sets limits. Idempotent.
    ///
    /// # Errors
    /// A controller is missing, the hierarchy is read-only, or the kernel refuses a value.
    pub(crate) fn create(&self, limits: &LinuxResources) -> Result<(), CgroupError> {
        let writes = cgroup::limits(self.hierarchies, limits)?;
        self.make_directories()?;
        writes.iter().try_for_each(|write| self.write(write))
    }

    /// Changes the limits that are given; the others stay. It must be there.
    ///
    /// Less memory than is used is refused everywhere: version 1 does so itself, version 2 would rather kill.
    ///
    /// # Errors
    /// A controller is missing, or the kernel refuses a value.
    pub(crate) fn update(&self, limits: &LinuxResources) -> Result<(), CgroupError> {
        let writes = cgroup::limits(self.hierarchies, limits)?;
        if let (Hierarchies::V2 { .. }, Some(limit), Some(used)) =
            (self.hierarchies, limits.memory_limit_bytes, self.usage().map(|usage| usage.memory_usage_bytes))
            && limit > 0
            && used > limit.unsigned_abs()
        {
            let path = self.dir("memory").unwrap_or_default().join("memory.max");
            let source = io::Error::new(io::ErrorKind::ResourceBusy, format!("{used} bytes are in use"));
            return Err(CgroupError::Write { path, value: limit.to_string(), source });
        }
        // Which of two files that bound each other comes first depends on where the limit goes: memory and memory with
        // swap on version 1, so what is refused is tried again after the others.
        let refused: Vec<&cgroup::Write> = writes.iter().filter(|write| self.write(write).is_err()).collect();
        refused.into_iter().try_for_each(|write| self.write(write))
    }

    fn write(&self, write: &cgroup::Write) -> Result<(), CgroupError> {
        let Some(dir) = self.dir(write.controller) else { return Ok(()) };
        let path = dir.join(&write.file);
        match fs::write(&path, &write.value) {
            Ok(()) => Ok(()),
            Err(e) if write.optional && e.kind() == io::ErrorKind::NotFound => Ok(()),
            // Without swap accounting the kernel has the file and refuses it.
            Err(e) if write.optional && e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            Err(source) => Err(CgroupError::Write { path, value: write.value.clone(), source }),
        }
    }

    /// Sets its weight alone. It must be there; one that is gone needs none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn set_shares(&self, shares: u64) -> Result<(), CgroupError> {
        let limits = LinuxResources { cpu_shares: Some(shares.min(262_144)), ..LinuxResources::default() };
        for write in cgroup::limits(self.hierarchies, &limits)? {
            let Some(dir) = self.dir(write.controller) else { continue };
            let path = dir.join(&write.file);
            match fs::write(&path, &write.value) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(CgroupError::Write { path, value: write.value, source }),
            }
        }
        Ok(())
    }

    fn make_directories(&self) -> Result<(), CgroupError> {
        match self.hierarchies {
            Hierarchies::V1 { .. } => {
                let cpuset = self.hierarchies.v1_mount("cpuset");
                for mount in self.hierarchies.mounts() {
                    if Some(mount) == cpuset {
                        make_cpuset(mount, &self.path)?;
                    } else {
                        make(&mount.join(&self.path))?;
                    }
                }
                Ok(())
            }
            Hierarchies::V2 { mount, controllers } => make_delegated(mount, &self.path, controllers),
        }
    }

    /// Allows these devices and forbids all others.
    ///
    /// # Errors
    /// The filter can't be installed; the container must not start then.
    pub(crate) fn restrict_devices(&self, rules: &[DeviceRule]) -> Result<(), CgroupError> {
        match self.hierarchies {
            Hierarchies::V1 { .. } => {
                let dir = self.dir("devices").ok_or(NoController {
                    controller: "devices",
                    limit: "keeping containers from the machine's devices",
                })?;
                let write = |file: &str, value: String| {
                    let path = dir.join(file);
                    fs::write(&path, &value).map_err(|source| CgroupError::Write { path, value, source })
                };
                write("devices.deny", "a".to_owned())?;
                rules.iter().try_for_each(|rule| write("devices.allow", rule.v1_line()))
            }
            Hierarchies::V2 { mount, .. } => bpf::restrict(&mount.join(&self.path), rules),
        }
    }

    /// Moves the calling thread, which must be its process's only one, into it. Only on version 1, where a thread
    /// that moves itself spares the machine a wait for all its other processes (10 ms of every creation).
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn join(&self) -> Result<(), CgroupError> {
        for dir in self.dirs() {
            let path = dir.join("tasks");
            fs::write(&path, "0").map_err(|source| CgroupError::Write { path, value: "0".to_owned(), source })?;
        }
        Ok(())
    }

    /// Its directory in the one hierarchy by which processes are found and killed. Any one of version 1 would do;
    /// freezer and pids exist almost everywhere.
    pub(super) fn tracking(&self) -> Option<PathBuf> {
        ["freezer", "pids", "memory", "devices"].iter().find_map(|c| self.dir(c))
    }

    /// Its processes, those of its children included.
    #[must_use]
    pub(crate) fn pids(&self) -> Vec<i32> {
        let dir = self.tracking().or_else(|| self.dirs().into_iter().next());
        let mut pids = Vec::new();
        if let Some(dir) = dir {
            collect_pids(&dir, &mut pids);
        }
        pids
    }

    /// How many of its processes the kernel killed for want of memory.
    #[must_use]
    pub(crate) fn oom_kills(&self) -> u64 {
        let file = match self.hierarchies {
            Hierarchies::V1 { .. } => "memory.oom_control",
            Hierarchies::V2 { .. } => "memory.events",
        };
        let text = self.dir("memory").and_then(|dir| fs::read_to_string(dir.join(file)).ok()).unwrap_or_default();
        text.lines().find_map(|l| l.strip_prefix("oom_kill ")).and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    }

    /// Removes it and its children in all hierarchies. Idempotent. Its processes must have ended.
    ///
    /// # Errors
    /// A process still runs in it.
    pub(crate) fn remove(&self) -> Result<(), CgroupError> {
        self.dirs().iter().try_for_each(|dir| remove_tree(dir))
    }

    /// Removes parents that are empty now, up to the first path component. Others may be using them, so nothing is
    /// an error.
    pub(crate) fn prune_parents(&self) {
        for mount in self.hierarchies.mounts() {
            let mut path = self.path.as_path();
            while let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
                if fs::remove_dir(mount.join(parent)).is_err() {
                    break;
                }
                path = parent;
            }
        }
    }
}

fn make(dir: &Path) -> Result<(), CgroupError> {
    fs::create_dir_all(dir).map_err(|source| match source.raw_os_error() {
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => CgroupError::ReadOnly { path: dir.to_owned(), source },
        _ => CgroupError::Io { action: "make", path: dir.to_owned(), source },
    })
}

/// A cpuset takes no process before its CPUs and memory nodes are set; a new one inherits its parent's.
fn make_cpuset(mount: &Path, path: &Path) -> Result<(), CgroupError> {
    let mut dir = mount.to_owned();
    for component in path.components() {
        let parent = dir.clone();
        dir.push(component);
        make(&dir)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (from, to) = (parent.join(file), dir.join(file));
            if fs::read_to_string(&to).is_ok_and(|v| !v.trim().is_empty()) {
                continue;
            }
            let read = |e| CgroupError::Io { action: "read", path: from.clone(), source: e };
            let value = fs::read_to_string(&from).map_err(read)?.trim().to_owned();
            fs::write(&to, &value).map_err(|source| CgroupError::Write { path: to, value, source })?;
        }
    }
    Ok(())
}

/// On version 2 each ancestor must pass its controllers on. One that can't (threaded, or with processes) leaves its
/// children without; the limits that need it then fail with the file's name.
fn make_delegated(mount: &Path, path: &Path, controllers: &[String]) -> Result<(), CgroupError> {
    let mut dir = mount.to_owned();
    for component in path.components() {
        for controller in controllers {
            let _ = fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        dir.push(component);
        make(&dir)?;
    }
    Ok(())
}

fn collect_pids(dir: &Path, into: &mut Vec<i32>) {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    into.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()).filter(|p| *p > 0));
    for child in children(dir) {
        collect_pids(&child, into);
    }
}

pub(super) fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

fn remove_tree(dir: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(dir) {
        Ok(()) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    for child in children(dir) {
        remove_tree(&child)?;
    }
    match fs::remove_dir(dir) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CgroupError::Io { action: "remove", path: dir.to_owned(), source }),
    }
}

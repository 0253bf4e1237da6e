//! A group of its own for each command that runs in a container, so that it can be killed with everything that it
//! started, however that has hidden.
//!
//! The group lies below the container's: on version 2 without controllers of its own, on version 1 in the one
//! hierarchy by which processes are found. Every limit is still the container's.

use std::fs;
use std::io;
use std::path::Path;

use super::{Cgroup, CgroupError, Hierarchies};

impl Cgroup<'_> {
    /// Makes the group of a command below this one, which is a container's. `false` if there is one of this name:
    /// the container's own, from before or by a program that manages groups itself.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn make_command(&self, name: &str) -> Result<bool, CgroupError> {
        let Some(dir) = self.tracking() else { return Ok(true) };
        let path = dir.join(name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(CgroupError::Io { action: "make", path, source }),
        }
    }

    /// The files by which a process gets into the group of a command, and into this group in every other hierarchy:
    /// open, for a process that will no longer see them. One with a single thread writes `0` into each.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn open_command(&self, name: &str) -> Result<Vec<fs::File>, CgroupError> {
        let tracking = self.tracking();
        let file = match self.hierarchies() {
            Hierarchies::V1 { .. } => "tasks",
            Hierarchies::V2 { .. } => "cgroup.procs",
        };
        let paths = self.dirs().into_iter().map(|dir| {
            let group = if Some(&dir) == tracking.as_ref() { dir.join(name) } else { dir };
            group.join(file)
        });
        let open = |path: std::path::PathBuf| {
            let file = fs::OpenOptions::new().write(true).open(&path);
            file.map_err(|source| CgroupError::Io { action: "open", path, source })
        };
        paths.map(open).collect()
    }

    /// Removes the group of a command. What the command left running moves up into the container's. `false` if
    /// something is still in it.
    pub(crate) fn remove_command(&self, name: &str) -> bool {
        let Some(dir) = self.tracking() else { return true };
        let path = dir.join(name);
        // A process that forks meanwhile leaves its child behind; a few turns are enough for all but a fork bomb.
        for _ in 0..4 {
            if removed(&path) {
                return true;
            }
            for pid in fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = enter(&dir.join("cgroup.procs"), pid);
            }
        }
        removed(&path)
    }

    /// Kills what is in the group of a command and removes it. `false` if something is still in it.
    pub(crate) fn kill_command(&self, name: &str) -> bool {
        let Some(dir) = self.tracking() else { return true };
        let path = dir.join(name);
        if removed(&path) {
            return true;
        }
        self.child(name).kill();
        removed(&path)
    }
}

fn enter(file: &Path, pid: &str) -> Result<(), CgroupError> {
    let failed = |source| CgroupError::Write { path: file.to_owned(), value: pid.to_owned(), source };
    fs::write(file, pid).map_err(failed)
}

fn removed(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

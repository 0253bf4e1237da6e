//! State directories of one test.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A state and a run directory of their own. On drop they are unmounted and removed, and so are the empty cgroups of an instance
/// of Minke on them.
#[derive(Debug)]
pub struct TempState {
    root: TempDir,
}

impl TempState {
    /// Makes the directories. Their paths are short, because unix sockets below them must fit 107 bytes.
    ///
    /// # Errors
    /// When the temporary directory can't be written.
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("mk-").tempdir()?;
        for name in ["state", "run", "logs"] {
            std::fs::create_dir(root.path().join(name))?;
        }
        Ok(Self { root })
    }

    /// What holds all the others.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// For `--state-dir`.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// For sockets and other things that a reboot takes away.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.path().join("run")
    }

    /// For Pod logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.path().join("logs")
    }

    /// Mount points below the root, in the order of their making.
    #[must_use]
    pub fn mounts(&self) -> Vec<PathBuf> {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        table
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .map(PathBuf::from)
            .filter(|path| path.starts_with(self.root.path()))
            .collect()
    }

    /// Processes that name the root on their command line: an agent and its shims.
    #[must_use]
    pub fn processes(&self) -> Vec<(i32, String)> {
        let root = self.root.path().display().to_string();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let of = |entry: std::fs::DirEntry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            command.contains(&root).then_some((pid, command))
        };
        entries.filter_map(of).collect()
    }

    /// What the cgroups of an instance of Minke on these directories are called.
    #[must_use]
    pub fn cgroup(&self) -> String {
        // Eight digits of the state directory's hash, as the program names it.
        let hash = Sha256::digest(self.state().as_os_str().as_bytes());
        format!("minke-{}", hex::encode(&hash[..4]))
    }

    /// The cgroups of an instance of Minke on these directories, one a hierarchy that has it. Its Pods' are below.
    #[must_use]
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let groups = hierarchies.chain([root.to_owned()]).map(|hierarchy| hierarchy.join(self.cgroup()));
        groups.filter(|group| group.is_dir()).collect()
    }
}

/// Removes a cgroup and those below it. One that still has a process stays.
fn remove_cgroup(group: &Path) {
    for below in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&below.path());
        }
    }
    if let Err(error) = std::fs::remove_dir(group) {
        eprintln!("can't remove {}: {error}", group.display());
    }
}

impl Drop for TempState {
    fn drop(&mut self) {
        for path in self.mounts().iter().rev() {
            if let Err(error) = unmount(path, UnmountFlags::DETACH) {
                eprintln!("can't unmount {}: {error}", path.display());
            }
        }
        for group in self.cgroups() {
            remove_cgroup(&group);
        }
    }
}

//! State directories of one test.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

/// A state and a run directory of their own, unmounted and removed on drop.
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
}

impl Drop for TempState {
    fn drop(&mut self) {
        for path in self.mounts().iter().rev() {
            if let Err(error) = unmount(path, UnmountFlags::DETACH) {
                eprintln!("can't unmount {}: {error}", path.display());
            }
        }
    }
}

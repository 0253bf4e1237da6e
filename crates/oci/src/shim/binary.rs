//! The agent's own executable in a sealed memory file, from which shims are started.
//!
//! Shims so survive an upgrade of the file on disk, all of them share one copy in memory, and a container that got
//! hold of a shim's `/proc/<pid>/exe` could not change it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::config::Ready;

/// First argument of a shim's process, what `ps` shows.
pub(super) const SHIM_NAME: &str = "minke-shim";

/// The sealed copy.
#[derive(Debug)]
pub(crate) struct Binary {
    file: File,
}

impl Binary {
    /// Copies the running executable.
    pub(crate) fn copy_self() -> io::Result<Self> {
        let mut own = File::open("/proc/self/exe")?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 don't know this flag, and don't need it.
        let memory = memfd_create("minke", flags | MemfdFlags::EXEC).or_else(|_| memfd_create("minke", flags))?;
        let mut file = File::from(memory);
        io::copy(&mut own, &mut file)?;
        file.seek(SeekFrom::Start(0))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
        Ok(Self { file })
    }

    /// Starts a shim for the sandbox whose `shim.json` lies in `run`, and waits until it is ready or says why not.
    /// Blocks for some milliseconds.
    pub(crate) fn start_shim(&self, run: &Path, log: File) -> io::Result<(Child, Ready)> {
        let mut child = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .arg0(SHIM_NAME)
            .arg(run)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut text = String::new();
        if let Some(out) = child.stdout.take() {
            out.take(64 * 1024).read_to_string(&mut text)?;
        }
        match serde_json::from_str(&text) {
            Ok(ready @ Ready::Ready { .. }) => Ok((child, ready)),
            Ok(failed @ Ready::Failed { .. }) => {
                child.wait()?;
                Ok((child, failed))
            }
            Err(_) => {
                let status = child.wait()?;
                let message =
                    format!("the shim ended before it was ready ({status}); its log is shim.log of the sandbox");
                Ok((child, Ready::Failed { not_permitted: false, message }))
            }
        }
    }
}

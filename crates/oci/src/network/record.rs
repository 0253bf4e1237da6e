//! What was made for which sandbox, on disk before it is made.
//!
//! One JSON file for each sandbox, replaced by renaming, so that a reader sees the old or the new one whole. Detach
//! works from it alone; the file goes last.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use minke_core::identity::PodKey;
use minke_core::runtime::{PortMapping, SandboxId};
use serde::{Deserialize, Serialize};

use super::cni::CniAttachment;
use super::error::NetworkError;
use super::ipam::Addresses;
use super::netns::NamespaceId;

/// Everything needed to undo an attach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) sandbox: SandboxId,
    pub(super) pod: PodKey,
    pub(super) netns: PathBuf,
    pub(super) netns_id: NamespaceId,
    pub(super) ports: Vec<PortMapping>,
    pub(super) network: Attached,
}

/// By what the sandbox is connected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Attached {
    /// A veth pair on the built-in bridge; the host's end is called [`link_name`].
    Bridge(Addresses),
    /// A chain of CNI plugins.
    Cni(Box<CniAttachment>),
}

/// The name of the host's end of a sandbox's veth pair: 14 bytes, of 15 that the kernel allows.
pub(super) fn link_name(sandbox: &SandboxId) -> String {
    format!("mk{}", digest(&sandbox.0, 6))
}

/// The first bytes of a text's SHA-256 as hexadecimal digits.
pub(super) fn digest(text: &str, bytes: usize) -> String {
    use sha2::Digest as _;
    hex::encode(&sha2::Sha256::digest(text.as_bytes())[..bytes])
}

/// Sandbox ids become file names.
pub(super) fn check_id(sandbox: &SandboxId) -> Result<(), NetworkError> {
    let id = &sandbox.0;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.len() > 128 || id.starts_with('.') || !id.chars().all(allowed) {
        return Err(NetworkError::BadSandboxId(id.clone()));
    }
    Ok(())
}

/// Extension of a file that is being written.
const UNFINISHED: &str = "new";

/// The directory of records.
#[derive(Debug, Clone)]
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    /// Opens the directory and sweeps what a process that was killed while it wrote has left: until it is renamed, a
    /// record describes nothing. One process at a time has the network of a state directory.
    pub(super) fn open(directory: PathBuf) -> Result<Self, NetworkError> {
        fs::create_dir_all(&directory).map_err(|e| NetworkError::state("creating", &directory, e))?;
        let failed = |e| NetworkError::state("listing", &directory, e);
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == UNFINISHED) {
                remove_file(&path)?;
            }
        }
        Ok(Self { directory })
    }

    fn path(&self, sandbox: &SandboxId) -> PathBuf {
        self.directory.join(format!("{}.json", sandbox.0))
    }

    pub(super) fn save(&self, record: &Record) -> Result<(), NetworkError> {
        write_json(&self.path(&record.sandbox), record)
    }

    /// `None` where there is none.
    pub(super) fn load(&self, sandbox: &SandboxId) -> Result<Option<Record>, NetworkError> {
        read_json(&self.path(sandbox))
    }

    /// Idempotent.
    pub(super) fn remove(&self, sandbox: &SandboxId) -> Result<(), NetworkError> {
        remove_file(&self.path(sandbox))
    }

    /// Every sandbox with a record, whole or damaged.
    pub(super) fn sandboxes(&self) -> Result<Vec<SandboxId>, NetworkError> {
        let failed = |e| NetworkError::state("listing", &self.directory, e);
        let mut sandboxes = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
                sandboxes.push(SandboxId(id.to_owned()));
            }
        }
        Ok(sandboxes)
    }
}

/// Writes a file by renaming. Not flushed to the disk: after a loss of power nothing that it describes exists.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), NetworkError> {
    let failed = |e: io::Error| NetworkError::state("writing", path, e);
    let text = serde_json::to_vec(value).map_err(|e| failed(e.into()))?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".");
    temporary.push(UNFINISHED);
    fs::write(&temporary, text).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

/// Reads a file written by [`write_json`]; `None` where there is none.
pub(super) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, NetworkError> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| NetworkError::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(NetworkError::state("reading", path, error)),
    }
}

/// Removes a file; idempotent.
pub(super) fn remove_file(path: &Path) -> Result<(), NetworkError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(NetworkError::state("removing", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", "a/b", ".hidden", "a b", &"x".repeat(129)] {
            assert!(check_id(&SandboxId(bad.to_owned())).is_err(), "{bad:?}");
        }
        assert!(check_id(&SandboxId("0f8fad5b-d9cd_1.2".to_owned())).is_ok());
    }

    #[test]
    fn link_names_fit_the_kernel_and_differ() {
        let names: std::collections::HashSet<_> = (0..1000).map(|n| link_name(&SandboxId(format!("s{n}")))).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 14));
    }

    #[test]
    fn what_a_killed_writer_left_is_swept() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Records::open(directory.path().to_owned()).unwrap();
        fs::write(directory.path().join("s1.json.new"), "{").unwrap();
        fs::write(directory.path().join("s2.json"), "{").unwrap();
        assert_eq!(open().sandboxes().unwrap(), [SandboxId("s2".to_owned())]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_empty_file_is_damaged_not_absent() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::open(directory.path().to_owned()).unwrap();
        let id = SandboxId("s1".to_owned());
        assert!(records.load(&id).unwrap().is_none());
        fs::write(directory.path().join("s1.json"), "").unwrap();
        assert!(matches!(records.load(&id), Err(NetworkError::Damaged { .. })));
        assert_eq!(records.sandboxes().unwrap(), std::slice::from_ref(&id));
        records.remove(&id).unwrap();
        records.remove(&id).unwrap();
    }
}

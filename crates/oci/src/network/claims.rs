//! Claims: who has which address or host port, as one symbolic link each.
//!
//! `symlink(2)` creates name and content in one step and fails where the name exists, so a claim is never seen half
//! written, two claimants never both succeed, and `ls -l` shows everything: `10.88.0.7 -> <sandbox id>`. Nothing is
//! flushed to the disk: after a loss of power no sandbox lives, and recovery drops every claim.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use minke_core::runtime::SandboxId;

use super::error::NetworkError;

/// A directory of claims. Callers that read before they claim hold the network's lock.
#[derive(Debug, Clone)]
pub(super) struct Claims {
    directory: PathBuf,
}

impl Claims {
    /// Uses a directory, and makes it where it does not exist.
    pub(super) fn open(directory: PathBuf) -> Result<Self, NetworkError> {
        fs::create_dir_all(&directory).map_err(|e| NetworkError::state("creating", &directory, e))?;
        Ok(Self { directory })
    }

    /// Claims a name. `Ok(false)`: somebody has it.
    pub(super) fn claim(&self, name: &str, owner: &SandboxId) -> Result<bool, NetworkError> {
        let path = self.directory.join(name);
        match rustix::fs::symlink(owner.0.as_str(), &path) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(NetworkError::state("claiming", path, error)),
        }
    }

    /// Every claim with its owner. Files that are no links are skipped: they are not ours.
    pub(super) fn list(&self) -> Result<Vec<(String, SandboxId)>, NetworkError> {
        let failed = |e| NetworkError::state("listing", &self.directory, e);
        let mut claims = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if let Some(owner) = read_link(&entry.path())? {
                claims.push((name, owner));
            }
        }
        Ok(claims)
    }

    /// Gives up everything of an owner. Idempotent.
    pub(super) fn release(&self, owner: &SandboxId) -> Result<(), NetworkError> {
        for (name, claimed_by) in self.list()? {
            if claimed_by == *owner {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), NetworkError> {
        let path = self.directory.join(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(NetworkError::state("releasing", path, error)),
        }
    }
}

/// Where a link points, `None` for what is no link or has just gone.
fn read_link(path: &Path) -> Result<Option<SandboxId>, NetworkError> {
    match fs::read_link(path) {
        Ok(target) => Ok(target.into_os_string().into_string().ok().map(SandboxId)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => Ok(None),
        Err(error) => Err(NetworkError::state("reading", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> SandboxId {
        SandboxId(name.to_owned())
    }

    #[test]
    fn a_name_has_one_owner_until_it_is_released() {
        let directory = tempfile::tempdir().unwrap();
        let claims = Claims::open(directory.path().join("ipam")).unwrap();
        assert!(claims.claim("10.88.0.2", &owner("a")).unwrap());
        assert!(!claims.claim("10.88.0.2", &owner("b")).unwrap());
        assert_eq!(claims.list().unwrap(), [("10.88.0.2".to_owned(), owner("a"))]);
        claims.release(&owner("b")).unwrap();
        assert_eq!(claims.list().unwrap().len(), 1);
        claims.release(&owner("a")).unwrap();
        claims.release(&owner("a")).unwrap();
        assert!(claims.claim("10.88.0.2", &owner("b")).unwrap());
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let claims = Claims::open(directory.path().to_owned()).unwrap();
        fs::write(directory.path().join("last"), "7").unwrap();
        assert_eq!(claims.list().unwrap(), []);
        claims.release(&owner("a")).unwrap();
        assert!(directory.path().join("last").exists());
    }
}

//! Where a certificate and its key are kept: one file that nobody else may read, replaced whole.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::ask::fits;
use super::request::Identity;

/// Why a certificate can't be kept or read.
#[derive(Debug, thiserror::Error)]
#[error("can't {what} {path}")]
pub struct StoreError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A file with one certificate. Performs short, blocking calls.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

const KEY: &str = "-----BEGIN PRIVATE KEY-----";

impl Store {
    /// The file of this name in a directory, which need not be there yet.
    #[must_use]
    pub fn new(directory: &Path, name: &str) -> Self {
        Self { path: directory.join(name) }
    }

    /// What is kept; `None`: nothing, or nothing that can be used.
    ///
    /// # Errors
    /// The file is there and can't be read.
    pub fn load(&self) -> Result<Option<Identity>, StoreError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("read", source)),
        };
        let identity = text.find(KEY).map(|at| Identity { chain: text[..at].to_owned(), key: text[at..].to_owned() });
        let identity = identity.filter(|identity| fits(&identity.chain, &identity.key));
        if identity.is_none() {
            tracing::warn!(path = %self.path.display(), "what is there is no certificate with its key, and is replaced");
        }
        Ok(identity)
    }

    /// Keeps this one from now on. Whoever reads meanwhile gets the former one or this one, whole.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn save(&self, identity: &Identity) -> Result<(), StoreError> {
        let written = || {
            if let Some(directory) = self.path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let fresh = self.path.with_extension("new");
            // One that is left of a write that was cut off may be anybody's to read.
            match std::fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            file.write_all(identity.chain.trim_end().as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(identity.key.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&fresh, &self.path)
        };
        written().map_err(|source| self.failed("write", source))
    }

    fn failed(&self, what: &'static str, source: io::Error) -> StoreError {
        StoreError { what, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::http::ServingCertificate;

    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn identity() -> Identity {
        let ServingCertificate { chain, key } = ServingCertificate::self_signed(&["n"], &[]).unwrap();
        Identity { chain, key }
    }

    #[test]
    fn what_is_kept_comes_back_and_nobody_else_reads_it() {
        let directory = Directory(std::env::temp_dir().join(format!("minke-store-{}", std::process::id())));
        let store = Store::new(&directory.0.join("pki"), "node-client.pem");
        assert_eq!(store.load().unwrap(), None);
        let (first, second) = (identity(), identity());
        for identity in [&first, &second] {
            store.save(identity).unwrap();
            assert_eq!(store.load().unwrap().as_ref(), Some(identity));
        }
        let path = directory.0.join("pki/node-client.pem");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for broken in ["", "nonsense", &first.chain, &format!("{}{}", first.chain, second.key)] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(store.load().unwrap(), None, "{broken}");
        }
    }
}

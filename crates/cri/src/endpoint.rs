//! Which socket: as given, or the first of the well-known ones that is there.

use std::fmt;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Where runtimes listen unless told otherwise, in the order in which they are looked for.
pub const WELL_KNOWN: [&str; 2] = ["/run/containerd/containerd.sock", "/run/crio/crio.sock"];

/// The socket of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    path: PathBuf,
}

/// There is no such endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Not a unix socket's address.
    #[error(
        "{text:?} is no runtime endpoint; write unix:///run/containerd/containerd.sock, or the socket's absolute path"
    )]
    Syntax {
        /// As given.
        text: String,
    },
    /// None of the well-known sockets exists.
    #[error(
        "no container runtime was found: there is no {}; start containerd or CRI-O, or give its socket with --runtime-endpoint",
        tried.join(" and no ")
    )]
    NoneFound {
        /// Where it was looked for.
        tried: Vec<String>,
    },
    /// Nothing is at the path.
    #[error("there is no {path}; is the container runtime running? --runtime-endpoint says where it listens")]
    Missing {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is at the path.
    #[error("{path} is no socket; --runtime-endpoint takes the socket where the container runtime listens")]
    NotASocket {
        /// What is there.
        path: PathBuf,
    },
    /// The path can't be looked at.
    #[error("can't look at {path}")]
    Unreadable {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Endpoint {
    /// Reads `unix:///path`, `unix:/path` or `/path`.
    ///
    /// # Errors
    /// [`EndpointError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
        if path.starts_with('/') && !path.contains('\0') {
            Ok(Self { path: PathBuf::from(path) })
        } else {
            Err(EndpointError::Syntax { text: text.to_owned() })
        }
    }

    /// The first well-known socket that is there.
    ///
    /// # Errors
    /// [`EndpointError::NoneFound`].
    pub fn find() -> Result<Self, EndpointError> {
        Self::find_among(&WELL_KNOWN.map(PathBuf::from))
    }

    fn find_among(paths: &[PathBuf]) -> Result<Self, EndpointError> {
        let is_socket = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        match paths.iter().find(is_socket) {
            Some(path) => Ok(Self { path: path.clone() }),
            None => Err(EndpointError::NoneFound { tried: paths.iter().map(|p| p.display().to_string()).collect() }),
        }
    }

    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a socket is there.
    ///
    /// # Errors
    /// What is there instead.
    pub fn check(&self) -> Result<(), EndpointError> {
        let path = self.path.clone();
        match std::fs::metadata(&path) {
            Ok(meta) if meta.file_type().is_socket() => Ok(()),
            Ok(_) => Err(EndpointError::NotASocket { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(EndpointError::Missing { path }),
            Err(source) => Err(EndpointError::Unreadable { path, source }),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn endpoints_are_read_as_the_kubelet_reads_them() {
        for text in ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.path(), Path::new("/run/x.sock"));
            assert_eq!(endpoint.to_string(), "unix:///run/x.sock");
        }
        for text in ["", "x.sock", "unix://x.sock", "tcp://127.0.0.1:1", "http://x", "unix://"] {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(error.contains("unix:///run/containerd/containerd.sock"), "{text}: {error}");
        }
    }

    #[test]
    fn the_socket_is_found_by_itself_and_what_is_no_socket_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a.sock", "b.sock"].map(|name| dir.path().join(name));
        let error = Endpoint::find_among(&[a.clone(), b.clone()]).unwrap_err().to_string();
        assert!(error.contains("a.sock and no ") && error.contains("--runtime-endpoint"), "{error}");
        std::fs::write(&a, "").unwrap();
        let _listener = UnixListener::bind(&b).unwrap();
        assert_eq!(Endpoint::find_among(&[a, b.clone()]).unwrap().path(), b);
    }

    #[test]
    fn a_path_without_a_socket_is_told_as_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: PathBuf| Endpoint { path }.check().unwrap_err();
        assert!(matches!(at(dir.path().join("none")), EndpointError::Missing { .. }));
        assert!(matches!(at(dir.path().to_owned()), EndpointError::NotASocket { .. }));
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(at(dir.path().join("file/x")), EndpointError::Unreadable { .. }));
    }
}

//! The agent's socket: for root and the agent's own user only.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A bound socket. Dropping it removes its file.
#[derive(Debug)]
pub(super) struct Listener {
    inner: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Binds under another name and moves the socket into place once it is private: nobody ever finds one that is
    /// open to others, and one that a killed agent left is replaced.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let hidden = path.with_extension(format!("{}.new", std::process::id()));
        match std::fs::remove_file(&hidden) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let inner = UnixListener::bind(&hidden)?;
        std::fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
        std::fs::rename(&hidden, path)?;
        Ok(Self { inner, path: path.to_owned() })
    }

    /// The next connection of somebody who may talk to the agent. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.inner.accept().await?;
            let peer = stream.peer_cred()?.uid();
            let own = rustix::process::geteuid().as_raw();
            if peer == 0 || peer == own {
                return Ok(stream);
            }
            tracing::warn!(peer, "refused a connection of another user");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A file that is gone already, or a directory that can't be written any more, is no reason to stay.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "can't remove the socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_private_replaces_a_stale_one_and_goes_with_its_listener() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).await.is_err(), "a stale socket refuses");

        let listener = Listener::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (client, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
        assert!(client.is_ok() && accepted.is_ok());
        drop(listener);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

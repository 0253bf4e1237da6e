//! Unix sockets at paths of any length.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket's address holds 108 bytes; by way of its directory's descriptor any path fits.
fn short(path: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket needs a directory and a name"));
    };
    let dir = File::open(parent)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    Ok((dir, short))
}

/// Listens at a path, for this user only. What is there goes first: it belongs to a dead process.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let (_dir, short) = short(path)?;
    match std::fs::remove_file(&short) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&short)?;
    rustix::fs::chmod(&short, 0o600.into())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to a path.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_dir, short) = short(path)?;
    UnixStream::connect(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_an_address_works() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("shim.sock");
        let listener = listen(&path).unwrap();
        connect(&path).unwrap();
        listener.accept().unwrap();
        drop(listener);
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        listen(&path).unwrap();
    }
}

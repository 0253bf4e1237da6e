//! The keys of one kube-apiserver: its certificate, which is its own authority, and what it signs accounts' tokens with.

use std::io;
use std::path::Path;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};

/// Writes them into a directory; gives the certificate as PEM.
pub(super) fn write(directory: &Path) -> io::Result<String> {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).map_err(io::Error::other)?;
    let certificate = cert.pem();
    std::fs::write(directory.join("server.crt"), &certificate)?;
    std::fs::write(directory.join("server.key"), signing_key.serialize_pem())?;
    let accounts = KeyPair::generate().map_err(io::Error::other)?;
    std::fs::write(directory.join("accounts.key"), accounts.serialize_pem())?;
    std::fs::write(directory.join("accounts.pub"), accounts.public_key_pem())?;
    Ok(certificate)
}

//! Connecting to a port inside a network namespace.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::NetworkError;
use super::netns::Netns;

/// Loopback answers at once, unless a listener's queue is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a port of the loopback, by IPv4, else by IPv6, that doesn't block. Dropping the call does not end it
/// before its patience does.
pub(crate) async fn dial(namespace: File, port: u16) -> Result<TcpStream, NetworkError> {
    Netns::of(namespace)?.run(move || connect(port)).await
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let stream = match TcpStream::connect_timeout(&v4, PATIENCE) {
        Ok(stream) => stream,
        // What IPv4 says is what people expect to read.
        Err(error) => TcpStream::connect_timeout(&v6, PATIENCE).map_err(|_| error)?,
    };
    stream.set_nonblocking(true)?;
    Ok(stream)
}

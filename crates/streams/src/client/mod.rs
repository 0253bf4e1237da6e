//! The other side: sessions and connections to ports from a server that speaks these protocols.

mod exec;
mod port_forward;
mod upgrade;

use std::io;

pub use exec::{exec, exec_over};
pub use port_forward::PortForward;
pub use upgrade::{dial, upgrade};

/// Why a server gave no session or connection.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address can't be used: not `http`, or without a host.
    #[error("{0} is not an address of a streaming server on this machine")]
    Address(String),
    /// It can't be reached.
    #[error("can't reach {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// What it answers is no HTTP, or the connection broke.
    #[error("the streaming server does not answer as one")]
    Http(#[source] hyper::Error),
    /// It refused the upgrade.
    #[error("the streaming server refused with {status}: {message}")]
    Refused {
        /// Its status.
        status: http::StatusCode,
        /// The beginning of what it says.
        message: String,
    },
    /// It accepted, and then a stream not, or not in time.
    #[error("the streaming server does not accept the {0} stream")]
    Stream(&'static str),
}

//! Joining the program of a running container, and reaching its Pod's ports.

use std::pin::Pin;

use async_trait::async_trait;
use futures_util::io::{AsyncRead, AsyncWrite};
use serde::{Deserialize, Serialize};

use super::{ContainerId, ExecSession, RuntimeError, SandboxId, TerminalSize};

/// Which streams of a container's program are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Its standard input as well.
    pub stdin: bool,
    /// It has a terminal.
    pub tty: bool,
    /// Its terminal becomes this large first; `None`: it stays as it is, for those who only watch.
    pub size: Option<TerminalSize>,
}

/// The streams of containers' own programs.
#[async_trait]
pub trait AttachService: Send + Sync + 'static {
    /// Joins the program of a running container: what it writes from now on, besides its log, and its standard input, if
    /// that was asked for and the container has one (`stdin`). Many may join one program. Whoever joins and does not read
    /// holds the program up once the buffers between are full.
    ///
    /// Whether the program has a terminal is the container's, and `tty` has to say the same; with one there is no standard
    /// error. The end of input reaches the program only in a container with `stdinOnce`.
    ///
    /// The session ends with the program, and its `wait` then returns 0: the container's status has the exit code.
    /// Dropping the call or the session leaves the program running. [`RuntimeError::NotFound`] without the container,
    /// [`RuntimeError::Invalid`] when it does not run.
    async fn attach(&self, id: &ContainerId, request: AttachRequest) -> Result<ExecSession, RuntimeError>;
}

/// A connection in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// Connections to ports of Pods.
#[async_trait]
pub trait PortForwardService: Send + Sync + 'static {
    /// Connects to a port on the sandbox's own loopback, by IPv4, else by IPv6; on the host's network that is the host's.
    /// That nobody listens there is an error of the call, or of the first read where a runtime tells it so late. Dropping
    /// the call gives up, dropping the connection closes it. [`RuntimeError::NotFound`] without the sandbox,
    /// [`RuntimeError::Invalid`] when it is not ready.
    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Pin<Box<dyn Duplex>>, RuntimeError>;
}

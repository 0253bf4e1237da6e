//! Running commands in containers that run.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::io::{AsyncRead, AsyncWrite};
use serde::{Deserialize, Serialize};

use super::{ContainerId, RuntimeError};

/// What a command that ran to its end returned and wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    /// What it returned; 128 + n for signal n.
    pub exit_code: i32,
    /// Its standard output, cut after [`ExecOutput::LIMIT`] bytes.
    pub stdout: Vec<u8>,
    /// Its standard error, cut likewise.
    pub stderr: Vec<u8>,
}

impl ExecOutput {
    /// Most bytes kept of each stream; what a command writes beyond is read and dropped.
    pub const LIMIT: usize = 16 * 1024;
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// A command to run with streams attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Program and arguments; no shell.
    pub command: Vec<String>,
    /// Give it standard input.
    pub stdin: bool,
    /// Give it a terminal of this size; its standard error then goes to standard output.
    pub tty: Option<TerminalSize>,
}

/// A command that runs, with its streams. Dropping it kills the command.
pub struct ExecSession {
    /// Standard input, if it was asked for; dropping or closing it is the end of input.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Standard output; with a terminal, everything.
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
    /// Standard error; `None` with a terminal.
    pub stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Its end and its terminal.
    pub control: Box<dyn ExecControl>,
}

impl fmt::Debug for ExecSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecSession").field("stdin", &self.stdin.is_some()).finish_non_exhaustive()
    }
}

/// The end of a command and its terminal.
#[async_trait]
pub trait ExecControl: Send + Sync {
    /// Changes the size of the terminal. Without a terminal it does nothing.
    async fn resize(&self, size: TerminalSize) -> Result<(), RuntimeError>;
    /// Waits for the end; the exit code, 128 + n for signal n. Cancel-safe, and may be asked again.
    async fn wait(&self) -> Result<i32, RuntimeError>;
}

/// Commands in containers. They get the container's namespaces, cgroup, user, capabilities and seccomp filter: a
/// command can do nothing that the container's own program could not.
#[async_trait]
pub trait ExecService: Send + Sync + 'static {
    /// Runs a command to its end. The command is killed when `timeout` is over ([`RuntimeError::TimedOut`]) and when
    /// the call is dropped, with everything that it started. What it left running when it ended by itself goes on, as
    /// upstream. [`RuntimeError::NotFound`] without the container, [`RuntimeError::Invalid`] when that does not run,
    /// [`RuntimeError::NotExecutable`] when it has no such program.
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError>;
    /// Starts a command with streams. Errors as [`ExecService::exec_sync`].
    async fn exec(&self, id: &ContainerId, request: &ExecRequest) -> Result<ExecSession, RuntimeError>;
}

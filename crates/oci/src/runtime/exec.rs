//! Commands in running containers.
//!
//! Output and input are pipes, or the other side of a terminal, between this process and the command itself; the shim
//! only starts it and tells of its end. The connection to the shim is the command's life: whoever drops a call or a
//! session, and whatever kills this process, closes it.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::AsyncReadExt;
use minke_core::runtime::{
    ContainerId, ExecControl, ExecOutput, ExecRequest, ExecService, ExecSession, Operation, RuntimeError, TerminalSize,
};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::watch;

use super::embedded::Inner;
use super::exec_streams::{Input, Output};
use super::state::{Container, Life};
use super::{EmbeddedRuntime, error};
use crate::shim::protocol::{ExecCall, RefusalKind};
use crate::shim::{ClientError, ExecConnection};

const EXEC: &str = "exec";
const EXEC_SYNC: &str = "exec sync";

/// How a command ended; `None` while it runs. An error is kept as the words that every asker gets.
type End = Option<Result<i32, String>>;

#[async_trait]
impl ExecService for EmbeddedRuntime {
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let request = ExecRequest { command: command.to_vec(), stdin: false, tty: None };
        let run = async {
            let mut session = self.start_command(EXEC_SYNC, id, &request).await?;
            let stderr = session.stderr.take();
            let read_error = async {
                match stderr {
                    Some(stream) => kept(stream).await,
                    None => Vec::new(),
                }
            };
            let (stdout, stderr, exit_code) = tokio::join!(kept(session.stdout), read_error, session.control.wait());
            Ok(ExecOutput { exit_code: exit_code?, stdout, stderr })
        };
        match timeout {
            None => run.await,
            Some(after) => tokio::time::timeout(after, run)
                .await
                .unwrap_or(Err(RuntimeError::TimedOut { operation: EXEC_SYNC, after })),
        }
    }

    async fn exec(&self, id: &ContainerId, request: &ExecRequest) -> Result<ExecSession, RuntimeError> {
        self.start_command(EXEC, id, request).await
    }
}

/// Reads a stream to its end and keeps its beginning.
async fn kept(mut stream: std::pin::Pin<Box<dyn futures_util::AsyncRead + Send>>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return kept,
            Ok(n) => kept.extend_from_slice(&buffer[..n.min(ExecOutput::LIMIT - kept.len())]),
        }
    }
}

impl Inner {
    /// A container that runs, and the socket of its shim.
    pub(super) fn running(
        &self,
        operation: Operation,
        id: &ContainerId,
    ) -> Result<(Arc<Container>, PathBuf), RuntimeError> {
        let container = self.container(id).ok_or_else(|| RuntimeError::NotFound {
            operation,
            what: "container",
            id: id.0.clone(),
        })?;
        let not_running = |state: &str| {
            let message = format!("container {id} is not running: it is in state {state}");
            RuntimeError::Invalid { operation, message }
        };
        match &*container.life.borrow() {
            Life::Running(_) => {}
            Life::Creating | Life::Created => return Err(not_running("CONTAINER_CREATED")),
            Life::Exited(_) => return Err(not_running("CONTAINER_EXITED")),
        }
        let sandbox = self.sandbox(&container.record.sandbox).filter(|s| s.client().is_some());
        let sandbox = sandbox.ok_or_else(|| not_running("CONTAINER_EXITED"))?;
        Ok((container, sandbox.dir.run().join("shim.sock")))
    }
}

impl EmbeddedRuntime {
    async fn start_command(
        &self,
        operation: Operation,
        id: &ContainerId,
        request: &ExecRequest,
    ) -> Result<ExecSession, RuntimeError> {
        let invalid = |message: String| RuntimeError::Invalid { operation, message };
        if request.command.is_empty() {
            return Err(invalid("no command specified".to_owned()));
        }
        let (_, socket) = self.inner.running(operation, id)?;
        let call = ExecCall {
            container: id.clone(),
            command: request.command.clone(),
            stdin: request.stdin && request.tty.is_none(),
            tty: request.tty,
        };
        let failed = |what: &'static str| error::step::<rustix::io::Errno>(operation, what);
        let refused = |e: ClientError| refused(operation, e);
        let (ended, end) = watch::channel(None);

        let session = if request.tty.is_some() {
            let (ours, theirs) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            )
            .map_err(failed("make a socket for the terminal"))?;
            let connection = ExecConnection::start(&socket, call, &[theirs.as_fd()]).await.map_err(refused)?;
            let terminal = receive(&ours).and_then(|terminal| terminal.ok_or(rustix::io::Errno::BADF));
            let terminal = terminal.map_err(failed("receive the terminal"))?;
            let stdin = if request.stdin { Some(Input::new(&terminal)) } else { None };
            (connection, stdin, Output::new(&terminal, end.clone()), None, Some(terminal))
        } else {
            let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"));
            let ((out, their_out), (err, their_err)) = (pipe()?, pipe()?);
            let stdin = if request.stdin { Some(pipe()?) } else { None };
            let mut streams = vec![their_out.as_fd(), their_err.as_fd()];
            streams.extend(stdin.iter().map(|(theirs, _)| theirs.as_fd()));
            let connection = ExecConnection::start(&socket, call, &streams).await.map_err(refused)?;
            let stdin = stdin.map(|(_, ours)| Input::new(&ours));
            let stdout = Output::new(&out, end.clone());
            (connection, stdin, stdout, Some(Output::new(&err, end.clone())), None)
        };
        let (mut connection, stdin, stdout, stderr, terminal) = session;
        let watcher = tokio::spawn(async move {
            let code = connection.ended().await.map_err(|e| minke_core::runtime::error_chain(&e));
            ended.send_replace(Some(code));
        });
        let made = |stream: std::io::Result<Output>| stream.map_err(error::step(operation, "read from the command"));
        Ok(ExecSession {
            stdin: match stdin.transpose().map_err(error::step(operation, "write to the command"))? {
                Some(stdin) => Some(Box::pin(stdin)),
                None => None,
            },
            stdout: Box::pin(made(stdout)?),
            stderr: match stderr {
                Some(stderr) => Some(Box::pin(made(stderr)?)),
                None => None,
            },
            control: Box::new(Control { operation, end, terminal, watcher }),
        })
    }
}

pub(super) fn refused(operation: Operation, error: ClientError) -> RuntimeError {
    let ClientError::Refused(refusal) = error else { return error::shim(operation, error) };
    let exit_code = match refusal.kind {
        RefusalKind::NoProgram => 127,
        RefusalKind::NotExecutable => 126,
        RefusalKind::NotFound | RefusalKind::State => {
            return RuntimeError::Invalid { operation, message: refusal.message };
        }
        RefusalKind::Exists | RefusalKind::Invalid | RefusalKind::NotPermitted | RefusalKind::Failed => {
            return error::shim(operation, ClientError::Refused(refusal));
        }
    };
    RuntimeError::NotExecutable { operation, exit_code, message: refusal.message }
}

/// The descriptor that was sent: the terminal of a command before its program runs, or nothing.
pub(super) fn receive(socket: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    }))
}

/// Changes the size of a session's terminal, where it has one.
pub(super) fn resize(operation: Operation, terminal: Option<&OwnedFd>, size: TerminalSize) -> Result<(), RuntimeError> {
    let Some(terminal) = terminal else { return Ok(()) };
    let size = rustix::termios::Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, size).map_err(error::step(operation, "change the size of the terminal"))
}

/// A command's end and its terminal.
#[derive(Debug)]
struct Control {
    operation: Operation,
    end: watch::Receiver<End>,
    terminal: Option<OwnedFd>,
    /// Holds the connection. Aborting it closes that, which kills the command.
    watcher: tokio::task::JoinHandle<()>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

#[async_trait]
impl ExecControl for Control {
    async fn resize(&self, size: TerminalSize) -> Result<(), RuntimeError> {
        resize(self.operation, self.terminal.as_ref(), size)
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match ended {
            Some(Ok(code)) => Ok(code),
            Some(Err(words)) => Err(RuntimeError::Unavailable { operation: self.operation, source: words.into() }),
            None => {
                let source = "nobody waits for the command any more".into();
                Err(RuntimeError::Unavailable { operation: self.operation, source })
            }
        }
    }
}

//! Joining running containers, and reaching their Pods' ports.
//!
//! The shim hands over where a container's input goes, and writes its output to pipes besides the log: see `shim::attach`.
//! A port is dialled on a thread of its own inside the Pod's network namespace, which the shim hands over as well.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_util::io::AsyncWrite;
use minke_core::runtime::{
    AttachRequest, AttachService, ContainerId, Duplex, ExecControl, ExecSession, Operation, PortForwardService,
    RuntimeError, SandboxId, TerminalSize,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::{mpsc, watch};
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::exec::{receive, refused, resize};
use super::exec_streams::{Input, Output};
use super::state::{Container, Life};
use super::{EmbeddedRuntime, error};
use crate::shim::ExecConnection;
use crate::shim::protocol::AttachCall;

const ATTACH: &str = "attach";
const CONNECT: &str = "connect";

#[async_trait]
impl AttachService for EmbeddedRuntime {
    async fn attach(&self, id: &ContainerId, request: AttachRequest) -> Result<ExecSession, RuntimeError> {
        let (container, socket) = self.inner.running(ATTACH, id)?;
        let record = &container.record;
        let call = AttachCall { container: id.clone(), stdin: request.stdin && record.stdin, once: record.stdin_once };
        let failed = |what: &'static str| error::step::<rustix::io::Errno>(ATTACH, what);
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"));
        let (handover, theirs) = pair().map_err(failed("make a socket"))?;
        let (out, their_out) = pipe()?;
        let err = if record.tty { None } else { Some(pipe()?) };
        let mut streams = vec![theirs.as_fd(), their_out.as_fd()];
        streams.extend(err.iter().map(|(_, theirs)| theirs.as_fd()));
        let connection = ExecConnection::attach(&socket, call.clone(), &streams).await;
        let mut connection = connection.map_err(|e| refused(ATTACH, e))?;
        // The shim has copies; with these open the ends would never come.
        drop((theirs, their_out));
        let err = err.map(|(ours, _theirs)| ours);
        let input = receive(&handover).map_err(failed("receive the container's input"))?;

        let (gone, over) = watch::channel(None::<Parted>);
        let (end_input, mut ended_input) = mpsc::channel(1);
        let stdin = match input.as_ref().filter(|_| call.stdin) {
            Some(fd) => Some(StdinOf { input: made(Input::new(fd))?, end: end_input }),
            None => None,
        };
        let stdout = made(Output::new(&out, over.clone()))?;
        let stderr = match err {
            Some(err) => Some(made(Output::new(&err, over.clone()))?),
            None => None,
        };
        let watcher = tokio::spawn(async move {
            let words = tokio::select! {
                words = connection.gone() => words,
                Some(()) = ended_input.recv() => match connection.end_input().await {
                    Ok(()) => connection.gone().await,
                    Err(_) => None,
                },
            };
            gone.send_replace(Some(words.map_or(Parted::Gone, Parted::LetGo)));
        });
        let terminal = input.filter(|_| record.tty);
        let control = Control { terminal, container, over, watcher };
        if let Some(size) = request.size {
            control.resize(size).await?;
        }
        Ok(ExecSession {
            stdin: stdin.map(|stdin| Box::pin(stdin) as _),
            stdout: Box::pin(stdout),
            stderr: stderr.map(|stderr| Box::pin(stderr) as _),
            control: Box::new(control),
        })
    }
}

fn made<T>(stream: io::Result<T>) -> Result<T, RuntimeError> {
    stream.map_err(error::step(ATTACH, "use the container's streams"))
}

fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The container's input. Its end is told to the shim, which holds another copy.
struct StdinOf {
    input: Input,
    end: mpsc::Sender<()>,
}

impl AsyncWrite for StdinOf {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(Pin::new(&mut self.input).poll_close(context))?;
        self.tell_end();
        Poll::Ready(Ok(()))
    }
}

impl StdinOf {
    fn tell_end(&self) {
        // Once is enough: where there is no room, it was told.
        let _ = self.end.try_send(());
    }
}

impl Drop for StdinOf {
    fn drop(&mut self) {
        self.tell_end();
    }
}

/// How a visit ended from the other side.
#[derive(Debug, Clone)]
enum Parted {
    /// The shim is gone.
    Gone,
    /// It waits no longer for who takes nothing, and says so.
    LetGo(String),
}

/// The program's end and its terminal. Dropping it leaves.
struct Control {
    terminal: Option<OwnedFd>,
    container: Arc<Container>,
    over: watch::Receiver<Option<Parted>>,
    /// Holds the connection.
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
        resize(ATTACH, self.terminal.as_ref(), size)
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        let (mut life, mut over) = (self.container.life.subscribe(), self.over.clone());
        let let_go = async {
            let parted =
                over.wait_for(|parted| matches!(parted, Some(Parted::LetGo(_)))).await.ok().and_then(|p| p.clone());
            match parted {
                Some(Parted::LetGo(words)) => words,
                Some(Parted::Gone) | None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = life.wait_for(|life| matches!(life, Life::Exited(_))) => Ok(0),
            words = let_go => Err(RuntimeError::failed(ATTACH, words)),
        }
    }
}

#[async_trait]
impl PortForwardService for EmbeddedRuntime {
    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Pin<Box<dyn Duplex>>, RuntimeError> {
        let sandbox = self.inner.sandbox(id);
        let sandbox =
            sandbox.ok_or_else(|| RuntimeError::NotFound { operation: CONNECT, what: "sandbox", id: id.0.clone() })?;
        if sandbox.client().is_none() {
            let message = format!("sandbox {id} is not ready, so nobody listens on port {port}");
            return Err(RuntimeError::Invalid { operation: CONNECT, message });
        }
        let namespace = network_of(CONNECT, &sandbox.dir.run().join("shim.sock")).await?;
        let stream = crate::network::dial(namespace, port).await;
        let stream = stream.map_err(error::step(CONNECT, format!("connect to port {port} inside the pod")))?;
        let stream = tokio::net::TcpStream::from_std(stream).map_err(error::step(CONNECT, "use the connection"))?;
        Ok(Box::pin(stream.compat()))
    }
}

/// The Pod's network namespace, from its shim.
async fn network_of(operation: Operation, socket: &std::path::Path) -> Result<File, RuntimeError> {
    let failed = |what: &'static str| error::step::<rustix::io::Errno>(operation, what);
    let (handover, theirs) = pair().map_err(failed("make a socket"))?;
    ExecConnection::network(socket, &[theirs.as_fd()]).await.map_err(|e| error::shim(operation, e))?;
    let namespace = receive(&handover).map_err(failed("receive the network namespace"))?;
    let namespace = namespace.ok_or(rustix::io::Errno::BADF).map_err(failed("receive the network namespace"))?;
    Ok(File::from(namespace))
}

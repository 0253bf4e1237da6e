//! Joining programs and reaching ports of the fake runtime: programs write nothing, and every port echoes.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::io::{AsyncRead, AsyncWrite, Cursor, sink};
use futures_util::stream::once;

use super::calls::Op;
use super::runtime::FakeRuntime;
use super::world::{Container, World};
use crate::runtime::{
    AttachRequest, AttachService, ContainerId, Duplex, ExecControl, ExecSession, PortForwardService, RuntimeError,
    SandboxId, SandboxState, TerminalSize,
};

fn runs(world: &World, id: &ContainerId) -> bool {
    world.containers.get(id).is_some_and(Container::is_live)
}

#[async_trait]
impl AttachService for FakeRuntime {
    async fn attach(&self, id: &ContainerId, request: AttachRequest) -> Result<ExecSession, RuntimeError> {
        let call = self.container_call(Op::Attach, id, 0);
        let operation = Op::Attach.name();
        let join = |world: &mut World, _| {
            let container = world.containers.get(id);
            let container =
                container.ok_or_else(|| RuntimeError::NotFound { operation, what: "container", id: id.0.clone() })?;
            if !container.state.is_running() {
                let message = format!("container {} does not run", container.config.name);
                return Err(RuntimeError::Invalid { operation, message });
            }
            Ok((container.config.stdin, container.config.tty))
        };
        let (stdin, tty) = self.call(call, |e, c| e.runtime(c), join).await?;
        let ended = Ended { runtime: self.clone(), id: id.clone() };
        let over = ended.clone();
        let output = once(async move {
            over.wait().await?;
            Ok::<_, RuntimeError>(Vec::new())
        });
        Ok(ExecSession {
            stdin: (request.stdin && stdin).then(|| Box::pin(sink()) as _),
            stdout: Box::pin(Box::pin(output).map_err(io::Error::other).into_async_read()),
            stderr: (!tty).then(|| Box::pin(Cursor::new(Vec::new())) as _),
            control: Box::new(ended),
        })
    }
}

/// The end of a program that was joined.
#[derive(Clone)]
struct Ended {
    runtime: FakeRuntime,
    id: ContainerId,
}

#[async_trait]
impl ExecControl for Ended {
    async fn resize(&self, _size: TerminalSize) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        self.runtime.until(|world| !runs(world, &self.id)).await;
        Ok(0)
    }
}

#[async_trait]
impl PortForwardService for FakeRuntime {
    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Pin<Box<dyn Duplex>>, RuntimeError> {
        let call = self.sandbox_call(Op::Connect, id);
        let operation = Op::Connect.name();
        let reach = |world: &mut World, _| match world.sandboxes.get(id).map(|s| s.state) {
            None => Err(RuntimeError::NotFound { operation, what: "sandbox", id: id.0.clone() }),
            Some(SandboxState::Ready) => Ok(()),
            Some(SandboxState::NotReady) => {
                let message = format!("sandbox {id} is not ready, so nobody listens on port {port}");
                Err(RuntimeError::Invalid { operation, message })
            }
        };
        self.call(call, |e, c| e.runtime(c), reach).await?;
        Ok(Box::pin(Echo::default()))
    }
}

/// What is written can be read, until it is closed.
#[derive(Default)]
struct Echo {
    bytes: VecDeque<u8>,
    closed: bool,
    waits: Option<Waker>,
}

impl Echo {
    const MOST: usize = 64 << 10;

    fn changed(&mut self) {
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }

    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        self.waits = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncRead for Echo {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.bytes.is_empty() && !this.closed {
            return this.wait(context);
        }
        let read = io::Read::read(&mut this.bytes, buffer);
        this.changed();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Echo {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = Self::MOST - this.bytes.len();
        if room == 0 {
            return this.wait(context);
        }
        let taken = &buffer[..buffer.len().min(room)];
        this.bytes.extend(taken);
        this.changed();
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.closed = true;
        this.changed();
        Poll::Ready(Ok(()))
    }
}

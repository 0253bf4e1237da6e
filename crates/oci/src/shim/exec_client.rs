//! Commands in containers, on the agent's side: a connection for each.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use super::client::ClientError;
use super::protocol::{AttachCall, Call, ExecCall, Message, Reply, Request, decode, encode};

/// The descriptors that a command gets: a socket for its terminal, or its output, error and input.
pub(crate) type ExecStreams<'a> = &'a [BorrowedFd<'a>];

/// A command that runs. Dropping it kills the command.
#[derive(Debug)]
pub(crate) struct ExecConnection {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl ExecConnection {
    /// Starts a command; returns when its program runs. Dropped while it waits, the command is killed.
    pub(crate) async fn start(socket: &Path, call: ExecCall, streams: ExecStreams<'_>) -> Result<Self, ClientError> {
        let mut connection = Self::open(socket, Request::Exec(Box::new(call)), streams).await?;
        match connection.answer().await? {
            Reply::ExecStarted => Ok(connection),
            _ => Err(ClientError::Gone(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Connects and asks, with descriptors.
    async fn open(socket: &Path, request: Request, streams: ExecStreams<'_>) -> Result<Self, ClientError> {
        let frame = encode(&Call { number: 0, request }).map_err(ClientError::Frame)?;
        let stream = super::connect(socket).and_then(|s| s.set_nonblocking(true).map(|()| s));
        let mut stream = stream.and_then(UnixStream::from_std).map_err(ClientError::Gone)?;
        let sent = stream.async_io(Interest::WRITABLE, || send(&stream, &frame, streams)).await;
        let sent = sent.map_err(ClientError::Gone)?;
        stream.write_all(&frame[sent..]).await.map_err(ClientError::Gone)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Joins a running container: the descriptors are the socket that takes its input, and where its output goes. The
    /// connection is the visit's life.
    pub(crate) async fn attach(socket: &Path, call: AttachCall, streams: ExecStreams<'_>) -> Result<Self, ClientError> {
        let mut connection = Self::open(socket, Request::Attach(call), streams).await?;
        match connection.answer().await? {
            Reply::Done => Ok(connection),
            _ => Err(ClientError::Gone(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Asks for the Pod's network namespace, which is sent to this socket.
    pub(crate) async fn network(socket: &Path, streams: ExecStreams<'_>) -> Result<(), ClientError> {
        match Self::open(socket, Request::Network, streams).await?.answer().await? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::Gone(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Tells that no more input comes.
    pub(crate) async fn end_input(&mut self) -> Result<(), ClientError> {
        let frame = encode(&Call { number: 1, request: Request::EndInput }).map_err(ClientError::Frame)?;
        self.stream.write_all(&frame).await.map_err(ClientError::Gone)
    }

    /// Waits until the shim is gone, or lets this visit go: then with its words. Cancel-safe.
    pub(crate) async fn gone(&mut self) -> Option<String> {
        loop {
            match self.answer().await {
                Ok(_) => {}
                Err(ClientError::Refused(refusal)) => return Some(refusal.message),
                Err(_) => return None,
            }
        }
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Result<i32, ClientError> {
        match self.answer().await? {
            Reply::ExecEnded { code } => Ok(code),
            _ => Err(ClientError::Gone(io::ErrorKind::InvalidData.into())),
        }
    }

    /// The next answer. Cancel-safe.
    async fn answer(&mut self) -> Result<Reply, ClientError> {
        loop {
            match decode::<Message>(&mut self.buffer) {
                Ok(Some(Message::Reply { result, .. })) => return result.map_err(ClientError::Refused),
                Ok(Some(Message::Push(_))) => {}
                Ok(None) => match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) => return Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(e) => return Err(ClientError::Gone(e)),
                },
                Err(e) => return Err(ClientError::Frame(e)),
            }
        }
    }
}

/// Sends the beginning of a frame with the descriptors.
fn send(stream: &UnixStream, frame: &[u8], streams: ExecStreams<'_>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(streams)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(stream, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL)?)
}

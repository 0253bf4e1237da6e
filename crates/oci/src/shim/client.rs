//! A shim, on the agent's side: calls with answers, and pushes.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::protocol::{Call, FrameError, Message, Push, Refusal, Reply, Request, VERSION, decode, encode};

/// A call that had no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The shim refuses.
    #[error(transparent)]
    Refused(Refusal),
    /// The shim is gone, or its socket is not there.
    #[error("the shim does not answer")]
    Gone(#[source] io::Error),
    /// It speaks another version.
    #[error("the shim speaks version {version} of the protocol, this agent version {VERSION}")]
    Version {
        /// Its version.
        version: u32,
    },
    /// The request is too long.
    #[error("can't send the request")]
    Frame(#[source] FrameError),
}

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<Reply, Refusal>>>>>>;

/// A connected shim. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    writer: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Waiting,
    next: Arc<std::sync::atomic::AtomicU64>,
}

/// What [`Client::connect`] gives: the client, and the pushes, which end when the shim is gone.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) pushes: mpsc::UnboundedReceiver<Push>,
}

impl Client {
    /// Connects and subscribes.
    pub(crate) async fn connect(socket: &Path) -> Result<Connection, ClientError> {
        let stream = super::connect(socket).and_then(|s| s.set_nonblocking(true).map(|()| s));
        let stream = stream.and_then(UnixStream::from_std).map_err(ClientError::Gone)?;
        let (read, write) = stream.into_split();
        let (writer, frames) = mpsc::unbounded_channel();
        let (push_sender, pushes) = mpsc::unbounded_channel();
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(send(write, frames));
        tokio::spawn(receive(read, Arc::clone(&waiting), push_sender));
        let client = Self { writer, waiting, next: Arc::default() };
        match client.call(Request::Hello).await? {
            Reply::Hello { version: VERSION } => {}
            Reply::Hello { version } => return Err(ClientError::Version { version }),
            _ => return Err(ClientError::Gone(io::ErrorKind::InvalidData.into())),
        }
        client.call(Request::Subscribe).await?;
        Ok(Connection { client, pushes })
    }

    /// Asks and waits for the answer. Dropped while it waits, the request is carried out all the same.
    pub(crate) async fn call(&self, request: Request) -> Result<Reply, ClientError> {
        let gone = || ClientError::Gone(io::ErrorKind::BrokenPipe.into());
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let frame = encode(&Call { number, request }).map_err(ClientError::Frame)?;
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut().ok_or_else(gone)?.insert(number, sender);
        self.writer.send(frame).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(ClientError::Refused)
    }
}

async fn send(mut stream: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if stream.write_all(&frame).await.is_err() {
            break;
        }
    }
}

async fn receive(mut stream: OwnedReadHalf, waiting: Waiting, pushes: mpsc::UnboundedSender<Push>) {
    let mut buffer = Vec::new();
    'read: loop {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        loop {
            match decode::<Message>(&mut buffer) {
                Ok(Some(Message::Reply { number, result })) => {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(sender) = waiting.as_mut().and_then(|w| w.remove(&number)) {
                        let _ = sender.send(result);
                    }
                }
                Ok(Some(Message::Push(push))) => {
                    let _ = pushes.send(push);
                }
                Ok(None) => break,
                Err(_) => break 'read,
            }
        }
        if buffer.is_empty() {
            buffer = Vec::new();
        }
    }
    // Dropping the senders wakes everybody who waits; no new calls are taken.
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}

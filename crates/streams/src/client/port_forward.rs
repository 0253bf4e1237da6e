//! Connections to ports, over SPDY.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use minke_core::provider::Duplex;
use tokio::io::{AsyncRead as TokioRead, AsyncWrite as TokioWrite};
use tokio::time::Sleep;

use super::{ClientError, dial};
use crate::error::Failure;
use crate::mux::{StreamReader, StreamWriter};
use crate::negotiate::PORT_FORWARD;
use crate::port_forward::Connect;
use crate::spdy::{Connection, Headers, Side};

const PATIENCE: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
/// So long a server may take to say why a port has ended.
const WORDS: Duration = Duration::from_secs(2);
/// Most that is kept of what a server says about a failure.
const MOST_WORDS: usize = 4 << 10;

/// One connection to a server that carries many to ports. It is closed when it and all of those are dropped.
#[derive(Debug)]
pub struct PortForward {
    connection: Arc<Connection>,
    requests: AtomicU32,
}

impl PortForward {
    /// At an `http` address on this machine: the address alone says which Pod it is.
    ///
    /// # Errors
    /// Nobody is there, or the server refuses.
    pub async fn open(address: &str) -> Result<Self, ClientError> {
        Ok(Self::over(dial(address, PORT_FORWARD).await?))
    }

    /// On a connection that is upgraded to SPDY.
    pub fn over<IO>(io: IO) -> Self
    where
        IO: TokioRead + TokioWrite + Send + 'static,
    {
        let connection = Arc::new(Connection::new(io, Side::Client, IDLE));
        Self { connection, requests: AtomicU32::new(0) }
    }

    /// A connection to a port. That nobody listens there is seen by reading: the server's words come as the error.
    ///
    /// # Errors
    /// The server does not accept the streams.
    pub async fn connect(&self, port: u16) -> Result<Pin<Box<dyn Duplex>>, ClientError> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed).to_string();
        let open = async |kind: &'static str| {
            let headers =
                Headers::default().with("streamType", kind).with("port", port.to_string()).with("requestID", &*request);
            match tokio::time::timeout(PATIENCE, self.connection.open(headers)).await {
                Ok(Some(halves)) => Ok(halves),
                Ok(None) | Err(_) => Err(ClientError::Stream(kind)),
            }
        };
        let (error, mut error_writer) = open("error").await?;
        let _ = error_writer.close().await;
        let (data, writer) = open("data").await?;
        let said = Said { error, words: Vec::new(), patience: None };
        Ok(Box::pin(Forwarded { data, writer, heard: false, said, _connection: self.connection.clone() }))
    }
}

#[async_trait]
impl Connect for PortForward {
    async fn connect(&self, port: u16) -> Result<Pin<Box<dyn Duplex>>, Failure> {
        PortForward::connect(self, port).await.map_err(|e| Failure::new(minke_core::runtime::error_chain(&e)))
    }
}

/// A connection to a port.
#[derive(Debug)]
struct Forwarded {
    data: StreamReader,
    writer: StreamWriter,
    /// Whether the port has said anything: then it was reached.
    heard: bool,
    said: Said,
    _connection: Arc<Connection>,
}

/// What the server says about a failure.
#[derive(Debug)]
struct Said {
    error: StreamReader,
    words: Vec<u8>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Said {
    /// What is said of a port whose data has ended. Some servers (containerd to 1.7) end that first and say a moment later
    /// why the port was not reached; they get a bounded time for it where nothing was heard of the port.
    fn failure(&mut self, heard: bool, context: &mut Context<'_>) -> Poll<Option<io::Error>> {
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(WORDS)));
        let late = heard || patience.as_mut().poll(context).is_ready();
        let mut buffer = [0; 512];
        loop {
            match Pin::new(&mut self.error).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(n @ 1..)) => {
                    if self.words.len() < MOST_WORDS {
                        self.words.extend_from_slice(&buffer[..n]);
                    }
                }
                Poll::Pending if !late => return Poll::Pending,
                Poll::Pending | Poll::Ready(_) => break,
            }
        }
        let failure = || io::Error::other(String::from_utf8_lossy(&self.words).into_owned());
        Poll::Ready((!self.words.is_empty()).then(failure))
    }
}

impl AsyncRead for Forwarded {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.data).poll_read(context, buffer) {
            Poll::Ready(end @ (Ok(0) | Err(_))) if !buffer.is_empty() => {
                this.said.failure(this.heard, context).map(|failure| failure.map_or(end, Err))
            }
            other => {
                this.heard |= matches!(other, Poll::Ready(Ok(1..)));
                other
            }
        }
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write(context, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_close(context)
    }
}

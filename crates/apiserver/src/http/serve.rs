//! Connections: as many as there is room for, over TLS, each with the identity that its certificate gives it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::handle::{Context, handle};
use super::pods::NodeClient;
use crate::access::{Tokens, identity_of};
use crate::engine::Engine;

/// What clients may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time; who comes then waits to be accepted.
    pub connections: usize,
    /// Watches at one time; more are told to come later.
    pub watches: usize,
    /// Streams to nodes at one time (commands, attached programs, forwarded ports); more are told to come later.
    pub streams: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// How long a handshake, the head or the body of a request may take to arrive.
    pub patience: Duration,
}

impl Default for Limits {
    /// Upstream's 3 MiB a body; thousands of watches cost little here.
    fn default() -> Self {
        Self { connections: 4096, watches: 8192, streams: 4096, body: 3 << 20, patience: Duration::from_secs(30) }
    }
}

/// Why the server can't listen.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}")]
pub struct ServeError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    context: Arc<Context>,
    limits: Limits,
}

/// Streams of one HTTP/2 connection at a time: informers of every kind in one client.
const STREAMS: u32 = 256;
/// Accepting fails when file descriptors are used up; then it waits a little.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address is taken or not this machine's.
    pub async fn bind(address: SocketAddr, engine: Engine, tokens: Tokens, limits: Limits) -> Result<Self, ServeError> {
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError { address, source })?;
        let address = listener.local_addr().map_err(|source| ServeError { address, source })?;
        let context = Arc::new(Context::new(engine, tokens, limits, address));
        Ok(Self { listener, context, limits })
    }

    /// Asks nodes for their Pods' output, commands and ports by this client. Without it such requests fail.
    #[must_use]
    pub fn reaching(mut self, nodes: NodeClient) -> Self {
        // Nobody else has it before it runs.
        if let Some(context) = Arc::get_mut(&mut self.context) {
            context.reach(nodes);
        }
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.context.address
    }

    /// Serves until the future is dropped; then every connection ends.
    pub async fn run(self, tls: ServerConfig) {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let room = Arc::new(Semaphore::new(self.limits.connections));
        // Dropped with this future, and every connection with it.
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let (acceptor, context, limits) = (acceptor.clone(), self.context.clone(), self.limits);
            connections.spawn(async move {
                connection(stream, &acceptor, context, limits).await;
                drop(permit);
            });
        }
    }
}

async fn connection(stream: TcpStream, acceptor: &TlsAcceptor, context: Arc<Context>, limits: Limits) {
    // Small answers must not wait for more.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(Ok(stream)) = tokio::time::timeout(limits.patience, acceptor.accept(stream)).await else { return };
    let session = stream.get_ref().1;
    let identity = session
        .peer_certificates()
        .and_then(|chain| chain.first())
        .and_then(identity_of)
        .map(|identity| Arc::new(identity.authenticated()));
    let h2 = session.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| handle(context.clone(), identity.clone(), request));
    let io = TokioIo::new(stream);
    let ended = if h2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(64 << 10)
            .keep_alive_interval(Some(limits.patience))
            .serve_connection(io, service)
            .await
    } else {
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.patience)
            .max_buf_size(64 << 10)
            .serve_connection(io, service)
            .with_upgrades()
            .await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

//! Connections: as many as there is room for, over TLS, each with whom its certificate names.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use minke_core::clock::Clock;
use minke_core::provider::Provider;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::auth::{Guard, Reviews, of_certificate};
use super::handle::{Context, handle};
use super::source::{NodeFacts, PodSource};

/// What clients may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time, streams not counted; who comes then waits to be accepted.
    pub connections: usize,
    /// Streams at one time: commands, attached programs, forwarded ports. More are told to come later.
    pub streams: usize,
    /// How long a handshake or the head of a request may take to arrive.
    pub patience: Duration,
    /// How long streams may be idle, and take to be opened.
    pub stream: minke_streams::Limits,
}

impl Default for Limits {
    /// Upstream's time-outs: 30 s for heads, 4 h of idling, 30 s to open streams.
    fn default() -> Self {
        let stream = minke_streams::Limits::default();
        Self { connections: 1024, streams: 4096, patience: Duration::from_secs(30), stream }
    }
}

/// What is served, and to whom.
pub struct NodeApi {
    /// The node's name.
    pub node: String,
    /// Who runs its Pods.
    pub provider: Arc<dyn Provider>,
    /// The Pods that are wanted here.
    pub pods: Arc<dyn PodSource>,
    /// What is known of the node.
    pub facts: Arc<dyn NodeFacts>,
    /// Who says who may.
    pub reviews: Arc<dyn Reviews>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeApi").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Why the server can't listen.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}; is there another kubelet on this machine?")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// A node's API that listens.
#[derive(Debug)]
pub struct NodeServer {
    listener: TcpListener,
    address: SocketAddr,
    context: Arc<Context>,
    limits: Limits,
}

/// Accepting fails when file descriptors are used up; then it waits a little.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Bytes of a request's head.
const LONGEST_HEAD: usize = 64 << 10;

impl NodeServer {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address is taken or not this machine's.
    pub async fn bind(address: SocketAddr, api: NodeApi, limits: Limits) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address).await.map_err(|source| ListenError { address, source })?;
        let address = listener.local_addr().map_err(|source| ListenError { address, source })?;
        let guard = Guard::new(api.node.clone(), api.reviews.clone());
        let context = Arc::new(Context::new(api, guard, limits));
        Ok(Self { listener, address, context, limits })
    }

    /// Where it listens: the node's `daemonEndpoints`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the future is dropped; then every connection and stream ends. Each connection is made with what `tls` is then,
    /// so that certificates are rotated without a restart.
    pub async fn run(self, tls: watch::Receiver<Arc<ServerConfig>>) {
        let room = Arc::new(Semaphore::new(self.limits.connections));
        let ended = CancellationToken::new();
        // Dropped with this future, and with them every connection and stream.
        let _ends = ended.clone().drop_guard();
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
            let acceptor = TlsAcceptor::from(tls.borrow().clone());
            let (context, limits, ended) = (self.context.clone(), self.limits, ended.clone());
            connections.spawn(async move {
                connection(stream, acceptor, context, limits, ended).await;
                drop(permit);
            });
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    context: Arc<Context>,
    limits: Limits,
    ended: CancellationToken,
) {
    // Keys that are typed must not wait for more.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(Ok(stream)) = tokio::time::timeout(limits.patience, acceptor.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(of_certificate).map(Arc::new);
    let service = service_fn(move |request| handle(context.clone(), user.clone(), ended.clone(), request));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended badly");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r23_a_stream_may_be_idle_for_four_hours_and_take_half_a_minute_to_open() {
        let limits = Limits::default().stream;
        assert_eq!((limits.idle.as_secs(), limits.creation.as_secs()), (4 * 3600, 30));
    }
}

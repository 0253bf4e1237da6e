//! Connections to nodes: over TLS, believed only with a certificate of the server's own authority for the address that was
//! dialled, and as whom nodes let in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::place::Place;

/// How the server reaches the kubelets of nodes.
#[derive(Debug, Clone)]
pub struct NodeClient {
    tls: Arc<ClientConfig>,
}

/// Why a node can't be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("dial tcp {host}:{port}")]
    Connect {
        host: String,
        port: u16,
        #[source]
        source: std::io::Error,
    },
    #[error("{host:?} is no name and no address")]
    Name { host: String },
    #[error("the kubelet at {host}:{port} is not believed")]
    Tls {
        host: String,
        port: u16,
        #[source]
        source: std::io::Error,
    },
    #[error("no answer from {host}:{port} within {} s", after.as_secs())]
    Late { host: String, port: u16, after: Duration },
    #[error("the kubelet at {host}:{port} broke off")]
    Broken {
        host: String,
        port: u16,
        #[source]
        source: hyper::Error,
    },
}

/// For the connection and its TLS.
const DIAL: Duration = Duration::from_secs(10);
/// For the head of an answer. What follows takes its time.
const HEAD: Duration = Duration::from_secs(60);

/// The task that moves a connection's bytes; ends with whoever holds this, unless it is an upgrade.
#[derive(Debug)]
pub(super) struct Driven(JoinHandle<()>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl NodeClient {
    /// With this TLS: its roots are whom nodes' certificates are believed of, its certificate says who the server is.
    #[must_use]
    pub fn new(tls: ClientConfig) -> Self {
        Self { tls: Arc::new(tls) }
    }

    async fn connect(&self, place: &Place) -> Result<(SendRequest<Empty<Bytes>>, Driven), DialError> {
        let Place { host, port } = place.clone();
        let Ok(name) = ServerName::try_from(host.clone()) else { return Err(DialError::Name { host }) };
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|source| DialError::Connect { host: host.clone(), port, source })?;
        // Keys that are typed must not wait for more.
        if let Err(source) = stream.set_nodelay(true) {
            return Err(DialError::Connect { host, port, source });
        }
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let stream = stream.map_err(|source| DialError::Tls { host: host.clone(), port, source })?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|source| DialError::Broken { host, port, source })?;
        let driven = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to a node ended badly");
            }
        });
        Ok((sender, Driven(driven)))
    }

    /// One request on a connection of its own.
    pub(super) async fn send(
        &self,
        place: &Place,
        request: Request<Empty<Bytes>>,
    ) -> Result<(Response<hyper::body::Incoming>, Driven), DialError> {
        let late = |after| DialError::Late { host: place.host.clone(), port: place.port, after };
        let (mut sender, driven) = timeout(DIAL, self.connect(place)).await.map_err(|_| late(DIAL))??;
        let answered = timeout(HEAD, sender.send_request(request)).await.map_err(|_| late(HEAD))?;
        let response =
            answered.map_err(|source| DialError::Broken { host: place.host.clone(), port: place.port, source })?;
        Ok((response, driven))
    }
}

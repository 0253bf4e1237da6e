//! A server of its own for each test: an own directory, a port that is free.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use minke_apiserver::access::{ADMINISTRATORS, Authority, BOOTSTRAPPERS, Identity, Issuer, NODES, Tokens};
use minke_apiserver::engine::{Accounts, Engine};
use minke_apiserver::http::{Limits, NodeClient, Server};
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

/// A token that the server knows as an administrator's, and one of someone who may nothing.
pub(crate) const ADMIN: &str = "admin-token";
/// That of an administrator who has the name of the peer's, for comparisons.
pub(crate) const PEER: &str = "peer-token";
pub(crate) const NOBODY: &str = "nobody-token";
/// The token of who is about to become a node.
pub(crate) const BOOTSTRAP: &str = "bootstrap-token";
/// The token of the node n1.
pub(crate) const NODE: &str = "node-token";

pub(crate) struct TestServer {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) kubeconfig: PathBuf,
    authority: String,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl TestServer {
    pub(crate) async fn start(limits: Limits) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), limits).await
    }

    /// Ends it and starts another one on what it has left.
    pub(crate) async fn restart(mut self) -> Self {
        for task in self.tasks.drain(..) {
            task.abort();
            drop(task.await);
        }
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        drop(self);
        Self::start_in(directory, Limits::default()).await
    }

    async fn start_in(directory: tempfile::TempDir, limits: Limits) -> Self {
        let path = directory.path().join("api.redb");
        // Connections of the one before let go of it when they notice.
        let mut opened = Store::open(&path, HistoryLimits::default());
        for _ in 0..250 {
            if opened.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            opened = Store::open(&path, HistoryLimits::default());
        }
        let store = opened.unwrap();
        let pki = directory.path().join("pki");
        let authority = Arc::new(Authority::open(&pki, SystemClock.now()).unwrap());
        let (issuer, root_certificate) = (Issuer::open(&pki).unwrap(), authority.certificate().to_owned());
        let accounts = Accounts { issuer, root_certificate, mount: true };
        let engine = Engine::new(store, Arc::new(SystemClock)).with_accounts(accounts);
        let engine = engine.with_authority(authority.clone());
        engine.prepare().await.unwrap();
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let tls = authority.server(&["localhost"], &[loopback]).unwrap();
        let mut tokens = Tokens::default();
        let groups = vec![ADMINISTRATORS.to_owned()];
        tokens.add(ADMIN, Identity { user: "root".to_owned(), groups, ..Identity::default() });
        let groups = vec![ADMINISTRATORS.to_owned()];
        tokens.add(PEER, Identity { user: "admin".to_owned(), uid: "admin".to_owned(), groups, ..Identity::default() });
        tokens.add(NOBODY, Identity { user: "nobody".to_owned(), ..Identity::default() });
        let groups = vec![BOOTSTRAPPERS.to_owned()];
        let user = "system:bootstrap:abcdef".to_owned();
        tokens.add(BOOTSTRAP, Identity { user, groups, ..Identity::default() });
        let groups = vec![NODES.to_owned()];
        tokens.add(NODE, Identity { user: "system:node:n1".to_owned(), groups, ..Identity::default() });
        let server = Server::bind((loopback, 0).into(), engine.clone(), tokens, limits).await.unwrap();
        let server = server.reaching(NodeClient::new(authority.node_client().unwrap()));
        let address = server.address();
        engine.announce(address.port()).await.unwrap();
        let kubeconfig = directory.path().join("admin.conf");
        authority.kubeconfig(&kubeconfig, &format!("https://{address}")).unwrap();
        let tasks = vec![tokio::spawn(server.run(tls)), tokio::spawn(async move { engine.care().await })];
        let authority = authority.certificate().to_owned();
        Self { directory, address, kubeconfig, authority, tasks }
    }

    /// A client that trusts the server.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, &self.authority)
    }

    /// A connection that trusts the server and is nobody by itself.
    pub(crate) async fn connect(&self) -> SendRequest<Full<Bytes>> {
        self.client().connect().await
    }

    /// One request; the answer's code and body.
    pub(crate) async fn send(&self, token: &str, method: Method, path: &str, body: &[u8]) -> (u16, Bytes) {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        self.send_as(content_type, token, method, path, body).await
    }

    /// A patch in this language.
    pub(crate) async fn patch(&self, language: &str, path: &str, body: &Value) -> (u16, Value) {
        let (code, bytes) = self.send_as(language, ADMIN, Method::PATCH, path, body.to_string().as_bytes()).await;
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn send_as(&self, content_type: &str, token: &str, method: Method, path: &str, body: &[u8]) -> (u16, Bytes) {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        request = request.header("content-type", content_type);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        let mut sender = self.connect().await;
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        (code, response.into_body().collect().await.unwrap().to_bytes())
    }

    pub(crate) async fn json(&self, token: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (code, bytes) = self.send(token, method, path, body.as_bytes()).await;
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

/// A client of an API server, ours or the real one.
pub(crate) struct Client {
    address: SocketAddr,
    authority: String,
}

impl Client {
    /// A client that trusts this certificate, or what it has signed.
    pub(crate) fn new(address: SocketAddr, authority: &str) -> Self {
        Self { address, authority: authority.to_owned() }
    }

    /// A connection over TLS and nothing yet on it.
    pub(crate) async fn stream(&self) -> TlsStream<tokio::net::TcpStream> {
        self.speaking(&[]).await
    }

    async fn speaking(&self, protocols: &[&[u8]]) -> TlsStream<tokio::net::TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.stream().await);
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender
    }

    /// A connection for many requests at once.
    pub(crate) async fn connect_http2(&self) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.speaking(&[b"h2"]).await);
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// One request and all of its answer.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> crate::differential::Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        request = request.header("authorization", format!("Bearer {token}")).header("accept", "application/json");
        request = request.header("user-agent", "differential/1");
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        let response = self.connect().await.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || String::from_utf8_lossy(&bytes).into_owned().into();
        crate::differential::Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()) }
    }
}

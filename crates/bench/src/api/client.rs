//! A client that costs little: HTTP/1.1 over TLS, one request at a time on a connection.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::server::Api;
use crate::failure::Failure;

/// How long any answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub(super) struct Connection {
    stream: BufStream<TlsStream<TcpStream>>,
    token: String,
}

fn broken<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> Failure {
    Failure::runtime("speaking to the API server")(error)
}

impl Connection {
    pub(super) async fn open(api: &Api) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(api.certificate.as_bytes()).map_err(broken)?).map_err(broken)?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(api.address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let name = ServerName::from(api.address.ip());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(broken)?;
        Ok(Self { stream: BufStream::new(stream), token: api.token.clone() })
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<u16, Failure> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await.map_err(broken)?;
        self.stream.write_all(body.as_bytes()).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;
        let line = self.line().await?;
        line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| Failure::Unexpected(line))
    }

    async fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await.map_err(broken)?;
        if read.map_err(broken)? == 0 {
            return Err(Failure::Unexpected("the API server has closed a connection".to_owned()));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Reads the headers; the length of the body, if it has one.
    async fn headers(&mut self) -> Result<Option<usize>, Failure> {
        let mut length = None;
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(length);
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
    }

    /// A chunk of a body; empty at its end.
    async fn chunk(&mut self) -> Result<Vec<u8>, Failure> {
        let line = self.line().await?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16).map_err(broken)?;
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes).await.map_err(broken)?;
        bytes.truncate(size);
        Ok(bytes)
    }

    async fn body(&mut self) -> Result<Vec<u8>, Failure> {
        match self.headers().await? {
            Some(length) => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).await.map_err(broken)?;
                Ok(bytes)
            }
            None => {
                let mut all = Vec::new();
                loop {
                    let chunk = self.chunk().await?;
                    if chunk.is_empty() {
                        return Ok(all);
                    }
                    all.extend(chunk);
                }
            }
        }
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str, expected: u16) -> Result<Vec<u8>, Failure> {
        let code = self.send(method, path, body).await?;
        let answer = self.body().await?;
        if code == expected {
            return Ok(answer);
        }
        let answer = String::from_utf8_lossy(&answer);
        Err(Failure::Unexpected(format!("{method} {path} was answered with {code}: {answer}")))
    }

    pub(super) async fn post(&mut self, path: &str, body: String) -> Result<(), Failure> {
        self.ask("POST", path, &body, 201).await.map(drop)
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        self.ask("GET", path, "", 200).await
    }

    /// Whether the server is ready.
    pub(super) async fn ready(&mut self) -> bool {
        self.get("/readyz").await.is_ok()
    }
}

/// A watch from now on.
pub(super) struct Watcher {
    connection: Connection,
    /// What has come of the next event.
    pending: Vec<u8>,
}

impl Watcher {
    pub(super) async fn open(api: &Api, path: &str) -> Result<Self, Failure> {
        let mut connection = Connection::open(api).await?;
        let list: serde_json::Value =
            serde_json::from_slice(&connection.get(&format!("{path}?limit=1")).await?).map_err(broken)?;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let code = connection.send("GET", &format!("{path}?watch=true&resourceVersion={revision}"), "").await?;
        if code != 200 {
            return Err(Failure::Unexpected(format!("a watch was answered with {code}")));
        }
        connection.headers().await?;
        Ok(Self { connection, pending: Vec::new() })
    }

    /// When the next event is there whole.
    pub(super) async fn event(&mut self) -> Result<Instant, Failure> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                self.pending.drain(..=end);
                return Ok(Instant::now());
            }
            let chunk = self.connection.chunk().await?;
            if chunk.is_empty() {
                return Err(Failure::Unexpected("a watch has ended".to_owned()));
            }
            self.pending.extend(chunk);
        }
    }
}

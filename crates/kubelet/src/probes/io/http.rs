//! `httpGet`, of probes and of lifecycle hooks: one request on a connection of its own, redirects on the same host
//! followed.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, HTTPHeader};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::{Position, Url};

use super::address::{self, Address, connect, words};
use super::{Answer, tls};

/// Most of an answer's body that is read.
const BODY_LIMIT: usize = 10 * 1024;
const MOST_REDIRECTS: usize = 10;

/// A request that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct Get {
    url: Url,
    /// As upstream writes it in errors: with the port.
    text: String,
    host: HeaderValue,
    headers: HeaderMap,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// In words.
    Failed(String),
    /// It was asked over TLS and answered without.
    PlainAnswer(String),
    /// The answer began and did not end well.
    Cut(String),
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Get {
    /// The request of an action. `purpose` is `probe` or `lifecycle`, for its `User-Agent`.
    ///
    /// # Errors
    /// It can't be asked, in words.
    pub(crate) fn new(
        action: &HTTPGetAction,
        container: &Container,
        ips: &[IpAddr],
        purpose: &str,
    ) -> Result<Self, String> {
        let address = address::of(action.host.as_deref(), &action.port, container, ips)?;
        let https = action.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https"));
        let scheme = if https { "https" } else { "http" };
        let path = action.path.as_deref().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let text = format!("{scheme}://{address}{slash}{path}");
        let url = Url::parse(&text).map_err(|e| format!("{text:?} is not an address: {e}"))?;
        let mut headers = own_headers(action.http_headers.as_deref().unwrap_or_default())?;
        let invalid = |what: &str| format!("{what} is not a header's value");
        let host = match headers.remove(header::HOST) {
            Some(host) if !host.is_empty() => host,
            Some(_) | None => HeaderValue::try_from(address.to_string()).map_err(|_| invalid("the host"))?,
        };
        if !headers.contains_key(header::USER_AGENT) {
            let agent =
                format!("kube-{purpose}/{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
            headers.insert(header::USER_AGENT, HeaderValue::try_from(agent).map_err(|_| invalid("the user agent"))?);
        }
        // An empty one means none at all.
        match headers.get(header::ACCEPT) {
            None => drop(headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"))),
            Some(accept) if accept.is_empty() => drop(headers.remove(header::ACCEPT)),
            Some(_) => {}
        }
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        Ok(Self { url, text, host, headers })
    }

    /// The same request without TLS and without credentials.
    pub(crate) fn plain(mut self) -> Self {
        if self.url.set_scheme("http").is_ok() {
            self.text = self.text.replacen("https", "http", 1);
            self.headers.remove(header::AUTHORIZATION);
        }
        self
    }

    fn address(&self) -> Address {
        let host = self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        Address { host, port: self.url.port_or_known_default().unwrap_or(80) }
    }

    fn failed(&self, why: &str) -> Refusal {
        Refusal::Failed(format!("Get {:?}: {why}", self.text))
    }

    /// Where the answer sends us; `None`: nowhere, or to another host.
    fn next(&self, response: &Response<Incoming>) -> Option<Self> {
        let follow = [
            StatusCode::MOVED_PERMANENTLY,
            StatusCode::FOUND,
            StatusCode::SEE_OTHER,
            StatusCode::TEMPORARY_REDIRECT,
            StatusCode::PERMANENT_REDIRECT,
        ];
        let location = response.headers().get(header::LOCATION).filter(|_| follow.contains(&response.status()))?;
        let location = location.to_str().ok()?;
        let url = self.url.join(location).ok()?;
        let relative = Url::parse(location).is_err();
        if url.host_str() != self.url.host_str() || !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        // A host that was asked for by name is kept where the redirect names none.
        let named = HeaderValue::try_from(&url[Position::BeforeHost..Position::AfterPort]).ok()?;
        let host = if relative { self.host.clone() } else { named };
        Some(Self { text: url.to_string(), url, host, headers: self.headers.clone() })
    }
}

fn own_headers(given: &[HTTPHeader]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for given in given {
        let name = HeaderName::try_from(&given.name).map_err(|_| format!("{:?} is not a header's name", given.name))?;
        let value = HeaderValue::try_from(&given.value);
        // The value may be a credential.
        headers.append(name, value.map_err(|_| format!("the value of header {:?} can't be sent", given.name))?);
    }
    Ok(headers)
}

/// Asks, as a probe: 200 to 399 is success.
pub(super) async fn ask(get: &Get, limit: Duration) -> Answer {
    match fetch(get, Some(limit)).await {
        Ok(answered) if (300..400).contains(&answered.status) => {
            let body = String::from_utf8_lossy(&answered.body);
            Answer::Warning(format!("Probe terminated redirects, Response body: {body}"))
        }
        Ok(answered) if (200..300).contains(&answered.status) => Answer::Success,
        Ok(answered) => Answer::Failure(format!("HTTP probe failed with statuscode: {}", answered.status)),
        Err(Refusal::Failed(message) | Refusal::PlainAnswer(message)) => Answer::Failure(message),
        Err(Refusal::Cut(message)) => Answer::Error { state: "failure", message },
    }
}

/// Makes the request and those that it redirects to. `limit` is for all of them together.
pub(crate) async fn fetch(get: &Get, limit: Option<Duration>) -> Result<Answered, Refusal> {
    let Some(limit) = limit else { return follow(get).await };
    timeout(limit, follow(get)).await.unwrap_or_else(|_| {
        Err(get.failed("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"))
    })
}

async fn follow(first: &Get) -> Result<Answered, Refusal> {
    let mut get = first.clone();
    for _ in 0..=MOST_REDIRECTS {
        let (response, connection) = exchange(&get).await?;
        match get.next(&response) {
            Some(next) => get = next,
            None => return body(response, connection).await,
        }
    }
    Err(get.failed(&format!("stopped after {MOST_REDIRECTS} redirects")))
}

/// A connection that is driven until it is dropped.
type Connection = AbortOnDropHandle<()>;

async fn exchange(get: &Get) -> Result<(Response<Incoming>, Connection), Refusal> {
    let address = get.address();
    let stream = connect(&address).await.map_err(|e| get.failed(&e))?;
    if get.url.scheme() == "http" {
        return request(get, stream).await;
    }
    let config = tls::config().map_err(|e| get.failed(&e.to_string()))?;
    let name = ServerName::try_from(address.host).map_err(|e| get.failed(&e.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        if speaks_plainly(&error) {
            let why = "http: server gave HTTP response to HTTPS client";
            return Refusal::PlainAnswer(format!("Get {:?}: {why}", get.text));
        }
        get.failed(&words(&error))
    })?;
    request(get, stream).await
}

/// Whether what came instead of a handshake was no TLS at all.
fn speaks_plainly(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)))
}

async fn request<T>(get: &Get, stream: T) -> Result<(Response<Incoming>, Connection), Refusal>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |e: hyper::Error| get.failed(&http_words(&e));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Its end is the end of the request as well, which tells of it.
    let driven: JoinHandle<()> = tokio::spawn(async move { drop(connection.await) });
    let driven = AbortOnDropHandle::new(driven);
    let mut request = Request::new(Empty::<Bytes>::new());
    let path = &get.url[Position::BeforePath..Position::AfterQuery];
    *request.uri_mut() = path.parse().map_err(|_| get.failed("its path is not a path"))?;
    *request.headers_mut() = get.headers.clone();
    request.headers_mut().insert(header::HOST, get.host.clone());
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok((response, driven))
}

/// What went wrong on a connection, in upstream's words where they are known.
pub(super) fn http_words(error: &hyper::Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return format!("read: {}", words(io));
        }
        source = inner.source();
    }
    if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() }
}

async fn body(response: Response<Incoming>, connection: Connection) -> Result<Answered, Refusal> {
    let status = response.status().as_u16();
    let (mut stream, mut body) = (response.into_body(), Vec::new());
    while body.len() < BODY_LIMIT {
        match stream.frame().await {
            None => break,
            Some(Ok(frame)) => body.extend(frame.data_ref().map(Bytes::as_ref).unwrap_or_default()),
            Some(Err(error)) => return Err(Refusal::Cut(http_words(&error))),
        }
    }
    body.truncate(BODY_LIMIT);
    drop(connection);
    Ok(Answered { status, body })
}

#[cfg(test)]
mod tests;

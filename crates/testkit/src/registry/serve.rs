//! Requests and answers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::auth::{self, Verdict};
use super::fault::{self, Fault};
use super::{Request, State, lock};
use crate::image::sha256;

/// Accepts connections until the task is aborted; connections end with it.
pub(super) async fn run(listener: TcpListener, address: SocketAddr, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, address, &state));
            // An error here is a client that went away or a fault that was asked for.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The body of an answer: chunks from a task, so that they can be slow, stop or break.
struct Chunks(mpsc::Receiver<io::Result<Bytes>>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

type Answer = Result<Response<Chunks>, io::Error>;

async fn answer(request: hyper::Request<Incoming>, address: SocketAddr, state: &Mutex<State>) -> Answer {
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    let header = |name| request.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let record = Request {
        method: request.method().to_string(),
        path: path.clone(),
        authorization: header(AUTHORIZATION),
        range: header(RANGE),
    };
    let fault = {
        let mut state = lock(state);
        state.requests.push(record.clone());
        fault::take(&mut state.faults, &path)
    };
    match fault {
        Some(Fault::Hangup) => return Err(io::ErrorKind::ConnectionAborted.into()),
        Some(Fault::Status(code)) => return Ok(error(code, "UNKNOWN", "fault on demand")),
        Some(Fault::RateLimit(seconds)) => {
            let mut response = error(429, "TOOMANYREQUESTS", "slow down");
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            return Ok(response);
        }
        _ => {}
    }
    let head = request.method() == Method::HEAD;
    if path.starts_with("/token") {
        return Ok(token(request, &record, state).await);
    }
    if path == "/v2/" {
        return Ok(match auth::judge(&lock(state), &address.to_string(), None, record.authorization.as_deref()) {
            Verdict::Allowed => plain(200, "{}"),
            Verdict::Challenge(challenge) => challenged(&challenge),
        });
    }
    let state = lock(state);
    let Some((repository, kind, reference)) = split(&path) else {
        return Ok(error(404, "NAME_UNKNOWN", "no such path"));
    };
    if let Verdict::Challenge(challenge) =
        auth::judge(&state, &address.to_string(), Some(repository), record.authorization.as_deref())
    {
        return Ok(challenged(&challenge));
    }
    let key = (repository.to_owned(), reference.to_owned());
    let found = match kind {
        "manifests" => state.manifests.get(&key).cloned(),
        _ => state.blobs.get(&key).map(|bytes| ("application/octet-stream".to_owned(), bytes.clone())),
    };
    Ok(match found {
        Some((media_type, bytes)) => content(&media_type, &bytes, record.range.as_deref(), fault.as_ref(), head),
        None if kind == "manifests" => error(404, "MANIFEST_UNKNOWN", "manifest unknown"),
        None => error(404, "BLOB_UNKNOWN", "blob unknown"),
    })
}

/// `/v2/<repository>/(manifests|blobs)/<reference>`.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let rest = path.split('?').next()?.strip_prefix("/v2/")?;
    let (rest, reference) = rest.rsplit_once('/')?;
    let (repository, kind) = rest.rsplit_once('/')?;
    matches!(kind, "manifests" | "blobs").then_some((repository, kind, reference))
}

async fn token(request: hyper::Request<Incoming>, record: &Request, state: &Mutex<State>) -> Response<Chunks> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let form = if request.method() == Method::POST {
        let body = Limited::new(request.into_body(), 1 << 16).collect().await;
        body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default()
    } else {
        String::new()
    };
    let find = |text: &str, name: &str| {
        text.split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=').map(decode))
            .filter(|v| !v.is_empty())
    };
    let scope = find(&query, "scope").or_else(|| find(&form, "scope")).unwrap_or_default();
    let refresh = find(&form, "refresh_token");
    match auth::grant(&mut lock(state), &scope, record.authorization.as_deref(), refresh.as_deref()) {
        Some(token) => plain(200, &serde_json::json!({ "token": token, "expires_in": 300 }).to_string()),
        None => error(401, "UNAUTHORIZED", "wrong login"),
    }
}

/// Decodes `%xx` and `+`.
fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let pair = [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')];
                u8::from_str_radix(&String::from_utf8_lossy(&pair), 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn content(
    media_type: &str,
    bytes: &Bytes,
    range: Option<&str>,
    fault: Option<&Fault>,
    head: bool,
) -> Response<Chunks> {
    let start = range
        .filter(|_| fault != Some(&Fault::IgnoreRange))
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok())
        .filter(|start| *start <= bytes.len());
    let mut body = bytes.slice(start.unwrap_or(0)..);
    if fault == Some(&Fault::Corrupt) {
        body = body.iter().map(|byte| !byte).collect();
    }
    let length = body.len();
    let mut response = Response::new(if head { chunks(Bytes::new(), None) } else { chunks(body, fault.cloned()) });
    let headers = response.headers_mut();
    if fault != Some(&Fault::Endless) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if let Ok(value) = media_type.parse() {
        headers.insert(CONTENT_TYPE, value);
    }
    if let Ok(value) = sha256(bytes).parse() {
        headers.insert("docker-content-digest", value);
    }
    if let Some(start) = start {
        if let Ok(value) = format!("bytes {start}-{}/{}", bytes.len().saturating_sub(1), bytes.len()).parse() {
            headers.insert(CONTENT_RANGE, value);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

/// Sends `body`, with the fault, from a task that ends when the client goes away.
fn chunks(body: Bytes, fault: Option<Fault>) -> Chunks {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _: Option<Infallible> = async {
            let (limit, chunk, pause) = match &fault {
                Some(Fault::CutAfter(limit) | Fault::StallAfter(limit)) => ((*limit).min(body.len()), 1 << 16, None),
                Some(Fault::Slow { chunk, pause }) => (body.len(), *chunk, Some(*pause)),
                _ => (body.len(), 1 << 16, None),
            };
            let mut sent = 0;
            while sent < limit {
                let end = limit.min(sent + chunk);
                sender.send(Ok(body.slice(sent..end))).await.ok()?;
                sent = end;
                tokio::time::sleep(pause.unwrap_or(Duration::ZERO)).await;
            }
            match fault {
                Some(Fault::CutAfter(_)) => {
                    // The client reads what was sent before the connection breaks.
                    sender.send(Err(io::ErrorKind::ConnectionAborted.into())).await.ok()?;
                }
                Some(Fault::StallAfter(_)) => sender.closed().await,
                Some(Fault::Endless) => loop {
                    sender.send(Ok(Bytes::from_static(&[0; 4096]))).await.ok()?;
                },
                _ => {}
            }
            None
        }
        .await;
    });
    Chunks(receiver)
}

fn plain(code: u16, body: &str) -> Response<Chunks> {
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let length = bytes.len();
    let mut response = Response::new(chunks(bytes, None));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}

fn error(code: u16, kind: &str, message: &str) -> Response<Chunks> {
    plain(code, &serde_json::json!({ "errors": [{ "code": kind, "message": message }] }).to_string())
}

fn challenged(challenge: &str) -> Response<Chunks> {
    let mut response = error(401, "UNAUTHORIZED", "authentication required");
    if let Ok(value) = challenge.parse() {
        response.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    response
}

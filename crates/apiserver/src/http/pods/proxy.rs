//! Asking the node, and passing on what it answers.

use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use minke_core::runtime::error_chain;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::super::body::{Body, full};
use super::super::query::Query;
use super::dial::{DialError, Driven, NodeClient};
use super::place::{Place, place};
use super::{Part, node_of, options};
use crate::engine::{Engine, Place as ObjectPlace};
use crate::error::{ApiError, Reason};

/// Most of a refusal that is passed on.
const LONGEST_REFUSAL: usize = 2000;
/// Of a few thousand containers' numbers, in bytes.
const LARGEST_DOCUMENT: usize = 16 << 20;
/// A subprotocol that is a bearer token of the client's: it is for this server alone.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
const WEBSOCKET: [&str; 2] = ["sec-websocket-key", "sec-websocket-version"];
const WEBSOCKET_PROTOCOL: &str = "sec-websocket-protocol";
const SPDY_PROTOCOL: &str = "x-stream-protocol-version";

/// Streams that pass through; dropped, they end.
#[derive(Debug)]
pub(in super::super) struct Streams {
    room: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

impl Streams {
    pub(in super::super) fn new(most: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(most)), tasks: Mutex::default() }
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.room.clone().try_acquire_owned().map_err(|_| {
            ApiError::new(Reason::TooManyRequests, "there are too many streams; try again later").retry_after(1)
        })
    }

    fn spawn(&self, stream: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(stream);
    }
}

/// Answers a request for `part` of a Pod.
///
/// # Errors
/// Those of the options, of the Pod and its node; what the node refuses; 500 when it can't be reached.
pub(in super::super) async fn answer(
    engine: &Engine,
    nodes: Option<&NodeClient>,
    streams: &Streams,
    pod: ObjectPlace<'_>,
    part: Part,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let object: Value = engine.get(pod, None)?.parse().map_err(ApiError::internal)?;
    let container = match part {
        Part::PortForward => String::new(),
        Part::Log | Part::Exec | Part::Attach => options::container(&object, query.get("container"))?,
    };
    let told = match part {
        Part::Log => options::log(&query, pod.name)?,
        Part::Exec | Part::Attach | Part::PortForward => options::stream(part, &query),
    };
    let place = match (node_of(engine, &object)?, part) {
        (Some(place), _) => place,
        (None, Part::Log) => return Ok(status(StatusCode::NO_CONTENT)),
        (None, Part::Exec | Part::Attach | Part::PortForward) => {
            return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", pod.name)));
        }
    };
    let nodes = nodes.ok_or_else(|| ApiError::internal("this server is not set up to reach nodes"))?;
    // Names are those of objects that exist, and containers' of specs that were validated: labels, all of them.
    let mut path = format!("/{}/{}/{}", part.kubelet(), pod.namespace, pod.name);
    for more in [("/", &container), ("?", &told)] {
        if !more.1.is_empty() {
            path.push_str(more.0);
            path.push_str(more.1);
        }
    }
    match part {
        Part::Log => log(nodes, &place, &path, pod.name).await,
        Part::Exec | Part::Attach | Part::PortForward => {
            upgrade(nodes, streams, &place, &path, pod.name, request).await
        }
    }
}

fn status(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(""));
    *response.status_mut() = code;
    response
}

fn asked(
    method: Method,
    place: &Place,
    path: &str,
    headers: HeaderMap,
) -> Result<Request<Empty<bytes::Bytes>>, ApiError> {
    let host = match place.host.contains(':') {
        true => format!("[{}]:{}", place.host, place.port),
        false => format!("{}:{}", place.host, place.port),
    };
    let mut request = Request::builder().method(method).uri(path).body(Empty::new()).map_err(ApiError::internal)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, HeaderValue::from_str(&host).map_err(ApiError::internal)?);
    Ok(request)
}

fn undialled(error: &DialError) -> ApiError {
    ApiError::internal(format!("error dialing backend: {}", error_chain(error)))
}

/// What a node refuses with, as clients read it. That it refuses *this server* is nothing that the client has done.
async fn refusal(response: Response<Incoming>, pod: &str) -> ApiError {
    let code = response.status().as_u16();
    let text = match Limited::new(response.into_body(), LONGEST_REFUSAL).collect().await {
        Ok(text) => String::from_utf8_lossy(&text.to_bytes()).trim_end().to_owned(),
        Err(_) => String::new(),
    };
    refused(code, &text, pod)
}

fn refused(code: u16, text: &str, pod: &str) -> ApiError {
    let reason = match code {
        400 => return ApiError::bad_request(text),
        404 => Reason::NotFound,
        405 => Reason::MethodNotAllowed,
        409 => Reason::Conflict,
        422 => Reason::Invalid,
        429 => Reason::TooManyRequests,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        401 | 403 => return ApiError::internal(format!("the node refuses this API server: {text}")),
        _ => return ApiError::internal(text),
    };
    let mut error = ApiError::new(reason, text);
    error.details.name = pod.to_owned();
    error.details.kind = "pods".to_owned();
    error
}

/// A document of a node, whole.
///
/// # Errors
/// 500 when it can't be reached, is too large or no JSON; what the node refuses.
pub(in super::super) async fn document(nodes: &NodeClient, node: &Value, path: &str) -> Result<Value, ApiError> {
    let place = place(node)?;
    let request = asked(Method::GET, &place, path, HeaderMap::new())?;
    let (response, _driven) = nodes.send(&place, request).await.map_err(|error| undialled(&error))?;
    if response.status() != StatusCode::OK {
        return Err(refusal(response, "").await);
    }
    let whole = Limited::new(response.into_body(), LARGEST_DOCUMENT).collect().await;
    let whole = whole.map_err(|error| ApiError::internal(format!("the node's answer can't be read: {error}")))?;
    serde_json::from_slice(&whole.to_bytes()).map_err(ApiError::internal)
}

async fn log(nodes: &NodeClient, place: &Place, path: &str, pod: &str) -> Result<Response<Body>, ApiError> {
    let request = asked(Method::GET, place, path, HeaderMap::new())?;
    let (response, driven) = nodes.send(place, request).await.map_err(|error| undialled(&error))?;
    if response.status() != StatusCode::OK {
        return Err(refusal(response, pod).await);
    }
    // The connection lives as long as somebody reads; who stops reading ends it, and with it what follows on the node.
    let body = response.into_body().map_frame(move |frame| {
        let _: &Driven = &driven;
        frame
    });
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The headers of an upgrade that the node needs, and none that is between client and server. `None`: it is no upgrade.
fn forwarded(headers: &HeaderMap) -> Option<HeaderMap> {
    let tokens = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let upgrades = tokens.flat_map(|text| text.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    let upgrade = headers.get(UPGRADE).filter(|_| upgrades)?;
    let mut told = HeaderMap::new();
    told.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    told.insert(UPGRADE, upgrade.clone());
    let copied = WEBSOCKET.into_iter().chain([SPDY_PROTOCOL]).map(HeaderName::from_static);
    for name in copied.chain([USER_AGENT]) {
        for value in headers.get_all(&name) {
            told.append(name.clone(), value.clone());
        }
    }
    let all = headers.get_all(WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let wanted = all.flat_map(|text| text.split(',')).map(str::trim);
    let wanted: Vec<&str> = wanted.filter(|name| !name.is_empty() && !name.starts_with(TOKEN_PROTOCOL)).collect();
    if let Ok(wanted) = HeaderValue::from_str(&wanted.join(", "))
        && !wanted.is_empty()
    {
        told.insert(WEBSOCKET_PROTOCOL, wanted);
    }
    Some(told)
}

async fn upgrade(
    nodes: &NodeClient,
    streams: &Streams,
    place: &Place,
    path: &str,
    pod: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let headers = forwarded(request.headers()).ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
    let permit = streams.permit()?;
    let (mut response, driven) = nodes
        .send(place, asked(request.method().clone(), place, path, headers)?)
        .await
        .map_err(|error| undialled(&error))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response, pod).await);
    }
    let mut switch = status(StatusCode::SWITCHING_PROTOCOLS);
    *switch.headers_mut() = std::mem::take(response.headers_mut());
    streams.spawn(async move {
        let (client, node) = (hyper::upgrade::on(request), hyper::upgrade::on(response));
        if let Ok((client, node)) = tokio::try_join!(client, node) {
            let (mut client, mut node) = (TokioIo::new(client), TokioIo::new(node));
            // Either end may leave at any time; whoever relays has nobody to tell.
            let _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut node, BUFFER, BUFFER).await;
        }
        drop((driven, permit));
    });
    Ok(switch)
}

/// Each way of a stream.
const BUFFER: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_node_gets_what_it_needs_and_no_credentials() {
        let secret = format!("{TOKEN_PROTOCOL}c2VjcmV0");
        let told = forwarded(&headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("authorization", "Bearer secret"),
            ("cookie", "a=b"),
            ("host", "api"),
            ("impersonate-user", "root"),
            ("sec-websocket-key", "k"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", &format!("v5.channel.k8s.io, {secret}")),
        ]));
        let mut expected = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "k"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ]);
        assert_eq!(told, Some(expected.clone()));
        expected.remove("sec-websocket-protocol");
        let alone = headers(&[
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "k"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", &secret),
        ]);
        assert_eq!(forwarded(&alone), Some(expected));
        let mut spdy = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("user-agent", "kubectl")]);
        for version in ["v4.channel.k8s.io", "v3.channel.k8s.io"] {
            spdy.append(SPDY_PROTOCOL, version.parse().unwrap());
        }
        assert_eq!(forwarded(&spdy), Some(spdy.clone()), "all versions, in their order");
        for no in [
            headers(&[]),
            headers(&[("upgrade", "SPDY/3.1")]),
            headers(&[("connection", "Upgrade")]),
            headers(&[("connection", "close"), ("upgrade", "SPDY/3.1")]),
        ] {
            assert_eq!(forwarded(&no), None);
        }
    }

    #[test]
    fn refusals_of_a_node_keep_their_meaning() {
        for (code, reason, message) in [
            (400, Reason::BadRequest, "container is waiting to start"),
            (404, Reason::NotFound, "container is waiting to start"),
            (429, Reason::TooManyRequests, "container is waiting to start"),
            (
                403,
                Reason::InternalError,
                "Internal error occurred: the node refuses this API server: container is waiting to start",
            ),
            (500, Reason::InternalError, "Internal error occurred: container is waiting to start"),
            (501, Reason::InternalError, "Internal error occurred: container is waiting to start"),
        ] {
            let error = refused(code, "container is waiting to start", "p");
            assert_eq!((error.reason, error.to_string().as_str()), (reason, message), "{code}");
        }
    }
}

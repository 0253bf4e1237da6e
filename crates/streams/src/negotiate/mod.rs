//! What a request for an upgrade comes to (pure): which protocol, which answer, or which refusal, as upstream decides.
//!
//! A WebSocket handshake is a GET with `Upgrade: websocket`; everything else has to ask for SPDY/3.1, which upstream takes
//! with any method. What a request may do must not depend on its method.

mod query;
mod spdy;
mod websocket;

pub(crate) use query::port;
pub use query::{ExecStreams, command, ports};

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// The header with which SPDY clients offer protocols and servers choose one.
pub(crate) const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
pub(crate) const SPDY: &str = "SPDY/3.1";
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
pub(crate) const PORT_FORWARD: &str = "portforward.k8s.io";

/// What a request for an upgrade comes to.
#[derive(Debug, Clone)]
pub struct Upgrade<P> {
    /// How the upgraded connection is spoken.
    pub protocol: P,
    /// All headers of the answer 101.
    pub answer: HeaderMap,
}

/// Why there is no upgrade: the answer's status, its headers, and its text.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// 400 for a request that is none, 403 where no protocol is shared.
    pub status: StatusCode,
    /// In words, as `text/plain`.
    pub message: String,
    /// What else is answered.
    pub headers: Box<HeaderMap>,
}

impl Refusal {
    fn bad(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), headers: Box::default() }
    }
}

/// Versions of the protocol of remote commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The first, without a name over SPDY.
    V1,
    /// Ends of streams are told apart.
    V2,
    /// Terminals can be resized.
    V3,
    /// The end is told as a `Status`, with the exit code.
    V4,
    /// Over WebSocket: the end of input can be told.
    V5,
}

/// The protocol of a remote command: exec or attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecProtocol {
    /// Streams of SPDY.
    Spdy(Version),
    /// Channels of WebSocket.
    WebSocket {
        /// In this version.
        version: Version,
        /// As text.
        base64: bool,
    },
}

/// The protocol of port-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortForwardProtocol {
    /// Streams of SPDY.
    Spdy,
    /// The same through a WebSocket.
    Tunnel,
    /// Channels of WebSocket, two for each port of the request.
    WebSocket {
        /// As text.
        base64: bool,
    },
}

/// Which protocol an exec or attach speaks.
///
/// # Errors
/// The request asks for no upgrade, or for none that is spoken here.
pub fn exec(method: &Method, headers: &HeaderMap) -> Result<Upgrade<ExecProtocol>, Refusal> {
    use Version::{V1, V2, V3, V4, V5};
    if websocket::asked(method, headers) {
        let of = |version, base64| ExecProtocol::WebSocket { version, base64 };
        let known = [
            ("v5.channel.k8s.io", of(V5, false)),
            ("v4.channel.k8s.io", of(V4, false)),
            ("v4.base64.channel.k8s.io", of(V4, true)),
            ("v3.channel.k8s.io", of(V3, false)),
            ("v2.channel.k8s.io", of(V2, false)),
            ("channel.k8s.io", of(V1, false)),
            ("base64.channel.k8s.io", of(V1, true)),
        ];
        return websocket::negotiate(headers, &known, of(V1, false));
    }
    let of = ExecProtocol::Spdy;
    let known = [
        ("v4.channel.k8s.io", of(V4)),
        ("v3.channel.k8s.io", of(V3)),
        ("v2.channel.k8s.io", of(V2)),
        ("channel.k8s.io", of(V1)),
    ];
    spdy::negotiate(headers, &known)
}

/// Which protocol a port-forward speaks.
///
/// # Errors
/// As [`exec`].
pub fn port_forward(method: &Method, headers: &HeaderMap) -> Result<Upgrade<PortForwardProtocol>, Refusal> {
    if websocket::asked(method, headers) {
        let of = |base64| PortForwardProtocol::WebSocket { base64 };
        let known = [
            (TUNNEL, PortForwardProtocol::Tunnel),
            ("v4.channel.k8s.io", of(false)),
            ("v4.base64.channel.k8s.io", of(true)),
        ];
        return websocket::negotiate(headers, &known, of(false));
    }
    spdy::negotiate(headers, &[(PORT_FORWARD, PortForwardProtocol::Spdy)])
}

/// Whether one of the values of a header, each maybe a list, is this, in any case.
fn has_token(headers: &HeaderMap, name: &http::HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|t| t.eq_ignore_ascii_case(token))
}

/// All values of a header, lists taken apart. A value that is no text is none.
fn tokens<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

fn answer(upgrade: &'static str) -> HeaderMap {
    let mut answer = HeaderMap::new();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static(upgrade));
    answer
}

#[cfg(test)]
mod tests;

//! The WebSocket handshake, with Kubernetes' subprotocols.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::{Refusal, Upgrade, answer, has_token, tokens};

/// What the protocol has every server append to the client's key.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket.
pub(super) fn asked(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::GET && has_token(headers, &CONNECTION, "upgrade") && has_token(headers, &UPGRADE, "websocket")
}

/// The client's first choice among those that are known; the nameless one if it offers nothing.
pub(super) fn negotiate<P: Copy>(
    headers: &HeaderMap,
    known: &[(&'static str, P)],
    nameless: P,
) -> Result<Upgrade<P>, Refusal> {
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut refusal = Refusal::bad("missing or bad WebSocket Version");
        refusal.headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(refusal);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| STANDARD.decode(key).is_ok_and(|k| k.len() == 16));
    let key = key.ok_or_else(|| Refusal::bad("missing or bad Sec-WebSocket-Key"))?;
    let offered: Vec<&str> = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
    let chosen = offered.iter().find_map(|offer| known.iter().find(|(protocol, _)| protocol == offer));
    let mut answer = answer("websocket");
    let protocol = match chosen {
        Some((name, protocol)) => {
            answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
            *protocol
        }
        None if offered.is_empty() => nameless,
        None => {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let (offered, known) = (offered.join(" "), known.join(" "));
            let message = format!("requested protocol(s) are not supported: [{offered}]; supports [{known}]");
            return Err(Refusal { status: StatusCode::FORBIDDEN, message, headers: Box::default() });
        }
    };
    let mut whole = key.as_bytes().to_vec();
    whole.extend_from_slice(MAGIC);
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &whole));
    answer.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept).map_err(|_| Refusal::bad("bad key"))?);
    Ok(Upgrade { protocol, answer })
}

//! The upgrade to SPDY/3.1.

use http::header::{CONNECTION, HeaderName, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{Refusal, SPDY, STREAM_PROTOCOL, Upgrade, answer, has_token, tokens};

const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The client's first choice among those that are known.
pub(super) fn negotiate<P: Copy>(headers: &HeaderMap, known: &[(&'static str, P)]) -> Result<Upgrade<P>, Refusal> {
    let name = HeaderName::from_static(STREAM_PROTOCOL);
    let offered: Vec<&str> = tokens(headers, &name).collect();
    if offered.is_empty() {
        return Err(Refusal::bad("unable to upgrade: X-Stream-Protocol-Version is required"));
    }
    let chosen = offered.iter().find_map(|offer| known.iter().find(|(protocol, _)| protocol == offer));
    let Some((protocol, value)) = chosen else {
        let accepted: Vec<&str> = known.iter().map(|(protocol, _)| *protocol).collect();
        let mut answer = HeaderMap::new();
        for protocol in &accepted {
            answer.append(ACCEPTED, HeaderValue::from_static(protocol));
        }
        let (offered, accepted) = (offered.join(" "), accepted.join(" "));
        let message = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{offered}], server accepts [{accepted}]"
        );
        return Err(Refusal { status: StatusCode::FORBIDDEN, message, headers: Box::new(answer) });
    };
    if !has_token(headers, &CONNECTION, "upgrade") || !has_token(headers, &UPGRADE, SPDY) {
        return Err(Refusal::bad("unable to upgrade: missing upgrade headers in request"));
    }
    let mut answer = answer(SPDY);
    answer.insert(name, HeaderValue::from_static(protocol));
    Ok(Upgrade { protocol: *value, answer })
}

//! Bodies: read with a limit of bytes and time, understood by their types.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;

use crate::engine::PatchKind;
use crate::error::{ApiError, Reason};
use crate::proto;
use crate::schema::builtin;
use crate::strict::{Parsed, StrictError, parse_json, parse_yaml};

/// The body of an answer. An error in one that passes through breaks the connection off: nobody takes a part for the whole.
pub(crate) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A body that is there.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// All bytes of a request's body.
///
/// # Errors
/// 413 beyond the limit, 408 in upstream's clothes (504) when it takes too long, 400 when it breaks off.
pub(crate) async fn read(body: Incoming, limit: usize, patience: Duration) -> Result<Bytes, ApiError> {
    let collected = tokio::time::timeout(patience, Limited::new(body, limit).collect()).await;
    match collected {
        Err(_) => Err(ApiError::new(Reason::Timeout, "the body of the request did not come in time")),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {limit}");
            Err(ApiError::new(Reason::RequestEntityTooLarge, message))
        }
        Ok(Err(_)) => Err(ApiError::bad_request("the body of the request broke off")),
    }
}

/// A value in the body of a write, by its content type.
///
/// # Errors
/// 400 for what is not of its type, 415 for types that are not read.
pub(crate) fn parsed(content_type: &str, bytes: &[u8]) -> Result<Parsed, ApiError> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let syntax = |error: StrictError| ApiError::bad_request(error.to_string());
    match media {
        "" | "application/json" => parse_json(bytes).map_err(syntax),
        "application/yaml" => parse_yaml(bytes).map_err(syntax),
        proto::CONTENT_TYPE => match proto::decode(builtin(), bytes) {
            Ok(value) => Ok(Parsed { value, duplicates: Vec::new() }),
            Err(error) => Err(ApiError::bad_request(error.to_string())),
        },
        _ => Err(ApiError::unsupported_media_type(&["application/json", "application/yaml", proto::CONTENT_TYPE])),
    }
}

/// A patch: JSON, or for apply YAML, which JSON is too.
///
/// # Errors
/// 400.
pub(crate) fn patch(kind: PatchKind, bytes: &[u8]) -> Result<Parsed, ApiError> {
    let parsed = match kind {
        PatchKind::Json | PatchKind::Merge | PatchKind::Strategic => parse_json(bytes),
        // Nearly always it is JSON in YAML's clothes, which is read faster so.
        PatchKind::Apply => parse_json(bytes).or_else(|_| parse_yaml(bytes)),
    };
    parsed.map_err(|error| ApiError::bad_request(error.to_string()))
}

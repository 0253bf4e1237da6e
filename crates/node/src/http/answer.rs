//! Answers: bodies that are there and bodies that come, errors as upstream's status and text.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use minke_core::provider::ProviderError;
use minke_core::runtime::error_chain;

/// The body of an answer. An error in it breaks the connection off, so that nobody takes a part for the whole.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
pub(crate) type Answer = Response<Body>;

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

fn never(error: Infallible) -> std::io::Error {
    match error {}
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(never).boxed_unsync()
}

pub(crate) fn respond(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A text, and what it means.
pub(crate) fn text(code: u16, text: impl Into<String>) -> Answer {
    respond(code, TEXT, text.into())
}

/// What went wrong in the provider: what is not there is 404, what can't be done as asked 400, what this provider does not
/// do at all 501, the rest 500. Causes are for those who may ask at all; providers put no secrets there.
pub(crate) fn of_provider(error: &ProviderError) -> Answer {
    match error {
        ProviderError::NotFound { .. } => text(404, error.to_string()),
        ProviderError::Invalid { message, .. } | ProviderError::Rejected { message, .. } => text(400, message.clone()),
        ProviderError::Unsupported { .. } => text(501, error.to_string()),
        ProviderError::Unavailable { .. } | ProviderError::TimedOut { .. } | ProviderError::Failed { .. } => {
            text(500, error_chain(error))
        }
    }
}

/// A capability that the provider lacks.
pub(crate) fn unsupported(what: &str) -> Answer {
    text(501, format!("not supported by this provider: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn errors_of_providers_keep_their_meaning() {
        let invalid = || "container \"c\" in pod \"p\" is waiting to start: ContainerCreating".to_owned();
        for (error, code, expected) in [
            (ProviderError::no_pod("logs", "ns/p"), 404, "logs: no pod ns/p".to_owned()),
            (ProviderError::Invalid { operation: "logs", message: invalid() }, 400, invalid()),
            (
                ProviderError::Unsupported { operation: "exec", feature: "ttys".to_owned() },
                501,
                "exec: not supported by this provider: ttys".to_owned(),
            ),
            (ProviderError::failed("logs", "disk on fire"), 500, "logs failed: disk on fire".to_owned()),
        ] {
            let answer = of_provider(&error);
            assert_eq!(answer.status().as_u16(), code);
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), expected);
        }
    }
}

//! Why a registry did not give what was asked for.

use std::time::Duration;

use minke_core::runtime::PullError;
use reqwest::StatusCode;
use serde::Deserialize;

/// Longest message of a registry that is passed on.
const LONGEST: usize = 300;

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistryError {
    /// Login missing, wrong or not enough.
    Denied(String),
    /// There is no such thing.
    NotFound,
    /// Too many requests; how long to wait, if it says so.
    RateLimited { message: String, after: Option<Duration> },
    /// It may work when tried again: the connection broke, or the registry is unwell.
    Transient(String),
    /// It won't.
    Fatal(String),
    /// What came is not what was asked for.
    Content(String),
    /// What came is not what its digest promises.
    Digest(String),
}

impl RegistryError {
    /// What an answer other than success means.
    pub(super) fn of(status: StatusCode, after: Option<Duration>, body: &[u8]) -> Self {
        let said = message(body);
        let text =
            if said.is_empty() { format!("it answers {status}") } else { format!("it answers {status}: {said}") };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::Denied(text),
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimited { message: text, after },
            StatusCode::REQUEST_TIMEOUT => Self::Transient(text),
            status if status.is_server_error() => Self::Transient(text),
            _ => Self::Fatal(text),
        }
    }

    /// A request that got no answer. URLs are left out: they may hold tokens.
    pub(super) fn unanswered(error: reqwest::Error) -> Self {
        let text = minke_core::runtime::error_chain(&error.without_url());
        Self::Transient(text)
    }

    /// This error as one of the Runtime port.
    pub(crate) fn into_pull(self, image: &str) -> PullError {
        let image = image.to_owned();
        match self {
            Self::Denied(message) => PullError::Denied { image, message },
            Self::NotFound => PullError::NotFound { image },
            Self::RateLimited { message, .. } => PullError::RateLimited { image, message },
            Self::Transient(message) | Self::Fatal(message) => PullError::Network { image, message },
            Self::Content(message) => PullError::BadContent { image, message },
            Self::Digest(message) => PullError::DigestMismatch { image, message },
        }
    }
}

/// What the registry says, for people: printable, one line, not endless.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Envelope {
        errors: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(Envelope { errors }) = serde_json::from_slice(body) else {
        return String::new();
    };
    let texts: Vec<String> = errors.into_iter().take(3).map(|e| format!("{} {}", e.code, e.message)).collect();
    let text: String = texts.join("; ").chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let of = |code: u16, body: &str| RegistryError::of(StatusCode::from_u16(code).unwrap(), None, body.as_bytes());
        assert!(matches!(of(401, ""), RegistryError::Denied(_)));
        assert!(matches!(of(403, ""), RegistryError::Denied(_)));
        assert_eq!(of(404, ""), RegistryError::NotFound);
        assert!(matches!(of(429, ""), RegistryError::RateLimited { .. }));
        assert!(matches!(of(503, ""), RegistryError::Transient(_)));
        assert!(matches!(of(400, ""), RegistryError::Fatal(_)));
        let body = "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"go\\u001b[31m away\"}]}";
        let RegistryError::Denied(text) = of(403, body) else { panic!() };
        assert!(text.ends_with("DENIED go [31m away"), "{text}");
    }
}

//! Why a pull failed, from the runtime's words. Pure.
//!
//! CRI has codes for two of these kinds and runtimes use them now and then; the rest is in the text that the registry
//! client wrote.

use minke_core::runtime::PullError;
use tonic::{Code, Status};

use crate::error::{is_transport, transport_words};

/// The kinds, in the order in which they are looked for: the first words that are found decide.
const DENIED: [&str; 7] = [
    "401 Unauthorized",
    "403 Forbidden",
    "no basic auth credentials",
    "authorization failed",
    "authentication required",
    "unauthorized:",
    "denied:",
];
const RATE: [&str; 2] = ["429 Too Many Requests", "toomanyrequests"];
const MISSING: [&str; 4] = ["manifest unknown", "name unknown", "repository name not known", ": not found"];
const DIGEST: [&str; 4] =
    ["unexpected commit digest", "failed size validation", "digest mismatch", "does not match digest"];
const PLATFORM: [&str; 3] = ["no match for platform", "no matching manifest", "no image found in manifest list for"];
const STORAGE: [&str; 3] = ["no space left on device", "read-only file system", "disk quota exceeded"];
const NETWORK: [&str; 15] = [
    "RegistryUnavailable",
    "dial tcp",
    "no such host",
    "i/o timeout",
    "connection refused",
    "connection reset",
    "TLS handshake",
    "tls: ",
    "x509: ",
    "gave HTTP response to HTTPS client",
    "unexpected EOF",
    "server misbehaving",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "500 Internal Server Error",
];
const NAME: [&str; 3] = ["failed to parse image reference", "invalid reference format", "failed to resolve image name"];

/// The port's error.
pub(crate) fn pull_error(image: &str, status: &Status) -> PullError {
    let image = image.to_owned();
    if is_transport(status) || status.code() == Code::Unavailable {
        let why = if is_transport(status) { transport_words(status) } else { status.message().to_owned() };
        return PullError::Storage { image, message: format!("the container runtime does not answer: {why}") };
    }
    let text = status.message();
    let has = |words: &[&str]| words.iter().any(|w| text.contains(w));
    let message = text.to_owned();
    if status.code() == Code::InvalidArgument || has(&NAME) {
        PullError::InvalidName { image, message }
    } else if has(&DENIED) || status.code() == Code::Unauthenticated || status.code() == Code::PermissionDenied {
        PullError::Denied { image, message }
    } else if has(&RATE) {
        PullError::RateLimited { image, message }
    } else if has(&PLATFORM) {
        let platform = format!("{}/{}", std::env::consts::OS, go_architecture(std::env::consts::ARCH));
        PullError::NoPlatform { image, platform, available: "others".to_owned() }
    } else if has(&STORAGE) {
        PullError::Storage { image, message }
    } else if has(&DIGEST) {
        PullError::DigestMismatch { image, message }
    } else if has(&NETWORK) {
        PullError::Network { image, message }
    } else if status.code() == Code::NotFound || has(&MISSING) {
        PullError::NotFound { image }
    } else {
        PullError::BadContent { image, message }
    }
}

/// Images name architectures as Go does.
fn go_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: Code, message: &str) -> String {
        let error = pull_error("r/i:t", &Status::new(code, message));
        format!("{error:?}").split([' ', '{']).next().unwrap().to_owned()
    }

    #[test]
    fn the_registrys_words_decide() {
        for (code, message, expected) in [
            (Code::NotFound, r#"failed to resolve reference "h/i:t": h/i:t: not found"#, "NotFound"),
            (Code::Unknown, r#"failed to resolve reference "h/i:t": unexpected status: 401 Unauthorized"#, "Denied"),
            (Code::Unknown, "failed to do request: no basic auth credentials", "Denied"),
            (
                Code::Unknown,
                "pull access denied, repository does not exist or may require authorization: authorization failed",
                "Denied",
            ),
            (Code::Unknown, "unexpected status from HEAD request: 429 Too Many Requests", "RateLimited"),
            (Code::Unknown, "failed to do request: Head \"https://h/v2\": dial tcp: lookup h: no such host", "Network"),
            (Code::Unknown, "http: server gave HTTP response to HTTPS client", "Network"),
            (Code::Unknown, "RegistryUnavailable: x", "Network"),
            (Code::NotFound, "no match for platform in manifest: not found", "NoPlatform"),
            (Code::Unknown, "write /var/lib/x: no space left on device", "Storage"),
            (Code::FailedPrecondition, "unexpected commit digest sha256:1, expected sha256:2", "DigestMismatch"),
            (Code::InvalidArgument, "x", "InvalidName"),
            (Code::Unknown, "failed to parse image reference \"A\": invalid reference format", "InvalidName"),
            (Code::Unknown, "something else", "BadContent"),
            (Code::Unavailable, "server is not initialized yet", "Storage"),
        ] {
            assert_eq!(kind(code, message), expected, "{message}");
        }
    }
}

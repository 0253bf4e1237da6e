//! Why a pull failed, from the words of those who pulled: containerd, CRI-O, docker, and the embedded runtime.

use super::Cause;

/// In this order: a text may hold words of several groups, and the more special ones come first. containerd says `no match
/// for platform in manifest: not found`, and docker `unauthorized` about rate limits.
const WORDS: &[(Cause, &[&str])] = &[
    (
        Cause::ImageSignature,
        &[
            "signaturevalidationfailed",
            "signature was required",
            "source image rejected",
            "signature verification failed",
            "no signature exists",
            "invalid signature",
        ],
    ),
    (
        Cause::ImagePlatform,
        &[
            "no match for platform",
            "no matching manifest for",
            "no image found in manifest list for architecture",
            "no image found in image index for architecture",
            "has no variant for",
            "does not match the specified platform",
        ],
    ),
    (
        Cause::RegistryRateLimit,
        &["toomanyrequests", "too many requests", "rate limit", "limits the rate of pulls", "429 too many"],
    ),
    (
        Cause::ImageStorage,
        &[
            "no space left on device",
            "disk quota exceeded",
            "can't store",
            "read-only file system",
            "input/output error",
        ],
    ),
    (
        Cause::ImageCorrupt,
        &[
            "unexpected commit digest",
            "failed size validation",
            "digest mismatch",
            "content does not match its digest",
            "does not match digest",
            "did not match expected digest",
            "can't be used",
            "invalid tar header",
            "gzip: invalid",
            "invalid checksum",
        ],
    ),
    (
        Cause::RegistryTls,
        &[
            "x509:",
            "certificate signed by unknown authority",
            "server gave http response to https client",
            "certificate has expired",
            "invalid peer certificate",
        ],
    ),
    (
        Cause::RegistryUnavailable,
        &[
            "dial tcp",
            "connection refused",
            "no such host",
            "i/o timeout",
            "tls handshake",
            "client.timeout exceeded",
            "request canceled",
            "connection reset",
            "can't be reached",
            "network is unreachable",
            "no route to host",
            "temporary failure in name resolution",
            "server misbehaving",
            "unexpected eof",
            "broken pipe",
            "internal server error",
            "bad gateway",
            "service unavailable",
            "gateway time",
            "registryunavailable",
        ],
    ),
    (
        Cause::InvalidImageName,
        &["invalid reference format", "did not resolve to an alias", "is not an image name", "invalidimagename"],
    ),
    (
        Cause::ImageNotFound,
        &[
            "not found",
            "manifest unknown",
            "name unknown",
            "does not exist in its registry",
            "repository name not known",
        ],
    ),
    (
        Cause::ImageDenied,
        &[
            "pull access denied",
            "access to the resource is denied",
            "no basic auth credentials",
            "repository does not exist or may require",
            "unauthorized",
            "authentication required",
            "forbidden",
            "insufficient_scope",
            "authorization failed",
            "refuses:",
            "access denied",
            "permission denied",
            "denied:",
            "invalid username/password",
        ],
    ),
    (Cause::ImageNeverPull, &["errimageneverpull", "pull policy of never"]),
];

/// The cause that a message of a failed pull tells; `None`: none of the known ones, as a bare `context deadline exceeded`.
/// The image's own name is not searched: one may be called `unauthorized`.
#[must_use]
pub fn pull_cause(message: &str, image: &str) -> Option<Cause> {
    let mut text = message.to_lowercase();
    let image = image.to_lowercase();
    // Runtimes write short names in full (`docker.io/library/x:latest`); what is left of that harms nothing.
    let bare = image.split('@').next().unwrap_or_default();
    let bare = match bare.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        Some(_) | None => bare,
    };
    for name in [image.as_str(), bare] {
        if name.len() > 3 {
            text = text.replace(name, "");
        }
    }
    WORDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word))).map(|(cause, _)| *cause)
}

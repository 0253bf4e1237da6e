//! Why pulls fail, in real words of containerd, CRI-O, docker and the embedded runtime.

use super::bed::*;
use crate::judgement::{Cause, pull_cause};
use crate::runtime::PullError;

#[track_caller]
fn are(cause: Cause, messages: &[&str]) {
    for message in messages {
        assert_eq!(pull_cause(message, IMAGE), Some(cause), "{message}");
    }
}

#[test]
fn the_network_group_of_the_old_watcher() {
    are(
        Cause::RegistryUnavailable,
        &[
            "dial tcp 10.0.0.1:443: x",
            "connect: connection refused",
            "lookup registry.example: no such host",
            "read tcp: i/o timeout",
            "net/http: TLS handshake timeout",
            "Client.Timeout exceeded while awaiting headers",
            "net/http: request canceled",
            "read: connection reset by peer",
        ],
    );
}

#[test]
fn the_missing_group_of_the_old_watcher() {
    are(Cause::ImageNotFound, &["docker.io/library/x:1: not found", "manifest unknown: manifest unknown"]);
}

#[test]
fn the_access_group_of_the_old_watcher() {
    are(
        Cause::ImageDenied,
        &[
            "pull access denied",
            "denied: requested access to the resource is denied",
            "no basic auth credentials",
            "repository does not exist or may require 'docker login'",
            "unauthorized: no",
            "authentication required",
        ],
    );
}

#[test]
fn a_bare_deadline_is_nobodys() {
    assert_eq!(pull_cause("context deadline exceeded", IMAGE), None);
}

#[test]
fn words_of_containerd() {
    are(
        Cause::ImageDenied,
        &[
            "failed to pull and unpack image \"registry.example/app:1\": failed to resolve reference \"registry.example/app:1\": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
            "unexpected status from HEAD request to https://registry.example/v2/app/manifests/1: 403 Forbidden",
        ],
    );
    are(
        Cause::ImageNotFound,
        &[
            "rpc error: code = NotFound desc = failed to pull and unpack image \"registry.example/app:1\": failed to resolve reference \"registry.example/app:1\": registry.example/app:1: not found",
        ],
    );
    are(
        Cause::ImagePlatform,
        &[
            "rpc error: code = NotFound desc = failed to pull and unpack image \"registry.example/app:1\": no match for platform in manifest: not found",
        ],
    );
    are(
        Cause::RegistryRateLimit,
        &[
            "unexpected status code https://registry-1.docker.io/v2/x: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.",
        ],
    );
    are(
        Cause::RegistryUnavailable,
        &[
            "failed to do request: Head \"https://registry.example/v2/app/manifests/1\": dial tcp: lookup registry.example on 10.96.0.10:53: no such host",
            "unexpected status from HEAD request to https://registry.example/v2/: 503 Service Unavailable",
        ],
    );
    are(
        Cause::RegistryTls,
        &[
            "failed to do request: Head \"https://registry.example/\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "http: server gave HTTP response to HTTPS client",
        ],
    );
    are(Cause::ImageStorage, &["failed to extract layer sha256:1: write /var/lib/x: no space left on device: unknown"]);
    are(
        Cause::ImageCorrupt,
        &[
            "failed commit on ref \"layer-sha256:1\": unexpected commit digest sha256:2, expected sha256:1: failed precondition",
        ],
    );
}

#[test]
fn words_of_crio() {
    are(
        Cause::ImageDenied,
        &[
            "reading manifest 1 in registry.example/app: errors: denied: requested access to the resource is denied; unauthorized: authentication required",
        ],
    );
    are(
        Cause::ImageNotFound,
        &[
            "initializing source docker://registry.example/app:1: reading manifest 1 in registry.example/app: manifest unknown",
        ],
    );
    are(
        Cause::RegistryUnavailable,
        &[
            "pinging container registry registry.example: Get \"https://registry.example/v2/\": dial tcp 10.0.0.1:443: connect: connection refused",
        ],
    );
    are(
        Cause::ImagePlatform,
        &[
            "choosing an image from manifest list docker://x: no image found in image index for architecture \"arm64\", variant \"v8\", OS \"linux\"",
        ],
    );
    are(
        Cause::ImageSignature,
        &["SignatureValidationFailed: Source image rejected: A signature was required, but no signature exists"],
    );
    are(
        Cause::InvalidImageName,
        &["short-name \"app\" did not resolve to an alias and no unqualified-search registries are defined"],
    );
}

#[test]
fn words_of_docker() {
    are(Cause::ImageNotFound, &["manifest for app:1 not found: manifest unknown: manifest unknown"]);
    are(Cause::ImagePlatform, &["no matching manifest for linux/arm64/v8 in the manifest list entries"]);
}

#[test]
fn words_of_the_embedded_runtime() {
    let image = || IMAGE.to_owned();
    let message = || "it answers".to_owned();
    let errors = [
        (PullError::NotFound { image: image() }, Cause::ImageNotFound),
        (PullError::Denied { image: image(), message: message() }, Cause::ImageDenied),
        (PullError::RateLimited { image: image(), message: message() }, Cause::RegistryRateLimit),
        (PullError::Network { image: image(), message: message() }, Cause::RegistryUnavailable),
        (PullError::DigestMismatch { image: image(), message: message() }, Cause::ImageCorrupt),
        (
            PullError::NoPlatform { image: image(), platform: "linux/amd64".into(), available: "linux/arm64".into() },
            Cause::ImagePlatform,
        ),
        (PullError::BadContent { image: image(), message: message() }, Cause::ImageCorrupt),
        (PullError::Storage { image: image(), message: message() }, Cause::ImageStorage),
        (PullError::InvalidName { image: image(), message: message() }, Cause::InvalidImageName),
    ];
    for (error, cause) in errors {
        assert_eq!(pull_cause(&format!("Failed to pull image {IMAGE:?}: {error}"), IMAGE), Some(cause), "{error}");
    }
}

#[test]
fn an_image_may_be_called_like_an_error() {
    let image = "registry.example/unauthorized/x509:forbidden";
    assert_eq!(
        pull_cause(&format!("failed to resolve {image}: dial tcp: i/o timeout"), image),
        Some(Cause::RegistryUnavailable)
    );
    assert_eq!(pull_cause(&format!("failed to pull {image}: context deadline exceeded"), image), None);
}

#[test]
fn a_back_off_that_tells_nothing_has_the_cause_of_the_pull_before() {
    let mut judge = Judge::default();
    assert_eq!(judge.waits_for(&app_waits("ErrImagePull", "dial tcp: i/o timeout")).cause, Cause::RegistryUnavailable);
    let why = judge
        .after(1000)
        .waits_for(&app_waits("ImagePullBackOff", "Back-off pulling image \"registry.example/app:1\""));
    assert_eq!(why.cause, Cause::RegistryUnavailable);
    assert!(why.evidence.message.ends_with("dial tcp: i/o timeout"), "{why}");
}

#[test]
fn a_back_off_seen_first_has_the_cause_that_events_tell() {
    let told = event("Failed", "Failed to pull image \"registry.example/app:1\": manifest unknown", 3);
    let mut judge = Judge { events: vec![told], ..Judge::default() };
    assert_eq!(judge.at_once(&app_waits("ImagePullBackOff", "Back-off pulling image")).cause, Cause::ImageNotFound);
}

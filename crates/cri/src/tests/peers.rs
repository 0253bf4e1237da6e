//! Endpoints that are not what they should be: each with a clear error that says what to do.

use std::path::Path;
use std::sync::Arc;

use minke_core::clock::SystemClock;
use minke_core::runtime::error_chain;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tonic::Code;

use crate::fake::{FakeCri, Fault};
use crate::{CgroupDriver, CriConfig, CriRuntime, Endpoint, OpenError};

async fn error_at(socket: &Path) -> OpenError {
    let endpoint = Endpoint::parse(socket.to_str().unwrap()).unwrap();
    CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await.unwrap_err()
}

/// A peer that answers whatever it is told with these bytes, and hangs up or not.
fn peer(answer: &'static [u8], hangs_up: bool) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = [0; 64];
            let _ = stream.read(&mut heard).await;
            let _ = stream.write_all(answer).await;
            if !hangs_up {
                kept.push(stream);
            }
        }
    });
    (directory, path)
}

#[tokio::test]
async fn a_missing_socket() {
    let directory = tempfile::tempdir().unwrap();
    let error = error_at(&directory.path().join("none.sock")).await;
    let text = error_chain(&error);
    assert!(text.contains("is the container runtime running?") && text.contains("none.sock"), "{text}");
}

#[tokio::test]
async fn a_socket_whose_owner_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let error = error_at(&path).await;
    assert!(matches!(error, OpenError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("start the container runtime"), "{error}");
}

#[tokio::test]
async fn a_socket_of_something_else() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", b""] {
        let (_directory, path) = peer(answer, true);
        let error = error_at(&path).await;
        assert!(matches!(error, OpenError::NotGrpc { .. }), "{answer:?}: {error:?}");
        assert!(error.to_string().contains("check --runtime-endpoint"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_silent() {
    let (_directory, path) = peer(b"", false);
    let error = error_at(&path).await;
    assert!(matches!(error, OpenError::Silent { .. }), "{error:?}");
    assert!(error.to_string().contains("does not answer within 10 s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs() {
    for call in ["Version", "Status"] {
        let fake = FakeCri::start();
        fake.fault(call, Fault::Hang);
        let error = error_at(&fake.socket()).await;
        assert!(matches!(error, OpenError::Silent { .. }), "{call}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_only_starting_is_waited_for() {
    let fake = FakeCri::start();
    fake.refuse("Status", Code::Unavailable, "server is not initialized yet");
    let error = error_at(&fake.socket()).await;
    assert!(error_chain(&error).contains("still starting after 10 s"), "{error:?}");
    assert!(error_chain(&error).ends_with("server is not initialized yet"), "{error:?}");

    let endpoint = Endpoint::parse(fake.socket().to_str().unwrap()).unwrap();
    let opening = tokio::spawn(CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(!opening.is_finished());
    fake.state().faults.clear();
    opening.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_grpc_server_without_cri() {
    let fake = FakeCri::start();
    fake.refuse("Version", Code::Unimplemented, "unknown service runtime.v1.RuntimeService");
    let error = error_at(&fake.socket()).await;
    assert!(matches!(error, OpenError::NoCri { .. }), "{error:?}");
    assert!(error.to_string().contains("disabled_plugins"), "{error}");
}

#[tokio::test]
async fn a_runtime_of_v1alpha2_only() {
    let fake = FakeCri::start();
    fake.refuse("Version", Code::Unimplemented, "unknown service runtime.v1.RuntimeService");
    fake.state().version = "1.5.2".to_owned();
    fake.state().speaks_v1alpha2 = true;
    let text = error_at(&fake.socket()).await.to_string();
    assert!(text.contains("containerd 1.5.2") && text.contains("v1alpha2 only"), "{text}");
}

#[tokio::test]
async fn a_runtime_that_refuses_the_first_question() {
    let fake = FakeCri::start();
    fake.refuse("Status", Code::Unknown, "the store is corrupt");
    let error = error_at(&fake.socket()).await;
    assert!(error_chain(&error).ends_with("refuses the first question: the store is corrupt"), "{error:?}");
}

#[tokio::test]
async fn a_runtime_that_does_not_know_the_later_questions_is_used() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    assert_eq!(runtime.facts().name, "containerd");
    assert_eq!(runtime.facts().cgroup_driver, CgroupDriver::Cgroupfs, "RuntimeConfig is not implemented");
    assert!(runtime.facts().handlers.is_empty());
}

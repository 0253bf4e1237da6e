//! Real Pods that go bad on a real node, seen through a real API by the real `minke watch`: each with its cause, its category,
//! its exit code and the time that the verdict took.
//!
//! ```text
//! failures (a table) ─► API, with its scheduler ─► `minke node`: statuses and events, back
//!                            │
//!                            ├─► `minke watch POD --for completed --fail-fast -o json`, one a Pod
//!                            └─► record: what a watch of the API tells, for `crates/watch/tests/fixtures`
//! ```
//!
//! Failures that no such cluster makes (a node that is lost, a volume that can't be attached) are written by hand, as their
//! controllers write them. With `MINKE_RECORD=DIRECTORY` what was seen is written there, one file a failure.

mod failures;
mod record;

use std::net::TcpListener;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use minke_core::clock::{Clock, SystemClock};
use minke_testkit::piped;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::node::{NODE, Node, POOR};
use crate::server::{Api as Server, Kind};
use failures::{Failure, Registries, Story};
use record::{Recorder, first_known};

/// What a watch came to.
struct Ended {
    code: i32,
    last: Value,
    at: Instant,
    err: String,
}

/// Every failure at a time, each watched by a process of its own. What is wrong, one line each.
pub(crate) async fn all(kind: Kind) -> Vec<String> {
    let server = Server::start(&kind).await;
    let registries = Registries::start().await;
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let failures = failures::all(&registries, taken.local_addr().unwrap().port(), kind.schedules());
    let pods: Api<Pod> = Api::default_namespaced(server.client.clone());
    let recorder = Recorder::start(&server.client);
    let node = Node::start(NODE, &server.kubeconfig, &server.client).await;
    let poor = Node::start(POOR, &server.kubeconfig, &server.client).await;

    let mut watches = JoinSet::new();
    for failure in &failures {
        watches.spawn(watch(server.kubeconfig.clone(), failure.clone()));
    }
    for failure in &failures {
        begin(&server, &pods, failure).await;
    }
    let mut wrong = Vec::new();
    println!("on the {}:", kind.name());
    println!("{:<20} {:<20} {:<15} {:>4} {:>12}", "failure", "cause", "category", "code", "seen→told");
    while let Some(ended) = watches.join_next().await {
        let (failure, ended) = ended.unwrap();
        let told = recorder.of(failure.name);
        let after = first_known(&told).map(|known| ended.at.saturating_duration_since(known));
        let word = |key: &str| ended.last[key].as_str().unwrap_or_default().to_owned();
        let (cause, category) = (word("cause"), word("category"));
        let took = after.map_or_else(String::new, |after| format!("{} ms", after.as_millis()));
        println!("{:<20} {cause:<20} {category:<15} {:>4} {took:>12}", failure.name, ended.code);
        let as_it_should = cause == failure.cause.as_str()
            && category == failure.cause.category().as_str()
            && ended.code == failure.code
            && ended.last["remedy"].is_string();
        if !as_it_should {
            let expected = (failure.cause, failure.code);
            wrong.push(format!("{}: expected {expected:?}, got {} {}", failure.name, ended.last, ended.err));
        }
    }
    if let Some(directory) = std::env::var_os("MINKE_RECORD") {
        for failure in &failures {
            let by = match failure.story {
                Story::Runs | Story::Deleted | Story::Drained | Story::Preempted(_) => "embedded runtime",
                Story::Written(_) | Story::WrittenAndDeleted(_) | Story::Told(..) => "written by hand",
            };
            let maker = format!("{by}, {}", kind.name());
            recorder.write(directory.as_ref(), failure.name, failure.cause, &maker);
        }
    }
    let soon = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
    pods.delete_collection(&soon, &ListParams::default()).await.unwrap();
    wrong.extend(node.stop(&server.client).await);
    wrong.extend(poor.stop(&server.client).await);
    wrong
}

async fn create(pods: &Api<Pod>, name: &str, spec: &Value) -> Pod {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap_or_else(|error| panic!("can't create {name}: {error}"))
}

/// Creates the Pod, and lets its story happen.
async fn begin(server: &Server, pods: &Api<Pod>, failure: &Failure) {
    let pod = create(pods, failure.name, &failure.spec).await;
    let write = async |statuses: &[Value]| {
        for status in statuses {
            let patch = Patch::Merge(json!({"status": status}));
            pods.patch_status(failure.name, &PatchParams::default(), &patch).await.unwrap();
        }
    };
    match &failure.story {
        Story::Runs => {}
        Story::Deleted => {
            runs(pods, failure.name).await;
            pods.delete(failure.name, &DeleteParams::default()).await.unwrap();
        }
        Story::Drained => {
            runs(pods, failure.name).await;
            pods.evict(failure.name, &EvictParams::default()).await.unwrap();
        }
        Story::Preempted(by) => {
            runs(pods, failure.name).await;
            create(pods, "important", by).await;
        }
        Story::Written(statuses) => write(statuses).await,
        Story::WrittenAndDeleted(statuses) => {
            write(statuses).await;
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            pods.delete(failure.name, &now).await.unwrap();
        }
        Story::Told(reason, message) => {
            tell(server, &pod, reason, message).await;
            // Somebody has taken it on.
            write(&[json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"})]).await;
        }
    }
}

/// Writes an event about a Pod, as a kubelet does.
async fn tell(server: &Server, pod: &Pod, reason: &str, message: &str) {
    let (name, uid) = (pod.metadata.name.as_ref().unwrap(), pod.metadata.uid.as_ref().unwrap());
    let at = SystemClock.now().to_string();
    let event = json!({
        "metadata": {"generateName": format!("{name}."), "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": uid},
        "reason": reason, "message": message, "type": "Warning",
        "source": {"component": "kubelet", "host": NODE}, "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    });
    let events: Api<Event> = Api::default_namespaced(server.client.clone());
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
}

/// Waits until the API says that a Pod runs.
async fn runs(pods: &Api<Pod>, name: &str) {
    loop {
        let pod = pods.get(name).await.unwrap();
        if pod.status.and_then(|status| status.phase).as_deref() == Some("Running") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The real binary, until it ends; the moment of its last line is that of the verdict.
async fn watch(kubeconfig: std::path::PathBuf, failure: Failure) -> (Failure, Ended) {
    let mut child = piped(env!("CARGO_BIN_EXE_minke"))
        .args(["watch", failure.name, "--for", "completed", "--fail-fast", "-o", "json", "--timeout", "240s"])
        .env("KUBECONFIG", kubeconfig)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut last, mut at) = (Value::Null, Instant::now());
    while let Ok(Some(line)) = lines.next_line().await {
        at = Instant::now();
        last = serde_json::from_str(&line).unwrap();
    }
    let output = child.wait_with_output().await.unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    (failure, Ended { code: output.status.code().unwrap_or(-1), last, at, err })
}

//! Every failure at a time, each watched by a process of its own.

use std::net::TcpListener;
use std::process::Stdio;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::failures::{self, Failure, Registries, Story};
use crate::node::{Node, write_event};
use crate::record::{Recorder, first_known};
use crate::server::Api as Server;

/// What a watch came to.
struct Ended {
    code: i32,
    last: Value,
    at: Instant,
    err: String,
}

/// What is wrong, one line each; nothing if all is as it should be.
pub(crate) async fn all() -> Vec<String> {
    let server = Server::start().await;
    let registries = Registries::start().await;
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let failures = failures::all(&registries, taken.local_addr().unwrap().port());
    let pods: Api<Pod> = Api::default_namespaced(server.client.clone());
    let recorder = Recorder::start(&server.client);
    let node = Node::start(&server.client).await;

    let mut watches = JoinSet::new();
    for failure in &failures {
        watches.spawn(watch(server.kubeconfig.clone(), failure.clone()));
    }
    for failure in &failures {
        begin(&server, &pods, &node, failure).await;
    }
    let mut wrong = Vec::new();
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
            let maker = match failure.story {
                Story::Runs | Story::Evicted | Story::Deleted => "embedded runtime, embedded API",
                Story::Written(_) | Story::WrittenAndDeleted(_) | Story::Told(..) => "written by hand, embedded API",
            };
            recorder.write(directory.as_ref(), failure.name, failure.cause, maker);
        }
    }
    node.stop().await;
    wrong
}

/// Creates the Pod, and lets its story happen.
async fn begin(server: &Server, pods: &Api<Pod>, node: &Node, failure: &Failure) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": failure.name}, "spec": failure.spec});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let pod = match pods.create(&PostParams::default(), &pod).await {
        Ok(pod) => pod,
        Err(error) => panic!("can't create {}: {error}", failure.name),
    };
    let uid = pod.metadata.uid.clone().unwrap();
    let write = async |statuses: &[Value]| {
        for status in statuses {
            let patch = Patch::Merge(json!({"status": status}));
            pods.patch_status(failure.name, &PatchParams::default(), &patch).await.unwrap();
        }
    };
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    match &failure.story {
        Story::Runs => node.run(pod).await,
        Story::Evicted => {
            node.run(pod).await;
            runs(pods, failure.name).await;
            node.evict(&uid, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 7Mi.");
        }
        Story::Deleted => {
            node.run(pod).await;
            runs(pods, failure.name).await;
            pods.delete(failure.name, &DeleteParams::default()).await.unwrap();
        }
        Story::Written(statuses) => write(statuses).await,
        Story::WrittenAndDeleted(statuses) => {
            write(statuses).await;
            pods.delete(failure.name, &now).await.unwrap();
        }
        Story::Told(reason, message) => {
            let events: Api<Event> = Api::default_namespaced(server.client.clone());
            write_event(&events, failure.name, &uid, reason, message, true).await;
            // Somebody has taken it on.
            write(&[json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"})]).await;
        }
    }
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
    let mut child = Command::new(env!("CARGO_BIN_EXE_minke"))
        .args(["watch", failure.name, "--for", "completed", "--fail-fast", "-o", "json", "--timeout", "240s"])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
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

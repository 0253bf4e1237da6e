//! `minke watch`, the real binary, against an API on loopback: what it says, and how it ends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test program")]

#[expect(dead_code, reason = "the watcher's own tests use all of it")]
#[path = "../../../watch/tests/edge/server.rs"]
mod server;

// What the shared server is made of.
use {http_body_util as _, hyper as _, hyper_util as _};

use std::path::PathBuf;
use std::time::Duration;

use minke_testkit::piped;
use serde_json::{Value, json};
use server::{Fault, Server};
use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// A kubeconfig for the server, gone with the value.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn of(server: &Server, name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kubeconfig-{name}"));
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": server.url}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}]});
        std::fs::write(&path, text.to_string()).unwrap();
        Self(path)
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn run(program: &std::path::Path, server: &Server, name: &str, arguments: &[&str]) -> Ended {
    let kubeconfig = Kubeconfig::of(server, name);
    let child = piped(program).args(arguments).env("KUBECONFIG", &kubeconfig.0).spawn().unwrap();
    let output =
        timeout(LIMIT, child.wait_with_output()).await.unwrap_or_else(|_| panic!("{name} does not end")).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

async fn watch(server: &Server, name: &str, arguments: &[&str]) -> Ended {
    let all: Vec<&str> = ["watch"].iter().chain(arguments).copied().collect();
    run(env!("CARGO_BIN_EXE_minke").as_ref(), server, name, &all).await
}

fn pod(uid: &str, status: &Value) -> Value {
    json!({"metadata": {"uid": uid},
           "spec": {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "app", "image": "i:1"}]},
           "status": status})
}

fn state(phase: &str, state: &Value) -> Value {
    let ready = state.get("running").is_some();
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
           "containerStatuses": [{"name": "app", "image": "i:1", "imageID": "", "ready": ready, "restartCount": 0, "state": state}]})
}

fn running() -> Value {
    state("Running", &json!({"running": {}}))
}

fn waits(reason: &str, message: &str) -> Value {
    state("Pending", &json!({"waiting": {"reason": reason, "message": message}}))
}

fn ended(code: i32, reason: &str) -> Value {
    state("Failed", &json!({"terminated": {"exitCode": code, "reason": reason}}))
}

fn failed(reason: &str, message: &str) -> Value {
    json!({"phase": "Failed", "reason": reason, "message": message})
}

/// Twenty ways to fail, each with what the command says and ends with.
#[tokio::test]
async fn twenty_ways_to_fail_each_with_cause_and_exit_code() {
    let mut marked = running();
    marked["conditions"] = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
    marked["phase"] = json!("Failed");
    let cases = [
        (waits("InvalidImageName", "bad"), "InvalidImageName", 6),
        (waits("ErrImagePull", "manifest unknown"), "ImageNotFound", 6),
        (waits("ErrImagePull", "pull access denied"), "ImageDenied", 6),
        (waits("ErrImageNeverPull", ""), "ImageNeverPull", 6),
        (waits("ErrImagePull", "no match for platform in manifest: not found"), "ImagePlatform", 6),
        (waits("ErrImagePull", "dial tcp: i/o timeout"), "RegistryUnavailable", 7),
        (waits("ErrImagePull", "toomanyrequests"), "RegistryRateLimit", 7),
        (waits("CreateContainerConfigError", "secret \"s\" not found"), "ObjectMissing", 6),
        (waits("CreateContainerError", "bad device"), "CreateContainer", 6),
        (waits("RunContainerError", "exec: \"x\": executable file not found in $PATH"), "CommandNotFound", 6),
        (waits("CrashLoopBackOff", "back-off 10s"), "CrashLoop", 1),
        (waits("BrandNew", "of tomorrow"), "UnknownWaiting", 5),
        (ended(3, "Error"), "ContainerFailed", 1),
        (ended(137, "OOMKilled"), "OomKilled", 1),
        (failed("Evicted", "The node was low on resource: memory."), "Evicted", 5),
        (failed("DeadlineExceeded", ""), "DeadlineExceeded", 1),
        (failed("OutOfcpu", "Pod was rejected: no cpu"), "OutOfResource", 4),
        (failed("NodeAffinity", "Pod was rejected: no"), "AdmissionRejected", 4),
        (failed("Terminated", "Pod was terminated in response to imminent node shutdown."), "NodeShutdown", 5),
        (marked, "ApiEvicted", 5),
    ];
    let server = Server::start().await;
    for (place, (status, cause, code)) in cases.into_iter().enumerate() {
        let name = format!("p{place}");
        server.put(&name, pod(&name, &status));
        let ended = watch(&server, &name, &[&name, "--fail-fast"]).await;
        assert_eq!(ended.code, code, "{cause}: {}{}", ended.out, ended.err);
        assert!(ended.err.contains(&format!("ns/{name}: {cause}: ")), "{cause}: {}", ended.err);
        assert!(ended.err.contains("hint: "), "{}", ended.err);
    }
}

#[tokio::test]
async fn ready_completed_and_deleted_are_reached() {
    let server = Server::start().await;
    server.put("web", pod("u1", &running()));
    let ready = watch(&server, "ready", &["web"]).await;
    assert_eq!(ready.code, 0, "{}", ready.err);
    assert!(ready.out.contains("ns/web: ready"), "{}", ready.out);
    server.put("job", pod("u2", &state("Succeeded", &json!({"terminated": {"exitCode": 0, "reason": "Completed"}}))));
    assert_eq!(watch(&server, "completed", &["pod/job", "--for", "completed"]).await.code, 0);
    assert_eq!(watch(&server, "deleted", &["ns/nobody", "--for", "deleted"]).await.code, 0);
    assert_eq!(watch(&server, "labels", &["-l", "app=web"]).await.code, 0);
}

#[tokio::test]
async fn json_is_one_object_a_line() {
    let server = Server::start().await;
    server.put("web", pod("u1", &waits("InvalidImageName", "bad")));
    let ended = watch(&server, "json", &["web", "-o", "json"]).await;
    let lines: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["verdict"], &last["cause"], &last["category"]),
        (&json!("Failed"), &json!("InvalidImageName"), &json!("configuration"))
    );
    assert_eq!((&last["uid"], &last["evidence"]["container"]), (&json!("u1"), &json!("app")));
}

#[tokio::test]
async fn patience_ends_and_rights_are_missed() {
    let server = Server::start().await;
    let late = watch(&server, "late", &["nobody", "--timeout", "300ms"]).await;
    assert_eq!(late.code, 3, "{}", late.err);
    assert!(late.err.contains("not ready in time: ns/nobody"), "{}", late.err);
    server.put("web", pod("u1", &waits("ErrImagePull", "dial tcp: x")));
    let waits = watch(&server, "waits", &["web", "--timeout", "500ms"]).await;
    assert_eq!(waits.code, 3, "a registry may come back: {}", waits.err);
    server.deny(&["list", "watch", "get"]);
    let blind = watch(&server, "blind", &["web"]).await;
    assert_eq!(blind.code, 5);
    assert!(blind.err.contains("not allowed to list pods"), "{}", blind.err);
    server.deny(&["list"]);
    assert_eq!(watch(&server, "labels-denied", &["-l", "app=web"]).await.code, 5);
    server.deny(&[]);
    server.faults(&[Fault::Watch(503), Fault::List(503)]);
    assert_eq!(watch(&server, "down", &["web", "--timeout", "500ms"]).await.code, 3);
    assert_eq!(run(env!("CARGO_BIN_EXE_minke").as_ref(), &server, "usage", &["watch", "a/b/c"]).await.code, 2);
}

#[tokio::test]
async fn logs_are_streamed_and_the_last_lines_of_the_one_to_blame_are_told() {
    let server = Server::start().await;
    let lines: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    server.wrote("web", "app", &lines, "");
    server.put("web", pod("u1", &ended(3, "Error")));
    let failed = watch(&server, "logs", &["web", "--logs"]).await;
    assert_eq!(failed.code, 1, "{}", failed.err);
    // All of it while it went on, the last twenty lines again at the end.
    for n in 1..=30 {
        assert!(failed.out.contains(&format!("web/app | line {n}\n")), "{}", failed.out);
    }
    let (_, last) = failed.out.split_once("last lines of web/app:\n").unwrap();
    let told: Vec<&str> = last.lines().collect();
    assert_eq!((told.len(), told[0], told[19]), (20, "  line 11", "  line 30"));
    // One that is started again and again: what it said before it ended.
    let mut looping = waits("CrashLoopBackOff", "back-off 10s");
    looping["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 9, "reason": "Error"}});
    server.wrote("loop", "app", "", "what it said last\n");
    server.put("loop", pod("u2", &looping));
    let looped = watch(&server, "logs-loop", &["loop", "--logs"]).await;
    assert_eq!(looped.code, 1, "{}", looped.err);
    assert!(looped.out.contains("last lines of loop/app:\n  what it said last\n"), "{}", looped.out);
    // With JSON, standard output has objects alone.
    let json = watch(&server, "logs-json", &["web", "--logs", "-o", "json"]).await;
    assert!(json.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", json.out);
    assert!(json.err.contains("web/app | line 30\n"), "{}", json.err);
    // Nobody asked: nothing is read.
    let before = server.count("log");
    assert_eq!(watch(&server, "no-logs", &["web"]).await.code, 1);
    assert_eq!(server.count("log"), before);
}

#[tokio::test]
async fn as_a_plugin_of_kubectl() {
    let server = Server::start().await;
    server.put("web", pod("u1", &running()));
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plugin");
    std::fs::create_dir_all(&directory).unwrap();
    let plugin = directory.join("kubectl-minke_watch");
    let _ = std::fs::remove_file(&plugin);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_minke"), &plugin).unwrap();
    assert_eq!(run(&plugin, &server, "plugin", &["web"]).await.code, 0);
    // kubectl itself, where there is one: it finds the plugin on the path, underscores for dashes.
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(kubectl) = std::env::split_paths(&path).map(|d| d.join("kubectl")).find(|file| file.is_file()) {
        let kubeconfig = Kubeconfig::of(&server, "kubectl");
        let both = std::env::join_paths([directory.clone()].into_iter().chain(std::env::split_paths(&path))).unwrap();
        let command = Command::new(kubectl)
            .args(["minke-watch", "web"])
            .env("PATH", both)
            .env("KUBECONFIG", &kubeconfig.0)
            .output();
        let output = timeout(LIMIT, command).await.unwrap().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    } else {
        println!("SKIPPED as_a_plugin_of_kubectl, by kubectl itself: needs kubectl on the path");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

//! A pool of CI runners: the kind `RunnerSet` in a real API, two replicas of `minke runners`, runners in real containers, and
//! a look-alike of GitHub.
//!
//! The replica that acts is killed while jobs run and while others are queued that it never hears of. Each job has to run
//! once, on one runner, to its end; and nothing may be left: no Pod, registration, configuration or set.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret as KubeSecret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use minke_core::clock::SystemClock;
use minke_runners::forge::Secret;
use minke_runners::forge::lookalike::{JobState, Limits, Lookalike, LookalikeSettings};
use minke_runners::set::{LABEL_SET, RunnerSet};
use minke_testkit::{BUSYBOX, Compression, Registry, busybox_image, piped};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::node::{NODE, Node};
use crate::server::{Api as Server, Kind};

const REPOSITORY: &str = "octo/app";
const SET: &str = "linux";
/// So many runners at most.
const MAX: usize = 3;

/// A runner as far as the look-alike knows one: the demo's.
const RUNNER: &str = include_str!("../../src/cmd/runners/demo/runner.sh");

/// One replica of the controller.
struct Replica {
    process: Child,
    log: PathBuf,
}

impl Replica {
    fn start(name: &str, directory: &Path, server: &Server, webhook: u16) -> Self {
        let (log, secret) = (directory.join(format!("{name}.log")), directory.join("webhook-secret"));
        std::fs::write(&secret, "of the test\n").unwrap();
        let output = std::fs::File::create(&log).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_minke"))
            .args(["runners", "--namespace=default", "--lease-namespace=default", "--poll=5s", "--listen=127.0.0.1:0"])
            .arg(format!("--webhook-listen=127.0.0.1:{webhook}"))
            .args([Path::new("--webhook-secret-file"), &secret, Path::new("--kubeconfig"), &server.kubeconfig])
            .env_remove("MINKE_LOG")
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { process, log }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The set; `template` says where its Pods run.
fn set(forge: &str, image: &str, schedules: bool) -> Value {
    let mut spec = json!({
        // The look-alike is on loopback, where only Pods of the host's network reach it.
        "hostNetwork": true, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "runner", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", RUNNER],
            "env": [{"name": "FORGE", "value": forge}],
        }],
    });
    if !schedules {
        spec["nodeName"] = json!(NODE);
    }
    json!({
        "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet", "metadata": {"name": SET, "namespace": "default"},
        "spec": {
            "github": {"url": forge, "repository": REPOSITORY, "credentialsSecret": "github"},
            "labels": ["linux"], "max": 1, "template": {"spec": spec},
        },
    })
}

/// Waits until something holds; says what it waited for in vain.
async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) -> Result<(), String> {
    let begun = Instant::now();
    while !holds().await {
        if begun.elapsed() > Duration::from_secs(90) {
            return Err(format!("waited in vain: {what}"));
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// See the module. What is wrong, one line each.
pub(crate) async fn pool(kind: Kind) -> Vec<String> {
    let server = Server::start(&kind).await;
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::start().await.unwrap();
    let busybox = busybox_image(BUSYBOX.as_ref()).unwrap().compression(Compression::None);
    let image = registry.push("test/busybox", "1", &busybox.build());
    let node = Node::start(NODE, &server.kubeconfig, &server.client).await;
    // A port that was free a moment ago: the replica that acts listens there, whichever it is.
    let webhook = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let settings = LookalikeSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: Secret::new("of the test"),
        limits: Limits::default(),
        webhook: Some((format!("http://127.0.0.1:{webhook}/"), Secret::new("of the test"))),
    };
    let forge = Lookalike::start(settings, Arc::new(SystemClock)).await.unwrap();

    let mut replicas = Vec::new();
    for name in ["one", "two"] {
        replicas.push(Replica::start(name, directory.path(), &server, webhook));
    }
    let mut wrong = Vec::new();
    if let Err(what) = story(&server, &forge, set(&forge.url(), &image, kind.schedules()), &mut replicas).await {
        wrong.push(what);
        wrong.extend(replicas.iter().map(Replica::said));
        return wrong;
    }
    println!("on the {}: {} calls to the forge", kind.name(), forge.spent());
    drop(replicas);
    if matches!(kind, Kind::Embedded) {
        wrong.extend(demo(&server, &image).await);
    }
    wrong.extend(node.stop(&server.client).await);
    wrong
}

/// `minke runners demo --containers`, as people run it, to its end and interrupted; everything that it makes is gone.
async fn demo(server: &Server, image: &str) -> Vec<String> {
    let started = |jobs: &str| {
        piped(env!("CARGO_BIN_EXE_minke"))
            .args(["runners", "demo", "--containers", jobs, "--max=2", "--image", image])
            .args([Path::new("--kubeconfig"), &server.kubeconfig])
            .spawn()
            .unwrap()
    };
    let pods: Api<Pod> = Api::default_namespaced(server.client.clone());
    let runners = ListParams::default().labels(LABEL_SET);
    let here = async || pods.list(&runners).await.unwrap().items.len();
    let mut wrong = Vec::new();
    for (jobs, interrupted) in [("--jobs=3", false), ("--jobs=100", true)] {
        let demo = started(jobs);
        if interrupted {
            wrong.extend(until("the demo has a runner", async || here().await > 0).await.err());
            let pid = demo.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).unwrap();
            kill_process(pid, Signal::INT).unwrap();
        }
        let ended = demo.wait_with_output().await.unwrap();
        let code = if interrupted { 130 } else { 0 };
        println!("{}", String::from_utf8_lossy(&ended.stdout));
        if ended.status.code() != Some(code) {
            let said = String::from_utf8_lossy(&ended.stderr);
            wrong.push(format!("the demo of {jobs} ends with {}: {said}", ended.status));
        }
        let sets: Api<RunnerSet> = Api::default_namespaced(server.client.clone());
        let secrets: Api<KubeSecret> = Api::default_namespaced(server.client.clone());
        let set = sets.get_opt("demo").await.unwrap().is_some();
        let secret = secrets.get_opt("minke-runners-demo").await.unwrap().is_some();
        let pods = here().await;
        if set || secret || pods > 0 {
            wrong.push(format!("the demo of {jobs} leaves: set {set}, secret {secret}, {pods} Pods"));
        }
    }
    wrong
}

async fn story(server: &Server, forge: &Lookalike, set: Value, replicas: &mut Vec<Replica>) -> Result<(), String> {
    let sets: Api<RunnerSet> = Api::default_namespaced(server.client.clone());
    let pods: Api<Pod> = Api::default_namespaced(server.client.clone());
    let secrets: Api<KubeSecret> = Api::default_namespaced(server.client.clone());
    let own = ListParams::default().labels(LABEL_SET);
    define(server).await?;

    // The schema refuses what can't be.
    for (field, value) in [("max", json!(-1)), ("labels", json!([])), ("maximum", json!(3))] {
        let mut bad = set.clone();
        bad["spec"][field] = value;
        if create(server, &bad).await.is_ok() {
            return Err(format!("the API takes a set with a wrong {field}"));
        }
    }

    create(server, &set).await?;
    // Scaled as `kubectl scale` does it; without its credential it says what it lacks.
    let scale = Patch::Merge(json!({"spec": {"replicas": MAX}}));
    sets.patch_scale(SET, &PatchParams::default(), &scale).await.map_err(|e| format!("scaling: {e}"))?;
    for _ in 0..6 {
        forge.with(|state, now| state.queue(REPOSITORY, &["self-hosted", "linux"], now));
    }
    let said = async |kind: &str, reason: &str| {
        let set = sets.get(SET).await.ok().and_then(|set| set.status).unwrap_or_default();
        set.conditions.iter().any(|condition| condition.type_ == kind && condition.reason == reason)
    };
    until("the set misses its credential", async || said("ForgeReachable", "Credential").await).await?;
    let credential = json!({"metadata": {"name": "github"}, "stringData": {"github_token": "of the test"}});
    let credential = serde_json::from_value(credential).unwrap();
    secrets.create(&PostParams::default(), &credential).await.map_err(|e| e.to_string())?;

    let (running, over) = (
        || forge.with(|state, _| state.jobs().filter(|job| matches!(job.state, JobState::Running(_))).count()),
        || forge.with(|state, _| state.jobs().filter(|job| matches!(job.state, JobState::Over(_))).count()),
    );
    until("as many jobs run as may", async || running() == MAX).await?;
    let status = sets.get(SET).await.unwrap().status.unwrap_or_default();
    println!("wanted {}, busy {}, queued {}", status.desired, status.busy, status.queued);

    // The replica that acts dies; more is queued meanwhile, and nobody hears of it.
    let leases: Api<Lease> = Api::default_namespaced(server.client.clone());
    let holder = leases.get("minke-runners").await.unwrap().spec.and_then(|spec| spec.holder_identity);
    let holder = holder.unwrap_or_default();
    let acts = |replica: &Replica| replica.process.id().is_some_and(|id| holder.contains(&format!("_{id}_")));
    let place = replicas.iter().position(acts).ok_or(format!("none of the replicas acts, but {holder}"))?;
    let mut acting = replicas.remove(place);
    acting.process.kill().await.map_err(|e| e.to_string())?;
    let killed = Instant::now();
    for _ in 0..4 {
        forge.with(|state, now| state.queue(REPOSITORY, &["self-hosted", "linux"], now));
    }
    let most = std::sync::atomic::AtomicUsize::new(0);
    until("every job has run", async || {
        let here = pods.list(&own).await.map_or(0, |pods| pods.items.len());
        most.fetch_max(here, std::sync::atomic::Ordering::Relaxed);
        over() == 10
    })
    .await?;
    println!("the last job was over {} s after the acting replica was killed", killed.elapsed().as_secs());
    let most = most.into_inner();
    if most > MAX {
        return Err(format!("there were {most} Pods"));
    }
    let unserved = forge.with(|state, _| state.jobs().filter(|job| job.state == JobState::Over(None)).count());
    if unserved > 0 {
        return Err(format!("{unserved} jobs are over and no runner had them"));
    }

    // Nothing is left, then not even the set.
    until("no Pod is left", async || pods.list(&own).await.is_ok_and(|pods| pods.items.is_empty())).await?;
    until("no registration is left", async || forge.with(|state, _| state.runners().is_empty())).await?;
    let others = async || {
        let secrets = secrets.list(&ListParams::default()).await.unwrap().items;
        secrets.into_iter().filter(|secret| secret.metadata.name.as_deref() != Some("github")).count()
    };
    until("no configuration is left", async || others().await == 0).await?;
    sets.delete(SET, &DeleteParams::default()).await.map_err(|e| e.to_string())?;
    until("the set is gone", async || sets.get_opt(SET).await.is_ok_and(|set| set.is_none())).await
}

/// As `kubectl apply` does it: by what `minke runners crd` prints.
async fn define(server: &Server) -> Result<(), String> {
    let printed = Command::new(env!("CARGO_BIN_EXE_minke")).args(["runners", "crd"]).output().await.unwrap();
    let definition: CustomResourceDefinition = serde_json::from_slice(&printed.stdout).map_err(|e| e.to_string())?;
    let all: Api<CustomResourceDefinition> = Api::all(server.client.clone());
    all.create(&PostParams::default(), &definition).await.map_err(|e| format!("the definition: {e}"))?;
    let name = definition.metadata.name.unwrap();
    let established = async || {
        let found = all.get(&name).await.ok().and_then(|found| found.status).and_then(|status| status.conditions);
        found.into_iter().flatten().any(|c| c.type_ == "Established" && c.status == "True")
    };
    until("the kind is served", established).await
}

/// Creates an object that may be none.
async fn create(server: &Server, set: &Value) -> Result<Value, String> {
    let path = "/apis/minke.dev/v1alpha1/namespaces/default/runnersets";
    let request = kube::core::Request::new(path).create(&PostParams::default(), set.to_string().into_bytes());
    let mut request = request.map_err(|e| e.to_string())?;
    *request.uri_mut() = format!("{path}?fieldValidation=Strict").parse().unwrap();
    server.client.request(request).await.map_err(|e| e.to_string())
}

//! An embedded API of this process, and Pods in it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_apiserver::access::{Authority, Tokens};
use minke_apiserver::engine::Engine;
use minke_apiserver::http::{Limits, Server};
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// See the module. Ends when dropped.
pub(super) struct Embedded {
    pub(super) kubeconfig: PathBuf,
    pub(super) client: Client,
    _directory: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

/// A client of the API that this file tells of.
pub(super) async fn client(kubeconfig: &Path) -> Result<Client, Failure> {
    // ring is the only provider compiled in; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parsed = Kubeconfig::read_from(kubeconfig).map_err(Failure::runtime("can't read the kubeconfig"))?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(Failure::runtime("can't use the kubeconfig"))?)
        .map_err(Failure::runtime("can't make a client"))
}

impl Embedded {
    pub(super) async fn start() -> Result<Self, Failure> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().map_err(Failure::file("making", Path::new("a directory")))?;
        let engine =
            Engine::new(Store::in_memory(HistoryLimits { events: 100_000, bytes: 512 << 20 }), Arc::new(SystemClock));
        engine.prepare().await.map_err(Failure::runtime("can't make the API's first objects"))?;
        let authority = Authority::open(&directory.path().join("pki"), SystemClock.now());
        let authority = authority.map_err(Failure::runtime("can't make certificates"))?;
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let tls = authority.server(&["localhost"], &[loopback]).map_err(Failure::runtime("can't make certificates"))?;
        let server = Server::bind((loopback, 0).into(), engine.clone(), Tokens::default(), Limits::default()).await;
        let server = server.map_err(Failure::runtime("can't serve"))?;
        let kubeconfig = directory.path().join("admin.conf");
        let url = format!("https://{}", server.address());
        authority.kubeconfig(&kubeconfig, &url).map_err(Failure::runtime("can't write a kubeconfig"))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run(tls));
        tasks.spawn(async move { engine.care().await });
        let client = client(&kubeconfig).await?;
        Ok(Self { kubeconfig, client, _directory: directory, _tasks: tasks })
    }
}

pub(super) fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

/// A Pod as large as they are in clusters: some three kilobytes of JSON.
pub(super) fn pod(name: &str) -> Value {
    let env: Vec<Value> =
        (0..12).map(|n| json!({"name": format!("SETTING_{n}"), "value": "a value of some length"})).collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "pod-template-hash": "5d4f8c7b9"},
                     "annotations": {"example.com/config-hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}},
        "spec": {"restartPolicy": "Never", "nodeName": "node-1", "automountServiceAccountToken": false,
                 "containers": [{"name": "app", "image": "registry.example/team/app:1.2.3", "env": env,
                                 "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                                 "readinessProbe": probe, "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}],
                 "volumes": [{"name": "cache", "emptyDir": {}}]},
    })
}

/// A status with its one container in a state.
pub(super) fn status(phase: &str, state: &Value) -> Value {
    let ready = state.get("running").is_some();
    let word = if ready { "True" } else { "False" };
    json!({"phase": phase, "hostIP": "192.0.2.1", "podIP": "198.51.100.7", "startTime": "2026-01-01T00:00:00Z",
           "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"},
                          {"type": "ContainersReady", "status": word}, {"type": "Ready", "status": word}],
           "containerStatuses": [{"name": "app", "image": "registry.example/team/app:1.2.3", "restartCount": 0, "ready": ready,
                                  "imageID": "registry.example/team/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                                  "state": state}]})
}

/// Creates a Pod and gives it a status.
pub(super) async fn create(pods: &Api<Pod>, object: &Value, first: &Value) -> Result<Pod, Failure> {
    let pod = serde_json::from_value(object.clone()).map_err(Failure::runtime("a Pod of this program is wrong"))?;
    let pod = pods.create(&PostParams::default(), &pod).await.map_err(Failure::runtime("can't create a Pod"))?;
    set(pods, pod.metadata.name.as_deref().unwrap_or_default(), first).await?;
    Ok(pod)
}

/// Writes a Pod's status.
pub(super) async fn set(pods: &Api<Pod>, name: &str, status: &Value) -> Result<(), Failure> {
    let patch = Patch::Merge(json!({"status": status}));
    let written = pods.patch_status(name, &PatchParams::default(), &patch).await;
    written.map(drop).map_err(Failure::runtime("can't write a Pod's status"))
}

/// Writes an event about a Pod.
pub(super) async fn event(client: &Client, pod: &Pod, reason: &str, message: &str) -> Result<(), Failure> {
    let now = SystemClock.now().to_string();
    let event = json!({
        "metadata": {"generateName": "event.", "namespace": "default"}, "type": "Warning", "reason": reason, "message": message,
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default",
                           "name": pod.metadata.name, "uid": pod.metadata.uid},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let event = serde_json::from_value(event).map_err(Failure::runtime("an event of this program is wrong"))?;
    events.create(&PostParams::default(), &event).await.map(drop).map_err(Failure::runtime("can't write an event"))
}

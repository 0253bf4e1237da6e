//! A provider in a hundred lines: each Pod is one plain process of this machine, without any isolation.
//!
//! ```console
//! $ cargo run -p minke-node --example tiny_provider -- my-node     # the cluster of your kubeconfig
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use minke_core::clock::SystemClock;
use minke_core::identity::PodKey;
use minke_core::provider::{
    DesiredPod, FixedNode, HeldPod, NodeDescription, Notices, Provider, ProviderError, StatusSink,
};
use minke_core::resources::{Amount, ResourceList};
use minke_node::controller::Controller;
use minke_node::environment::NodeFacts;
use minke_node::kube::KubeApi;
use minke_node::node::{NodeConfig, NodeController};
use tokio::process::{Child, Command};

#[derive(Debug, Default)]
struct Processes(Mutex<BTreeMap<PodKey, (Arc<Pod>, Child)>>);

fn key(pod: &DesiredPod) -> Result<PodKey, ProviderError> {
    PodKey::of(&pod.pod).map_err(|e| ProviderError::Invalid { operation: "create", message: e.to_string() })
}

/// What can be said of a process: whether it runs, or its exit code.
fn status(pod: &Pod, child: &mut Child) -> PodStatus {
    let state = match child.try_wait().ok().flatten() {
        None => serde_json::json!({"running": {}}),
        Some(exit) => serde_json::json!({"terminated": {"exitCode": exit.code().unwrap_or(128)}}),
    };
    let phase = match state["terminated"]["exitCode"].as_i64() {
        None => "Running",
        Some(0) => "Succeeded",
        Some(_) => "Failed",
    };
    let container = &pod.spec.iter().flat_map(|spec| &spec.containers).next();
    let (name, image) = container.map(|c| (c.name.clone(), c.image.clone())).unwrap_or_default();
    let ready = phase == "Running";
    let container = serde_json::json!({
        "name": name, "image": image.unwrap_or_default(), "imageID": "", "ready": ready, "restartCount": 0, "state": state,
    });
    let condition = serde_json::json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
    let status = serde_json::json!({"phase": phase, "containerStatuses": [container], "conditions": [condition]});
    serde_json::from_value(status).unwrap_or_default()
}

impl Processes {
    fn with<T>(&self, run: impl FnOnce(&mut BTreeMap<PodKey, (Arc<Pod>, Child)>) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

fn held(key: &PodKey, pod: &Arc<Pod>, child: &mut Child) -> HeldPod {
    let status = Some(status(pod, child));
    HeldPod { key: key.clone(), pod: Arc::new(Pod { status, ..(**pod).clone() }) }
}

#[async_trait]
impl Provider for Processes {
    async fn create(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = key(pod)?;
        let [container] = pod.pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default() else {
            let message = "this node runs pods of one container".to_owned();
            return Err(ProviderError::Rejected { reason: "TooManyContainers".to_owned(), message });
        };
        let words: Vec<&String> = container.command.iter().chain(&container.args).flatten().collect();
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(ProviderError::Invalid { operation: "create", message: "the container has no command".into() });
        };
        let variables = container.env.iter().flatten().map(|v| (&v.name, v.value.as_deref().unwrap_or_default()));
        let mut command = Command::new(program);
        command.args(arguments).envs(variables).stdin(Stdio::null()).kill_on_drop(true);
        self.with(|pods| {
            if let Entry::Vacant(place) = pods.entry(key) {
                let child = command.spawn().map_err(|error| ProviderError::failed("create", error))?;
                place.insert((pod.pod.clone(), child));
            }
            Ok(())
        })
    }

    async fn update(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = key(pod)?;
        let found = self.with(|pods| pods.get_mut(&key).map(|(held, _)| *held = pod.pod.clone()));
        found.ok_or_else(|| ProviderError::no_pod("update", key.to_string()))
    }

    async fn delete(&self, key: &PodKey, _grace: Duration) -> Result<(), ProviderError> {
        // Dropping the process kills it.
        self.with(|pods| pods.remove(key)).map(drop).ok_or_else(|| ProviderError::no_pod("delete", key.to_string()))
    }

    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError> {
        Ok(self.with(|pods| pods.get_mut(key).map(|(pod, child)| held(key, pod, child))))
    }

    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError> {
        Ok(self.with(|pods| pods.iter_mut().map(|(key, (pod, child))| held(key, pod, child)).collect()))
    }

    fn notify(&self, _sink: Arc<dyn StatusSink>) -> Notices {
        Notices::Polled
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "tiny".to_owned());
    let mut config = kube::Config::infer().await?;
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    let api = Arc::new(KubeApi::new(client, name.clone(), Arc::new(SystemClock)));
    let some = |what: &str, amount| (what.to_owned(), Amount::from_units(amount));
    let capacity = ResourceList::from([some("pods", 10), some("cpu", 2), some("memory", 2 << 30)]);
    let described = NodeDescription { allocatable: capacity.clone(), capacity, ..NodeDescription::default() };
    let machine = Arc::new(FixedNode(NodeDescription { hostname: name.clone(), ..described }));
    let node = NodeController::new(NodeConfig::new(name.clone(), "tiny"), api.clone(), machine);
    let facts = NodeFacts { name, ..NodeFacts::default() };
    let pods = Controller::builder().api(api).provider(Arc::new(Processes::default())).node(facts).build()?;
    let registered = node.handle();
    let pods = async {
        registered.ready().await;
        pods.run().await
    };
    tokio::try_join!(async { node.run().await.map_err(|e| e.to_string()) }, async {
        pods.await.map_err(|e| e.to_string())
    })?;
    Ok(())
}

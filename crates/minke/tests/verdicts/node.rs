//! A node: the kubelet core over the embedded runtime, with a writer that carries statuses and events to the API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use minke_core::clock::{Clock, SystemClock};
use minke_core::identity::PodUid;
use minke_core::objects::ObjectSet;
use minke_core::runtime::Runtime;
use minke_kubelet::eviction::EvictionConfig;
use minke_kubelet::{DesiredPod, Eviction, Kubelet, KubeletConfig, PodChange, Progress, StopRequest};
use minke_oci::{EmbeddedConfig, EmbeddedRuntime};
use minke_testkit::TempState;
use serde_json::json;
use tokio::task::JoinSet;

/// As Pods name it.
pub(crate) const NODE: &str = "node-1";

/// See the module.
pub(crate) struct Node {
    kubelet: Arc<Kubelet>,
    names: Names,
    writers: JoinSet<()>,
    _place: TempState,
}

/// Names by uid, of Pods that came from the API.
type Names = Arc<Mutex<BTreeMap<String, String>>>;

impl Node {
    pub(crate) async fn start(client: &Client) -> Self {
        let place = TempState::new().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut config = EmbeddedConfig::new(place.state(), place.run());
        // What this machine has configured for others is not for tests.
        config.network.cni = None;
        let runtime: Arc<dyn Runtime> = Arc::new(EmbeddedRuntime::open(config, clock.clone()).await.unwrap());
        let config = KubeletConfig {
            eviction: EvictionConfig { thresholds: Vec::new(), ..EvictionConfig::default() },
            cgroup_root: format!("/minke-verdicts-{}", std::process::id()),
            ..KubeletConfig::new(NODE, place.state(), place.logs())
        };
        let kubelet = Arc::new(Kubelet::start(config, runtime, clock).await.unwrap());
        let names = Names::default();
        let mut writers = JoinSet::new();
        writers.spawn(write(Arc::clone(&kubelet), client.clone(), Arc::clone(&names)));
        Self { kubelet, names, writers, _place: place }
    }

    /// Takes on a Pod of the API.
    pub(crate) async fn run(&self, pod: Pod) {
        let (uid, name) = (pod.metadata.uid.clone().unwrap(), pod.metadata.name.clone().unwrap());
        self.names.lock().unwrap().insert(uid, name);
        self.kubelet.apply(vec![DesiredPod { pod: Arc::new(pod), objects: Arc::new(ObjectSet::default()) }]).await;
    }

    /// Makes room, as the eviction manager does.
    pub(crate) fn evict(&self, uid: &str, message: &str) {
        let eviction = Eviction {
            reason: "Evicted".to_owned(),
            message: message.to_owned(),
            grace: Some(Duration::ZERO),
            disrupts: true,
        };
        self.kubelet.evict(&PodUid::new(uid).unwrap(), eviction).unwrap();
    }

    /// Removes everything.
    pub(crate) async fn stop(self) {
        let mut writers = self.writers;
        let mut changes = self.kubelet.subscribe();
        for report in self.kubelet.reports() {
            let uid = PodUid::new(report.pod.metadata.uid.clone().unwrap()).unwrap();
            // Only a Pod that is gone is unknown.
            let _ = self.kubelet.stop(&uid, StopRequest { grace: Some(Duration::ZERO), remove: true });
        }
        while !self.kubelet.reports().is_empty() {
            changes.next().await;
        }
        writers.shutdown().await;
        if let Some(kubelet) = Arc::into_inner(self.kubelet) {
            kubelet.shutdown().await;
        }
    }
}

/// Writes what happens, in its order: events that were told before a status are there before it, however busy the machine is.
async fn write(kubelet: Arc<Kubelet>, client: Client, names: Names) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(client);
    let mut progress = kubelet.progress();
    let mut changes = kubelet.subscribe();
    drop(kubelet);
    loop {
        // Both are cancel-safe: what is not taken is told the next time.
        let report = tokio::select! {
            biased;
            told = progress.recv() => {
                match told {
                    Ok(told) => write_progress(&events, &names, told).await,
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                }
                continue;
            }
            change = changes.next() => match change {
                PodChange::Updated(report) => report,
                PodChange::Removed(_) => continue,
            },
        };
        while let Ok(told) = progress.try_recv() {
            write_progress(&events, &names, told).await;
        }
        let mut pod = Pod::clone(&report.pod);
        let known = names.lock().unwrap().get(pod.metadata.uid.as_deref().unwrap_or_default()).cloned();
        let Some(name) = known else { continue };
        pod.metadata.resource_version = None;
        pod.metadata.managed_fields = None;
        // A Pod that is gone from the API, or has another uid there, has nobody to write to.
        if let Err(error) = pods.replace_status(&name, &PostParams::default(), &pod).await {
            println!("status of {name}: {error}");
        }
    }
}

async fn write_progress(events: &Api<k8s_openapi::api::core::v1::Event>, names: &Names, told: Progress) {
    let Progress::Event { pod, reason, message, warning, .. } = told else { return };
    let name = names.lock().unwrap().get(pod.as_str()).cloned();
    let Some(name) = name else { return };
    write_event(events, &name, pod.as_str(), &reason, &message, warning).await;
}

/// Writes an event about a Pod, as a kubelet does.
pub(crate) async fn write_event(
    events: &Api<k8s_openapi::api::core::v1::Event>,
    name: &str,
    uid: &str,
    reason: &str,
    message: &str,
    warning: bool,
) {
    let now = SystemClock.now().to_string();
    let event = json!({
        "metadata": {"generateName": format!("{name}."), "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": uid},
        "reason": reason, "message": message, "type": if warning { "Warning" } else { "Normal" },
        "source": {"component": "kubelet", "host": NODE}, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    if let Err(error) = events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await {
        println!("event {reason} of {name}: {error}");
    }
}

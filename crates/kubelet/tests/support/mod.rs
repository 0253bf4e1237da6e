//! A whole kubelet core on fakes: the scripted runtime, checkpoints in memory, a host that needs no disk.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::fake::{FakeRuntime, container_config, sandbox_config};
use minke_core::identity::{PodKey, PodUid};
use minke_core::objects::ObjectSet;
use minke_core::runtime::{
    ContainerConfig, ContainerStatus, NamespaceMode, NamespaceOptions, PodRuntimeStatus, SandboxConfig, labels,
};
use minke_kubelet::checkpoint::MemoryCheckpoints;
use minke_kubelet::pleg::PlegConfig;
use minke_kubelet::spec::container_hash;
use minke_kubelet::sync::{ConfigError, ContainerRequest, HostError, PodHost, Recorder};
use minke_kubelet::{AdmitAll, DesiredPod, Kubelet, KubeletConfig, PodReport, PodStage, Ports, Progress};
use serde_json::{Value, json};

/// A host without volumes that counts what is left on it.
#[derive(Debug, Default)]
pub(crate) struct PlainHost {
    pub(crate) set_up: AtomicUsize,
    /// What volumes were set up for last.
    pub(crate) objects: Mutex<Arc<ObjectSet>>,
    /// So many of the next tries to set up volumes fail.
    pub(crate) failing: AtomicUsize,
    pub(crate) torn_down: AtomicUsize,
    pub(crate) logs_removed: AtomicUsize,
}

#[async_trait]
impl PodHost for PlainHost {
    async fn set_up(&self, desired: &DesiredPod) -> Result<(), HostError> {
        self.set_up.fetch_add(1, Ordering::Relaxed);
        if self.failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            return Err(HostError { message: "no room for volumes".to_owned() });
        }
        *self.objects.lock().unwrap() = desired.objects.clone();
        Ok(())
    }

    async fn sandbox_config(&self, desired: &DesiredPod, attempt: u32) -> Result<SandboxConfig, ConfigError> {
        let host_network = desired.pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
        let network = if host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
        let config = sandbox_config(PodKey::of(&desired.pod).unwrap());
        let namespaces = NamespaceOptions { network, ..NamespaceOptions::default() };
        Ok(SandboxConfig { attempt, namespaces, ..config })
    }

    async fn container_config(&self, request: ContainerRequest<'_>) -> Result<ContainerConfig, ConfigError> {
        let ContainerRequest { container, attempt, image, .. } = request;
        let config = container_config(&container.name, attempt, image.id.clone());
        Ok(ContainerConfig {
            image_name: container.image.clone().unwrap_or_default(),
            stdin: container.stdin.unwrap_or(false),
            tty: container.tty.unwrap_or(false),
            annotations: BTreeMap::from([(labels::HASH.to_owned(), container_hash(container))]),
            ..config
        })
    }

    async fn termination_message(&self, _pod: &Pod, _status: &ContainerStatus) -> Option<String> {
        None
    }

    async fn tear_down(&self, _uid: &PodUid) -> Result<(), HostError> {
        self.torn_down.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn remove_logs(&self, _key: &PodKey) -> Result<(), HostError> {
        self.logs_removed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn rotate_logs(&self, _status: &PodRuntimeStatus) {}
}

/// One machine: it outlives agents.
pub(crate) struct Bed {
    pub(crate) runtime: FakeRuntime,
    pub(crate) checkpoints: MemoryCheckpoints,
    pub(crate) host: Arc<PlainHost>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self { runtime: FakeRuntime::new(), checkpoints: MemoryCheckpoints::default(), host: Arc::default() }
    }

    pub(crate) fn config() -> KubeletConfig {
        KubeletConfig { log_max_bytes: 1 << 20, ..KubeletConfig::new("node", "/state".into(), "/logs".into()) }
    }

    pub(crate) fn ports(&self) -> Ports {
        Ports {
            checkpoints: Arc::new(self.checkpoints.clone()),
            host: self.host.clone(),
            admit: Arc::new(AdmitAll),
            recorder: Recorder::new(64),
            host_ips: vec!["192.0.2.7".parse().unwrap()],
            pleg: PlegConfig::default(),
            gauge: Arc::new(minke_kubelet::eviction::NoGauge),
        }
    }

    /// Starts an agent.
    pub(crate) async fn kubelet(&self) -> Kubelet {
        let (runtime, clock) = (Arc::new(self.runtime.clone()), Arc::new(self.runtime.clock()));
        Kubelet::start_with(Self::config(), runtime, clock, self.ports()).await.unwrap()
    }
}

pub(crate) fn uid(name: &str) -> PodUid {
    PodUid::new(format!("uid-{name}")).unwrap()
}

/// A Pod with this spec (containers without an image get one).
pub(crate) fn pod(name: &str, mut spec: Value) -> DesiredPod {
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container.as_object_mut().unwrap().entry("image").or_insert(json!("image:1"));
        }
    }
    spec.as_object_mut().unwrap().entry("terminationGracePeriodSeconds").or_insert(json!(30));
    let object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": uid(name).as_str()},
        "spec": spec,
    });
    DesiredPod { pod: Arc::new(serde_json::from_value(object).unwrap()), objects: Arc::default() }
}

/// A Pod with one container and this restart policy.
pub(crate) fn simple(name: &str, policy: &str) -> DesiredPod {
    pod(name, json!({"restartPolicy": policy, "containers": [{"name": "main"}]}))
}

pub(crate) fn phase(report: &PodReport) -> &str {
    report.pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("")
}

/// Waits until this holds of the Pod's report.
pub(crate) async fn until(kubelet: &Kubelet, uid: &PodUid, what: &str, done: impl Fn(&PodReport) -> bool) -> PodReport {
    let wait = async {
        let mut changes = kubelet.subscribe();
        loop {
            if let Some(report) = kubelet.report(uid).filter(|r| done(r)) {
                return report;
            }
            changes.next().await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(600), wait).await {
        Ok(report) => report,
        Err(_) => panic!("{what} never came true: {:#?}", kubelet.report(uid)),
    }
}

pub(crate) async fn until_phase(kubelet: &Kubelet, uid: &PodUid, wanted: &str) -> PodReport {
    until(kubelet, uid, wanted, |r| phase(r) == wanted).await
}

pub(crate) async fn until_stage(kubelet: &Kubelet, uid: &PodUid, wanted: PodStage) -> PodReport {
    until(kubelet, uid, &format!("{wanted:?}"), |r| r.stage == wanted).await
}

/// Waits until the Pod is forgotten.
pub(crate) async fn until_gone(kubelet: &Kubelet, uid: &PodUid) {
    let wait = async {
        let mut changes = kubelet.subscribe();
        while kubelet.report(uid).is_some() {
            changes.next().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), wait).await.expect("the pod is forgotten");
}

/// Events since the last call, `reason: message`.
pub(crate) fn events(progress: &mut tokio::sync::broadcast::Receiver<Progress>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(event) = progress.try_recv() {
        if let Progress::Event { reason, message, .. } = event {
            all.push(format!("{reason}: {message}"));
        }
    }
    all
}

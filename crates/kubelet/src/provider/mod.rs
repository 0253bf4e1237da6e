//! The kubelet core as a provider: whoever speaks for an API hands its Pods over here.
//!
//! Pods of the API carry `kubernetes.io/config.source: api` while they are here, as in upstream's kubelet; that is how they are
//! told from static Pods and from those that people apply on the machine, which this provider neither lists nor touches.
//! The mark is not part of what the API gets to see. Mirror Pods only show static ones in the API, and are refused.
//!
//! - **A uid lives once**: a Pod that has ended is kept until it is deleted, and creating it again changes nothing. (Applied by
//!   people, the same would be a new run.)
//! - **Taking a Pod on can't be cut in half**: it is a task of the kubelet's; a dropped call leaves it to end by itself, a second
//!   one joins it, a deletion waits for it.
//! - **A rejected Pod is held**, with phase `Failed` and upstream's reason, like any that has ended.

mod arrivals;
mod logs;
mod machine;
mod node;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::defaults::CONFIG_SOURCE;
use minke_core::identity::PodKey;
use minke_core::provider::{DesiredPod, Environment, Extras, HeldPod, Notices, Provider, ProviderError, StatusSink};

use crate::kubelet::Listener;
use crate::worker::{WorkerHandle, differs};
use crate::{Admission, Kubelet, PodReport, StopRequest};

use arrivals::Arrivals;
pub use machine::MachineFacts;
use node::Describer;

/// Marks a Pod as an API's.
const API: &str = "api";
/// Marks a Pod that shows a static one.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The kubelet core as a provider. Clones are the same provider.
#[derive(Debug, Clone)]
pub struct KubeletProvider {
    kubelet: Kubelet,
    arrivals: Arrivals,
    closed: Arc<AtomicBool>,
    describer: Arc<Describer>,
}

impl KubeletProvider {
    /// Over this kubelet, whose machine is like this. There is one at a time.
    #[must_use]
    pub fn new(kubelet: Kubelet, machine: MachineFacts) -> Self {
        let describer = Arc::new(Describer::new(machine));
        Self { kubelet, arrivals: Arrivals::default(), closed: Arc::default(), describer }
    }

    /// The kubelet.
    #[must_use]
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// The worker of a Pod, if it is one of the API's.
    fn own(&self, key: &PodKey) -> Option<WorkerHandle> {
        self.any(key).filter(|handle| is_of_api(&handle.desired().pod))
    }

    /// The worker of any Pod.
    fn any(&self, key: &PodKey) -> Option<WorkerHandle> {
        self.kubelet.workers().registry.get(&key.uid).filter(|handle| handle.key == *key)
    }

    fn held(&self, handle: &WorkerHandle) -> HeldPod {
        let mut pod = (*handle.desired().pod).clone();
        unmark(&mut pod);
        // Published before the Pod is registered, and removed after it is not any more.
        pod.status = self.kubelet.report(&handle.key.uid).and_then(|report| report.pod.status.clone());
        HeldPod { key: handle.key.clone(), pod: Arc::new(pod) }
    }
}

/// Whether a Pod that the kubelet core has is an API's.
#[must_use]
pub fn is_of_api(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SOURCE)).is_some_and(|source| source == API)
}

fn marked(desired: &DesiredPod) -> DesiredPod {
    let mut pod = (*desired.pod).clone();
    pod.metadata.annotations.get_or_insert_default().insert(CONFIG_SOURCE.to_owned(), API.to_owned());
    DesiredPod { pod: Arc::new(pod), objects: desired.objects.clone() }
}

fn unmark(pod: &mut Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(CONFIG_SOURCE);
        if annotations.is_empty() {
            pod.metadata.annotations = None;
        }
    }
}

fn key_of(operation: &'static str, pod: &Pod) -> Result<PodKey, ProviderError> {
    PodKey::of(pod).map_err(|error| ProviderError::Invalid { operation, message: error.to_string() })
}

/// What an admission means to the controller.
fn answer(admission: Admission) -> Result<(), ProviderError> {
    const OPERATION: &str = "create";
    match admission {
        Admission::Accepted | Admission::Updated | Admission::Unchanged => Ok(()),
        Admission::Rejected { reason, message } => match reason.as_str() {
            // These are refused before anything is kept.
            "InvalidPod" => Err(ProviderError::Invalid { operation: OPERATION, message }),
            "AlreadyExists" => Err(ProviderError::Unavailable { operation: OPERATION, source: message.into() }),
            "CheckpointFailed" => Err(ProviderError::failed(OPERATION, message)),
            // Held, and reported as failed.
            _ => Ok(()),
        },
    }
}

#[async_trait]
impl Provider for KubeletProvider {
    fn environment(&self) -> Environment {
        Environment::AsWritten
    }

    async fn create(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        const OPERATION: &str = "create";
        let key = key_of(OPERATION, &pod.pod)?;
        if pod.pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(MIRROR)) {
            let message =
                "a mirror pod stands for a static pod of its node, and is run from the node's manifests alone";
            return Err(ProviderError::Invalid { operation: OPERATION, message: message.to_owned() });
        }
        let held = || self.kubelet.workers().registry.get(&key.uid).is_some();
        if self.closed.load(Ordering::Relaxed) && !held() {
            return Err(ProviderError::Rejected {
                reason: node::SHUTDOWN.to_owned(),
                message: "Pod was rejected as the node is shutting down.".to_owned(),
            });
        }
        match self.arrivals.take_on(&self.kubelet, &key.uid, held, || marked(pod)) {
            None => Ok(()),
            Some(taking) => match taking.await {
                Some(admission) => answer(admission),
                None => Err(ProviderError::failed(OPERATION, "the agent is going down")),
            },
        }
    }

    async fn update(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        const OPERATION: &str = "update";
        let key = key_of(OPERATION, &pod.pod)?;
        let handle = self.own(&key).ok_or_else(|| ProviderError::no_pod(OPERATION, key.to_string()))?;
        let desired = marked(pod);
        if !differs(&handle.desired(), &desired) {
            return Ok(());
        }
        self.kubelet.amend(&handle, desired).await.map_err(|error| ProviderError::failed(OPERATION, error))
    }

    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError> {
        if let Some(taking) = self.arrivals.of(&key.uid) {
            taking.await;
        }
        let handle = self.own(key).ok_or_else(|| ProviderError::no_pod("delete", key.to_string()))?;
        handle.mailbox.stop(StopRequest { grace: Some(grace), remove: true });
        Ok(())
    }

    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError> {
        Ok(self.own(key).map(|handle| self.held(&handle)))
    }

    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError> {
        let all = self.kubelet.workers().registry.all();
        Ok(all.iter().filter(|handle| is_of_api(&handle.desired().pod)).map(|handle| self.held(handle)).collect())
    }

    fn notify(&self, sink: Arc<dyn StatusSink>) -> Notices {
        self.kubelet.workers().hub.listen(Arc::new(Forward(sink)));
        Notices::Pushed
    }

    fn extras(&self) -> Extras<'_> {
        Extras {
            logs: Some(self),
            exec: Some(self),
            attach: Some(self),
            port_forward: Some(self),
            stats: Some(self),
            shutdown: Some(self),
        }
    }
}

/// Hands reports of the API's Pods on.
#[derive(Debug)]
struct Forward(Arc<dyn StatusSink>);

impl Listener for Forward {
    fn published(&self, report: &PodReport) {
        if is_of_api(&report.pod)
            && let (Ok(key), Some(status)) = (PodKey::of(&report.pod), report.pod.status.clone())
        {
            self.0.changed(&key, status);
        }
    }

    fn forgotten(&self, last: &PodReport) {
        if is_of_api(&last.pod)
            && let Ok(key) = PodKey::of(&last.pod)
        {
            self.0.forgotten(&key);
        }
    }
}

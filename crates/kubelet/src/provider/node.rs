//! What the machine is like, for the Node object, and its Pods' end when it goes down.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ContainerImage;
use minke_core::identity::PodKey;
use minke_core::provider::{NodeDescription, NodeShutdown, NodeSource, ProviderError, Readiness, Shortages};
use minke_core::resources::Amount;
use minke_core::runtime::{ImageStatus, error_chain};

use super::KubeletProvider;
use super::machine::{MachineFacts, instance_type, system_info};
use crate::admission::{Pressure, read_capacity, read_machine};
use crate::host::{host_addresses, host_name};
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;
use crate::{Eviction, Kubelet};

/// Why Pods are rejected while the node goes down, as upstream.
pub(super) const SHUTDOWN: &str = "NodeShutdown";
/// Why Pods end then, as upstream.
const TERMINATED: &str = "Terminated";
const TERMINATED_MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

/// A runtime that has not answered for so long is down, as upstream's `maxWaitForContainerRuntime`.
const RUNTIME_DOWN: Duration = Duration::from_secs(30);

/// What is remembered between two descriptions.
#[derive(Debug)]
pub(super) struct Describer {
    facts: MachineFacts,
    /// Those of the last time that the runtime could tell.
    images: Mutex<Vec<ContainerImage>>,
}

impl Describer {
    pub(super) fn new(facts: MachineFacts) -> Self {
        Self { facts, images: Mutex::default() }
    }

    async fn images(&self, kubelet: &Kubelet) -> Vec<ContainerImage> {
        let runtime = &kubelet.workers().sync.runtime;
        let listed = bounded("list images", CALL_TIMEOUT, runtime.list_images()).await;
        let mut known = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        match listed {
            Ok(images) => *known = images.into_iter().map(image).collect(),
            Err(error) => tracing::debug!(error = error_chain(&error), "the images of the node are those known before"),
        }
        known.clone()
    }
}

fn image(status: ImageStatus) -> ContainerImage {
    let names = status.digests.into_iter().chain(status.tags).collect();
    ContainerImage { names: Some(names), size_bytes: i64::try_from(status.size_bytes).ok() }
}

/// Why Pods can't be started, in upstream's words.
fn readiness(kubelet: &Kubelet) -> Readiness {
    let mut reasons = Vec::new();
    // One that is only restarted is back before, and a node that is not ready loses its Pods.
    if let Some(silence) = kubelet.node().runtime_silence.filter(|silence| silence.lasts >= RUNTIME_DOWN) {
        reasons.push(format!("container runtime is down: {}", silence.why));
    }
    if let Err(unhealthy) = kubelet.health() {
        reasons.push(format!("PLEG is not healthy: {unhealthy}"));
    }
    if reasons.is_empty() { Readiness::Ready } else { Readiness::NotReady(reasons) }
}

#[async_trait]
impl NodeSource for KubeletProvider {
    async fn describe(&self) -> Result<NodeDescription, ProviderError> {
        let (kubelet, config) = (&self.kubelet, self.kubelet.config());
        let failed = |error| ProviderError::failed("describe", error);
        let free = |capacity: &_| config.eviction.kept_free(capacity);
        let machine = read_machine(&config.node_name, &config.state_directory, config.max_pods, &config.node, &free);
        let machine = machine.map_err(failed)?;
        let mut capacity = read_capacity(&config.state_directory).map_err(failed)?;
        let (mut allocatable, mut labels) = (machine.allocatable, machine.labels);
        let pods = Amount::from_units(i64::try_from(config.max_pods).unwrap_or(i64::MAX));
        for list in [&mut capacity, &mut allocatable] {
            list.insert("pods".to_owned(), pods);
        }
        for (old, new) in
            [("beta.kubernetes.io/os", "kubernetes.io/os"), ("beta.kubernetes.io/arch", "kubernetes.io/arch")]
        {
            if let Some(value) = labels.get(new).cloned() {
                labels.entry(old.to_owned()).or_insert(value);
            }
        }
        if let Some(kind) = instance_type() {
            labels.entry("node.kubernetes.io/instance-type".to_owned()).or_insert(kind);
        }
        let pressure = kubelet.node().pressure;
        let facts = &self.describer.facts;
        let addresses = if facts.addresses.is_empty() { host_addresses() } else { facts.addresses.clone() };
        Ok(NodeDescription {
            capacity,
            allocatable,
            labels,
            hostname: host_name(),
            addresses,
            info: system_info(facts, format!("{}://{}", config.runtime_name, config.runtime_version)),
            images: self.describer.images(kubelet).await,
            shortages: Shortages {
                memory: pressure.contains(&Pressure::Memory),
                disk: pressure.contains(&Pressure::Disk),
                pids: pressure.contains(&Pressure::Pid),
            },
            readiness: readiness(kubelet),
        })
    }
}

#[async_trait]
impl NodeShutdown for KubeletProvider {
    fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Relaxed);
    }

    async fn end(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "end";
        let gone = || ProviderError::no_pod(OPERATION, key.to_string());
        let handle = self.any(key).ok_or_else(gone)?;
        let own = crate::worker::grace::effective_grace(&handle.desired().pod, None, None);
        let (reason, message) = (TERMINATED.to_owned(), TERMINATED_MESSAGE.to_owned());
        let eviction = Eviction { reason, message, grace: Some(own.min(grace)), disrupts: true };
        self.kubelet.evict(&key.uid, eviction).map_err(|_| gone())
    }
}

//! Commands in containers, joining their programs, connections to ports, and what Pods use.

use std::pin::Pin;

use async_trait::async_trait;
use minke_core::identity::PodKey;
use minke_core::provider::{
    AttachRequest, Attaches, Duplex, Execs, PodStats, PortForwards, ProviderError, StatsSource,
};
use minke_core::runtime::{ExecRequest, ExecSession};

use super::KubeletProvider;
use crate::ExecError;

impl KubeletProvider {
    /// A uid alone could be another Pod's.
    fn has(&self, operation: &'static str, key: &PodKey) -> Result<(), ProviderError> {
        if self.any(key).is_some() { Ok(()) } else { Err(ProviderError::no_pod(operation, key.to_string())) }
    }
}

fn refused(operation: &'static str, key: &PodKey, error: ExecError) -> ProviderError {
    match error {
        ExecError::UnknownPod(_) => ProviderError::no_pod(operation, key.to_string()),
        ExecError::NotRunning(name) => ProviderError::NotFound { operation, what: "container", name },
        ExecError::NoSandbox => ProviderError::Invalid { operation, message: error.to_string() },
        ExecError::Runtime(error) => ProviderError::failed(operation, error),
    }
}

#[async_trait]
impl Execs for KubeletProvider {
    async fn exec(&self, key: &PodKey, container: &str, request: &ExecRequest) -> Result<ExecSession, ProviderError> {
        const OPERATION: &str = "exec";
        self.has(OPERATION, key)?;
        self.kubelet.exec(&key.uid, container, request).await.map_err(|error| refused(OPERATION, key, error))
    }
}

#[async_trait]
impl Attaches for KubeletProvider {
    async fn attach(
        &self,
        key: &PodKey,
        container: &str,
        request: AttachRequest,
    ) -> Result<ExecSession, ProviderError> {
        const OPERATION: &str = "attach";
        self.has(OPERATION, key)?;
        self.kubelet.attach(&key.uid, container, request).await.map_err(|error| refused(OPERATION, key, error))
    }
}

#[async_trait]
impl PortForwards for KubeletProvider {
    async fn connect(&self, key: &PodKey, port: u16) -> Result<Pin<Box<dyn Duplex>>, ProviderError> {
        const OPERATION: &str = "port-forward";
        self.has(OPERATION, key)?;
        self.kubelet.connect(&key.uid, port).await.map_err(|error| refused(OPERATION, key, error))
    }
}

#[async_trait]
impl StatsSource for KubeletProvider {
    async fn stats(&self) -> Result<Vec<PodStats>, ProviderError> {
        let used = self.kubelet.usage().await.map_err(|error| ProviderError::failed("stats", error))?;
        Ok(used
            .into_iter()
            .map(|pod| PodStats {
                key: pod.key,
                pod: pod.cgroup,
                containers: pod.containers.into_iter().filter_map(|(_, c)| Some((c.name, c.cgroup?))).collect(),
            })
            .collect())
    }
}

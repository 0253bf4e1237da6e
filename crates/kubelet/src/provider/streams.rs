//! Commands in containers, and what Pods use.

use async_trait::async_trait;
use minke_core::identity::PodKey;
use minke_core::provider::{Execs, PodStats, ProviderError, StatsSource};
use minke_core::runtime::{ExecRequest, ExecSession};

use super::KubeletProvider;
use crate::ExecError;

#[async_trait]
impl Execs for KubeletProvider {
    async fn exec(&self, key: &PodKey, container: &str, request: &ExecRequest) -> Result<ExecSession, ProviderError> {
        const OPERATION: &str = "exec";
        if self.any(key).is_none() {
            return Err(ProviderError::no_pod(OPERATION, key.to_string()));
        }
        self.kubelet.exec(&key.uid, container, request).await.map_err(|error| match error {
            ExecError::UnknownPod(_) => ProviderError::no_pod(OPERATION, key.to_string()),
            ExecError::NotRunning(name) => ProviderError::NotFound { operation: OPERATION, what: "container", name },
            // Kept as it is: who serves the command tells its exit code from it.
            ExecError::Runtime(error) => ProviderError::failed(OPERATION, error),
        })
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

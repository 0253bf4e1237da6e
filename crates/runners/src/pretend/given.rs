//! A set that is no object of the cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use serde_json::Value;
use tokio::sync::watch;

use crate::controller::{Cluster, ClusterError, KubeCluster, News, NewsStream, Notice, ReadSet};
use crate::demand::SetKey;
use crate::set::{RunnerSet, RunnerSetStatus};

/// One set that the cluster knows nothing of; all else is the cluster's. Nothing is owned by the set, and its status is told to
/// who listens.
#[derive(Debug)]
pub struct GivenSet {
    kube: KubeCluster,
    set: Arc<RunnerSet>,
    status: watch::Sender<RunnerSetStatus>,
}

impl GivenSet {
    /// This set, with all else in that cluster; and its status.
    #[must_use]
    pub fn new(kube: KubeCluster, set: RunnerSet) -> (Self, watch::Receiver<RunnerSetStatus>) {
        let (status, told) = watch::channel(RunnerSetStatus::default());
        (Self { kube, set: Arc::new(set), status }, told)
    }
}

#[async_trait]
impl Cluster for GivenSet {
    fn sets(&self) -> NewsStream<ReadSet> {
        let key = SetKey {
            namespace: self.set.metadata.namespace.clone().unwrap_or_default(),
            name: self.set.metadata.name.clone().unwrap_or_default(),
        };
        let read = ReadSet { key, set: Ok(Arc::clone(&self.set)) };
        stream::once(async { News::Listed(vec![read]) }).chain(stream::pending()).boxed()
    }

    fn pods(&self) -> NewsStream<Arc<Pod>> {
        self.kube.pods()
    }

    fn claims(&self) -> NewsStream<Arc<PersistentVolumeClaim>> {
        self.kube.claims()
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, ClusterError> {
        self.kube.secret(namespace, name).await
    }

    async fn create_secret(&self, secret: &Secret) -> Result<(), ClusterError> {
        // An owner that the cluster does not have is one that is gone, and what it owned goes too.
        let mut secret = secret.clone();
        secret.metadata.owner_references = None;
        self.kube.create_secret(&secret).await
    }

    async fn delete_secret(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        self.kube.delete_secret(namespace, name).await
    }

    async fn sweep_secrets(&self, set: &SetKey, keep: &[String], session: &str) -> Result<(), ClusterError> {
        self.kube.sweep_secrets(set, keep, session).await
    }

    async fn create_pod(&self, pod: &Pod) -> Result<(), ClusterError> {
        let mut pod = pod.clone();
        pod.metadata.owner_references = None;
        self.kube.create_pod(&pod).await
    }

    async fn patch_pod(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ClusterError> {
        self.kube.patch_pod(namespace, name, patch).await
    }

    async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<(), ClusterError> {
        self.kube.delete_pod(namespace, name, uid, grace).await
    }

    async fn create_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), ClusterError> {
        let mut claim = claim.clone();
        claim.metadata.owner_references = None;
        self.kube.create_claim(&claim).await
    }

    async fn delete_claim(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ClusterError> {
        self.kube.delete_claim(namespace, name, uid).await
    }

    async fn patch_set(&self, _set: &SetKey, _patch: &Value) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn write_status(&self, _set: &SetKey, status: &RunnerSetStatus) -> Result<(), ClusterError> {
        self.status.send_replace(status.clone());
        Ok(())
    }

    async fn notice(&self, notice: &Notice) -> Result<(), ClusterError> {
        self.kube.notice(notice).await
    }
}

//! The API over a Kubernetes client. Performs, decides nothing.

mod follow;
mod node;
mod objects;
mod pods;
mod records;
mod services;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions, WatchParams};
use kube::core::{Status, WatchEvent as KubeEvent};
use kube::{Client, Error};
use minke_core::clock::Clock;
use minke_core::identity::PodKey;
use serde_json::Value;
use tokio::time::timeout;

use crate::api::{ApiError, ObjectStream, PodApi, PodList, Record, WatchEvent, WatchStream};
use crate::references::{ObjectKind, ObjectRef};
use pods::Kept;
use records::Records;

/// How many objects a page of a list has, as other clients have it.
const PAGE: u32 = 500;
/// After how many seconds the server ends a watch.
const WATCH_SECONDS: u32 = 290;
/// A watch that says nothing for so long, although the server should have ended it, is dead.
const SILENCE: Duration = Duration::from_secs(320);

/// An API behind a Kubernetes client, for one node. Needs to `list` and `watch` Pods of this node, to `delete` them, to `patch`
/// `pods/status`, to `list` and `watch` Services, and ConfigMaps and Secrets by name, to `create`
/// `serviceaccounts/token`, and to `create` and `patch` Events: what the Node authorizer lets a node do.
#[derive(Clone)]
pub struct KubeApi {
    client: Client,
    node: String,
    records: Arc<Records>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for KubeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeApi").field("node", &self.node).finish_non_exhaustive()
    }
}

impl KubeApi {
    /// Over this client, for the node of this name. The client should not try again by itself (`default_retry: false` in
    /// its configuration): the controller does, Pod by Pod, and counts what the API refuses.
    #[must_use]
    pub fn new(client: Client, node: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        let node = node.into();
        let records = Arc::new(Records::new(client.clone(), node.clone(), clock.clone()));
        Self { client, node, records, clock }
    }

    fn pods(&self, namespace: &str) -> Api<Kept> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn mine(&self) -> (Api<Kept>, String) {
        (Api::all(self.client.clone()), format!("spec.nodeName={}", self.node))
    }
}

/// Tells errors apart.
fn fault(operation: &'static str, error: Error) -> ApiError {
    match error {
        Error::Api(status) => fault_of(operation, &status),
        other => ApiError::Failed { operation, source: Box::new(other) },
    }
}

fn fault_of(operation: &'static str, status: &Status) -> ApiError {
    let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    match status.code {
        404 => ApiError::NotFound(operation),
        409 => ApiError::Conflict(operation),
        410 => ApiError::Expired(operation),
        429 => ApiError::TooMany { operation, after: Duration::from_secs(u64::from(after.min(60))) },
        code => {
            let text = if status.message.is_empty() { &status.reason } else { &status.message };
            ApiError::Failed { operation, source: format!("{code}: {text}").into() }
        }
    }
}

#[async_trait]
impl PodApi for KubeApi {
    async fn list(&self) -> Result<PodList, ApiError> {
        let (pods, fields) = self.mine();
        let mut page = ListParams::default().fields(&fields).limit(PAGE);
        let mut all = Vec::new();
        loop {
            let list = pods.list(&page).await.map_err(|error| fault("list pods", error))?;
            all.extend(list.items.iter().map(Kept::pod));
            let version = list.metadata.resource_version.unwrap_or_default();
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(PodList { pods: all, version }),
            }
        }
    }

    async fn watch(&self, version: &str) -> Result<WatchStream, ApiError> {
        const OPERATION: &str = "watch pods";
        let (pods, fields) = self.mine();
        let params = WatchParams::default().fields(&fields).timeout(WATCH_SECONDS);
        let events = pods.watch(&params, version).await.map_err(|error| fault(OPERATION, error))?;
        let events = events.filter_map(async |event| match event {
            Ok(KubeEvent::Added(pod) | KubeEvent::Modified(pod)) => Some(Ok(WatchEvent::Applied(pod.pod()))),
            Ok(KubeEvent::Deleted(pod)) => {
                let pod = pod.pod();
                let version = pod.metadata.resource_version.clone().unwrap_or_default();
                PodKey::of(&pod).ok().map(|key| Ok(WatchEvent::Deleted { key, version }))
            }
            Ok(KubeEvent::Bookmark(mark)) => Some(Ok(WatchEvent::Bookmark(mark.metadata.resource_version))),
            Ok(KubeEvent::Error(status)) => Some(Err(fault_of(OPERATION, &status))),
            Err(error) => Some(Err(fault(OPERATION, error))),
        });
        let silent = || ApiError::Failed { operation: OPERATION, source: "the watch went silent".into() };
        Ok(Box::pin(stream::unfold(Some(events.boxed()), move |events| async move {
            let mut events = events?;
            match timeout(SILENCE, events.next()).await {
                Ok(event) => event.map(|event| (event, Some(events))),
                Err(_) => Some((Err(silent()), None)),
            }
        })))
    }

    async fn get(&self, key: &PodKey) -> Result<Option<Arc<Pod>>, ApiError> {
        // Not a plain get: for a Pod that is gone, or another node's, the Node authorizer answers one with 403, not with 404.
        let params = ListParams::default().fields(&format!("metadata.name={},spec.nodeName={}", key.name, self.node));
        let found = self.pods(&key.namespace).list(&params).await;
        Ok(found.map_err(|error| fault("get pod", error))?.items.first().map(Kept::pod))
    }

    async fn patch_status(&self, key: &PodKey, patch: &Value) -> Result<Arc<Pod>, ApiError> {
        let pods = self.pods(&key.namespace);
        let patched = pods.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        patched.map(|pod| pod.pod()).map_err(|error| fault("patch pod status", error))
    }

    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ApiError> {
        let params = DeleteParams {
            grace_period_seconds: Some(u32::try_from(grace.as_secs()).unwrap_or(u32::MAX)),
            preconditions: Some(Preconditions { uid: Some(key.uid.to_string()), resource_version: None }),
            ..DeleteParams::default()
        };
        let deleted = self.pods(&key.namespace).delete(&key.name, &params).await;
        deleted.map(drop).map_err(|error| fault("delete pod", error))
    }

    async fn record(&self, record: &Record) -> Result<(), ApiError> {
        self.records.record(record).await.map_err(|error| fault("record event", error))
    }

    fn follow(&self, object: ObjectRef) -> ObjectStream {
        match object.kind {
            ObjectKind::Token(wanted) => tokens::follow(self.client.clone(), object.name, wanted, self.clock.clone()),
            ObjectKind::Services => {
                services::follow(Api::namespaced(self.client.clone(), &object.namespace), object.name)
            }
            ObjectKind::ConfigMap => objects::follow(
                Api::namespaced(self.client.clone(), &object.namespace),
                object.name,
                objects::config_map,
            ),
            ObjectKind::Secret => {
                objects::follow(Api::namespaced(self.client.clone(), &object.namespace), object.name, objects::secret)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let of = |code| fault_of("test", &Status { code, ..Status::default() });
        assert!(matches!(of(404), ApiError::NotFound(_)));
        assert!(matches!(of(409), ApiError::Conflict(_)));
        assert!(matches!(of(410), ApiError::Expired(_)));
        assert!(matches!(of(429), ApiError::TooMany { .. }));
        assert!(matches!(of(503), ApiError::Failed { .. }));
    }
}

//! The cluster over a Kubernetes client. Performs, decides nothing.

mod follow;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::Status;
use kube::{Client, Error};
use minke_core::clock::Clock;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::cluster::{Cluster, ClusterError, News, NewsStream, Notice, ReadSet};
use super::objects::{LABEL_BATCH, LABEL_SESSION};
use crate::demand::SetKey;
use crate::set::{LABEL_SET, RunnerSet, RunnerSetStatus};
use follow::follow;

/// A call takes no longer.
const CALL: Duration = Duration::from_secs(30);
const COMPONENT: &str = "minke-runners";

/// A cluster behind a Kubernetes client, whole or one namespace of it. `packaging/runners/rbac.yaml` has what it must be
/// allowed.
#[derive(Clone)]
pub struct KubeCluster {
    client: Client,
    namespace: Option<String>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeCluster").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl KubeCluster {
    /// Over this client, for the sets of one namespace or of all.
    #[must_use]
    pub fn new(client: Client, namespace: Option<String>, clock: Arc<dyn Clock>) -> Self {
        Self { client, namespace, clock }
    }

    fn watched<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn sets_of(&self, key: &SetKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &key.namespace, &set_resource())
    }
}

fn set_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(RunnerSet::GROUP, RunnerSet::VERSION, RunnerSet::KIND);
    ApiResource::from_gvk_with_plural(&kind, RunnerSet::URL_PATH_SEGMENT)
}

/// An object that can't be read as a set is told, and no reason not to see the others.
fn read(object: &DynamicObject) -> ReadSet {
    let metadata = &object.metadata;
    let key = SetKey {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    let value = serde_json::to_value(object).unwrap_or_default();
    let set = serde_json::from_value::<RunnerSet>(value).map(Arc::new).map_err(|error| error.to_string());
    ReadSet { key, set }
}

fn map<A, B: 'static>(news: News<A>, with: impl Fn(A) -> B) -> News<B> {
    match news {
        News::Listed(all) => News::Listed(all.into_iter().map(with).collect()),
        News::Applied(one) => News::Applied(with(one)),
        News::Deleted(one) => News::Deleted(with(one)),
    }
}

/// Waits for an answer, and tells errors apart.
async fn call<T>(
    operation: &'static str,
    answer: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, ClusterError> {
    match timeout(CALL, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Error::Api(status))) => Err(refusal(operation, &status)),
        Ok(Err(error)) => Err(ClusterError::Failed { operation, source: Box::new(error) }),
        Err(_) => Err(ClusterError::Failed { operation, source: "no answer".into() }),
    }
}

fn refusal(operation: &'static str, status: &Status) -> ClusterError {
    let text = if status.message.is_empty() { &status.reason } else { &status.message };
    let message = text.clone();
    match status.code {
        404 => ClusterError::NotFound(operation),
        409 => ClusterError::Conflict(operation),
        403 if message.contains("exceeded quota") => ClusterError::Quota { operation, message },
        400 | 403 | 405 | 413 | 422 => ClusterError::Refused { operation, message },
        code => ClusterError::Failed { operation, source: format!("{code}: {message}").into() },
    }
}

/// What is not there need not be deleted.
fn absent_is_fine(deleted: Result<(), ClusterError>) -> Result<(), ClusterError> {
    match deleted {
        Err(ClusterError::NotFound(_)) => Ok(()),
        other => other,
    }
}

fn only(uid: &str) -> DeleteParams {
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    DeleteParams { preconditions, ..DeleteParams::default() }
}

#[async_trait]
impl Cluster for KubeCluster {
    fn sets(&self) -> NewsStream<ReadSet> {
        let resource = set_resource();
        let api = match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        follow::<DynamicObject>(api, None, "runnersets").map(|news| map(news, |object| read(&object))).boxed()
    }

    fn pods(&self) -> NewsStream<Arc<Pod>> {
        follow::<Pod>(self.watched(), Some(LABEL_SET), "pods").map(|news| map(news, Arc::new)).boxed()
    }

    fn claims(&self) -> NewsStream<Arc<PersistentVolumeClaim>> {
        let claims = follow::<PersistentVolumeClaim>(self.watched(), Some(LABEL_SET), "persistentvolumeclaims");
        claims.map(|news| map(news, Arc::new)).boxed()
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, ClusterError> {
        call("read a secret", self.api::<Secret>(namespace).get_opt(name)).await
    }

    async fn create_secret(&self, secret: &Secret) -> Result<(), ClusterError> {
        let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
        let api = self.api::<Secret>(namespace);
        call("create a secret", api.create(&PostParams::default(), secret)).await.map(drop)
    }

    async fn delete_secret(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        let api = self.api::<Secret>(namespace);
        absent_is_fine(call("delete a secret", api.delete(name, &DeleteParams::default())).await.map(drop))
    }

    async fn sweep_secrets(&self, set: &SetKey, keep: &[String], session: &str) -> Result<(), ClusterError> {
        let mut selector = format!("{LABEL_SET}={},{LABEL_BATCH},{LABEL_SESSION}!={session}", set.name);
        if !keep.is_empty() {
            selector.push_str(&format!(",{LABEL_BATCH} notin ({})", keep.join(",")));
        }
        let (api, list) = (self.api::<Secret>(&set.namespace), ListParams::default().labels(&selector));
        call("delete secrets", api.delete_collection(&DeleteParams::default(), &list)).await.map(drop)
    }

    async fn create_pod(&self, pod: &Pod) -> Result<(), ClusterError> {
        let api = self.api::<Pod>(pod.metadata.namespace.as_deref().unwrap_or_default());
        call("create a pod", api.create(&PostParams::default(), pod)).await.map(drop)
    }

    async fn patch_pod(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ClusterError> {
        let api = self.api::<Pod>(namespace);
        call("patch a pod", api.patch(name, &PatchParams::default(), &Patch::Strategic(patch))).await.map(drop)
    }

    async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<(), ClusterError> {
        let grace_period_seconds = grace.map(|grace| u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
        let params = DeleteParams { grace_period_seconds, ..only(uid) };
        let api = self.api::<Pod>(namespace);
        absent_is_fine(call("delete a pod", api.delete(name, &params)).await.map(drop))
    }

    async fn create_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), ClusterError> {
        let api = self.api::<PersistentVolumeClaim>(claim.metadata.namespace.as_deref().unwrap_or_default());
        call("create a claim", api.create(&PostParams::default(), claim)).await.map(drop)
    }

    async fn delete_claim(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ClusterError> {
        let api = self.api::<PersistentVolumeClaim>(namespace);
        absent_is_fine(call("delete a claim", api.delete(name, &only(uid))).await.map(drop))
    }

    async fn patch_set(&self, set: &SetKey, patch: &Value) -> Result<(), ClusterError> {
        let api = self.sets_of(set);
        call("patch a set", api.patch(&set.name, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
    }

    async fn write_status(&self, set: &SetKey, status: &RunnerSetStatus) -> Result<(), ClusterError> {
        let (api, patch) = (self.sets_of(set), json!({"status": status}));
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        call("write a set's status", api.patch_status(&set.name, &params, &patch)).await.map(drop)
    }

    async fn notice(&self, notice: &Notice) -> Result<(), ClusterError> {
        let now = self.clock.now();
        let api = self.api::<Event>(&notice.namespace);
        call("record an event", api.create(&PostParams::default(), &event(notice, Time(now)))).await.map(drop)
    }
}

fn event(notice: &Notice, now: Time) -> Event {
    let api_version = if notice.kind == RunnerSet::KIND { RunnerSet::API_VERSION } else { "v1" };
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", notice.name, now.0.as_nanosecond())),
            namespace: Some(notice.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(notice.kind.to_owned()),
            name: Some(notice.name.clone()),
            namespace: Some(notice.namespace.clone()),
            uid: Some(notice.uid.clone()),
            ..ObjectReference::default()
        },
        reason: Some(notice.reason.to_owned()),
        message: Some(notice.message.clone()),
        type_: Some("Warning".to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let of = |code, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            refusal("test", &status)
        };
        assert!(matches!(of(404, ""), ClusterError::NotFound(_)));
        assert!(matches!(of(409, ""), ClusterError::Conflict(_)));
        assert!(matches!(of(403, "exceeded quota: pods"), ClusterError::Quota { .. }));
        assert!(matches!(of(403, "no"), ClusterError::Refused { .. }));
        assert!(matches!(of(422, "Invalid"), ClusterError::Refused { .. }));
        assert!(matches!(of(429, ""), ClusterError::Failed { .. }));
        assert!(matches!(of(500, ""), ClusterError::Failed { .. }));
    }

    #[test]
    fn an_object_that_is_no_set_is_told() {
        let object = |spec: Value| {
            let metadata = json!({"name": "linux", "namespace": "ci"});
            let object = json!({"apiVersion": RunnerSet::API_VERSION, "kind": "RunnerSet", "metadata": metadata,
                "spec": spec});
            read(&serde_json::from_value(object).unwrap())
        };
        let good = serde_json::to_value(&crate::set::tests::set().spec).unwrap();
        assert!(object(good).set.is_ok());
        let bad = object(json!({"labels": 7}));
        assert_eq!((bad.key.to_string().as_str(), bad.set.is_err()), ("ci/linux", true));
    }
}

//! Pods as they come from the API and are kept: without the book of who wrote which field, which nobody here reads, which is as
//! large as everything else, and which is most of the work of reading a Pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::Deserialize;

/// A Pod that is read without `metadata.managedFields`.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Read")]
pub(super) struct Kept {
    metadata: ObjectMeta,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

impl Kept {
    /// A copy takes the room that it needs; lists that were read have room for more, a fifth of a Pod in all.
    pub(super) fn pod(&self) -> Arc<Pod> {
        let Self { metadata, spec, status } = self;
        Arc::new(Pod { metadata: metadata.clone(), spec: spec.clone(), status: status.clone() })
    }
}

impl k8s_openapi::Resource for Kept {
    const API_VERSION: &'static str = <Pod as k8s_openapi::Resource>::API_VERSION;
    const GROUP: &'static str = <Pod as k8s_openapi::Resource>::GROUP;
    const KIND: &'static str = <Pod as k8s_openapi::Resource>::KIND;
    const VERSION: &'static str = <Pod as k8s_openapi::Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <Pod as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    type Scope = NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Kept {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
struct Read {
    #[serde(default)]
    metadata: ReadMeta,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadMeta {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl From<Read> for Kept {
    fn from(Read { metadata, spec, status }: Read) -> Self {
        let metadata = ObjectMeta {
            annotations: metadata.annotations,
            creation_timestamp: metadata.creation_timestamp,
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            deletion_timestamp: metadata.deletion_timestamp,
            finalizers: metadata.finalizers,
            generate_name: metadata.generate_name,
            generation: metadata.generation,
            labels: metadata.labels,
            name: metadata.name,
            namespace: metadata.namespace,
            owner_references: metadata.owner_references,
            resource_version: metadata.resource_version,
            uid: metadata.uid,
            managed_fields: None,
            self_link: None,
        };
        Self { metadata, spec, status }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_of_a_pod_is_kept_but_who_wrote_what() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2, "generateName": "p-",
                "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["f"],
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
                "deletionGracePeriodSeconds": 30,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "x"}],
            },
            "spec": {"containers": [{"name": "c"}], "nodeName": "n"},
            "status": {"phase": "Running"},
        });
        let expected: Pod = serde_json::from_value(pod.clone()).unwrap();
        pod["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": {"f:spec": {"f:x": {}}}}]);
        let read: Kept = serde_json::from_value(pod).unwrap();
        assert_eq!(*read.pod(), expected);
        // A bookmark has nothing but a version.
        let bare: Kept = serde_json::from_value(json!({"kind": "Pod", "metadata": {}})).unwrap();
        assert_eq!(*bare.pod(), Pod::default());
    }
}

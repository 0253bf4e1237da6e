//! What Jobs and Deployments have in common: Pods made of a template, owned by an object.

use std::collections::BTreeMap;

use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;

use crate::defaults::stable_uid;

/// The object that Pods belong to.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Owner {
    /// An object that has its name and namespace. Without a uid it gets one from its content.
    pub(super) fn of<T>(object: &T, kind: &'static str, api_version: &'static str) -> Self
    where
        T: Metadata<Ty = ObjectMeta> + Serialize,
    {
        let meta = object.metadata();
        let given = meta.uid.clone().filter(|uid| !uid.is_empty());
        Self {
            kind,
            api_version,
            namespace: meta.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            name: meta.name.clone().unwrap_or_default(),
            uid: given.unwrap_or_else(|| stable_uid(kind, object)),
        }
    }
}

/// Longest name of a Pod.
const NAME_MAX: usize = 253;

/// A Pod `<owner>-<suffix>` with the labels of its template and of its controller.
pub(super) fn pod_from_template(
    template: &PodTemplateSpec,
    owner: &Owner,
    suffix: &str,
    labels: &BTreeMap<String, String>,
) -> Pod {
    let given = template.metadata.as_ref();
    let mut all_labels = given.and_then(|meta| meta.labels.clone()).unwrap_or_default();
    all_labels.extend(labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    let metadata = ObjectMeta {
        name: Some(name(&owner.name, suffix)),
        namespace: Some(owner.namespace.clone()),
        labels: Some(all_labels),
        annotations: given.and_then(|meta| meta.annotations.clone()),
        owner_references: Some(vec![OwnerReference {
            api_version: owner.api_version.to_owned(),
            block_owner_deletion: Some(true),
            controller: Some(true),
            kind: owner.kind.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

/// Object names are ASCII, so any byte is a place to cut.
fn name(owner: &str, suffix: &str) -> String {
    let room = NAME_MAX.saturating_sub(suffix.len() + 1);
    let start = owner.get(..room).unwrap_or(owner).trim_end_matches(['-', '.']);
    format!("{start}-{suffix}")
}

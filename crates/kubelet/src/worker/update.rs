//! What counts as a change of a Pod that is wanted (upstream's configuration mux, pure).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use crate::DesiredPod;

/// Annotations that a source writes for itself.
const LOCAL: [&str; 3] = ["kubernetes.io/config.source", "kubernetes.io/config.seen", "kubernetes.io/config.mirror"];

/// Whether a Pod is wanted otherwise than before: another spec, other labels or annotations, a deletion, an end that was
/// reported from elsewhere, other ConfigMaps and Secrets. When a source first saw it, and other news of its status,
/// are no change.
#[must_use]
pub fn differs(before: &DesiredPod, now: &DesiredPod) -> bool {
    let (old, new) = (&before.pod, &now.pod);
    let deletion = |pod: &Pod| (pod.metadata.deletion_timestamp.clone(), pod.metadata.deletion_grace_period_seconds);
    old.spec != new.spec
        || some(&old.metadata.labels) != some(&new.metadata.labels)
        || annotations(old) != annotations(new)
        || deletion(old) != deletion(new)
        || (ended(old) != ended(new) && ended(new).is_some())
        || before.objects != now.objects
}

fn some(map: &Option<BTreeMap<String, String>>) -> Option<&BTreeMap<String, String>> {
    map.as_ref().filter(|map| !map.is_empty())
}

fn annotations(pod: &Pod) -> BTreeMap<&String, &String> {
    let all = pod.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| !LOCAL.contains(&key.as_str())).collect()
}

fn ended(pod: &Pod) -> Option<&str> {
    let phase = pod.status.as_ref()?.phase.as_deref()?;
    ["Succeeded", "Failed"].contains(&phase).then_some(phase)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use minke_core::objects::ObjectSet;
    use serde_json::{Value, json};

    use super::*;

    fn desired(pod: &Value) -> DesiredPod {
        DesiredPod { pod: Arc::new(serde_json::from_value(pod.clone()).unwrap()), objects: Arc::default() }
    }

    #[test]
    fn what_counts_as_a_change() {
        let of = |metadata: Value, image: &str, status: Value| {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
            (pod["metadata"], pod["status"]) = (metadata, status);
            desired(&pod)
        };
        let meta = |metadata: Value| of(metadata, "i:1", json!({}));
        let plain = || meta(json!({"name": "p"}));
        let phase = |phase: &str| of(json!({"name": "p"}), "i:1", json!({"phase": phase}));
        let mut objects = ObjectSet::default();
        objects.insert_config_map(ConfigMap::default());
        let with_objects = DesiredPod { objects: Arc::new(objects), ..plain() };
        for (name, now, expected) in [
            ("the same", plain(), false),
            ("image", of(json!({"name": "p"}), "i:2", json!({})), true),
            ("label", meta(json!({"name": "p", "labels": {"a": "b"}})), true),
            ("no label at all", meta(json!({"name": "p", "labels": {}})), false),
            ("annotation", meta(json!({"name": "p", "annotations": {"a": "b"}})), true),
            ("first seen", meta(json!({"name": "p", "annotations": {"kubernetes.io/config.seen": "b"}})), false),
            ("source", meta(json!({"name": "p", "annotations": {"kubernetes.io/config.source": "file"}})), false),
            ("deletion", meta(json!({"name": "p", "deletionTimestamp": "2024-01-01T00:00:00Z"})), true),
            ("shorter deletion", meta(json!({"name": "p", "deletionGracePeriodSeconds": 3})), true),
            ("ended", phase("Failed"), true),
            ("status only", phase("Running"), false),
            ("configuration", with_objects, true),
        ] {
            assert_eq!(differs(&plain(), &now), expected, "{name}");
        }
    }
}

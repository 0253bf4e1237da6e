//! What a node may not do with what its role allows: touch other nodes' Pods, be another node, read what none of its Pods
//! refers to. Upstream's `NodeRestriction` and node authorizer, as far as they are about whose an object is. Pure.

use serde_json::Value;

const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Why a node may not create this, if so.
#[must_use]
pub fn creates(node: &str, kind: &str, object: &Value) -> Option<String> {
    let name = text(object, "/metadata/name");
    match kind {
        "Pod" if text(object, MIRROR).is_empty() => Some(format!(
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node {node:?} can only create mirror pods"
        )),
        "Pod" if text(object, "/spec/nodeName") != node => {
            Some(format!("node {node:?} can only create pods with spec.nodeName set to itself"))
        }
        "Node" if name != node => Some(format!("node {node:?} is not allowed to modify node {name:?}")),
        "Lease" if name != node => {
            Some("can only access node lease with the same name as the requesting node".to_owned())
        }
        _ => None,
    }
}

/// Why a node may not do this with a Pod, if so.
#[must_use]
pub fn touches(node: &str, verb: &str, part: &str, pod: &Value) -> Option<String> {
    if text(pod, "/spec/nodeName") == node || matches!(verb, "get" | "list" | "watch") {
        return None;
    }
    let what = match (verb, part) {
        ("delete", _) => "delete pods",
        (_, "eviction") => "evict pods",
        (_, "status") => "update pod status for pods",
        _ => "write pods",
    };
    Some(format!("node {node:?} can only {what} with spec.nodeName set to itself"))
}

/// Whether a Pod refers to an object of this plural (`secrets` or `configmaps`) and name.
#[must_use]
pub fn refers(pod: &Value, plural: &str, name: &str) -> bool {
    let (single, fields): (&str, &[&str]) = match plural {
        "secrets" => {
            ("secretName", &["secret", "secretRef", "secretKeyRef", "nodePublishSecretRef", "imagePullSecrets"])
        }
        "configmaps" => ("name", &["configMap", "configMapRef", "configMapKeyRef"]),
        _ => return false,
    };
    fn named(value: &Value, single: &str, name: &str) -> bool {
        match value {
            Value::Array(all) => all.iter().any(|one| named(one, single, name)),
            Value::Object(map) => [single, "name"].iter().any(|field| map.get(*field).is_some_and(|own| own == name)),
            _ => false,
        }
    }
    fn walk(value: &Value, fields: &[&str], single: &str, name: &str) -> bool {
        match value {
            Value::Array(all) => all.iter().any(|one| walk(one, fields, single, name)),
            Value::Object(map) => map.iter().any(|(field, value)| {
                fields.contains(&field.as_str()) && named(value, single, name) || walk(value, fields, single, name)
            }),
            _ => false,
        }
    }
    walk(&pod["spec"], fields, single, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_itself_and_makes_mirrors_alone() {
        let mirror =
            json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "h"}}, "spec": {"nodeName": "n"}});
        assert_eq!(creates("n", "Pod", &mirror), None);
        assert!(creates("m", "Pod", &mirror).is_some());
        assert!(creates("n", "Pod", &json!({"spec": {"nodeName": "n"}})).is_some());
        for kind in ["Node", "Lease"] {
            assert_eq!(creates("n", kind, &json!({"metadata": {"name": "n"}})), None);
            assert!(creates("n", kind, &json!({"metadata": {"name": "m"}})).is_some());
        }
        assert_eq!(creates("n", "Event", &json!({"metadata": {"name": "x"}})), None);
    }

    #[test]
    fn a_node_writes_its_own_pods() {
        let pod = json!({"spec": {"nodeName": "n"}});
        for (verb, part) in [("patch", "status"), ("delete", ""), ("create", "eviction")] {
            assert_eq!(touches("n", verb, part, &pod), None);
            assert!(touches("m", verb, part, &pod).is_some(), "{verb} {part}");
        }
        assert_eq!(touches("m", "get", "", &pod), None);
        assert!(touches("n", "delete", "", &json!({"spec": {}})).is_some(), "one that has no node yet");
    }

    #[test]
    fn references_are_found_wherever_they_are() {
        let pod = json!({"spec": {
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"name": "v", "secret": {"secretName": "volume"}},
                {"name": "w", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "map"}}]}},
            ],
            "containers": [{
                "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
                "envFrom": [{"configMapRef": {"name": "from"}}],
            }],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}]}],
        }});
        for name in ["pull", "volume", "projected", "env", "init"] {
            assert!(refers(&pod, "secrets", name), "{name}");
            assert!(!refers(&pod, "configmaps", name), "{name}");
        }
        for name in ["map", "from"] {
            assert!(refers(&pod, "configmaps", name), "{name}");
        }
        for name in ["v", "E", "k", "other", ""] {
            assert!(!refers(&pod, "secrets", name) && !refers(&pod, "configmaps", name), "{name:?}");
        }
    }
}

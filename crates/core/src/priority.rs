//! How important a Pod is.
//!
//! Upstream sources: `pkg/kubelet/types/pod_update.go`, `pkg/apis/scheduling`. A cluster's API server turns the two
//! class names that Kubernetes itself defines into numbers; here their names do.

use k8s_openapi::api::core::v1::Pod;

/// Pods of at least this priority are critical.
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;
/// Priority of `system-node-critical`.
const NODE_CRITICAL: i32 = SYSTEM_CRITICAL + 1000;

const SOURCE: &str = "kubernetes.io/config.source";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The Pod's priority: `spec.priority`, or that of the class if it is one of Kubernetes' own; 0 where nothing is said.
#[must_use]
pub fn pod_priority(pod: &Pod) -> i32 {
    let Some(spec) = pod.spec.as_ref() else { return 0 };
    let of_class = || match spec.priority_class_name.as_deref() {
        Some("system-node-critical") => Some(NODE_CRITICAL),
        Some("system-cluster-critical") => Some(SYSTEM_CRITICAL),
        Some(_) | None => None,
    };
    spec.priority.or_else(of_class).unwrap_or(0)
}

/// Whether the Pod is static: a source other than an API says so of it.
#[must_use]
pub fn is_static(pod: &Pod) -> bool {
    annotation(pod, SOURCE).is_some_and(|source| source != "api")
}

/// Whether the machine can't do without the Pod: static Pods, their mirrors, and those of system priority. Such a Pod
/// is never evicted, and others make room for it.
#[must_use]
pub fn is_critical(pod: &Pod) -> bool {
    is_static(pod) || annotation(pod, MIRROR).is_some() || pod_priority(pod) >= SYSTEM_CRITICAL
}

/// Whether one Pod may take the place of another.
#[must_use]
pub fn may_preempt(preemptor: &Pod, other: &Pod) -> bool {
    let said = |pod: &Pod| pod.spec.as_ref().is_some_and(|s| s.priority.is_some() || s.priority_class_name.is_some());
    (is_critical(preemptor) && !is_critical(other))
        || (said(preemptor) && said(other) && pod_priority(preemptor) > pod_priority(other))
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: &Value, annotations: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap()
    }

    fn with(spec: &Value) -> Pod {
        pod(spec, &json!({}))
    }

    #[test]
    fn is_critical_pod() {
        let spec = |priority: Value| json!({"containers": [], "priority": priority});
        assert!(!is_critical(&Pod::default()));
        assert!(!is_critical(&with(&spec(json!(1_999_999_999)))));
        assert!(is_critical(&with(&spec(json!(2_000_000_000)))));
        assert!(is_critical(&with(&json!({"containers": [], "priorityClassName": "system-cluster-critical"}))));
        assert!(!is_critical(&with(&json!({"containers": [], "priorityClassName": "important"}))));
        assert!(is_critical(&pod(&spec(Value::Null), &json!({SOURCE: "file"}))));
        assert!(!is_critical(&pod(&spec(Value::Null), &json!({SOURCE: "api"}))));
        assert!(is_critical(&pod(&spec(Value::Null), &json!({MIRROR: "hash"}))));
    }

    #[test]
    fn preemptable() {
        let of = |priority: Value| with(&json!({"containers": [], "priority": priority}));
        let (low, high, critical, silent) = (of(json!(1)), of(json!(2)), of(json!(2_000_000_001)), of(Value::Null));
        assert!(may_preempt(&critical, &silent) && may_preempt(&critical, &high));
        assert!(may_preempt(&high, &low) && !may_preempt(&low, &high) && !may_preempt(&low, &low));
        assert!(!may_preempt(&high, &silent), "a priority that nobody gave is not compared with");
        assert!(may_preempt(&critical, &of(json!(2_000_000_000))), "a critical one of lower priority");
        assert!(!may_preempt(&critical, &pod(&json!({"containers": []}), &json!({SOURCE: "file"}))));
    }
}

//! Which changes of a Pod concern its provider.

use k8s_openapi::api::core::v1::{Container, EnvVar, EphemeralContainer, Pod};

/// Whether the provider has to be told: containers of all kinds, active deadline, tolerations, labels, annotations. Empty
/// and absent lists are the same; status and bookkeeping do not count.
pub(crate) fn differs(before: &Pod, after: &Pod) -> bool {
    let metadata = (&before.metadata, &after.metadata);
    let maps = [(&metadata.0.labels, &metadata.1.labels), (&metadata.0.annotations, &metadata.1.annotations)];
    if maps.into_iter().any(|(a, b)| !a.iter().flatten().eq(b.iter().flatten())) {
        return true;
    }
    let (Some(a), Some(b)) = (&before.spec, &after.spec) else { return before.spec != after.spec };
    a.containers != b.containers
        || !a.init_containers.iter().flatten().eq(b.init_containers.iter().flatten())
        || !a.ephemeral_containers.iter().flatten().eq(b.ephemeral_containers.iter().flatten())
        || !a.tolerations.iter().flatten().eq(b.tolerations.iter().flatten())
        || a.active_deadline_seconds != b.active_deadline_seconds
}

/// The same, of Pods whose environment is resolved: there, the order of variables means nothing.
pub(crate) fn differs_resolved(before: &Pod, after: &Pod) -> bool {
    differs(&sorted(before), &sorted(after))
}

fn sorted(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    let Some(spec) = &mut pod.spec else { return pod };
    let by_name = |env: &mut Option<Vec<EnvVar>>| {
        if let Some(env) = env {
            env.sort_by(|a, b| (&a.name, &a.value).cmp(&(&b.name, &b.value)));
        }
        if env.as_ref().is_some_and(Vec::is_empty) {
            *env = None;
        }
    };
    let regular = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    regular.for_each(|container: &mut Container| by_name(&mut container.env));
    spec.ephemeral_containers.iter_mut().flatten().for_each(|c: &mut EphemeralContainer| by_name(&mut c.env));
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn with_env(env: &serde_json::Value) -> Pod {
        pod(serde_json::json!({"spec": {"containers": [{"name": "c", "env": env}]}}))
    }

    #[test]
    fn what_concerns_the_provider_differs_and_nothing_else() {
        let base = serde_json::json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let changed = |pointer: &str, value: serde_json::Value| {
            let mut changed = base.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[field] = value;
            differs(&pod(base.clone()), &pod(changed))
        };
        assert!(changed("/spec/containers", serde_json::json!([{"name": "c", "image": "other"}])));
        assert!(changed("/spec/initContainers", serde_json::json!([{"name": "i"}])));
        assert!(changed("/spec/activeDeadlineSeconds", serde_json::json!(5)));
        assert!(changed("/spec/tolerations", serde_json::json!([{"key": "k"}])));
        assert!(changed("/metadata/labels", serde_json::json!({"a": "2"})));
        assert!(changed("/metadata/annotations", serde_json::json!({"a": "2"})));
        assert!(!changed("/metadata/annotations", serde_json::json!({})), "empty is absent");
        assert!(!changed("/metadata/resourceVersion", serde_json::json!("7")));
        assert!(!changed("/spec/initContainers", serde_json::json!([])), "empty is absent");
    }

    #[test]
    fn s15_a_change_of_the_status_is_none_for_the_provider() {
        let before = pod(serde_json::json!({"spec": {"containers": []}}));
        let after = pod(serde_json::json!({"spec": {"containers": []}, "status": {"phase": "Running"}}));
        assert!(!differs(&before, &after));
    }

    #[test]
    fn s24_another_order_of_variables_is_no_difference() {
        let one = with_env(&serde_json::json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
        let other = with_env(&serde_json::json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]));
        let changed = with_env(&serde_json::json!([{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]));
        assert!(!differs_resolved(&one, &other) && differs(&one, &other));
        assert!(differs_resolved(&one, &changed));
    }

    #[test]
    fn s25_ephemeral_containers_count() {
        let before = pod(serde_json::json!({"spec": {"containers": []}}));
        let after = pod(serde_json::json!({"spec": {"containers": [], "ephemeralContainers": [{"name": "debug"}]}}));
        assert!(differs(&before, &after));
    }
}

//! What a Pod asks for and is limited to, as a whole.
//!
//! Upstream source: `k8s.io/component-helpers/resource`. Regular containers and sidecars run together and add up; a
//! plain init container runs beside the sidecars declared before it, and the Pod needs the greatest such moment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Amount;

/// Amounts by resource name (`cpu`, `memory`, `ephemeral-storage`, `hugepages-2Mi`, …).
pub type ResourceList = BTreeMap<String, Amount>;

/// Reads a list; an unreadable quantity counts as absent: validation has refused it before.
#[must_use]
pub fn resource_list(list: Option<&BTreeMap<String, Quantity>>) -> ResourceList {
    let read = |(name, quantity): (&String, &Quantity)| Some((name.clone(), Amount::of(quantity).ok()?));
    list.into_iter().flatten().filter_map(read).collect()
}

/// Whether this init container is a sidecar (`restartPolicy: Always`).
#[must_use]
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What a container asks for; where it asks for nothing, its limit counts, as API defaulting has it.
#[must_use]
pub fn container_requests(container: &Container) -> ResourceList {
    let resources = container.resources.as_ref();
    let mut requests = resource_list(resources.and_then(|r| r.limits.as_ref()));
    requests.extend(resource_list(resources.and_then(|r| r.requests.as_ref())));
    requests
}

/// What a container is limited to.
#[must_use]
pub fn container_limits(container: &Container) -> ResourceList {
    resource_list(container.resources.as_ref().and_then(|r| r.limits.as_ref()))
}

/// What the Pod asks for: containers, init containers, resources of the Pod, overhead.
#[must_use]
pub fn pod_requests(pod: &Pod) -> ResourceList {
    let Some(spec) = pod.spec.as_ref() else { return ResourceList::new() };
    let mut total = aggregate(spec, container_requests);
    let own = spec.resources.as_ref();
    let mut whole = resource_list(own.and_then(|r| r.limits.as_ref()));
    whole.extend(resource_list(own.and_then(|r| r.requests.as_ref())));
    total.extend(whole);
    add(&mut total, &resource_list(spec.overhead.as_ref()));
    total
}

/// What the Pod is limited to. A resource is absent unless some container (or the Pod) limits it; whether *all*
/// containers do is [`every_container_limits`].
#[must_use]
pub fn pod_limits(pod: &Pod) -> ResourceList {
    let Some(spec) = pod.spec.as_ref() else { return ResourceList::new() };
    let mut total = aggregate(spec, container_limits);
    total.extend(resource_list(spec.resources.as_ref().and_then(|r| r.limits.as_ref())));
    // Overhead only raises limits that exist.
    for (name, amount) in resource_list(spec.overhead.as_ref()) {
        if let Some(limit) = total.get_mut(&name) {
            *limit += amount;
        }
    }
    total
}

/// Whether this resource has a non-zero limit in every container, init containers included, or in the Pod itself.
#[must_use]
pub fn every_container_limits(pod: &Pod, resource: &str) -> bool {
    let Some(spec) = pod.spec.as_ref() else { return false };
    let limited = |limits: &ResourceList| limits.get(resource).is_some_and(|a| *a > Amount::ZERO);
    if limited(&resource_list(spec.resources.as_ref().and_then(|r| r.limits.as_ref()))) {
        return true;
    }
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers).peekable();
    containers.peek().is_some() && containers.all(|c| limited(&container_limits(c)))
}

fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

fn raise(total: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let entry = total.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn aggregate(spec: &PodSpec, of: impl Fn(&Container) -> ResourceList) -> ResourceList {
    let mut together = ResourceList::new();
    for container in &spec.containers {
        add(&mut together, &of(container));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if is_sidecar(container) {
            add(&mut together, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            let mut moment = own;
            add(&mut moment, &sidecars);
            raise(&mut starting, &moment);
        }
    }
    raise(&mut together, &starting);
    together
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn asks(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(name: &str, cpu: &str) -> Value {
        json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    fn cpu(spec: &Value) -> i64 {
        pod_requests(&pod(spec)).get("cpu").map_or(0, |a| a.milli_value())
    }

    #[test]
    fn regular_containers_add_up() {
        assert_eq!(cpu(&json!({"containers": [asks("a", "1"), asks("b", "500m")]})), 1500);
    }

    #[test]
    fn the_greatest_init_container_counts_when_it_exceeds_the_sum() {
        let containers = json!([asks("a", "1")]);
        assert_eq!(cpu(&json!({"containers": containers, "initContainers": [asks("i", "3"), asks("j", "2")]})), 3000);
        assert_eq!(cpu(&json!({"containers": containers, "initContainers": [asks("i", "100m")]})), 1000);
    }

    #[test]
    fn sidecars_add_to_both_the_sum_and_later_init_containers() {
        let spec = json!({
            "initContainers": [asks("before", "4"), sidecar("s", "1"), asks("after", "4")],
            "containers": [asks("a", "2")],
        });
        assert_eq!(cpu(&spec), 5000);
        let spec = json!({"initContainers": [sidecar("s", "1"), sidecar("t", "1")], "containers": [asks("a", "2")]});
        assert_eq!(cpu(&spec), 4000);
    }

    #[test]
    fn resources_of_the_pod_replace_and_overhead_adds() {
        let spec = json!({
            "resources": {"requests": {"cpu": "10"}},
            "overhead": {"cpu": "250m"},
            "containers": [asks("a", "1")],
        });
        assert_eq!(cpu(&spec), 10_250);
    }

    #[test]
    fn a_limit_stands_in_for_a_missing_request() {
        let spec = json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]});
        assert_eq!(cpu(&spec), 2000);
    }

    #[test]
    fn limits_of_all_or_of_some() {
        let limited = json!({"name": "a", "resources": {"limits": {"memory": "1Gi"}}});
        let some = pod(&json!({"containers": [limited, {"name": "b"}]}));
        assert!(!every_container_limits(&some, "memory"));
        let all = pod(&json!({"containers": [limited]}));
        assert!(every_container_limits(&all, "memory"));
        assert!(!every_container_limits(&all, "cpu"));
        assert!(!every_container_limits(&Pod::default(), "cpu"));
    }
}

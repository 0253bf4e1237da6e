//! The parts of a Pod that have a subresource of their own: ephemeral containers, and resources of what runs.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use super::strategy::{forbidden, invalid};
use crate::error::Cause;

const EPHEMERAL: &str = "ephemeralContainers";
/// What an ephemeral container can't have: it is there to look, and goes when it has looked.
const NOT_EPHEMERAL: [&str; 7] =
    ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy"];

fn entries<'a>(spec: &'a Value, list: &str) -> &'a [Value] {
    spec[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

/// The Pod as its other rules judge it: they know no ephemeral containers.
pub(crate) fn without_ephemeral(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove(EPHEMERAL);
    }
    pod
}

/// The old Pod with the new one's ephemeral containers.
pub(crate) fn take_ephemeral(new: &Value, old: &Value) -> Value {
    let mut pod = old.clone();
    match new["spec"].get(EPHEMERAL) {
        Some(list) => pod["spec"][EPHEMERAL] = list.clone(),
        None => pod = without_ephemeral(&pod),
    }
    pod
}

/// Ephemeral containers are added, and never changed or taken away.
pub(crate) fn ephemeral(new: &Value, old: &Value) -> Vec<Cause> {
    let field = format!("spec.{EPHEMERAL}");
    let (new_list, old_list) = (entries(&new["spec"], EPHEMERAL), entries(&old["spec"], EPHEMERAL));
    let mut found = Vec::new();
    for old in old_list {
        match new_list.iter().find(|new| name(new) == name(old)) {
            None => {
                let why = format!("existing ephemeral containers {:?} may not be removed\n", name(old));
                found.push(forbidden(&field, &why));
            }
            Some(new) if new != old => {
                let why = format!("existing ephemeral containers {:?} may not be changed\n", name(old));
                found.push(forbidden(&field, &why));
            }
            Some(_) => {}
        }
    }
    let lists = ["containers", "initContainers"];
    let mut names: HashSet<&str> = lists.iter().flat_map(|list| entries(&new["spec"], list)).map(name).collect();
    for (index, container) in new_list.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if !names.insert(name(container)) {
            let message = format!("Duplicate value: {:?}", name(container));
            found.push(Cause::new("FieldValueDuplicate", message, format!("{at}.name")));
        }
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let own = name(container);
        if own.is_empty() {
            found.push(Cause::new("FieldValueRequired", "Required value", format!("{at}.name")));
        } else if own.len() > 63 || !own.chars().all(good) || own.starts_with('-') || own.ends_with('-') {
            found.push(invalid(&format!("{at}.name"), &own.into(), "must be a lowercase RFC 1123 label"));
        }
        if container["image"].as_str().is_none_or(str::is_empty) {
            found.push(Cause::new("FieldValueRequired", "Required value", format!("{at}.image")));
        }
        for refused in NOT_EPHEMERAL {
            let said = container.get(refused).is_some_and(|value| match value {
                Value::Null => false,
                Value::Array(list) => !list.is_empty(),
                Value::Object(map) => !map.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            });
            if said {
                found.push(forbidden(&format!("{at}.{refused}"), "cannot be set for an Ephemeral Container"));
            }
        }
        let target = container["targetContainerName"].as_str().unwrap_or_default();
        let known = lists.iter().flat_map(|list| entries(&new["spec"], list)).any(|other| name(other) == target);
        if !target.is_empty() && !known {
            let message = format!("Not found: {target:?}");
            found.push(Cause::new("FieldValueNotFound", message, format!("{at}.targetContainerName")));
        }
    }
    found
}

/// The old Pod with the new one's resources and resize policies, container by container.
pub(crate) fn take_resources(new: &Value, old: &Value) -> Value {
    let mut pod = old.clone();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let Some(wanted) = entries(&new["spec"], list).iter().find(|new| name(new) == name(container)) else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                match (wanted.get(field), container.as_object_mut()) {
                    (Some(value), Some(map)) => drop(map.insert(field.to_owned(), value.clone())),
                    (None, Some(map)) => drop(map.remove(field)),
                    (_, None) => {}
                }
            }
        }
    }
    pod
}

fn amounts(container: &Value, which: &str) -> Map<String, Value> {
    container["resources"][which].as_object().cloned().unwrap_or_default()
}

fn class(pod: &Value) -> Option<&'static str> {
    let pod: Pod = serde_json::from_value(pod.clone()).ok()?;
    Some(minke_core::qos::qos_class(&pod).as_str())
}

/// What may change in what runs: amounts of CPU and memory, within the Pod's quality of service.
pub(crate) fn resize(new: &Value, old: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    let mirror = old.pointer("/metadata/annotations/kubernetes.io~1config.mirror");
    if mirror.is_some() {
        found.push(forbidden("", "static pods cannot be resized"));
    }
    if class(new) != class(old) {
        let why = "Pod QOS Class may not change as a result of resizing";
        found.push(invalid("spec", &json!(class(new)), why));
    }
    for list in ["containers", "initContainers"] {
        for (index, (new, old)) in entries(&new["spec"], list).iter().zip(entries(&old["spec"], list)).enumerate() {
            let at = format!("spec.{list}[{index}].resources");
            if list == "initContainers" && new != old && new["restartPolicy"] != "Always" {
                found.push(forbidden(&at, "resources for non-sidecar init containers are immutable"));
            }
            for which in ["limits", "requests"] {
                let (new, old) = (amounts(new, which), amounts(old, which));
                for resource in ["cpu", "memory"] {
                    if old.contains_key(resource) && !new.contains_key(resource) {
                        let why = format!("resource {which} cannot be removed");
                        found.push(forbidden(&format!("{at}.{which}"), &why));
                    }
                }
                let rest = |mut map: Map<String, Value>| {
                    map.retain(|resource, _| !matches!(resource.as_str(), "cpu" | "memory"));
                    map
                };
                if rest(new) != rest(old) {
                    found.push(forbidden(&at, "only cpu and memory resources are mutable"));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
            "ephemeralContainers": [{"name": "e", "image": "i"}],
        }})
    }

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn ephemeral_containers_are_added_and_stay_as_they_are() {
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut new = pod();
            change(&mut new["spec"]);
            let new = take_ephemeral(&new, &pod());
            assert_eq!(new["spec"]["containers"], pod()["spec"]["containers"], "nothing else is taken");
            ephemeral(&new, &pod())
        };
        let add = |container: Value| changed(&|spec| spec[EPHEMERAL].as_array_mut().unwrap().push(container.clone()));
        assert_eq!(add(json!({"name": "d", "image": "i", "targetContainerName": "c"})), []);
        assert_eq!(fields(&add(json!({"name": "c", "image": "i"}))), ["spec.ephemeralContainers[1].name"]);
        assert_eq!(fields(&add(json!({"name": "d"}))), ["spec.ephemeralContainers[1].image"]);
        assert_eq!(fields(&add(json!({"name": "D", "image": "i"}))), ["spec.ephemeralContainers[1].name"]);
        let ports = json!({"name": "d", "image": "i", "ports": [{"containerPort": 1}]});
        assert_eq!(fields(&add(ports)), ["spec.ephemeralContainers[1].ports"]);
        let lost = json!({"name": "d", "image": "i", "targetContainerName": "x"});
        assert_eq!(fields(&add(lost)), ["spec.ephemeralContainers[1].targetContainerName"]);
        assert_eq!(fields(&changed(&|spec| spec[EPHEMERAL] = json!([]))), ["spec.ephemeralContainers"]);
        let image = |spec: &mut Value| spec[EPHEMERAL][0]["image"] = "j".into();
        assert_eq!(fields(&changed(&image)), ["spec.ephemeralContainers"]);
        assert_eq!(changed(&|spec| spec["containers"] = json!([])), []);
    }

    #[test]
    fn cpu_and_memory_are_resized_within_the_class() {
        let resized = |resources: Value| {
            let mut new = pod();
            new["spec"]["containers"][0]["resources"] = resources;
            new["spec"]["containers"][0]["image"] = "other".into();
            let new = take_resources(&new, &pod());
            assert_eq!(new["spec"]["containers"][0]["image"], "i", "nothing else is taken");
            resize(&new, &pod())
        };
        assert_eq!(resized(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "3"}})), []);
        assert_eq!(resized(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}})), []);
        let removed = resized(json!({"requests": {"cpu": "1"}}));
        assert_eq!(fields(&removed), ["spec.containers[0].resources.limits"]);
        let more = resized(json!({"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"cpu": "2"}}));
        assert_eq!(fields(&more), ["spec.containers[0].resources"]);
        let all = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(fields(&resized(json!({"requests": all, "limits": all}))), ["spec"], "it would be Guaranteed");
        let mut mirror = pod();
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "h"});
        assert!(!resize(&mirror, &mirror).is_empty());
    }
}

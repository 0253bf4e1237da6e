//! The quality-of-service class of a Pod, from the CPU and memory that its containers ask for.
//!
//! Upstream source: `pkg/apis/core/v1/helper/qos`. Only `cpu` and `memory` count, zero amounts count as absent, and
//! resources of the Pod as a whole (`spec.resources`) take the place of those of its containers.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::resources::Amount;

/// How dearly a Pod is kept when the machine runs short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QosClass {
    /// Every container has limits for CPU and memory, and asks for exactly that.
    Guaranteed,
    /// Something is asked for or limited.
    Burstable,
    /// Nothing is asked for.
    BestEffort,
}

impl QosClass {
    /// As the API writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// The directory of this class below the root of pod cgroups; Guaranteed Pods live in the root itself.
    #[must_use]
    pub fn cgroup_directory(self) -> Option<&'static str> {
        match self {
            Self::Guaranteed => None,
            Self::Burstable => Some("burstable"),
            Self::BestEffort => Some("besteffort"),
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const COUNTED: [&str; 2] = ["cpu", "memory"];

/// The non-zero amounts of the resources that count. An unreadable quantity counts as absent: validation has refused
/// it before.
fn counted(list: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<&'static str, Amount> {
    let Some(list) = list else { return BTreeMap::new() };
    let amount = |name: &&'static str| {
        let amount = Amount::of(list.get(*name)?).ok()?;
        (amount > Amount::ZERO).then_some((*name, amount))
    };
    COUNTED.iter().filter_map(amount).collect()
}

/// The class of this Pod.
#[must_use]
pub fn qos_class(pod: &Pod) -> QosClass {
    let Some(spec) = pod.spec.as_ref() else { return QosClass::BestEffort };
    let of_pod = spec.resources.as_ref().filter(|r| r.requests.is_some() || r.limits.is_some());
    let of_containers = || {
        let init = spec.init_containers.iter().flatten();
        init.chain(&spec.containers).map(|c| c.resources.as_ref())
    };
    match of_pod {
        Some(resources) => class_of(std::iter::once(Some(resources))),
        None => class_of(of_containers()),
    }
}

fn class_of<'a>(all: impl Iterator<Item = Option<&'a ResourceRequirements>>) -> QosClass {
    let mut requests = BTreeMap::<&str, Amount>::new();
    let mut limits = BTreeMap::<&str, Amount>::new();
    let mut every_one_limited = true;
    for resources in all {
        for (name, amount) in counted(resources.and_then(|r| r.requests.as_ref())) {
            *requests.entry(name).or_default() += amount;
        }
        let own = counted(resources.and_then(|r| r.limits.as_ref()));
        every_one_limited &= own.len() == COUNTED.len();
        for (name, amount) in own {
            *limits.entry(name).or_default() += amount;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if every_one_limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(containers: &Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap()
    }

    fn with(resources: &Value) -> Value {
        json!({"name": "c", "resources": resources})
    }

    #[test]
    fn nothing_asked_is_best_effort() {
        assert_eq!(qos_class(&Pod::default()), QosClass::BestEffort);
        assert_eq!(qos_class(&pod(&json!([{"name": "c"}]))), QosClass::BestEffort);
        let zero = with(&json!({"requests": {"cpu": "0", "memory": "0Ki"}}));
        assert_eq!(qos_class(&pod(&json!([zero]))), QosClass::BestEffort);
        let other = with(&json!({"limits": {"ephemeral-storage": "1Gi"}}));
        assert_eq!(qos_class(&pod(&json!([other]))), QosClass::BestEffort);
    }

    #[test]
    fn equal_requests_and_limits_of_both_resources_are_guaranteed() {
        let full =
            with(&json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}));
        assert_eq!(qos_class(&pod(&json!([full]))), QosClass::Guaranteed);
        assert_eq!(qos_class(&pod(&json!([full, {"name": "d"}]))), QosClass::Burstable);
        let partly = with(&json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}));
        assert_eq!(qos_class(&pod(&json!([partly]))), QosClass::Burstable);
    }

    #[test]
    fn init_containers_count_too() {
        let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        let pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
            "containers": [with(&full)],
        }}));
        assert_eq!(qos_class(&pod.unwrap()), QosClass::Burstable);
    }

    #[test]
    fn resources_of_the_pod_take_the_place_of_those_of_its_containers() {
        let pod = serde_json::from_value(json!({"spec": {
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "containers": [{"name": "c"}],
        }}));
        assert_eq!(qos_class(&pod.unwrap()), QosClass::Guaranteed);
    }
}

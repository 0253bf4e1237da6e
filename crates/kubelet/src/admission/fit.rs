//! Whether what a Pod asks for is left, and by how much it is not.

use k8s_openapi::api::core::v1::Pod;
use minke_core::resources::{Amount, ResourceList, pod_requests};

use super::{Machine, Rejection};

/// A resource that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shortage {
    /// `cpu`, `memory`, `pods`, `ephemeral-storage`, `example.com/gpu`, …
    pub(super) resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Shortage {
    /// How much must become free.
    pub(super) fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }

    pub(super) fn rejection(&self) -> Rejection {
        let Self { resource, requested, used, capacity } = self;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Rejection::new(format!("OutOf{resource}"), message)
    }
}

/// Upstream counts CPU in thousandths and everything else in units.
fn counted(resource: &str, amount: Amount) -> i64 {
    if resource == "cpu" { amount.milli_value() } else { amount.value() }
}

/// What a Pod asks for of one resource, counted as upstream does.
pub(super) fn requested(pod: &Pod, resource: &str) -> i64 {
    if resource == "pods" {
        return 1;
    }
    pod_requests(pod).get(resource).map_or(0, |amount| counted(resource, *amount))
}

/// Resources of vendors: those that the machine does not have are ignored, as upstream; Kubernetes' own that it does
/// not have (huge pages) are short.
fn is_extended(resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// All resources that the machine has too little of: first the number of Pods, then CPU, memory, storage, and others
/// by name.
pub(super) fn shortages(pod: &Pod, others: &[&Pod], machine: &Machine) -> Vec<Shortage> {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut short = Vec::new();
    if others.len() + 1 > machine.max_pods {
        let (used, capacity) = (count(others.len()), count(machine.max_pods));
        short.push(Shortage { resource: "pods".to_owned(), requested: 1, used, capacity });
    }
    let wanted = pod_requests(pod);
    let first = ["cpu", "memory", "ephemeral-storage"];
    let rest = wanted.keys().map(String::as_str).filter(|name| !first.contains(name));
    for resource in first.into_iter().chain(rest) {
        let Some(amount) = wanted.get(resource).copied().filter(|a| *a > Amount::ZERO) else { continue };
        let capacity = match machine.allocatable.get(resource) {
            Some(capacity) => *capacity,
            None if is_extended(resource) => continue,
            None => Amount::ZERO,
        };
        let used: Amount = others.iter().filter_map(|other| pod_requests(other).get(resource).copied()).sum();
        if used + amount > capacity {
            let [requested, used, capacity] = [amount, used, capacity].map(|a| counted(resource, a));
            short.push(Shortage { resource: resource.to_owned(), requested, used, capacity });
        }
    }
    short
}

/// What is left of `capacity` when this is kept for the system; never less than nothing.
#[must_use]
pub fn less_reserved(mut capacity: ResourceList, reserved: &ResourceList) -> ResourceList {
    for (name, amount) in &mut capacity {
        let kept = reserved.get(name).copied().unwrap_or_default();
        *amount = (*amount - kept).max(Amount::ZERO);
    }
    capacity
}

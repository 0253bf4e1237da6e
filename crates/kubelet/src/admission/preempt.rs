//! Which Pods make room for a critical one.
//!
//! Upstream source: `pkg/kubelet/preemption`. Guaranteed Pods are spared most: first it is computed which of them
//! would have to go if all others went, then which Burstable ones beside those, then which BestEffort ones. Within a
//! class the Pod goes first that comes closest to what is missing.

use k8s_openapi::api::core::v1::Pod;
use minke_core::priority::may_preempt;
use minke_core::qos::{QosClass, qos_class};

use super::fit::{Shortage, requested};

/// What has to become free of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    resource: String,
    quantity: i64,
}

/// There are not enough Pods that may be preempted; what would still be missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: {}", shown(.0))]
pub(super) struct Impossible(Vec<Need>);

fn shown(needs: &[Need]) -> String {
    let parts: String = needs.iter().map(|n| format!("(res: {}, q: {}), ", n.resource, n.quantity)).collect();
    format!("[{parts}]")
}

/// The Pods among these that must go so that nothing is short any more, BestEffort ones first.
pub(super) fn victims<'a>(
    preemptor: &Pod,
    pods: &[&'a Pod],
    shortages: &[Shortage],
) -> Result<Vec<&'a Pod>, Impossible> {
    let needs: Vec<Need> =
        shortages.iter().map(|s| Need { resource: s.resource.clone(), quantity: s.missing() }).collect();
    let class = |class: QosClass| -> Vec<&'a Pod> {
        pods.iter().copied().filter(|pod| may_preempt(preemptor, pod) && qos_class(pod) == class).collect()
    };
    let [best_effort, burstable, guaranteed] =
        [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed].map(class);
    let all = [&*best_effort, &*burstable, &*guaranteed].concat();
    let unmet = without(&needs, &all);
    if !unmet.is_empty() {
        return Err(Impossible(unmet));
    }
    let guaranteed = closest(guaranteed, without(&needs, &[&*best_effort, &*burstable].concat()))?;
    let burstable = closest(burstable, without(&needs, &[&*best_effort, &*guaranteed].concat()))?;
    let best_effort = closest(best_effort, without(&needs, &[&*burstable, &*guaranteed].concat()))?;
    Ok([best_effort, burstable, guaranteed].concat())
}

/// What is still needed when these Pods are gone.
fn without(needs: &[Need], pods: &[&Pod]) -> Vec<Need> {
    let left = |need: &Need| {
        let freed: i64 = pods.iter().map(|pod| requested(pod, &need.resource)).fold(0, i64::saturating_add);
        let quantity = need.quantity.saturating_sub(freed);
        (quantity > 0).then(|| Need { resource: need.resource.clone(), quantity })
    };
    needs.iter().filter_map(left).collect()
}

/// Takes the Pod that comes closest to what is needed, until nothing is needed.
fn closest(mut pods: Vec<&Pod>, mut needs: Vec<Need>) -> Result<Vec<&Pod>, Impossible> {
    let mut taken = Vec::new();
    while !needs.is_empty() {
        let mut best: Option<(usize, f64)> = None;
        for (at, pod) in pods.iter().enumerate() {
            let distance = distance(&needs, pod);
            let better = best.is_none_or(|(best_at, least)| {
                distance < least || (distance == least && asks_no_more(pod, pods[best_at]))
            });
            if better {
                best = Some((at, distance));
            }
        }
        let Some((at, _)) = best else { return Err(Impossible(needs)) };
        let pod = pods.swap_remove(at);
        needs = without(&needs, &[pod]);
        taken.push(pod);
    }
    Ok(taken)
}

/// The sum of squares of the part of each need that the Pod does not meet.
fn distance(needs: &[Need], pod: &Pod) -> f64 {
    let part = |need: &Need| {
        let unmet = need.quantity.saturating_sub(requested(pod, &need.resource));
        if unmet > 0 { (unmet as f64 / need.quantity as f64).powi(2) } else { 0.0 }
    };
    needs.iter().map(part).sum()
}

/// Whether the first asks for less memory, or for as much and no more CPU.
fn asks_no_more(first: &Pod, second: &Pod) -> bool {
    let of = |pod: &Pod| (requested(pod, "memory"), requested(pod, "cpu"));
    of(first) <= of(second)
}

#[cfg(test)]
mod tests;

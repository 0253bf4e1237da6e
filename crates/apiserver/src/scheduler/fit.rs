//! Whether a Pod fits on a node, and how well: kube-scheduler's filters, in its order, with its reasons.

use k8s_openapi::api::core::v1::Taint;
use minke_core::placement::{node_affinity_fits, term_fits, tolerates};
use minke_core::resources::Amount;

use super::facts::{PodFacts, Rules};
use super::node::NodeFacts;
use super::usage::Usage;

/// Why a Pod does not fit: what the first filter that refuses it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// Upstream's reasons; only a lack of resources has several.
    pub(super) reasons: Vec<String>,
    /// Whether it would fit if others went.
    pub(super) room: bool,
}

impl Misfit {
    pub(super) fn never(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], room: false }
    }
}

fn stands(rules: &Rules, taint: &Taint) -> bool {
    rules.tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// `Ok` if the Pod fits beside what uses the node.
pub(super) fn fits(pod: &PodFacts, node: &NodeFacts, usage: &Usage) -> Result<(), Misfit> {
    let cordon = || Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.unschedulable && !stands(&pod.rules, &cordon()) {
        return Err(Misfit::never("node(s) were unschedulable"));
    }
    let refuses = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    if let Some(taint) = node.taints.iter().filter(refuses).find(|taint| !stands(&pod.rules, taint)) {
        let value = taint.value.as_deref().unwrap_or_default();
        return Err(Misfit::never(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key)));
    }
    if !node_affinity_fits(&pod.rules.selector, &node.labels, &node.name) {
        return Err(Misfit::never("node(s) didn't match Pod's node affinity/selector"));
    }
    if usage.takes(&pod.demand.ports) {
        let reasons = vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
        return Err(Misfit { reasons, room: true });
    }
    resources(pod, node, usage)
}

fn resources(pod: &PodFacts, node: &NodeFacts, usage: &Usage) -> Result<(), Misfit> {
    let (mut reasons, mut room) = (Vec::new(), true);
    if usage.pods + 1 > node.pods {
        reasons.push("Too many pods".to_owned());
    }
    let first = ["cpu", "memory", "ephemeral-storage"];
    let rest = pod.demand.requests.keys().map(String::as_str).filter(|name| !first.contains(name));
    for resource in first.into_iter().chain(rest) {
        let Some(wanted) = pod.demand.requests.get(resource).copied() else { continue };
        let allocatable = node.allocatable.get(resource).copied().unwrap_or_default();
        if usage.of(resource) + wanted > allocatable {
            reasons.push(format!("Insufficient {resource}"));
            // More than an empty node has: nobody's going would help.
            room &= wanted <= allocatable;
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(Misfit { reasons, room }) }
}

/// How well a Pod fits where it does; more is better. First what it prefers, then the fewest taints that ask to be avoided,
/// then where the most is left.
pub(super) fn score(pod: &PodFacts, node: &NodeFacts, usage: &Usage) -> (i64, i64, i64) {
    let preferred = pod.rules.preferred.iter();
    let preferred = preferred.filter(|term| term_fits(&term.preference, &node.labels, &node.name));
    let avoided = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    let avoided = avoided.filter(|taint| !stands(&pod.rules, taint)).count();
    let left: i64 = ["cpu", "memory"].iter().map(|resource| left(pod, node, usage, resource)).sum();
    (preferred.map(|term| i64::from(term.weight)).sum(), -i64::try_from(avoided).unwrap_or(i64::MAX), left)
}

/// Thousandths of a resource that would be left.
fn left(pod: &PodFacts, node: &NodeFacts, usage: &Usage, resource: &str) -> i64 {
    let all = node.allocatable.get(resource).copied().unwrap_or_default();
    let wanted = pod.demand.requests.get(resource).copied().unwrap_or_default();
    let free = all - (usage.of(resource) + wanted);
    if all <= Amount::ZERO || free <= Amount::ZERO {
        return 0;
    }
    i64::try_from(free.nanos() * 1000 / all.nanos()).unwrap_or(0)
}

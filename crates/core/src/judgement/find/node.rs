//! What the Pod's node tells: that it does not answer, or that it is about to go.

use k8s_openapi::api::core::v1::Node;

use super::{Sight, pod, pod_evidence};
use crate::judgement::{Budget, Cause, Finding, Severity};

/// Taints by which autoscalers and clouds announce that a node goes; the first part of a key.
const GOING: [&str; 9] = [
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
    "node.gke.io/termination",
    "kubernetes.azure.com/scheduledevent",
];

/// Ends of a Pod that its node can't change any more are found elsewhere.
pub(super) fn find(sight: &Sight<'_>, found: &mut Vec<Finding>) {
    let phase = sight.pod.status.as_ref().and_then(|s| s.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return;
    }
    if let Some(node) = sight.node {
        if let Some((reason, message)) = not_ready(node) {
            let evidence = pod_evidence(sight.pod, reason, message);
            found.push(Finding { cause: Cause::NodeLost, severity: Severity::Waiting(Budget::Node), evidence });
            return;
        }
        let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
        let going = taints.into_iter().find(|taint| GOING.iter().any(|known| taint.key.starts_with(known)));
        if let Some(taint) = going {
            let message = format!("its node has the taint {}", taint.key);
            let evidence = pod_evidence(sight.pod, &taint.key, &message);
            found.push(Finding { cause: Cause::NodeGoing, severity: Severity::Foretold, evidence });
        }
        return;
    }
    // Without the node itself: the node controller marks the Pods of a node that is silent.
    if let Some(ready) = pod::condition(sight.pod, "Ready").filter(|c| c.status != "True") {
        let reason = ready.reason.as_deref().unwrap_or_default();
        if matches!(reason, "NodeNotReady" | "NodeStatusUnknown" | "NodeStatusNeverUpdated") {
            let evidence = pod_evidence(sight.pod, reason, ready.message.as_deref().unwrap_or_default());
            found.push(Finding { cause: Cause::NodeLost, severity: Severity::Waiting(Budget::Node), evidence });
        }
    }
}

fn not_ready(node: &Node) -> Option<(&str, &str)> {
    let ready = node.status.as_ref()?.conditions.iter().flatten().find(|c| c.type_ == "Ready")?;
    (ready.status != "True")
        .then(|| (ready.reason.as_deref().unwrap_or("NodeNotReady"), ready.message.as_deref().unwrap_or_default()))
}

//! What the Pod's metadata, conditions, phase and reason tell.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};

use super::{Presence, Sight, pod_evidence};
use crate::judgement::{Budget, Cause, Evidence, Finding, Severity};

/// Reasons with which a kubelet refuses a Pod because of what the Pod asks for.
const FORBIDDEN: [&str; 8] = [
    "SysctlForbidden",
    "AppArmor",
    "ProcMount",
    "NoNewPrivs",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "InvalidPod",
    "PodFeatureUnsupported",
];

/// Reasons with which a kubelet refuses a Pod because of the node.
const REFUSED: [&str; 13] = [
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodeSelectorMismatching",
    "NodePorts",
    "NodeName",
    "AlreadyExists",
    "TopologyAffinityError",
    "InvalidNodeInfo",
    "UnknownNode",
    "PredicateFailed",
    "SMTAlignmentError",
    "UnexpectedPredicateFailureType",
    "OutOfDisk",
];

pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|c| c.type_ == kind)
}

/// The disruption that the Pod is marked for.
pub(super) fn disruption(pod: &Pod) -> Option<&PodCondition> {
    condition(pod, "DisruptionTarget").filter(|c| c.status == "True")
}

pub(super) fn find(sight: &Sight<'_>, found: &mut Vec<Finding>) {
    let pod = sight.pod;
    if let Some(status) = &pod.status {
        match status.phase.as_deref() {
            Some("Failed") => found.push(failed(pod, status)),
            Some("Unknown") => {
                let evidence = evidence_of(pod, status, "phase Unknown");
                found.push(Finding { cause: Cause::NodeLost, severity: Severity::Waiting(Budget::Node), evidence });
            }
            _ if status.reason.as_deref() == Some("NodeLost") => {
                let evidence = evidence_of(pod, status, "");
                found.push(Finding { cause: Cause::NodeLost, severity: Severity::Waiting(Budget::Node), evidence });
            }
            _ => scheduling(sight, found),
        }
    }
    // After the status: of two findings of one cause the status has the better words.
    deletion(sight, found);
}

fn evidence_of(pod: &Pod, status: &PodStatus, otherwise: &str) -> Evidence {
    let reason = status.reason.as_deref().unwrap_or(otherwise);
    pod_evidence(pod, reason, status.message.as_deref().unwrap_or_default())
}

fn deletion(sight: &Sight<'_>, found: &mut Vec<Finding>) {
    let pod = sight.pod;
    let permanent = |cause, evidence| Finding { cause, severity: Severity::Permanent, evidence };
    let going = pod.metadata.deletion_timestamp.is_some();
    let absent = match sight.presence {
        Presence::Here => None,
        Presence::Gone => Some((Cause::Deleted, "the Pod is gone")),
        Presence::Replaced => Some((Cause::Replaced, "another Pod has its name")),
    };
    let leaves = going || absent.is_some();
    if leaves && sight.own_deletion {
        found.push(permanent(Cause::OwnDeletion, pod_evidence(pod, "", "deleted by this watcher's own side")));
        return;
    }
    if let Some(condition) = disruption(pod) {
        let reason = condition.reason.as_deref().unwrap_or_default();
        let message = condition.message.as_deref().unwrap_or_default();
        let ended = pod.status.as_ref().is_some_and(|s| matches!(s.phase.as_deref(), Some("Failed" | "Succeeded")));
        let mut evidence = pod_evidence(pod, reason, message);
        evidence.at = condition.last_transition_time.as_ref().map(|t| t.0);
        // The condition is set before the Pod is deleted, and taken back if that never happens.
        let severity = if leaves || ended { Severity::Permanent } else { Severity::Foretold };
        found.push(Finding { cause: disrupted_by(pod, reason, message), severity, evidence });
    }
    if let Some((cause, message)) = absent {
        found.push(permanent(cause, pod_evidence(pod, "", message)));
    } else if going {
        let mut evidence = pod_evidence(pod, "", "the Pod is being deleted");
        evidence.at = super::taken_at(pod);
        found.push(permanent(Cause::Deleted, evidence));
    }
}

fn disrupted_by(pod: &Pod, reason: &str, message: &str) -> Cause {
    match reason {
        "PreemptionByScheduler" => Cause::Preempted,
        "DeletionByTaintManager" => Cause::TaintEvicted,
        "EvictionByEvictionAPI" => Cause::ApiEvicted,
        "DeletionByPodGC" => Cause::GarbageCollected,
        // The kubelet's word for all of its own; the Pod's reason says which.
        "TerminationByKubelet" => {
            let status = pod.status.as_ref();
            let own = status.and_then(|s| s.reason.as_deref()).unwrap_or_default();
            by_kubelet(own, status.and_then(|s| s.message.as_deref()).unwrap_or(message)).unwrap_or(
                if message.contains("shutdown") {
                    Cause::NodeShutdown
                } else if message.contains("preempt") {
                    Cause::Preempted
                } else {
                    Cause::Evicted
                },
            )
        }
        _ => Cause::Disrupted,
    }
}

/// What a kubelet's reason for ending a running Pod means.
fn by_kubelet(reason: &str, message: &str) -> Option<Cause> {
    match reason {
        "Evicted" if own_storage(message) => Some(Cause::StorageLimit),
        "Evicted" => Some(Cause::Evicted),
        "Preempting" => Some(Cause::Preempted),
        "Terminated" | "Shutdown" | "NodeShutdown" => Some(Cause::NodeShutdown),
        "DeadlineExceeded" => Some(Cause::DeadlineExceeded),
        "NodeLost" => Some(Cause::NodeLost),
        _ => None,
    }
}

/// Evicted for a limit of its own rather than for the node's sake.
fn own_storage(message: &str) -> bool {
    message.starts_with("Usage of EmptyDir volume")
        || message.starts_with("Pod ephemeral local storage usage exceeds")
        || (message.starts_with("Container ") && message.contains("exceeded its local ephemeral storage limit"))
}

fn failed(pod: &Pod, status: &PodStatus) -> Finding {
    let evidence = evidence_of(pod, status, "");
    let reason = evidence.reason.as_str();
    let message = evidence.message.as_str();
    let ran = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses)
        .flatten()
        .any(|s| s.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some()));
    let refused = message.starts_with("Pod was rejected: ") || message.starts_with("Pod Predicate ");
    // "The node had condition: [MemoryPressure]": refused, not evicted; it never ran.
    let cause = if reason.starts_with("OutOf") && reason != "OutOfDisk" {
        Cause::OutOfResource
    } else if FORBIDDEN.contains(&reason) {
        Cause::AdmissionForbidden
    } else if REFUSED.contains(&reason) || (refused && !ran) {
        Cause::AdmissionRejected
    } else {
        by_kubelet(reason, message).unwrap_or(Cause::PodFailed)
    };
    Finding { cause, severity: Severity::Permanent, evidence }
}

fn scheduling(sight: &Sight<'_>, found: &mut Vec<Finding>) {
    let pod = sight.pod;
    let Some(condition) = condition(pod, "PodScheduled").filter(|c| c.status == "False") else { return };
    let reason = condition.reason.as_deref().unwrap_or_default();
    let message = condition.message.as_deref().unwrap_or_default();
    let mut evidence = pod_evidence(pod, reason, message);
    evidence.at = condition.last_transition_time.as_ref().map(|t| t.0);
    let missing_claim = message.contains("persistentvolumeclaim \"") && message.contains("\" not found");
    let announced = sight.events.iter().any(|event| event.reason.as_deref() == Some("TriggeredScaleUp"));
    let (cause, severity) = match reason {
        "SchedulingGated" => (Cause::SchedulingGated, Severity::Waiting(Budget::Gated)),
        _ if missing_claim => (Cause::VolumeMissing, Severity::Transient(Budget::Missing)),
        _ if announced => (Cause::Unschedulable, Severity::Waiting(Budget::ScaleUp)),
        _ => (Cause::Unschedulable, Severity::Waiting(Budget::Schedule)),
    };
    found.push(Finding { cause, severity, evidence });
}

//! What only events tell: sandboxes, networks and volumes that can't be made. They count while no container has got any
//! further than being created; afterwards they are history.

use k8s_openapi::api::core::v1::Event;

use super::{Sight, members, pod_evidence, waiting};
use crate::judgement::{Budget, Cause, Finding, Policy, Severity};

pub(super) fn find(sight: &Sight<'_>, policy: &Policy, found: &mut Vec<Finding>) {
    let begun = members(sight.pod, policy).filter_map(|m| m.status?.state.as_ref()).any(|state| {
        let waits = state.waiting.as_ref().and_then(|w| w.reason.as_deref()).unwrap_or_default();
        state.running.is_some()
            || state.terminated.is_some()
            || !matches!(waits, "" | "ContainerCreating" | "PodInitializing")
    });
    let phase = sight.pod.status.as_ref().and_then(|s| s.phase.as_deref());
    if begun || matches!(phase, Some("Succeeded" | "Failed")) {
        return;
    }
    // The newest of each kind: an older one may have been cured.
    let mut seen: Vec<Cause> = Vec::new();
    let mut events: Vec<&Event> = sight.events.iter().collect();
    events.sort_by_key(|event| std::cmp::Reverse(time(event)));
    for event in events {
        let message = event.message.as_deref().unwrap_or_default();
        let reason = event.reason.as_deref().unwrap_or_default();
        let Some((cause, severity)) = cause(reason, message) else { continue };
        if seen.contains(&cause) {
            continue;
        }
        seen.push(cause);
        let mut evidence = pod_evidence(sight.pod, reason, message);
        evidence.at = time(event);
        found.push(Finding { cause, severity, evidence });
    }
}

/// When an event happened last.
fn time(event: &Event) -> Option<jiff::Timestamp> {
    let series = event.series.as_ref().and_then(|s| s.last_observed_time.as_ref()).map(|t| t.0);
    series.or(event.last_timestamp.as_ref().map(|t| t.0)).or(event.event_time.as_ref().map(|t| t.0))
}

fn cause(reason: &str, message: &str) -> Option<(Cause, Severity)> {
    match reason {
        "FailedCreatePodSandBox" | "FailedCreatePodSandbox" | "NetworkNotReady" => Some(waiting::sandbox(message)),
        "FailedMount" => Some(mount(message)),
        "FailedAttachVolume" => Some((Cause::VolumeAttach, Severity::Transient(Budget::Mount))),
        "FailedMapVolume" => Some((Cause::VolumeMount, Severity::Transient(Budget::Mount))),
        _ => None,
    }
}

fn mount(message: &str) -> (Cause, Severity) {
    let text = message.to_lowercase();
    let missing =
        ["not found", "references non-existent", "hostpath type check failed", "no such key", "does not exist"];
    // A kubelet's caches may lag behind the API: then it says that it timed out, and the object may be there.
    let lags = text.contains("failed to sync") || text.contains("timed out waiting for the condition");
    // The driver's own words may say "not found" of anything; the objects of the Pod are named.
    let driver = text.contains("driver name");
    if missing.iter().any(|word| text.contains(word)) && !lags && !driver {
        (Cause::VolumeMissing, Severity::Transient(Budget::Missing))
    } else {
        (Cause::VolumeMount, Severity::Transient(Budget::Mount))
    }
}

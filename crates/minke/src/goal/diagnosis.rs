//! What is wrong with a Pod of this machine, named as `minke watch` names it: cause, category, what was seen, what to do.

use k8s_openapi::api::core::v1::{Event, Pod, PodStatus};
use minke_core::judgement::{Cause, Evidence, Finding, Policy, Severity, Sight, diagnose};
use minke_kubelet::PodReport;

use super::{Standing, Tracked};

/// What is wrong with a Pod as the agent reports it, the root first. Empty: nothing.
pub(crate) fn of_report(report: &PodReport) -> Vec<Finding> {
    seen(&report.pod, &[])
}

/// What is wrong with a Pod that this command asked for, the root first. Empty: nothing.
pub(crate) fn of_tracked(tracked: &Tracked) -> Vec<Finding> {
    let events: Vec<Event> = tracked.events.iter().cloned().collect();
    match &tracked.standing {
        Standing::Queued | Standing::Offered => Vec::new(),
        Standing::Applied => seen(&tracked.pod, &events),
        Standing::Rejected { reason, message } => vec![rejected(&tracked.pod, reason, message)],
        Standing::Reported(report) => seen(&report.pod, &events),
        Standing::Gone => vec![plain(Cause::Deleted, "", "it was removed")],
    }
}

fn seen(pod: &Pod, events: &[Event]) -> Vec<Finding> {
    diagnose(&Sight { events, ..Sight::of(pod) }, &Policy::default())
}

/// What admission said, as the status of the Pod would have it.
fn rejected(pod: &Pod, reason: &str, message: &str) -> Finding {
    let mut pod = Pod::clone(pod);
    let status = PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..PodStatus::default()
    };
    pod.status = Some(status);
    let refusal = |cause| matches!(cause, Cause::OutOfResource | Cause::AdmissionForbidden | Cause::AdmissionRejected);
    let named = seen(&pod, &[]).into_iter().find(|finding| refusal(finding.cause));
    named.unwrap_or_else(|| plain(Cause::AdmissionRejected, reason, message))
}

/// A finding about the whole Pod that no status tells.
pub(super) fn plain(cause: Cause, reason: &str, message: &str) -> Finding {
    let evidence = Evidence { reason: reason.to_owned(), message: message.to_owned(), ..Evidence::default() };
    Finding { cause, severity: Severity::Permanent, evidence }
}

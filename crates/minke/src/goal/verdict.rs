//! What one Pod means for the goal.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use minke_kubelet::{PodReport, PodStage};

use super::{Cause, Standing, Tracked, Until, Verdict};

/// So many failures in a row without any progress are not a hiccup.
const TROUBLE_LIMIT: u32 = 3;

/// Waiting reasons that no waiting cures: the manifest, the image or the machine must change first.
const SYSTEM_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
];

pub(super) fn of(tracked: &Tracked, until: Until) -> Verdict {
    match &tracked.standing {
        Standing::Queued | Standing::Offered => Verdict::Waiting,
        Standing::Applied if tracked.trouble.count < TROUBLE_LIMIT => Verdict::Waiting,
        Standing::Applied => Verdict::Blocked(Cause::System, tracked.trouble.message.clone()),
        Standing::Rejected { reason, message } => Verdict::Blocked(Cause::Rejected, reason_message(reason, message)),
        Standing::Gone => Verdict::Blocked(Cause::System, "it was removed".to_owned()),
        Standing::Reported(report) => reported(tracked, report, until),
    }
}

fn reported(tracked: &Tracked, report: &PodReport, until: Until) -> Verdict {
    let empty = PodStatus::default();
    let status = report.pod.status.as_ref().unwrap_or(&empty);
    let ended = matches!(report.stage, PodStage::Terminated | PodStage::Finished);
    match status.phase.as_deref() {
        Some("Succeeded") if ended || until == Until::Running => return Verdict::Met,
        // With `completed`, the rest of the Pod may still be stopping; wait for the last exit code.
        Some("Failed") if ended || until == Until::Running => {
            return Verdict::Blocked(Cause::Container, failure_text(&report.pod, status));
        }
        Some("Succeeded" | "Failed") => return Verdict::Waiting,
        _ if ended => return Verdict::Blocked(Cause::Container, "it was stopped".to_owned()),
        _ => {}
    }
    if let Some((cause, message)) = statuses(status).find_map(stuck) {
        return Verdict::Blocked(cause, message);
    }
    // Once is enough: a container that ends in a millisecond may never be seen running, and one that is restarted for
    // ever would otherwise be met by chance.
    let was_up = report.timings.running_at.is_some() || all_up(&report.pod, status);
    let goal_met = until == Until::Running && report.stage == PodStage::Syncing && was_up;
    if goal_met {
        Verdict::Met
    } else if tracked.trouble.count >= TROUBLE_LIMIT {
        Verdict::Blocked(Cause::System, tracked.trouble.message.clone())
    } else {
        Verdict::Waiting
    }
}

fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

/// Every container of the spec runs, or has completed with 0 and stays so; sidecars run.
fn all_up(pod: &Pod, status: &PodStatus) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let restarted = spec.restart_policy.as_deref().unwrap_or("Always") == "Always";
    let find = |name: &str| statuses(status).find(|s| s.name == name).and_then(|s| s.state.as_ref());
    let main = spec.containers.iter().all(|container| {
        find(&container.name).is_some_and(|state| {
            state.running.is_some() || (!restarted && state.terminated.as_ref().is_some_and(|t| t.exit_code == 0))
        })
    });
    let mut sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    main && sidecars.all(|container| find(&container.name).is_some_and(|state| state.running.is_some()))
}

/// A container that will not come up by waiting, with whose fault it is.
fn stuck(status: &ContainerStatus) -> Option<(Cause, String)> {
    let waiting = status.state.as_ref().and_then(|s| s.waiting.as_ref())?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let message = waiting.message.as_deref().unwrap_or_default();
    let text = || format!("container {}: {}", status.name, reason_message(reason, message));
    if SYSTEM_REASONS.contains(&reason) {
        return Some((Cause::System, text()));
    }
    // The back-off hides what it is for, unless its message says so. A registry that can't be reached may be back
    // in a moment; every other failed pull waits for somebody to act.
    if reason == "ImagePullBackOff" && !message.contains("RegistryUnavailable") {
        return Some((Cause::System, text()));
    }
    let never_started = [&status.state, &status.last_state]
        .into_iter()
        .flatten()
        .filter_map(|s| s.terminated.as_ref())
        .find(|t| t.reason.as_deref() == Some("StartError"));
    if let Some(start) = never_started {
        let why = start.message.as_deref().unwrap_or(message);
        return Some((Cause::Container, format!("container {}: {}", status.name, reason_message("StartError", why))));
    }
    (reason == "RunContainerError").then(|| (Cause::Container, text()))
}

/// What made a Pod fail: its own reason, else the containers that did.
fn failure_text(pod: &Pod, status: &PodStatus) -> String {
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    if !reason.is_empty() || !message.is_empty() {
        return reason_message(reason, message);
    }
    let ended = statuses(status).filter_map(|container| {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        (terminated.exit_code != 0).then(|| {
            let why = terminated.reason.as_deref().unwrap_or("Error");
            let message = terminated.message.as_deref().map(|m| format!(": {}", m.trim_end())).unwrap_or_default();
            format!("container {} ended with {} ({why}){message}", container.name, terminated.exit_code)
        })
    });
    let text = ended.collect::<Vec<_>>().join("; ");
    if text.is_empty() {
        let count = pod.spec.as_ref().map_or(0, |s| s.containers.len());
        return format!("it failed before its {count} containers could end");
    }
    text
}

fn reason_message(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

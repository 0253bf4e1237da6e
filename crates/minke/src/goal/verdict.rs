//! What one Pod means for the goal.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use minke_core::judgement::{Budget, Cause, Finding, Severity};
use minke_kubelet::{PodReport, PodStage};

use super::diagnosis::{self, plain};
use super::{Fault, Standing, Tracked, Until, Verdict};

/// So many failures in a row without any progress are not a hiccup.
const TROUBLE_LIMIT: u32 = 3;

pub(super) fn of(tracked: &Tracked, until: Until) -> Verdict {
    match &tracked.standing {
        Standing::Queued | Standing::Offered => Verdict::Waiting,
        Standing::Applied if tracked.trouble.count < TROUBLE_LIMIT => Verdict::Waiting,
        Standing::Applied => troubled(tracked),
        Standing::Rejected { .. } | Standing::Gone => {
            diagnosis::of_tracked(tracked).into_iter().next().map_or(Verdict::Waiting, blocked)
        }
        Standing::Reported(report) => reported(tracked, report, until),
    }
}

fn blocked(why: Finding) -> Verdict {
    Verdict::Blocked(Fault::of(why.cause), Box::new(why))
}

fn reported(tracked: &Tracked, report: &PodReport, until: Until) -> Verdict {
    let empty = PodStatus::default();
    let status = report.pod.status.as_ref().unwrap_or(&empty);
    let ended = matches!(report.stage, PodStage::Terminated | PodStage::Finished);
    match status.phase.as_deref() {
        Some("Succeeded") if ended || until == Until::Running => return Verdict::Met,
        // With `completed`, the rest of the Pod may still be stopping; wait for the last exit code.
        Some("Failed") if ended || until == Until::Running => {
            let why = diagnosis::of_tracked(tracked).into_iter().next();
            return blocked(why.unwrap_or_else(|| plain(Cause::PodFailed, "", "it failed")));
        }
        Some("Succeeded" | "Failed") => return Verdict::Waiting,
        _ if ended => {
            return Verdict::Blocked(Fault::Container, Box::new(plain(Cause::Deleted, "", "it was stopped")));
        }
        _ => {}
    }
    // Once is enough: a container that ends in a millisecond may never be seen running, and one that is restarted for
    // ever would otherwise be met by chance.
    let was_up = report.timings.running_at.is_some() || all_up(&report.pod, status);
    let hopeless = diagnosis::of_tracked(tracked).into_iter().find(|finding| is_hopeless(finding, until, was_up));
    if let Some(why) = hopeless {
        return blocked(why);
    }
    if until == Until::Running && report.stage == PodStage::Syncing && was_up {
        Verdict::Met
    } else if tracked.trouble.count >= TROUBLE_LIMIT {
        troubled(tracked)
    } else {
        Verdict::Waiting
    }
}

/// Whether no waiting cures this: the manifest, the image or the machine must change first.
fn is_hopeless(finding: &Finding, until: Until, was_up: bool) -> bool {
    // What has begun and ended is for the phase to tell, once all of the Pod has; only a first start can't wait for it.
    let may_end = until == Until::Running && !was_up;
    match finding.severity {
        Severity::Permanent => match finding.evidence.exit_code {
            Some(_) => may_end,
            // It is on its way out; how it ends is told when it has.
            None => !matches!(finding.cause, Cause::OwnDeletion | Cause::Deleted | Cause::Replaced),
        },
        // Nobody adds to the manifests of a run, and a runtime's refusal stays one. One that is slow or away comes back.
        Severity::Transient(Budget::Missing | Budget::Create) => finding.cause != Cause::RuntimeSlow,
        // A registry that can't be reached may be back in a moment; every other failed pull waits for somebody to act.
        // The back-off hides what it is for, unless its message says so.
        Severity::Transient(Budget::Pull) => {
            let evidence = &finding.evidence;
            let away = evidence.reason == "RegistryUnavailable"
                || (evidence.reason == "ImagePullBackOff" && evidence.message.contains("RegistryUnavailable"));
            !away
        }
        // A loop goes on, unless its container never starts at all.
        Severity::Transient(Budget::Crash) => {
            matches!(finding.cause, Cause::CommandNotFound | Cause::WrongArchitecture | Cause::RunContainer)
        }
        Severity::Transient(
            Budget::Sandbox
            | Budget::Mount
            | Budget::Schedule
            | Budget::ScaleUp
            | Budget::Gated
            | Budget::Node
            | Budget::Unknown
            | Budget::Start
            | Budget::Ready,
        )
        | Severity::Waiting(_)
        | Severity::Foretold => false,
    }
}

/// What the machine could not do for the Pod, several times in a row: by its cause where the judgement knows one.
fn troubled(tracked: &Tracked) -> Verdict {
    let known = diagnosis::of_tracked(tracked).into_iter().next();
    let why = known.unwrap_or_else(|| plain(Cause::PodFailed, "", &tracked.trouble.message));
    Verdict::Blocked(Fault::System, Box::new(why))
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

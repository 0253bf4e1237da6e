//! What the end of a container tells.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use super::{Member, Sight};
use crate::judgement::{Cause, Evidence, Finding, Role, Severity};
use crate::status::{UNKNOWN_REASON, may_restart};

/// A finding if this end is one with an error, for good.
pub(super) fn find(sight: &Sight<'_>, member: &Member<'_>, end: &ContainerStateTerminated) -> Option<Finding> {
    let plain = end.exit_code == 0 && end.signal.unwrap_or(0) == 0;
    let again = member.role != Role::Sidecar && may_restart(member.pod, member.spec, end.exit_code);
    if plain || (again && !ends_for_good(member.pod)) {
        return None;
    }
    let mut evidence = member.evidence();
    fill(&mut evidence, end);
    let cause = cause(sight, member, end, &mut evidence);
    Some(Finding { cause, severity: Severity::Permanent, evidence })
}

/// In a Pod that has failed nothing is started again, whatever the policy says.
fn ends_for_good(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Failed"))
}

/// Takes over what an end says.
pub(super) fn fill(evidence: &mut Evidence, end: &ContainerStateTerminated) {
    evidence.exit_code = Some(end.exit_code);
    evidence.signal = match end.signal {
        Some(signal) if signal > 0 => Some(signal),
        _ => (end.exit_code > 128 && end.exit_code <= 128 + 64).then(|| end.exit_code - 128),
    };
    evidence.reason = end.reason.clone().unwrap_or_default();
    evidence.message = end.message.as_deref().map(|m| m.trim_end().to_owned()).unwrap_or_default();
    evidence.at = end.finished_at.as_ref().map(|t| t.0);
}

/// What an end means; the memory limit is added where memory is the cause.
pub(super) fn cause(
    sight: &Sight<'_>,
    member: &Member<'_>,
    end: &ContainerStateTerminated,
    evidence: &mut Evidence,
) -> Cause {
    let reason = end.reason.as_deref().unwrap_or_default();
    let message = end.message.as_deref().unwrap_or_default();
    match reason {
        "OOMKilled" => {
            let limits = member.spec.resources.as_ref().and_then(|r| r.limits.as_ref());
            evidence.memory_limit = limits.and_then(|l| l.get("memory")).map(|quantity| quantity.0.clone());
            Cause::OomKilled
        }
        reason if reason == UNKNOWN_REASON => Cause::ExitUnknown,
        "StartError" | "ContainerCannotRun" => start_cause(message).unwrap_or(Cause::RunContainer),
        _ if message.to_lowercase().contains("exec format error") => Cause::WrongArchitecture,
        _ => match probe_kill(sight, member) {
            Some(words) => {
                evidence.message = words;
                Cause::LivenessFailed
            }
            None if member.role == Role::Init => Cause::InitFailed,
            None => Cause::ContainerFailed,
        },
    }
}

/// Why a program could not be started, in the words of runc, crun, containerd and the embedded runtime.
pub(super) fn start_cause(message: &str) -> Option<Cause> {
    let text = message.to_lowercase();
    if text.contains("exec format error") {
        return Some(Cause::WrongArchitecture);
    }
    let missing = [
        "executable file not found",
        "executable file `",
        "no such file or directory: unknown",
        "stat /",
        "no command specified",
        "is a directory: unknown",
    ];
    let exec =
        text.contains("exec: \"") || text.contains("exec ") || text.contains("unable to start container process");
    let refused = text.contains("permission denied")
        || text.contains("no such file or directory")
        || text.contains("is a directory");
    let mounts = text.contains("mounting") || text.contains("mount ");
    (missing.iter().any(|word| text.contains(word)) && !mounts || (exec && refused && !mounts))
        .then_some(Cause::CommandNotFound)
}

/// The event by which a kubelet tells that a probe condemned this container.
fn probe_kill(sight: &Sight<'_>, member: &Member<'_>) -> Option<String> {
    let name = &member.spec.name;
    let messages = sight.events.iter().filter(|e| e.reason.as_deref() == Some("Killing"));
    let message = messages.filter_map(|e| e.message.as_deref()).find(|message| {
        let about = message.strip_prefix("Container ").and_then(|rest| rest.strip_prefix(name.as_str()));
        about
            .is_some_and(|rest| rest.starts_with(" failed liveness probe") || rest.starts_with(" failed startup probe"))
    });
    message.map(str::to_owned)
}

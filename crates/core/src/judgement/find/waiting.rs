//! What the waiting reasons of containers tell: the words of kubelets, sub-causes from those of runtimes.

use k8s_openapi::api::core::v1::ContainerStateWaiting;

use super::{Member, Sight, ended};
use crate::judgement::{Budget, Cause, Evidence, Finding, History, Severity, pull_cause};

pub(super) fn find(
    sight: &Sight<'_>,
    member: &Member<'_>,
    waits: &ContainerStateWaiting,
    history: &History,
) -> Option<Finding> {
    let reason = waits.reason.as_deref().unwrap_or_default();
    let message = waits.message.as_deref().unwrap_or_default();
    let mut evidence = Evidence { reason: reason.to_owned(), message: message.to_owned(), ..member.evidence() };
    let (cause, severity) = match reason {
        "" | "ContainerCreating" | "PodInitializing" | "Completed" => return None,
        "InvalidImageName" => (Cause::InvalidImageName, Severity::Permanent),
        "ErrImageNeverPull" => (Cause::ImageNeverPull, Severity::Permanent),
        "SignatureValidationFailed" => (Cause::ImageSignature, Severity::Permanent),
        "ImageInspectError" => (Cause::ImageInspect, Severity::Transient(Budget::Pull)),
        "RegistryUnavailable" => pull(pull_cause(message, image(member)).unwrap_or(Cause::RegistryUnavailable)),
        "ErrImagePull" => pull(pull_cause(message, image(member)).unwrap_or(Cause::ImagePullFailed)),
        "ImagePullBackOff" => pull(backed_off(sight, member, message, history, &mut evidence)),
        "CrashLoopBackOff" => crash(sight, member, &mut evidence),
        "CreateContainerConfigError" => config(message),
        "CreateContainerError" => refused(message, Cause::CreateContainer),
        "RunContainerError" => refused(message, Cause::RunContainer),
        "PreStartHookError" | "PostStartHookError" | "PreCreateHookError" => (Cause::HookFailed, Severity::Permanent),
        "CreatePodSandboxError" | "ConfigPodSandboxError" | "NetworkNotReady" => sandbox(message),
        _ => (Cause::UnknownWaiting, Severity::Transient(Budget::Unknown)),
    };
    Some(Finding { cause, severity, evidence })
}

fn image<'a>(member: &Member<'a>) -> &'a str {
    member.spec.image.as_deref().unwrap_or_default()
}

/// What of pulling heals by itself.
fn pull(cause: Cause) -> (Cause, Severity) {
    let heals = matches!(
        cause,
        Cause::RegistryUnavailable
            | Cause::RegistryTls
            | Cause::RegistryRateLimit
            | Cause::ImagePullFailed
            | Cause::ImageCorrupt
            | Cause::ImageStorage
    );
    (cause, if heals { Severity::Transient(Budget::Pull) } else { Severity::Permanent })
}

/// The back-off names its cause since Kubernetes 1.32; before, what was seen earlier does, or the events.
fn backed_off(
    sight: &Sight<'_>,
    member: &Member<'_>,
    message: &str,
    history: &History,
    evidence: &mut Evidence,
) -> Cause {
    let image = image(member);
    if let Some(cause) = pull_cause(message, image) {
        return cause;
    }
    if let Some((cause, before)) = history.pulls.get(&member.spec.name) {
        evidence.message = format!("{message}: {before}");
        return *cause;
    }
    let about = |text: &&str| text.starts_with("Failed to pull image") && text.contains(image);
    let mut failures = sight.events.iter().filter(|e| e.reason.as_deref() == Some("Failed"));
    let told = failures.find_map(|e| e.message.as_deref().filter(|text| about(text)));
    if let Some((cause, text)) = told.and_then(|text| pull_cause(text, image).map(|cause| (cause, text))) {
        evidence.message = format!("{message}: {text}");
        return cause;
    }
    Cause::ImagePullFailed
}

/// A loop's cause is how the container ends, where that says more than that it ends.
fn crash(sight: &Sight<'_>, member: &Member<'_>, evidence: &mut Evidence) -> (Cause, Severity) {
    let severity = Severity::Transient(Budget::Crash);
    let last = member.status.and_then(|s| s.last_state.as_ref()).and_then(|s| s.terminated.as_ref());
    let Some(last) = last else { return (Cause::CrashLoop, severity) };
    let (reason, message) = (std::mem::take(&mut evidence.reason), std::mem::take(&mut evidence.message));
    let cause = ended::cause(sight, member, last, evidence);
    let probe = std::mem::take(&mut evidence.message);
    ended::fill(evidence, last);
    let ended = if probe.is_empty() { std::mem::take(&mut evidence.message) } else { probe };
    evidence.reason = reason;
    evidence.message = [message, ended].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(": ");
    let telling = matches!(
        cause,
        Cause::OomKilled
            | Cause::CommandNotFound
            | Cause::WrongArchitecture
            | Cause::RunContainer
            | Cause::LivenessFailed
    );
    (if telling { cause } else { Cause::CrashLoop }, severity)
}

fn config(message: &str) -> (Cause, Severity) {
    let text = message.to_lowercase();
    let missing = ["not found", "couldn't find key", "references non-existent", "no such key"];
    if text.contains("failed to sync")
        || text.contains("timed out waiting")
        || text.contains("services have not yet been read")
    {
        (Cause::RuntimeSlow, Severity::Transient(Budget::Create))
    } else if text.contains("runasnonroot") {
        (Cause::RunAsRoot, Severity::Permanent)
    } else if missing.iter().any(|word| text.contains(word)) {
        (Cause::ObjectMissing, Severity::Transient(Budget::Missing))
    } else {
        (Cause::ContainerConfig, Severity::Permanent)
    }
}

/// A container that could not be made or started: a runtime that is slow or away comes back, a refusal stays one.
fn refused(message: &str, otherwise: Cause) -> (Cause, Severity) {
    let text = message.to_lowercase();
    let slow = [
        "context deadline exceeded",
        "deadlineexceeded",
        "no answer within",
        "is reserved for",
        "name is reserved",
        "does not answer",
        "connection refused",
    ];
    // A containerd that was killed has left the directory of a snapshot that it does not know, and removes it in time.
    let forgotten = text.contains("failed to rename") && text.contains("/snapshots/");
    if forgotten || slow.iter().any(|word| text.contains(word)) {
        (Cause::RuntimeSlow, Severity::Transient(Budget::Create))
    } else {
        (ended::start_cause(message).unwrap_or(otherwise), Severity::Permanent)
    }
}

/// Why a sandbox could not be made.
pub(super) fn sandbox(message: &str) -> (Cause, Severity) {
    let text = message.to_lowercase();
    let users = text.contains("user namespace") || text.contains("userns") || text.contains("idmap");
    if text.contains("no runtime for")
        || text.contains("runtimeclass")
        || text.contains("unknown runtime handler")
        || text.contains("failed to find runtime handler")
    {
        (Cause::RuntimeClassMissing, Severity::Permanent)
    } else if users && (text.contains("not support") || text.contains("unsupported") || text.contains("no support")) {
        (Cause::UserNamespaces, Severity::Permanent)
    } else {
        (Cause::SandboxFailed, Severity::Transient(Budget::Sandbox))
    }
}

//! Jobs of a Pod as spans, for who exports them: `pod.create`, `pod.update`, `pod.sync`, and `pod.kill` for a step of its end.

use minke_core::identity::PodKey;
use minke_core::spans::{ERROR, TARGET};
use tracing::Span;
use tracing::field::Empty;

use super::lifecycle::Step;
use super::machine::{StepOutcome, SyncOutcome};
use super::metrics::Work;

/// A job of a Pod on this node. One that is cancelled ends without an outcome.
pub(super) fn job(node: &str, key: &PodKey, work: Work) -> Span {
    tracing::trace_span!(
        target: TARGET,
        "pod",
        otel.name = %format_args!("pod.{}", work.word()),
        k8s.node.name = node,
        k8s.namespace.name = &*key.namespace,
        k8s.pod.name = &*key.name,
        k8s.pod.uid = key.uid.as_str(),
        step = Empty,
        outcome = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// How the sync that runs here went, and what failed in it.
pub(super) fn synced(outcome: SyncOutcome, failures: &[String]) {
    let span = Span::current();
    let word = match outcome {
        SyncOutcome::Settled => "settled",
        SyncOutcome::Terminal => "terminal",
        SyncOutcome::DeadlineExceeded => "deadline_exceeded",
        SyncOutcome::NetworkNotReady => "network_not_ready",
        SyncOutcome::BackOff(_) => "back_off",
        SyncOutcome::SandboxFailed => "sandbox_failed",
        SyncOutcome::Failed => "failed",
    };
    span.record("outcome", word);
    if !failures.is_empty() && !span.is_disabled() {
        span.record("otel.status_code", ERROR);
        span.record("otel.status_description", failures.join("; "));
    }
}

/// How the step of a Pod's end that runs here went.
pub(super) fn stepped(step: Step, outcome: StepOutcome) {
    let span = Span::current();
    let name = match step {
        Step::StopContainers { .. } => "stop_containers",
        Step::StopSandboxes => "stop_sandboxes",
        Step::Confirm => "confirm",
        Step::Volumes => "volumes",
        Step::Sandboxes => "sandboxes",
        Step::Logs => "logs",
        Step::Checkpoint => "checkpoint",
    };
    let word = match outcome {
        StepOutcome::Done => "done",
        StepOutcome::StillRunning => "still_running",
        StepOutcome::Failed => "failed",
    };
    span.record("step", name);
    span.record("outcome", word);
    if outcome == StepOutcome::Failed {
        span.record("otel.status_code", ERROR);
    }
}

//! A sync from end to end.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::PodStatus;
use minke_core::runtime::PodRuntimeStatus;
use minke_core::status::Phase;

use super::execute::{Failures, execute};
use super::observe::{Outlook, compute_now, observe};
use super::plan::{Plan, PlanInput, plan};
use super::{SharedMemory, SyncContext};
use crate::DesiredPod;
use crate::worker::lifecycle::Mode;
use crate::worker::machine::SyncOutcome;

/// What a sync came to.
#[derive(Debug)]
pub struct SyncReport {
    /// For the state machine.
    pub outcome: SyncOutcome,
    /// Whether the runtime was asked to change anything.
    pub acted: bool,
    /// What failed in this sync, in words. Waiting for an earlier failure's back-off is none.
    pub failures: Vec<String>,
}

impl SyncReport {
    fn quiet(outcome: SyncOutcome) -> Self {
        Self { outcome, acted: false, failures: Vec::new() }
    }
}

/// Syncs a Pod that is as `runtime` says: calls `publish` if there is anything new to say of it, and unless `mode` forbids
/// it, does what is to be done.
///
/// Cancel-safe: a sync that is dropped leaves work that the next one finds by looking at the runtime.
pub async fn sync_pod(
    ctx: &SyncContext,
    desired: &DesiredPod,
    memory: &SharedMemory,
    runtime: &PodRuntimeStatus,
    mode: Mode,
    publish: &(dyn Fn() + Send + Sync),
) -> SyncReport {
    let observed = observe(ctx, desired, memory, runtime, Outlook::Going).await;
    if observed.changed {
        publish();
    }
    ctx.probes.poke(&runtime.uid);
    if observed.phase.is_some_and(Phase::is_terminal) {
        return SyncReport::quiet(SyncOutcome::Terminal);
    }
    if past_deadline(ctx, desired, &observed.published) {
        return SyncReport::quiet(SyncOutcome::DeadlineExceeded);
    }
    let steps = {
        let mut memory = memory.lock();
        let hashes = memory.hashes(&desired.pod);
        let input = PlanInput {
            pod: &desired.pod,
            runtime,
            previous: memory.status.as_deref(),
            probes: &memory.probes,
            hashes: &hashes,
        };
        match plan(&input) {
            Plan::End => return SyncReport::quiet(SyncOutcome::Terminal),
            Plan::Steps(steps) => steps,
        }
    };
    if mode == Mode::Observe || (steps.is_empty() && !memory.lock().has_stale_volumes(desired)) {
        return SyncReport::quiet(SyncOutcome::Settled);
    }
    let failures = execute(ctx, desired, memory, runtime, &steps).await;
    // Why containers wait is news even though the runtime has nothing to tell.
    if !failures.is_empty() && compute_now(ctx, desired, memory, runtime, Outlook::Going).changed {
        publish();
    }
    let outcome = outcome_of(&failures);
    let failures = [failures.other, failures.pulls].concat();
    SyncReport { outcome, acted: true, failures }
}

fn outcome_of(failures: &Failures) -> SyncOutcome {
    if failures.network_not_ready {
        SyncOutcome::NetworkNotReady
    } else if failures.sandbox {
        SyncOutcome::SandboxFailed
    } else if !failures.other.is_empty() {
        SyncOutcome::Failed
    } else if let Some(remaining) = failures.back_off {
        SyncOutcome::BackOff(remaining)
    } else {
        SyncOutcome::Settled
    }
}

/// Whether the Pod has been active for longer than its spec allows.
fn past_deadline(ctx: &SyncContext, desired: &DesiredPod, status: &PodStatus) -> bool {
    let Some(seconds) = desired.pod.spec.as_ref().and_then(|s| s.active_deadline_seconds) else { return false };
    let Some(start) = status.start_time.as_ref() else { return false };
    ctx.clock.now().duration_since(start.0) >= SignedDuration::from_secs(seconds)
}

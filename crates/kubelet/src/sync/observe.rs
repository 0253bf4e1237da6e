//! From what the runtime says to the status that is published.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use minke_core::runtime::{PodRuntimeStatus, SandboxState};
use minke_core::status::{Phase, StatusInput, compute, disrupted, finalize, publishable};

use tokio::time::Instant;

use super::{SharedMemory, SyncContext};
use crate::DesiredPod;
use crate::probes::Now;
use crate::worker::lifecycle::Cause;

/// How far the Pod is, as its status sees it.
#[derive(Debug, Clone, Copy)]
pub enum Outlook<'a> {
    /// It is kept.
    Going,
    /// It is being stopped, for this reason.
    Ending(Option<&'a Cause>),
    /// Nothing of it runs, nothing will.
    Ended(Option<&'a Cause>),
}

/// A status that was computed.
#[derive(Debug, Clone)]
pub struct Observed {
    /// What is true: it may be terminal while something still runs.
    pub phase: Option<Phase>,
    /// What may be said of it.
    pub published: Arc<PodStatus>,
    /// There is something to publish and to save: the status, what probes say or timings are not what they were.
    pub changed: bool,
}

/// Reads what ended containers left to say, then computes the status and keeps it as the newest.
pub async fn observe(
    ctx: &SyncContext,
    desired: &DesiredPod,
    memory: &SharedMemory,
    runtime: &PodRuntimeStatus,
    outlook: Outlook<'_>,
) -> Observed {
    let unread = memory.lock().unread(runtime);
    for i in unread {
        let container = &runtime.containers[i];
        let message = ctx.host.termination_message(&desired.pod, container).await.unwrap_or_default();
        memory.lock().messages.insert(container.id.clone(), message);
    }
    compute_now(ctx, desired, memory, runtime, outlook)
}

/// Computes the status from what is known and keeps it as the newest.
pub fn compute_now(
    ctx: &SyncContext,
    desired: &DesiredPod,
    memory: &SharedMemory,
    runtime: &PodRuntimeStatus,
    outlook: Outlook<'_>,
) -> Observed {
    let now = ctx.clock.now();
    ctx.recorder.timeline().observe(runtime, now);
    let mut memory = memory.lock();
    memory.prune(runtime);
    let mut changed = false;
    if ctx.probes.has(&runtime.uid) {
        let ips = ctx.pod_ips(&desired.pod, runtime);
        let probes = ctx.probes.observe(runtime, ips, Now { wall: now, monotonic: Instant::now() });
        changed |= memory.probes != probes;
        memory.probes = probes;
        memory.observed = Some(Arc::new(runtime.clone()));
    }
    let (cause, ended) = match outlook {
        Outlook::Going => (None, false),
        Outlook::Ending(cause) => (cause, false),
        Outlook::Ended(cause) => (cause, true),
    };
    let failure = cause.and_then(Cause::failure);
    // A Pod that was stopped because it failed has failed, whatever its containers made of the stop signal.
    let failed = failure.filter(|_| ended).map(|failure| {
        let mut status = memory.status.as_deref().cloned().unwrap_or_default();
        status.phase = Some(Phase::Failed.as_str().to_owned());
        status.reason = Some(failure.reason.clone());
        status.message = Some(failure.message.clone());
        status
    });
    let computed = compute(&StatusInput {
        pod: &desired.pod,
        runtime,
        previous: failed.as_ref().or(memory.status.as_deref()),
        waiting: &memory.waiting,
        termination_messages: &memory.messages,
        probes: &memory.probes,
        host_ips: &ctx.host_ips,
        runtime_name: &ctx.runtime_name,
        is_terminal: ended,
        is_static: false,
        failure,
        now,
    });
    let phase = Phase::parse(computed.phase.as_deref());
    let may_still_run = !ended;
    let mut published = publishable(&desired.pod, computed, memory.status.as_deref(), may_still_run);
    if ended {
        published = finalize(&desired.pod, &published, false);
        if let Some(failure) = failure.filter(|_| cause.is_some_and(Cause::is_eviction)) {
            disrupted(&mut published, &failure.message, now);
        }
    }

    if memory.timings.sandbox_at.is_none() && runtime.has_ready_sandbox() {
        let ready = runtime.sandboxes.iter().filter(|s| s.info.state == SandboxState::Ready);
        // The runtime says when a sandbox was made; that it is ready was noticed now.
        memory.timings.sandbox_at = ready.map(|_| now).next();
    }
    let running = |s: &PodStatus| match Phase::parse(s.phase.as_deref()) {
        Some(Phase::Succeeded) => true,
        Some(Phase::Running) => s.container_statuses.iter().flatten().all(|c| {
            c.state
                .as_ref()
                .is_some_and(|s| s.running.is_some() || s.terminated.as_ref().is_some_and(|t| t.exit_code == 0))
        }),
        Some(Phase::Pending | Phase::Failed) | None => false,
    };
    if memory.timings.running_at.is_none() && running(&published) {
        memory.timings.running_at = Some(now);
    }
    if ended && memory.timings.finished_at.is_none() {
        memory.timings.finished_at = Some(now);
    }

    changed |= memory.told != memory.timings;
    if changed {
        memory.told = memory.timings.clone();
    }
    ctx.recorder.timeline().status(&runtime.uid, &published);
    let published = match memory.status.take() {
        Some(before) if *before == published => before,
        Some(_) | None => {
            changed = true;
            Arc::new(published)
        }
    };
    memory.status = Some(published.clone());
    Observed { phase, published, changed }
}

//! The steps of teardown, each idempotent.

use std::sync::Arc;

use futures_util::future::join_all;
use minke_core::identity::PodKey;
use minke_core::runtime::{ListFilter, RuntimeError, error_chain};

use super::WorkerContext;
use super::lifecycle::{Cause, Step};
use super::machine::StepOutcome;
use crate::DesiredPod;
use crate::pleg::{bounded, read_pod};
use crate::sync::{CALL_TIMEOUT, Outlook, SharedMemory, observe, stop_pod};

/// A step of one Pod, ready to be performed.
pub(super) struct StepJob {
    pub(super) ctx: Arc<WorkerContext>,
    pub(super) key: PodKey,
    pub(super) desired: DesiredPod,
    pub(super) memory: SharedMemory,
    pub(super) cause: Option<Cause>,
}

impl StepJob {
    pub(super) async fn perform(self, step: Step) -> StepOutcome {
        let result = match step {
            Step::StopContainers { grace } => self.stop_containers(grace).await,
            Step::StopSandboxes => self.stop_sandboxes().await,
            Step::Confirm => return self.confirm().await,
            Step::Volumes => self.ctx.sync.host.tear_down(&self.key.uid).await.map_err(|e| e.message),
            Step::Sandboxes => self.remove_sandboxes().await,
            Step::Logs => self.ctx.sync.host.remove_logs(&self.key).await.map_err(|e| e.message),
            Step::Checkpoint => self.ctx.checkpoints.remove(&self.key.uid).await.map_err(|e| error_chain(&e)),
        };
        match result {
            Ok(()) => StepOutcome::Done,
            Err(message) => self.failed(step, message),
        }
    }

    fn failed(&self, step: Step, message: String) -> StepOutcome {
        let reason = match step {
            Step::StopContainers { .. } | Step::StopSandboxes | Step::Confirm => "FailedKillPod",
            Step::Volumes => "FailedUnMount",
            Step::Sandboxes | Step::Logs | Step::Checkpoint => "FailedCleanup",
        };
        self.ctx.sync.recorder.warning(&self.key.uid, None, reason, message);
        StepOutcome::Failed
    }

    async fn stop_containers(&self, grace: std::time::Duration) -> Result<(), String> {
        // Readiness is asked for until the end: others want to know whom to leave alone.
        self.ctx.sync.probes.stop_fatal(&self.key.uid);
        let runtime = self.read().await?;
        observe(&self.ctx.sync, &self.desired, &self.memory, &runtime, Outlook::Ending(self.cause.as_ref())).await;
        stop_pod(&self.ctx.sync, &self.key, Some(&self.desired), &runtime, grace).await
    }

    async fn read(&self) -> Result<minke_core::runtime::PodRuntimeStatus, String> {
        let read = read_pod(&*self.ctx.sync.runtime, &self.key.uid, CALL_TIMEOUT).await;
        read.map_err(|e| format!("can't see what runs: {}", error_chain(&e)))
    }

    async fn stop_sandboxes(&self) -> Result<(), String> {
        stop_sandboxes(&self.ctx, &self.key).await.map_err(|e| format!("can't stop the sandbox: {}", error_chain(&e)))
    }

    async fn confirm(&self) -> StepOutcome {
        let runtime = match self.read().await {
            Ok(runtime) => runtime,
            Err(message) => return self.failed(Step::Confirm, message),
        };
        if runtime.may_have_running_containers() {
            self.failed(Step::Confirm, "a container runs although it was stopped".to_owned());
            return StepOutcome::StillRunning;
        }
        observe(&self.ctx.sync, &self.desired, &self.memory, &runtime, Outlook::Ended(self.cause.as_ref())).await;
        self.ctx.sync.probes.remove(&self.key.uid);
        StepOutcome::Done
    }

    async fn remove_sandboxes(&self) -> Result<(), String> {
        let removed = remove_sandboxes(&self.ctx, &self.key).await;
        self.ctx.pleg.request(&self.key.uid);
        removed.map_err(|e| format!("can't remove the sandbox: {}", error_chain(&e)))?;
        self.ctx.sync.host.remove_cgroups(&self.key.uid).await.map_err(|e| e.message)
    }
}

/// Stops all sandboxes of a Pod.
pub(crate) async fn stop_sandboxes(ctx: &WorkerContext, key: &PodKey) -> Result<(), RuntimeError> {
    let runtime = &ctx.sync.runtime;
    let filter = ListFilter::pod(&key.uid);
    let sandboxes = bounded("list sandboxes", CALL_TIMEOUT, runtime.list_sandboxes(&filter)).await?;
    let stops = sandboxes.iter().map(|s| bounded("stop sandbox", CALL_TIMEOUT, runtime.stop_sandbox(&s.id)));
    join_all(stops).await.into_iter().collect::<Result<Vec<()>, _>>().map(drop)
}

/// Removes everything that the runtime has of a Pod.
pub(crate) async fn remove_sandboxes(ctx: &WorkerContext, key: &PodKey) -> Result<(), RuntimeError> {
    let runtime = &ctx.sync.runtime;
    let filter = ListFilter::pod(&key.uid);
    let sandboxes = bounded("list sandboxes", CALL_TIMEOUT, runtime.list_sandboxes(&filter)).await?;
    for sandbox in sandboxes {
        bounded("stop sandbox", CALL_TIMEOUT, runtime.stop_sandbox(&sandbox.id)).await?;
        bounded("remove sandbox", CALL_TIMEOUT, runtime.remove_sandbox(&sandbox.id)).await?;
    }
    // Containers go with their sandbox; what is left has lost it.
    let containers = bounded("list containers", CALL_TIMEOUT, runtime.list_containers(&filter)).await?;
    for container in containers {
        bounded("remove container", CALL_TIMEOUT, runtime.remove_container(&container.id)).await?;
    }
    Ok(())
}

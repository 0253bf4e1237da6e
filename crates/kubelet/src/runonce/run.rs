//! Performs a run over the runtime.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::clock::Clock;
use minke_core::identity::{IdentityError, PodKey};
use minke_core::runtime::{ContainerState, ExitCode, PodRuntimeStatus, Runtime, error_chain};
use minke_core::status::FailureOverride;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::machine::{Action, Event, MAX_RETRIES, PodRun};
use crate::admission::{Preemption, Verdict};
use crate::checkpoint::{CheckpointError, Checkpoints, SavedState};
use crate::kubelet::sync_context;
use crate::pleg::{bounded, read_pod};
use crate::sync::{CALL_TIMEOUT, PodMemory, SharedMemory, SyncContext, stop_pod, sync_pod};
use crate::worker::grace::effective_grace;
use crate::worker::lifecycle::{Cause, Mode, SavedLifecycle};
use crate::worker::machine::SyncOutcome;
use crate::{DesiredPod, KubeletConfig, Ports, StartError};

/// How long the manifest may take.
pub const MANIFEST_DELAY: Duration = Duration::from_secs(1);

/// Why a whole run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunOnceError {
    /// The machine can't be used.
    #[error("can't set up this machine")]
    Setup(#[source] StartError),
    /// No manifest came in time.
    #[error("no pod manifest update after {}s", MANIFEST_DELAY.as_secs())]
    NoManifest,
    /// Some Pods failed.
    #[error("error running pods: [{}]", .0.join(" "))]
    Pods(
        /// `name_namespace(uid)` of each, in the order in which they failed.
        Vec<String>,
    ),
}

impl RunOnceError {
    /// What the process says when it exits with 1.
    #[must_use]
    pub fn process_message(&self) -> String {
        format!("runonce failed: {}", error_chain(self))
    }
}

/// Why one Pod failed.
#[derive(Debug, thiserror::Error)]
pub enum RunPodError {
    /// It has no usable identity.
    #[error("the pod can't be identified")]
    Identity(#[source] IdentityError),
    /// It could not be kept.
    #[error("can't keep pod {pod:?}")]
    Keep {
        /// `name_namespace(uid)`.
        pod: String,
        /// Why.
        #[source]
        source: CheckpointError,
    },
    /// The runtime did not say what it does.
    #[error("unable to get status for pod {pod:?}: {cause}")]
    Status {
        /// `name_namespace(uid)`.
        pod: String,
        /// Why.
        cause: String,
    },
    /// A sync failed.
    #[error("error syncing pod {pod:?}: {cause}")]
    Sync {
        /// `name_namespace(uid)`.
        pod: String,
        /// Why.
        cause: String,
    },
    /// Its containers did not all run.
    #[error("timeout error: pod {pod:?} containers not running after {MAX_RETRIES} retries")]
    TimedOut {
        /// `name_namespace(uid)`.
        pod: String,
    },
}

/// One Pod of a run. A rejected one has no error.
#[derive(Debug)]
pub struct RunPodResult {
    /// The Pod; with a status where it was rejected.
    pub pod: Arc<Pod>,
    /// Why it failed.
    pub error: Option<RunPodError>,
}

/// A whole run.
#[derive(Debug)]
pub struct RunOnceReport {
    /// Rejected Pods as they were met, the others in the order in which they were done.
    pub results: Vec<RunPodResult>,
    /// The process exits with 1 when there is one.
    pub error: Option<RunOnceError>,
}

impl RunOnceReport {
    fn failed(error: RunOnceError) -> Self {
        Self { results: Vec::new(), error: Some(error) }
    }
}

/// Runs once on this machine. `manifest` gives the Pods; it is dropped if it takes longer than a second.
pub async fn run(
    config: KubeletConfig,
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
    manifest: impl Future<Output = Vec<DesiredPod>> + Send,
) -> RunOnceReport {
    match Ports::of_machine(&config, &runtime, &clock).await {
        Ok(ports) => run_with(config, runtime, clock, ports, manifest).await,
        Err(error) => RunOnceReport::failed(RunOnceError::Setup(error)),
    }
}

/// Runs once on given ports.
pub async fn run_with(
    config: KubeletConfig,
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
    ports: Ports,
    manifest: impl Future<Output = Vec<DesiredPod>> + Send,
) -> RunOnceReport {
    let ctx = sync_context(&config, &ports, runtime, clock);
    let Ok(pods) = timeout(MANIFEST_DELAY, manifest).await else {
        return RunOnceReport::failed(RunOnceError::NoManifest);
    };
    let (mut results, mut admitted, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
    for desired in pods {
        let rejection = match ports.admit.admit(&desired.pod, &admitted, &[]).await {
            Verdict::Admit => None,
            // Nothing of this run is stopped again for another: whoever comes first stays.
            Verdict::Reject(rejection) | Verdict::Preempt(Preemption { otherwise: rejection, .. }) => Some(rejection),
        };
        if let Some(rejection) = rejection {
            let failure = FailureOverride { reason: rejection.reason.clone(), message: rejection.status_message() };
            results.push(RunPodResult { pod: reject(&ctx, &ports, desired, failure).await, error: None });
            continue;
        }
        admitted.push(desired.pod.clone());
        let (ctx, checkpoints) = (ctx.clone(), ports.checkpoints.clone());
        tasks.spawn(async move {
            let error = run_pod(&ctx, &*checkpoints, &desired).await.err();
            RunPodResult { pod: desired.pod, error }
        });
    }
    let mut failed = Vec::new();
    while let Some(done) = tasks.join_next().await {
        // Tasks are neither cancelled nor let panic.
        let Ok(result) = done else { continue };
        if result.error.is_some() {
            failed.push(long_name(&result.pod));
            log_failed_containers(&ctx, &result.pod).await;
        }
        results.push(result);
    }
    let error = (!failed.is_empty()).then_some(RunOnceError::Pods(failed));
    RunOnceReport { results, error }
}

/// `name_namespace(uid)`, as the kubelet writes Pods in these messages.
fn long_name(pod: &Pod) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid))
}

/// Gives a rejected Pod its status, and keeps it.
async fn reject(ctx: &SyncContext, ports: &Ports, desired: DesiredPod, failure: FailureOverride) -> Arc<Pod> {
    let mut pod = (*desired.pod).clone();
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Failed".to_owned());
    status.reason = Some(failure.reason.clone());
    status.message = Some(failure.message.clone());
    if let Ok(key) = PodKey::of(&desired.pod) {
        ctx.recorder.warning(&key.uid, None, &failure.reason, failure.message.clone());
        let lifecycle = SavedLifecycle::Finished { cause: Cause::Failed(failure) };
        let state = SavedState { lifecycle, status: status.clone(), ..SavedState::default() };
        let kept = async {
            ports.checkpoints.save_pod(&key.uid, &desired).await?;
            ports.checkpoints.save_state(&key.uid, &state).await
        };
        if let Err(error) = kept.await {
            tracing::warn!(pod = %key, error = error_chain(&error), "can't keep a rejected pod");
        }
    }
    Arc::new(pod)
}

async fn run_pod(ctx: &SyncContext, checkpoints: &dyn Checkpoints, desired: &DesiredPod) -> Result<(), RunPodError> {
    let key = PodKey::of(&desired.pod).map_err(RunPodError::Identity)?;
    let name = long_name(&desired.pod);
    let kept = checkpoints.save_pod(&key.uid, desired).await;
    kept.map_err(|source| RunPodError::Keep { pod: name.clone(), source })?;
    let memory = SharedMemory::new(PodMemory::new(&desired.pod, None, crate::PodTimings::default()));
    let (mut run, mut action) = PodRun::start();
    let (mut seen, mut cause) = (PodRuntimeStatus::empty(key.uid.clone()), String::new());
    let mut last = Event::Slept;
    loop {
        last = match action {
            Action::Look => match read_pod(&*ctx.runtime, &key.uid, CALL_TIMEOUT).await {
                Ok(status) => {
                    seen = status;
                    Event::Looked { all_running: all_running(&desired.pod, &seen) }
                }
                Err(error) => {
                    cause = error_chain(&error);
                    Event::LookFailed
                }
            },
            Action::Sync => match sync(ctx, &key, desired, &memory, &seen).await {
                Ok(()) => Event::Synced,
                Err(words) => {
                    cause = words;
                    Event::SyncFailed
                }
            },
            Action::Sleep(delay) => {
                sleep(delay).await;
                Event::Slept
            }
            Action::Succeed => return Ok(()),
            Action::TimeOut => return Err(RunPodError::TimedOut { pod: name }),
            Action::Fail if last == Event::LookFailed => return Err(RunPodError::Status { pod: name, cause }),
            Action::Fail => return Err(RunPodError::Sync { pod: name, cause }),
        };
        action = run.step(last);
    }
}

/// Whether every container of `spec.containers` runs, at this moment.
fn all_running(pod: &Pod, status: &PodRuntimeStatus) -> bool {
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    containers.iter().all(|c| status.newest(&c.name).is_some_and(|s| s.state.is_running()))
}

/// One sync. Being in back-off is no error.
async fn sync(
    ctx: &SyncContext,
    key: &PodKey,
    desired: &DesiredPod,
    memory: &SharedMemory,
    seen: &PodRuntimeStatus,
) -> Result<(), String> {
    let report = sync_pod(ctx, desired, memory, seen, Mode::Act, &|| {}).await;
    if let Some(first) = report.failures.into_iter().next() {
        return Err(first);
    }
    match report.outcome {
        SyncOutcome::Settled | SyncOutcome::BackOff(_) => Ok(()),
        SyncOutcome::NetworkNotReady => Err("network is not ready".to_owned()),
        SyncOutcome::SandboxFailed | SyncOutcome::Failed => Err("the sync failed".to_owned()),
        // Nothing is left to run: what remains of the Pod is stopped, and it is looked at again all the same.
        SyncOutcome::Terminal | SyncOutcome::DeadlineExceeded => {
            stop_pod(ctx, key, Some(desired), seen, effective_grace(&desired.pod, None, None)).await?;
            for sandbox in &seen.sandboxes {
                let call = bounded("stop sandbox", CALL_TIMEOUT, ctx.runtime.stop_sandbox(&sandbox.info.id));
                call.await.map_err(|e| error_chain(&e))?;
            }
            Ok(())
        }
    }
}

/// Tells which containers made a Pod fail: those that do not run and did not end well.
async fn log_failed_containers(ctx: &SyncContext, pod: &Pod) {
    let Ok(key) = PodKey::of(pod) else { return };
    let Ok(status) = read_pod(&*ctx.runtime, &key.uid, CALL_TIMEOUT).await else { return };
    let failed = |state: &ContainerState| matches!(state, ContainerState::Exited { exit, .. } if exit.code != ExitCode::Known(0));
    let names: Vec<&str> = status.containers.iter().filter(|c| failed(&c.state)).map(|c| c.name.as_str()).collect();
    tracing::info!(pod = %key, ?names, "unable to start pod because containers failed");
}

//! Starts one container: back-off, image, configuration, create, start, postStart.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use minke_core::backoff::{BackedOff, CrashKey};
use minke_core::containers::container_named;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{ContainerId, RuntimeError, SandboxConfig, SandboxId, error_chain};
use minke_core::status::WaitingReason;
use tokio::time::Instant;

use super::execute::{Failures, Image};
use super::hooks::{self, Hooked};
use super::plan::{How, Start};
use super::stop::{Doomed, own_grace, stop_one};
use super::{CALL_TIMEOUT, ContainerRequest, SharedMemory, SyncContext};
use crate::pleg::bounded;
use crate::spec::backoff_hash;
use crate::timeline::{Step, Transition};
use crate::{ContainerTimings, DesiredPod};

/// Where containers start.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) sandbox: SandboxId,
    pub(super) config: Arc<SandboxConfig>,
    pub(super) ips: Vec<IpAddr>,
}

/// Whether a container was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Started {
    Yes,
    No,
}

/// Why a container does not start: what its status says, and for people.
struct Refusal {
    reason: String,
    message: String,
}

impl Refusal {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }
}

/// Why a container that was made does not run.
enum NotRun {
    /// It is not there any more: somebody removed it, or an earlier agent's start of it was cut off before it ran. Nothing is
    /// wrong with it.
    Gone,
    Refused(Refusal),
}

/// Until what was gone is made again.
const GONE_BACKOFF: Duration = Duration::from_secs(1);

fn crash_key(uid: &PodUid, container: &Container) -> CrashKey {
    let spec_hash = backoff_hash(container);
    CrashKey { pod: uid.clone(), container: container.name.clone(), spec_hash }
}

/// How long a container that ended at `after` must wait; `None`: it may start.
pub(super) fn backed_off(
    ctx: &SyncContext,
    memory: &SharedMemory,
    uid: &PodUid,
    container: &Container,
    after: Option<Timestamp>,
) -> Option<BackedOff> {
    memory.lock().crashes.check(&crash_key(uid, container), after?, ctx.moment())
}

/// Starts a container. What goes wrong is told as an event, remembered as the container's waiting reason, and added
/// to `failures`.
pub(super) async fn start(
    ctx: &SyncContext,
    desired: &DesiredPod,
    memory: &SharedMemory,
    place: &Place,
    step: &Start,
    image: Option<Image>,
    failures: &mut Failures,
) -> Started {
    let key = &place.config.pod;
    let Some(container) = container_named(&desired.pod, &step.name) else { return Started::No };
    let wait = |reason: &str, message: &str| {
        let why = WaitingReason { reason: reason.to_owned(), message: message.to_owned() };
        memory.lock().waiting.insert(step.name.clone(), why);
    };
    let id = match &step.how {
        How::Resume(id) => id.clone(),
        How::Create { attempt, after } => {
            if let Some(wanted) = backed_off(ctx, memory, &key.uid, container, *after) {
                let message = wanted.crash_loop_message(&container.name, key);
                let for_us = i64::try_from(wanted.remaining.as_micros()).unwrap_or(i64::MAX);
                record(
                    ctx,
                    key,
                    &step.name,
                    ctx.recorder.timeline().attempt(&key.uid, &step.name),
                    Transition::BackOff { for_us },
                );
                ctx.recorder.warning(&key.uid, Some(&step.name), "BackOff", message.clone());
                wait("CrashLoopBackOff", &message);
                failures.backs_off(wanted.remaining);
                return Started::No;
            }
            let Some(image) = image else { return Started::No };
            let ensured = match image.await {
                Ok(Ok(ensured)) => ensured,
                Ok(Err(failure)) => {
                    wait(failure.reason, &failure.message);
                    let words = format!("container {}: {}", step.name, failure.message);
                    match failure.retry_after {
                        Some(remaining) => {
                            failures.backs_off(remaining);
                            if failure.reason != "ImagePullBackOff" {
                                failures.pulls.push(words);
                            }
                        }
                        None => failures.other.push(words),
                    }
                    return Started::No;
                }
                Err(_) => {
                    failures.other.push(format!("container {}: seeing to its image was cut off", step.name));
                    return Started::No;
                }
            };
            let pull_ms = ensured.pulled_in.map(millis);
            if let Some(timing) = memory.lock().timing(&step.name) {
                *timing = ContainerTimings { name: step.name.clone(), pull_ms, ..ContainerTimings::default() };
            }
            let request = ContainerRequest {
                desired,
                container,
                attempt: *attempt,
                image: &ensured.status,
                sandbox: &place.config,
                ips: &place.ips,
                host_ips: &ctx.host_ips,
            };
            let what = Step::Create;
            record(ctx, key, &step.name, *attempt, Transition::Began { step: what });
            let created = create(ctx, memory, place, request).await;
            let told = match &created {
                Ok(_) => Transition::Done { step: what },
                Err(refusal) => Transition::Failed { step: what, reason: refusal.reason.clone() },
            };
            record(ctx, key, &step.name, *attempt, told);
            // From here on the exit before is dealt with, whatever comes of this attempt.
            if let Some(after) = after {
                memory.lock().crashes.advance(crash_key(&key.uid, container), *after, ctx.moment());
            }
            match created {
                Ok(id) => id,
                Err(refusal) => {
                    refused(ctx, key, &step.name, &refusal);
                    wait(&refusal.reason, &refusal.message);
                    failures.other.push(format!("container {}: {}", step.name, refusal.message));
                    return Started::No;
                }
            }
        }
    };
    let attempt = ctx.recorder.timeline().attempt(&key.uid, &step.name);
    let what = Step::Start;
    record(ctx, key, &step.name, attempt, Transition::Began { step: what });
    let ran = run(ctx, memory, key, &id, container).await;
    let told = match &ran {
        Ok(()) => Transition::Done { step: what },
        Err(NotRun::Gone) => Transition::Failed { step: what, reason: "it is gone".to_owned() },
        Err(NotRun::Refused(refusal)) => Transition::Failed { step: what, reason: refusal.reason.clone() },
    };
    record(ctx, key, &step.name, attempt, told);
    match ran {
        Ok(()) => {
            memory.lock().waiting.remove(&step.name);
        }
        Err(NotRun::Gone) => {
            tracing::info!(pod = %key, container = step.name, "what was made to be started is gone; it is made again");
            failures.backs_off(GONE_BACKOFF);
            return Started::No;
        }
        Err(NotRun::Refused(refusal)) => {
            refused(ctx, key, &step.name, &refusal);
            wait(&refusal.reason, &refusal.message);
            failures.other.push(format!("container {}: {}", step.name, refusal.message));
            return Started::No;
        }
    }
    let hook = container.lifecycle.as_ref().is_some_and(|l| l.post_start.is_some());
    let what = Step::PostStart;
    if hook {
        record(ctx, key, &step.name, attempt, Transition::Began { step: what });
    }
    let host_network = desired.pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
    let ips = if host_network { &ctx.host_ips } else { &place.ips };
    let hooked = hooks::post_start(ctx, Hooked { key, container, id: &id, ips }).await;
    if hook {
        let failed = |message: &String| Transition::Failed { step: what, reason: message.clone() };
        let told = hooked.as_ref().err().map_or(Transition::Done { step: what }, failed);
        record(ctx, key, &step.name, attempt, told);
    }
    if let Err(message) = hooked {
        failures.other.push(format!("container {}: {message}", step.name));
        wait("PostStartHookError", &message);
        let grace = own_grace(&desired.pod, Some(container), None);
        let doomed = Doomed { key, id: &id, name: &step.name, container: Some(container), ips, grace };
        if let Err(error) =
            stop_one(ctx, doomed, "its postStart hook failed", "FailedPostStartHook".to_owned(), &[]).await
        {
            tracing::warn!(pod = %key, error, "can't stop a container whose postStart hook failed");
        }
        return Started::No;
    }
    Started::Yes
}

fn record(ctx: &SyncContext, key: &PodKey, container: &str, attempt: u32, transition: Transition) {
    ctx.recorder.timeline().record(&key.uid, Some((container, attempt)), transition);
}

fn refused(ctx: &SyncContext, key: &PodKey, name: &str, refusal: &Refusal) {
    ctx.recorder.warning(&key.uid, Some(name), "Failed", format!("Error: {}", refusal.message));
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn create(
    ctx: &SyncContext,
    memory: &SharedMemory,
    place: &Place,
    request: ContainerRequest<'_>,
) -> Result<ContainerId, Refusal> {
    let config = ctx.host.container_config(request).await.map_err(|e| Refusal::new(&e.reason, e.message))?;
    let begun = Instant::now();
    let call = ctx.runtime.create_container(&place.sandbox, &config, &place.config);
    let id = bounded("create container", CALL_TIMEOUT, call).await;
    let id = id.map_err(|error| Refusal::new(create_reason(&error), error_chain(&error)))?;
    let name = &request.container.name;
    if let Some(timing) = memory.lock().timing(name) {
        timing.create_ms = Some(millis(begun.elapsed()));
    }
    ctx.recorder.normal(&place.config.pod.uid, Some(name), "Created", format!("Created container {name}"));
    Ok(id)
}

/// The waiting reason for a container that could not be created.
fn create_reason(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::Invalid { .. } => "CreateContainerConfigError",
        RuntimeError::NotFound { .. }
        | RuntimeError::AlreadyExists { .. }
        | RuntimeError::NotExecutable { .. }
        | RuntimeError::Unsupported { .. }
        | RuntimeError::NotPermitted { .. }
        | RuntimeError::Unavailable { .. }
        | RuntimeError::TimedOut { .. }
        | RuntimeError::Failed { .. } => "CreateContainerError",
    }
}

async fn run(
    ctx: &SyncContext,
    memory: &SharedMemory,
    key: &PodKey,
    id: &ContainerId,
    container: &Container,
) -> Result<(), NotRun> {
    let begun = Instant::now();
    let call = bounded("start container", CALL_TIMEOUT, ctx.runtime.start_container(id));
    call.await.map_err(|error| {
        if error.is_not_found() {
            return NotRun::Gone;
        }
        NotRun::Refused(Refusal::new("RunContainerError", error_chain(&error)))
    })?;
    let name = &container.name;
    if let Some(timing) = memory.lock().timing(name) {
        timing.start_ms = Some(millis(begun.elapsed()));
    }
    ctx.recorder.normal(&key.uid, Some(name), "Started", format!("Started container {name}"));
    Ok(())
}

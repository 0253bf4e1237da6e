//! Performs a plan: stops, then the sandbox, then starts in order. Decides nothing that the plan could decide.
//!
//! Images of all containers that are to start are seen to at once, beside the sandbox; each start waits for its own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Container;
use minke_core::containers::container_named;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{PodRuntimeStatus, RuntimeError, SandboxConfig, SandboxId, error_chain};
use minke_core::status::{FatalProbe, RestartPolicy};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::plan::{Kind, SandboxStep, Start, Steps, Stop, StopReason};
use super::start::{Place, Started, start};
use super::stop::{Doomed, own_grace, stop_one};
use super::{CALL_TIMEOUT, OWNER, SANDBOX_TIMEOUT, SharedMemory, SyncContext};
use crate::DesiredPod;
use crate::images::{EnsureImage, EnsuredImage, ImageEvent, ImageFailure};
use crate::pleg::bounded;
use crate::timeline::{Step, Transition};

/// What did not go well, in the kinds that decide when to try again.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The network is not ready.
    pub(super) network_not_ready: bool,
    /// Containers or images in back-off; the earliest ends in this time.
    pub(super) back_off: Option<Duration>,
    /// Pulls that failed just now (their back-off begins), in words.
    pub(super) pulls: Vec<String>,
    /// The sandbox could not be made.
    pub(super) sandbox: bool,
    /// Everything else, in words.
    pub(super) other: Vec<String>,
}

impl Failures {
    pub(super) fn is_empty(&self) -> bool {
        !self.network_not_ready && self.back_off.is_none() && self.other.is_empty()
    }

    pub(super) fn backs_off(&mut self, remaining: Duration) {
        self.back_off = Some(self.back_off.map_or(remaining, |before| before.min(remaining)));
    }

    fn failed(message: String) -> Self {
        Self { other: vec![message], ..Self::default() }
    }
}

/// The result of seeing to an image, on its way.
pub(super) type Image = AbortOnDropHandle<Result<EnsuredImage, ImageFailure>>;

pub(super) async fn execute(
    ctx: &SyncContext,
    desired: &DesiredPod,
    memory: &SharedMemory,
    runtime: &PodRuntimeStatus,
    steps: &Steps,
) -> Failures {
    let key = match PodKey::of(&desired.pod) {
        Ok(key) => key,
        Err(error) => return Failures::failed(error.to_string()),
    };
    // Set up each time, but only the first time in a sandbox is it on the way to anything.
    let timeline = ctx.recorder.timeline();
    let step = Step::Volumes;
    let first = matches!(steps.sandbox, SandboxStep::Create { .. });
    if first {
        timeline.record(&key.uid, None, Transition::Began { step });
    }
    let set_up = ctx.host.set_up(desired).await;
    match &set_up {
        Err(error) => timeline.record(&key.uid, None, Transition::Failed { step, reason: error.message.clone() }),
        Ok(()) if first => timeline.record(&key.uid, None, Transition::Done { step }),
        Ok(()) => {}
    }
    if let Err(error) = set_up {
        ctx.recorder.warning(&key.uid, None, "FailedMount", error.message.clone());
        return Failures::failed(error.message);
    }
    memory.lock().volumes_set_up(desired);
    if let Some(failed) = stop_all(ctx, &key, desired, runtime, &steps.stop).await {
        return Failures::failed(failed);
    }
    let mut images = images_ahead(ctx, desired, &key.uid, memory, &steps.start);
    let place = match sandbox(ctx, desired, &key, runtime, &steps.sandbox).await {
        Ok(place) => place,
        Err(failures) => return failures,
    };

    let mut failures = Failures::default();
    for step in &steps.start {
        let image = images.remove(&step.name);
        let started = start(ctx, desired, memory, &place, step, image, &mut failures).await;
        match (started, step.kind) {
            (Started::Yes, _) | (Started::No, Kind::Sidecar | Kind::Regular) => {}
            (Started::No, Kind::Init) => break,
        }
    }
    failures
}

async fn stop_all(
    ctx: &SyncContext,
    key: &PodKey,
    desired: &DesiredPod,
    runtime: &PodRuntimeStatus,
    stops: &[Stop],
) -> Option<String> {
    let ips = ctx.pod_ips(&desired.pod, runtime);
    let one = |stop: &Stop| {
        let (stop, ips) = (stop.clone(), ips.clone());
        async move {
            let container = container_named(&desired.pod, &stop.name);
            let condemned = match stop.why {
                StopReason::Unhealthy(probe) => Some(probe),
                StopReason::SandboxChanged
                | StopReason::Unknown
                | StopReason::DefinitionChanged
                | StopReason::NotWanted => None,
            };
            let grace = own_grace(&desired.pod, container, condemned);
            let message = why_killed(desired, container, &stop);
            let doomed = Doomed { key, id: &stop.id, name: &stop.name, container, ips: &ips, grace };
            stop_one(ctx, doomed, stop.why.words(), message, &[]).await.err()
        }
    };
    join_all(stops.iter().map(one)).await.into_iter().flatten().next()
}

/// Upstream's words for a kill.
fn why_killed(desired: &DesiredPod, container: Option<&Container>, stop: &Stop) -> String {
    let name = &stop.name;
    let never = container.is_some_and(|c| RestartPolicy::of_container(&desired.pod, c) == RestartPolicy::Never);
    let again = if never { "" } else { ", will be restarted" };
    match stop.why {
        StopReason::SandboxChanged | StopReason::NotWanted => format!("Stopping container {name}"),
        StopReason::Unknown => "Container is in \"unknown\" state, try killing it before restart".to_owned(),
        StopReason::DefinitionChanged => format!("Container {name} definition changed, will be restarted"),
        StopReason::Unhealthy(FatalProbe::Liveness) => format!("Container {name} failed liveness probe{again}"),
        StopReason::Unhealthy(FatalProbe::Startup) => format!("Container {name} failed startup probe{again}"),
    }
}

/// Begins to see to the images of containers that will be created.
fn images_ahead(
    ctx: &SyncContext,
    desired: &DesiredPod,
    uid: &PodUid,
    memory: &SharedMemory,
    starts: &[Start],
) -> BTreeMap<String, Image> {
    let mut images = BTreeMap::new();
    for start in starts {
        let super::plan::How::Create { after, attempt } = start.how else { continue };
        let Some(container) = container_named(&desired.pod, &start.name) else { continue };
        // One in crash-loop back-off is not started, so its image is not needed yet.
        if super::start::backed_off(ctx, memory, uid, container, after).is_some() {
            continue;
        }
        let (ctx, desired, uid, container) = (ctx.clone(), desired.clone(), uid.clone(), container.clone());
        let task: JoinHandle<_> = tokio::spawn(async move {
            let image = container.image.clone().unwrap_or_default();
            let timeline = ctx.recorder.timeline();
            let step = Step::Pull;
            let tell = |event: ImageEvent| {
                let name = Some(container.name.as_str());
                if event.reason == "Pulling" {
                    timeline.record(&uid, Some((&container.name, attempt)), Transition::Began { step });
                }
                if event.warning {
                    ctx.recorder.warning(&uid, name, event.reason, event.message);
                } else {
                    ctx.recorder.normal(&uid, name, event.reason, event.message);
                }
            };
            let wanted = EnsureImage {
                pod: &desired.pod,
                uid: &uid,
                image: &image,
                policy: container.image_pull_policy.as_deref(),
                objects: &desired.objects,
                progress: ctx.recorder.pull(&uid, &image),
                events: &tell,
            };
            let ensured = ctx.images.ensure(&wanted).await;
            let pulled = match &ensured {
                Ok(EnsuredImage { pulled_in: Some(_), .. }) => Some(Transition::Done { step }),
                Ok(EnsuredImage { pulled_in: None, .. }) => None,
                Err(failure) => Some(Transition::Failed { step, reason: failure.reason.to_owned() }),
            };
            if let Some(pulled) = pulled {
                timeline.record(&uid, Some((&container.name, attempt)), pulled);
            }
            ensured
        });
        images.insert(start.name.clone(), AbortOnDropHandle::new(task));
    }
    images
}

async fn sandbox(
    ctx: &SyncContext,
    desired: &DesiredPod,
    key: &PodKey,
    runtime: &PodRuntimeStatus,
    step: &SandboxStep,
) -> Result<Place, Failures> {
    match step {
        SandboxStep::Keep(id) => {
            let attempt = runtime.sandboxes.iter().find(|s| s.info.id == *id).map_or(0, |s| s.info.attempt);
            let config = config(ctx, desired, key, attempt).await?;
            Ok(Place { sandbox: id.clone(), config, ips: runtime.ips.clone() })
        }
        SandboxStep::Create { attempt, replaces, purge } => {
            let refused = |what: &str, error: &RuntimeError| {
                let message = format!("Failed to {what}: {}", error_chain(error));
                ctx.recorder.warning(&key.uid, None, "FailedKillPod", message.clone());
                Failures::failed(message)
            };
            for id in replaces {
                let call = bounded("stop sandbox", CALL_TIMEOUT, ctx.runtime.stop_sandbox(id));
                call.await.map_err(|e| refused("stop the pod's old sandbox", &e))?;
            }
            for id in purge {
                let call = bounded("remove container", CALL_TIMEOUT, ctx.runtime.remove_container(id));
                call.await.map_err(|e| refused("remove an old init container", &e))?;
            }
            let config = config(ctx, desired, key, *attempt).await?;
            let (timeline, step) = (ctx.recorder.timeline(), Step::Sandbox);
            timeline.record(&key.uid, None, Transition::Began { step });
            let (sandbox, ips) = run(ctx, &config).await.map_err(|error| {
                timeline.record(&key.uid, None, Transition::Failed { step, reason: error_chain(&error) });
                let message = format!("Failed to create pod sandbox: {}", error_chain(&error));
                ctx.recorder.warning(&key.uid, None, "FailedCreatePodSandBox", message.clone());
                Failures { sandbox: true, ..Failures::failed(message) }
            })?;
            timeline.record(&key.uid, None, Transition::Done { step });
            Ok(Place { sandbox, config, ips })
        }
    }
}

async fn config(
    ctx: &SyncContext,
    desired: &DesiredPod,
    key: &PodKey,
    attempt: u32,
) -> Result<Arc<SandboxConfig>, Failures> {
    let config = ctx.host.sandbox_config(desired, attempt).await;
    let owned = config.map(|mut config| {
        config.annotations.insert(OWNER.to_owned(), ctx.owner.clone());
        Arc::new(config)
    });
    owned.map_err(|error| {
        let message = format!("Failed to create pod sandbox: {}", error.message);
        ctx.recorder.warning(&key.uid, None, "FailedCreatePodSandBox", message.clone());
        Failures::failed(message)
    })
}

async fn run(ctx: &SyncContext, config: &SandboxConfig) -> Result<(SandboxId, Vec<IpAddr>), RuntimeError> {
    let id = bounded("run sandbox", SANDBOX_TIMEOUT, ctx.runtime.run_sandbox(config)).await?;
    let status = bounded("sandbox status", CALL_TIMEOUT, ctx.runtime.sandbox_status(&id)).await?;
    Ok((id, status.ips))
}

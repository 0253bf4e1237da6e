//! One sync of a Pod: what its status is ([`observe()`]), what must be done ([`plan`], pure), and the doing
//! ([`execute`], [`start`], [`stop`], [`hooks`]). Nothing here decides when a sync happens; that is the worker's.

mod bounded_images;
mod execute;
mod hooks;
mod host;
mod memory;
mod observe;
pub mod plan;
mod recorder;
mod start;
mod stop;
mod sync_pod;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::backoff::Moment;
use minke_core::clock::Clock;
use minke_core::identity::PodUid;
use minke_core::runtime::{PodRuntimeStatus, Runtime};
use tokio::time::Instant;

use crate::images::ImageManager;
use crate::probes::Prober;
use crate::timeline::Transition;

pub(crate) use bounded_images::BoundedImages;
pub use host::{ConfigError, ContainerRequest, HostError, PodHost};
pub use memory::{PodMemory, SharedMemory};
pub use observe::{Observed, Outlook, compute_now, observe};
pub use recorder::Recorder;
pub use stop::{StopPlan, stop_order, stop_pod};
pub use sync_pod::{SyncReport, sync_pod};

/// Bound on most runtime calls.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Bound on making a sandbox.
pub const SANDBOX_TIMEOUT: Duration = Duration::from_secs(240);

/// Annotation of sandboxes: the state directory of the agent that made them.
pub const OWNER: &str = "minke.dev/state-directory";

/// What every sync needs. Shared by all Pods.
#[derive(Clone)]
pub struct SyncContext {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Volumes, files, configurations.
    pub host: Arc<dyn PodHost>,
    /// Images.
    pub images: Arc<ImageManager>,
    /// Probes.
    pub probes: Prober,
    /// Events.
    pub recorder: Recorder,
    /// Addresses of the machine, primary first.
    pub host_ips: Vec<IpAddr>,
    /// Prefix of container ids in statuses.
    pub runtime_name: String,
    /// The state directory of this agent: what it makes carries this as [`OWNER`].
    pub owner: String,
    /// Zero of monotonic time.
    pub epoch: Instant,
}

impl std::fmt::Debug for SyncContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyncContext").field("host", &self.host).field("images", &self.images).finish_non_exhaustive()
    }
}

impl SyncContext {
    /// Records that a container is told to stop.
    pub(crate) fn stopping(&self, pod: &PodUid, container: &str, why: &str) {
        let timeline = self.recorder.timeline();
        let attempt = timeline.attempt(pod, container);
        timeline.record(pod, Some((container, attempt)), Transition::Stopping { reason: why.to_owned() });
    }

    /// Where the Pod answers: at the machine's addresses if it has its network.
    #[must_use]
    pub fn pod_ips(&self, pod: &Pod, runtime: &PodRuntimeStatus) -> Vec<IpAddr> {
        let host_network = pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
        if host_network { self.host_ips.clone() } else { runtime.ips.clone() }
    }

    /// Now, on both clocks.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { wall: self.clock.now(), monotonic: self.epoch.elapsed() }
    }
}

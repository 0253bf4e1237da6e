//! Puts the agent's parts together: the kubelet core over the instance's runtime.

use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::{Clock, SystemClock};
use minke_core::runtime::Runtime;
use minke_cri::{CriConfig, CriRuntime};
use minke_kubelet::admission::NodeOptions;
use minke_kubelet::eviction::EvictionConfig;
use minke_kubelet::housekeeping::ImageGcPolicy;
use minke_kubelet::{Kubelet, KubeletConfig, RelistMode, StartError, StaticSource};
use minke_oci::network::CniConfig;
use minke_oci::{EmbeddedConfig, EmbeddedRuntime, OpenError};

use crate::backend::{self, Backend, BackendError};
use crate::place::Place;

/// Gap between full relists where another program may have taken an event: what was lost so is found within it.
const SHARED_EVENTS_RELIST: Duration = Duration::from_secs(10);

/// What an operator sets of the kubelet core.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// How changes in the runtime are noticed.
    pub(crate) relist: RelistMode,
    /// What is said of the machine.
    pub(crate) node: NodeOptions,
    /// When Pods are evicted.
    pub(crate) eviction: EvictionConfig,
    /// When images that nothing uses are removed.
    pub(crate) image_gc: ImageGcPolicy,
    /// Where static Pods come from. Without any, those of earlier agents stay as they are.
    pub(crate) static_sources: Vec<StaticSource>,
    /// What a node of a cluster has otherwise than a machine of its own.
    pub(crate) overrides: Overrides,
}

/// Settings of the kubelet core that have defaults of their own; `None` leaves those.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    /// The node's name.
    pub(crate) node_name: Option<String>,
    /// Most Pods at a time.
    pub(crate) max_pods: Option<usize>,
    /// Rotate a container's log at this size, in bytes.
    pub(crate) log_max_bytes: Option<u64>,
    /// Keep this many log files of a container.
    pub(crate) log_max_files: Option<u32>,
}

/// The runtime or the kubelet core can't start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreError {
    /// The embedded runtime.
    #[error("the embedded runtime can't be opened")]
    Runtime(#[source] OpenError),
    /// A runtime with CRI.
    #[error("the container runtime can't be used")]
    Cri(#[source] minke_cri::OpenError),
    /// Which runtime it is.
    #[error("can't tell which container runtime to use")]
    Backend(#[source] BackendError),
    /// The kubelet core.
    #[error("the kubelet core can't start")]
    Kubelet(#[source] StartError),
}

/// A runtime that was opened.
pub(crate) struct Opened {
    /// The port.
    pub(crate) runtime: Arc<dyn Runtime>,
    /// Which one.
    pub(crate) backend: Backend,
    /// What it calls itself.
    name: String,
    /// Its version, as it says.
    version: String,
    /// Whether other programs may take events away.
    deals_out_events: bool,
}

impl Opened {
    /// The kubelet core's settings for an instance on this runtime.
    pub(crate) fn settings(&self, place: &Place) -> KubeletConfig {
        let config = settings(place);
        let shared = if self.deals_out_events { SHARED_EVENTS_RELIST } else { config.slow_relist_period };
        KubeletConfig {
            runtime_name: self.name.clone(),
            runtime_version: self.version.clone(),
            slow_relist_period: shared,
            ..config
        }
    }
}

/// Opens the runtime and starts the kubelet core on it, which adopts what runs. Tells which runtime it is.
pub(super) async fn start(place: &Place, settings: &Settings) -> Result<(Kubelet, Backend), CoreError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = open_runtime(place, clock.clone()).await?;
    let (base, overrides) = (opened.settings(place), &settings.overrides);
    let config = KubeletConfig {
        relist_mode: settings.relist,
        node: settings.node.clone(),
        eviction: settings.eviction.clone(),
        image_gc: settings.image_gc.clone(),
        node_name: overrides.node_name.clone().unwrap_or(base.node_name),
        max_pods: overrides.max_pods.unwrap_or(base.max_pods),
        log_max_bytes: overrides.log_max_bytes.unwrap_or(base.log_max_bytes),
        log_max_files: overrides.log_max_files.unwrap_or(base.log_max_files),
        ..base
    };
    let kubelet = Kubelet::start(config, opened.runtime, clock).await.map_err(CoreError::Kubelet)?;
    Ok((kubelet, opened.backend))
}

/// Opens the runtime of an instance, whose state directory the caller has locked, and remembers which it was.
pub(crate) async fn open_runtime(place: &Place, clock: Arc<dyn Clock>) -> Result<Opened, CoreError> {
    let backend = backend::choose(&place.state, place.backend.as_ref()).map_err(CoreError::Backend)?;
    let opened = match &backend {
        Backend::Embedded => Opened {
            runtime: open_embedded(place, clock).await?,
            backend: backend.clone(),
            name: "minke".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            deals_out_events: false,
        },
        Backend::Cri(endpoint) => {
            let config = CriConfig { endpoint: endpoint.clone() };
            let runtime = CriRuntime::open(config, clock).await.map_err(CoreError::Cri)?;
            let facts = runtime.facts();
            let (name, version, deals_out_events) =
                (facts.name.clone(), facts.version.clone(), facts.deals_out_events());
            Opened { runtime: Arc::new(runtime), backend: backend.clone(), name, version, deals_out_events }
        }
    };
    backend::remember(&place.state, &backend).map_err(CoreError::Backend)?;
    Ok(opened)
}

/// Opens the embedded runtime of an instance. It is locked: one process at a time has it.
async fn open_embedded(place: &Place, clock: Arc<dyn Clock>) -> Result<Arc<dyn Runtime>, CoreError> {
    let mut config = EmbeddedConfig::new(&place.state, &place.run);
    let mut cni = CniConfig { conf_dir: place.cni.clone(), ..CniConfig::default() };
    if let Some(plugins) = &place.cni_plugins {
        cni.bin_dirs = vec![plugins.clone()];
    }
    config.network.cni = Some(cni);
    Ok(Arc::new(EmbeddedRuntime::open(config, clock).await.map_err(CoreError::Runtime)?))
}

/// What this machine is called as a node, unless told otherwise: its host name, in lower case.
pub(crate) fn node_name() -> String {
    minke_kubelet::host::host_name()
}

/// The kubelet core's settings for an instance.
pub(crate) fn settings(place: &Place) -> KubeletConfig {
    KubeletConfig {
        cgroup_root: place.cgroup_root(),
        ..KubeletConfig::new(node_name(), place.state.clone(), place.logs.clone())
    }
}

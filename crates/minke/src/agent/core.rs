//! Puts the agent's parts together: the kubelet core over the embedded runtime.

use std::sync::Arc;

use minke_core::clock::{Clock, SystemClock};
use minke_core::runtime::Runtime;
use minke_kubelet::admission::NodeOptions;
use minke_kubelet::eviction::EvictionConfig;
use minke_kubelet::housekeeping::ImageGcPolicy;
use minke_kubelet::{Kubelet, KubeletConfig, RelistMode, StartError, StaticSource};
use minke_oci::network::CniConfig;
use minke_oci::{EmbeddedConfig, EmbeddedRuntime, OpenError};

use crate::place::Place;

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
}

/// The runtime or the kubelet core can't start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreError {
    /// The embedded runtime.
    #[error("the embedded runtime can't be opened")]
    Runtime(#[source] OpenError),
    /// The kubelet core.
    #[error("the kubelet core can't start")]
    Kubelet(#[source] StartError),
}

/// Opens the runtime and starts the kubelet core on it, which adopts what runs.
pub(super) async fn start(place: &Place, settings: &Settings) -> Result<Kubelet, CoreError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let runtime = open_runtime(place, clock.clone()).await?;
    let config = KubeletConfig {
        relist_mode: settings.relist,
        node: settings.node.clone(),
        eviction: settings.eviction.clone(),
        image_gc: settings.image_gc.clone(),
        ..self::settings(place)
    };
    Kubelet::start(config, runtime, clock).await.map_err(CoreError::Kubelet)
}

/// Opens the embedded runtime of an instance. It is locked: one process at a time has it.
pub(crate) async fn open_runtime(place: &Place, clock: Arc<dyn Clock>) -> Result<Arc<dyn Runtime>, CoreError> {
    let mut config = EmbeddedConfig::new(&place.state, &place.run);
    let mut cni = CniConfig { conf_dir: place.cni.clone(), ..CniConfig::default() };
    if let Some(plugins) = &place.cni_plugins {
        cni.bin_dirs = vec![plugins.clone()];
    }
    config.network.cni = Some(cni);
    Ok(Arc::new(EmbeddedRuntime::open(config, clock).await.map_err(CoreError::Runtime)?))
}

/// The kubelet core's settings for an instance.
pub(crate) fn settings(place: &Place) -> KubeletConfig {
    let node_name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    KubeletConfig {
        cgroup_root: place.cgroup_root(),
        ..KubeletConfig::new(node_name, place.state.clone(), place.logs.clone())
    }
}

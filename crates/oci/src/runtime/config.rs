//! Settings of the embedded runtime.

use std::path::PathBuf;

use crate::image::StoreConfig;
use crate::network::NetworkConfig;

/// Settings of the embedded runtime.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// Durable state: images, writable layers, records, exit codes, addresses. One runtime at a time uses it.
    pub state_dir: PathBuf,
    /// Sockets and small mounts; may be emptied by a reboot.
    pub run_dir: PathBuf,
    /// Settings of the image store (`<state_dir>/images`).
    pub images: StoreConfig,
    /// Settings of the Pod network.
    pub network: NetworkConfig,
}

impl EmbeddedConfig {
    /// The defaults for these directories.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>, run_dir: impl Into<PathBuf>) -> Self {
        let state_dir = state_dir.into();
        let network = NetworkConfig::new(state_dir.clone());
        Self { state_dir, run_dir: run_dir.into(), images: StoreConfig::default(), network }
    }
}

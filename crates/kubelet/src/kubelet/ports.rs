//! What the kubelet stands on: the machine, or whatever a test puts in its place.

use std::sync::Arc;

use minke_core::clock::Clock;
use minke_core::runtime::{ListFilter, Runtime};

use super::admit::{Admit, MachineAdmission};
use crate::KubeletConfig;
use crate::admission::read_machine;
use crate::checkpoint::{CheckpointError, Checkpoints, DiskCheckpoints, OpenError};
use crate::eviction::{Gauge, MachineGauge};
use crate::host::{MachineHost, node_settings};
use crate::logs::RotationPolicy;
use crate::pleg::{PlegConfig, bounded};
use crate::sync::{CALL_TIMEOUT, PodHost, Recorder};

/// Events that a slow listener may be behind.
const PROGRESS_BACKLOG: usize = 1024;

/// The kubelet could not start. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory of checkpoints can't be used.
    #[error("can't open the state of earlier agents")]
    Open(#[source] OpenError),
    /// What the machine has can't be read.
    #[error("can't read what this machine has")]
    Machine(#[source] std::io::Error),
    /// The checkpoints can't be listed.
    #[error("can't read the state of earlier agents")]
    Load(#[source] CheckpointError),
}

/// What the kubelet stands on beside the runtime.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Where its memory is.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Volumes, files, configurations.
    pub host: Arc<dyn PodHost>,
    /// Who may come in.
    pub admit: Arc<dyn Admit>,
    /// Tells people what happens.
    pub recorder: Recorder,
    /// Addresses of the machine, primary first.
    pub host_ips: Vec<std::net::IpAddr>,
    /// How the PLEG works.
    pub pleg: PlegConfig,
    /// What is left of the machine.
    pub gauge: Arc<dyn Gauge>,
}

impl Ports {
    /// The ports of this machine.
    ///
    /// # Errors
    /// [`StartError`] when a directory can't be used or the machine can't be read.
    pub async fn of_machine(
        config: &KubeletConfig,
        runtime: &Arc<dyn Runtime>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let checkpoints = DiskCheckpoints::open(&config.state_directory).map_err(StartError::Open)?;
        let free = |capacity: &_| config.eviction.kept_free(capacity);
        let machine = read_machine(&config.node_name, &config.state_directory, config.max_pods, &config.node, &free);
        let machine = machine.map_err(StartError::Machine)?;
        let node = node_settings(config, &machine);
        let (recorder, host_ips) = (Recorder::new(PROGRESS_BACKLOG), node.host_ips.clone());
        let rotation = RotationPolicy { max_bytes: config.log_max_bytes, max_files: config.log_max_files };
        let host = MachineHost::new(node, clock.clone(), runtime.clone(), recorder.clone(), rotation);
        recover_ranges(&host, &**runtime).await;
        Ok(Self {
            checkpoints: Arc::new(checkpoints),
            host: Arc::new(host),
            admit: Arc::new(MachineAdmission { machine }),
            recorder,
            host_ips,
            pleg: PlegConfig::new(config.relist_mode, config.relist_period)
                .slow_relist(config.relist_mode, config.slow_relist_period),
            gauge: Arc::new(MachineGauge::new(&config.state_directory, &config.log_directory, runtime.clone())),
        })
    }
}

/// Keeps the ranges of user ids apart that Pods of earlier agents have.
async fn recover_ranges(host: &MachineHost, runtime: &dyn Runtime) {
    let listed = bounded("list sandboxes", CALL_TIMEOUT, runtime.list_sandboxes(&ListFilter::default())).await;
    for sandbox in listed.unwrap_or_default() {
        let status = bounded("sandbox status", CALL_TIMEOUT, runtime.sandbox_status(&sandbox.id)).await;
        if let Some(range) = status.ok().and_then(|s| s.namespaces.user) {
            host.recover(&sandbox.pod.uid, range);
        }
    }
}

//! What is kept on disk of sandboxes and containers.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerConfig, ContainerId, ImageId, SandboxConfig, SandboxId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// `sandbox.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SandboxRecord {
    pub(super) id: SandboxId,
    pub(super) created_at: Timestamp,
    pub(super) config: SandboxConfig,
}

/// `ready.json`: the sandbox was made completely.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReadyRecord {
    pub(super) ips: Vec<IpAddr>,
}

/// `container.json`. No environment, command or arguments: those may hold secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ContainerRecord {
    pub(super) id: ContainerId,
    pub(super) sandbox: SandboxId,
    pub(super) pod: PodUid,
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) created_at: Timestamp,
    pub(super) image: ImageId,
    pub(super) image_name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) log_path: PathBuf,
    /// Signal number of a polite stop.
    pub(super) stop_signal: i32,
    /// It has a standard input that is open.
    #[serde(default)]
    pub(super) stdin: bool,
    /// Until the first who joins it has no more.
    #[serde(default)]
    pub(super) stdin_once: bool,
    /// It has a terminal.
    #[serde(default)]
    pub(super) tty: bool,
}

impl ContainerRecord {
    pub(super) fn new(
        id: ContainerId,
        sandbox: &SandboxRecord,
        config: &ContainerConfig,
        stop_signal: i32,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            sandbox: sandbox.id.clone(),
            pod: sandbox.config.pod.uid.clone(),
            name: config.name.clone(),
            attempt: config.attempt,
            created_at,
            image: config.image.clone(),
            image_name: config.image_name.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            log_path: sandbox.config.log_directory.join(&config.log_path),
            stop_signal,
            stdin: config.stdin,
            stdin_once: config.stdin_once,
            tty: config.tty,
        }
    }
}

/// `created.json`: the container was made completely.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct CreatedRecord {
    pub(super) uid: u32,
}

/// Reads a record; `None` when it is not there or torn by a power cut.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = fs::read(path).ok()?;
    match serde_json::from_slice(&text) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a record can't be read; what it belongs to counts as half made");
            None
        }
    }
}

/// The images that containers of a state directory use, from its records alone. For `remove` and `prune` of an
/// image store by a process that is not the agent.
#[must_use]
pub fn images_in_use(state_dir: &Path) -> HashSet<ImageId> {
    let list = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).map(|entries| entries.filter_map(Result::ok).map(|e| e.path()).collect()).unwrap_or_default()
    };
    let containers = list(&state_dir.join("sandboxes")).into_iter().flat_map(|s| list(&s.join("containers")));
    containers.filter_map(|c| read::<ContainerRecord>(&c.join("container.json"))).map(|r| r.image).collect()
}

//! What a runtime says about one whole Pod: the value of the pod cache.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};
use crate::identity::PodUid;

/// Everything that the runtime knows of one Pod, dead attempts included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodRuntimeStatus {
    /// Which Pod.
    pub uid: PodUid,
    /// Its sandboxes, newest attempt first.
    pub sandboxes: Vec<SandboxStatus>,
    /// Its containers, newest first (by creation, then attempt).
    pub containers: Vec<ContainerStatus>,
    /// The Pod's addresses. Kept from before when the network is gone.
    pub ips: Vec<IpAddr>,
}

impl PodRuntimeStatus {
    /// A Pod of which the runtime knows nothing.
    #[must_use]
    pub fn empty(uid: PodUid) -> Self {
        Self { uid, sandboxes: Vec::new(), containers: Vec::new(), ips: Vec::new() }
    }

    /// The newest container of this name.
    #[must_use]
    pub fn newest(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// All containers of this name, newest first.
    pub fn instances<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ContainerStatus> + 'a {
        self.containers.iter().filter(move |c| c.name == name)
    }

    /// Whether any process of the Pod may still run: a container running or unknown.
    #[must_use]
    pub fn may_have_running_containers(&self) -> bool {
        self.containers.iter().any(|c| matches!(c.state, ContainerState::Running { .. } | ContainerState::Unknown))
    }

    /// Whether any sandbox is ready.
    #[must_use]
    pub fn has_ready_sandbox(&self) -> bool {
        self.sandboxes.iter().any(|s| s.info.state == SandboxState::Ready)
    }
}

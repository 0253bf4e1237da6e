//! What a Pod needs of its machine beside the runtime: the port, next to its user.

use std::net::IpAddr;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Container, Pod};
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{ContainerConfig, ContainerStatus, ImageStatus, PodRuntimeStatus, SandboxConfig};

use crate::DesiredPod;
use crate::housekeeping::Leftover;

/// A volume or file of a Pod could not be set up or taken down. Trying again may help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// What failed, on which volume, and why; never the content of a Secret.
    pub message: String,
}

/// The configuration of a sandbox or container can't be made from its spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// The waiting reason: `CreateContainerConfigError`, …
    pub reason: String,
    /// In upstream's words where it has some.
    pub message: String,
}

/// What a container's configuration is made from.
#[derive(Debug, Clone, Copy)]
pub struct ContainerRequest<'a> {
    /// Its Pod.
    pub desired: &'a DesiredPod,
    /// Its spec.
    pub container: &'a Container,
    /// Which attempt.
    pub attempt: u32,
    /// Its image.
    pub image: &'a ImageStatus,
    /// The sandbox that it starts in.
    pub sandbox: &'a SandboxConfig,
    /// The Pod's addresses.
    pub ips: &'a [IpAddr],
    /// The machine's addresses, primary first.
    pub host_ips: &'a [IpAddr],
}

/// Volumes, files and configurations of Pods. Everything is idempotent, and teardown resumes where it failed.
#[async_trait]
pub trait PodHost: std::fmt::Debug + Send + Sync + 'static {
    /// The volumes of a Pod; they are there when this returns.
    async fn set_up(&self, desired: &DesiredPod) -> Result<(), HostError>;
    /// The configuration of a sandbox.
    async fn sandbox_config(&self, desired: &DesiredPod, attempt: u32) -> Result<SandboxConfig, ConfigError>;
    /// The configuration of a container; its files (hosts, termination log) are there when this returns.
    async fn container_config(&self, request: ContainerRequest<'_>) -> Result<ContainerConfig, ConfigError>;
    /// What an ended container left to say.
    async fn termination_message(&self, pod: &Pod, status: &ContainerStatus) -> Option<String>;
    /// Takes the volumes and files of a Pod down.
    async fn tear_down(&self, uid: &PodUid) -> Result<(), HostError>;
    /// Removes the logs of a Pod.
    async fn remove_logs(&self, key: &PodKey) -> Result<(), HostError>;
    /// Ends what still runs in the cgroups of a Pod of which the runtime knows nothing any more, and removes them, as the
    /// kubelet does at a Pod's end: a runtime that is killed while it makes a sandbox forgets its processes.
    async fn remove_cgroups(&self, _uid: &PodUid) -> Result<(), HostError> {
        Ok(())
    }
    /// What the machine has that belongs to Pods, known to anybody or not. A host without a disk has nothing.
    async fn leftovers(&self) -> Vec<Leftover> {
        Vec::new()
    }
    /// Removes what is left of a Pod that nobody knows: unmounts first, follows no link.
    async fn remove_leftover(&self, _left: &Leftover) -> Result<(), HostError> {
        Ok(())
    }
    /// Rotates the logs of a Pod's running containers that have grown too large.
    async fn rotate_logs(&self, status: &PodRuntimeStatus);
}

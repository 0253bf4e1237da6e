//! A Pod that may be evicted, and what it uses.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;

/// Room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
}

impl std::ops::Add for Space {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), inodes: self.inodes.saturating_add(other.inodes) }
    }
}

impl std::iter::Sum for Space {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| a + b)
    }
}

/// What a container uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerUsed {
    /// Its name.
    pub name: String,
    /// Memory that can't be reclaimed without loss, in bytes; `None` when it does not run.
    pub memory_bytes: Option<u64>,
    /// Its writable layer, with those of earlier instances that are still there.
    pub writable: Space,
    /// Its logs.
    pub logs: Space,
}

/// What an `emptyDir` holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeUsed {
    /// The volume's name.
    pub name: String,
    /// It is in memory, not on disk.
    pub in_memory: bool,
    /// How much.
    pub space: Space,
}

/// What a Pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// Memory that can't be reclaimed without loss, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Its containers.
    pub containers: Vec<ContainerUsed>,
    /// Its `emptyDir`s.
    pub volumes: Vec<VolumeUsed>,
}

impl Used {
    /// Its ephemeral storage: writable layers, logs and `emptyDir`s on disk.
    #[must_use]
    pub fn storage(&self) -> Space {
        let containers: Space = self.containers.iter().map(|c| c.writable + c.logs).sum();
        let volumes: Space = self.volumes.iter().filter(|v| !v.in_memory).map(|v| v.space).sum();
        containers + volumes
    }
}

/// A Pod that may be evicted.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which.
    pub uid: PodUid,
    /// The Pod.
    pub pod: Arc<Pod>,
    /// What it uses; `None` while that is not known.
    pub used: Option<Used>,
}

//! Limits on a Pod's own ephemeral storage, which nothing but eviction enforces.
//!
//! Upstream source: `pkg/kubelet/eviction/eviction_manager.go` (`localStorageEviction`): first the size limits of
//! `emptyDir`s, then what the containers may hold together, then each container.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use minke_core::resources::{Amount, pod_limits};

use super::candidate::{Candidate, Used};
use super::message::{container_message, containers, empty_dir_message, pod_message};

const STORAGE: &str = "ephemeral-storage";

/// Which limit was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    /// `sizeLimit` of an `emptyDir`.
    EmptyDir,
    /// The containers' limits together.
    Pod,
    /// One container's.
    Container,
}

impl Limit {
    /// As upstream's metric has it.
    #[must_use]
    pub fn signal(self) -> &'static str {
        match self {
            Self::EmptyDir => "emptydirfs.limit",
            Self::Pod => "ephemeralpodfs.limit",
            Self::Container => "ephemeralcontainerfs.limit",
        }
    }
}

/// Whether the Pod has such a limit; only then its use has to be measured at every look.
#[must_use]
pub fn has_limits(pod: &Pod) -> bool {
    let sized = |v: &k8s_openapi::api::core::v1::Volume| {
        v.empty_dir.as_ref().is_some_and(|e| e.size_limit.as_ref().is_some_and(is_positive))
    };
    pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()).any(sized) || pod_limits(pod).contains_key(STORAGE)
}

fn is_positive(quantity: &Quantity) -> bool {
    Amount::of(quantity).is_ok_and(|a| a > Amount::ZERO)
}

fn exceeds(bytes: u64, limit: Amount) -> bool {
    i128::from(bytes) > i128::from(limit.value())
}

/// The first limit that the Pod exceeds, and what to say of it.
#[must_use]
pub fn exceeded(candidate: &Candidate) -> Option<(Limit, String)> {
    let used = candidate.used.as_ref()?;
    let pod = &candidate.pod;
    empty_dir(pod, used).or_else(|| whole(pod, used)).or_else(|| container(pod, used))
}

fn empty_dir(pod: &Pod, used: &Used) -> Option<(Limit, String)> {
    pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()).find_map(|volume| {
        let limit = volume.empty_dir.as_ref()?.size_limit.as_ref().filter(|q| is_positive(q))?;
        let held = used.volumes.iter().find(|v| v.name == volume.name)?;
        let over = exceeds(held.space.bytes, Amount::of(limit).ok()?);
        over.then(|| (Limit::EmptyDir, empty_dir_message(&volume.name, limit)))
    })
}

fn whole(pod: &Pod, used: &Used) -> Option<(Limit, String)> {
    let limit = *pod_limits(pod).get(STORAGE)?;
    exceeds(used.storage().bytes, limit).then(|| (Limit::Pod, pod_message(&limit.to_binary())))
}

fn container(pod: &Pod, used: &Used) -> Option<(Limit, String)> {
    containers(pod).find_map(|container| {
        let limit = container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)?;
        let held = used.containers.iter().find(|u| u.name == container.name)?;
        let over = exceeds((held.writable + held.logs).bytes, Amount::of(limit).ok()?);
        over.then(|| (Limit::Container, container_message(&container.name, limit)))
    })
}

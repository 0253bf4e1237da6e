//! What is said of an eviction, in upstream's words.

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use minke_core::resources::{Amount, canonical, is_sidecar};

use super::candidate::{Candidate, ContainerUsed};
use super::signal::{Level, Observations};
use super::threshold::Threshold;

/// Bytes as upstream shows usage.
fn binary(bytes: u64) -> String {
    Amount::from_units(i64::try_from(bytes).unwrap_or(i64::MAX)).to_binary()
}

/// Why a Pod was evicted: what was short, and which of its containers used more of it than they asked for.
#[must_use]
pub fn eviction_message(candidate: &Candidate, threshold: &Threshold, observations: &Observations) -> String {
    let resource = threshold.signal.resource();
    let mut message = format!("The node was low on resource: {resource}. ");
    if let Some(Level { available, capacity }) = observations.levels.get(&threshold.signal) {
        let quantity = binary(threshold.value.of(*capacity));
        message += &format!("Threshold quantity: {quantity}, available: {}. ", binary(*available));
    }
    let Some(used) = &candidate.used else { return message };
    for container in containers(&candidate.pod) {
        let Some(usage) = used.containers.iter().find(|u| u.name == container.name) else { continue };
        let Some(bytes) = usage_of(usage, resource) else { continue };
        let request = container.resources.as_ref().and_then(|r| r.requests.as_ref()).and_then(|r| r.get(resource));
        let asked = request.and_then(|q| Amount::of(q).ok()).map_or(0, Amount::value);
        if i128::from(bytes) > i128::from(asked) {
            let (name, bytes, request) = (&container.name, binary(bytes), request.map_or("0".to_owned(), canonical));
            message += &format!(
                "Container {name} was using {bytes}, request is {request}, has larger consumption of {resource}. "
            );
        }
    }
    message
}

fn usage_of(usage: &ContainerUsed, resource: &str) -> Option<u64> {
    match resource {
        "memory" => usage.memory_bytes,
        "ephemeral-storage" => Some((usage.writable + usage.logs).bytes),
        _ => None,
    }
}

/// Containers that run together: the regular ones and sidecars.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten().filter(|c| is_sidecar(c))))
}

/// An `emptyDir` holds more than its limit.
pub(super) fn empty_dir_message(volume: &str, limit: &Quantity) -> String {
    format!("Usage of EmptyDir volume {volume:?} exceeds the limit \"{}\". ", canonical(limit))
}

/// The Pod holds more than its containers may together.
pub(super) fn pod_message(limit: &str) -> String {
    format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ")
}

/// A container holds more than it may.
pub(super) fn container_message(container: &str, limit: &Quantity) -> String {
    format!("Container {container} exceeded its local ephemeral storage limit \"{}\". ", canonical(limit))
}

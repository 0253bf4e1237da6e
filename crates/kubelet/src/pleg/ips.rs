//! Keeps the last addresses of a Pod whose network is gone: the API still shows them.

use std::net::IpAddr;

use minke_core::runtime::PodRuntimeStatus;

/// The addresses to cache with `new`, when `cached` was there before. An empty list is believed only while a sandbox
/// is ready (then the Pod has the host's network).
#[must_use]
pub fn preserve_ips(new: &PodRuntimeStatus, cached: &[IpAddr]) -> Vec<IpAddr> {
    if !new.ips.is_empty() || new.has_ready_sandbox() { new.ips.clone() } else { cached.to_vec() }
}

//! What the machine is like, read once at the start.

use minke_core::resources::LimitFacts;

use super::host_addresses;
use crate::KubeletConfig;
use crate::admission::{Machine, memory_bytes};
use crate::spec::{NodeSettings, read_host_dns};

/// Domain of fully qualified names inside Pods.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// What of the machine goes into specs. What can't be read counts as unlimited, and is told.
pub(crate) fn node_settings(config: &KubeletConfig, machine: &Machine) -> NodeSettings {
    let host_dns = read_host_dns().unwrap_or_else(|error| {
        tracing::warn!(%error, "can't read /etc/resolv.conf; pods get no name servers");
        minke_core::runtime::DnsConfig::default()
    });
    let memory_bytes = memory_bytes().unwrap_or_else(|error| {
        tracing::warn!(%error, "can't read how much memory there is");
        u64::MAX / 2
    });
    NodeSettings {
        name: config.node_name.clone(),
        host_ips: host_addresses(),
        log_directory: config.log_directory.clone(),
        state_directory: config.state_directory.clone(),
        cgroup_root: config.cgroup_root.clone(),
        cluster_domain: CLUSTER_DOMAIN.to_owned(),
        host_dns,
        limits: LimitFacts { memory_bytes, pod_pids_limit: config.node.pod_max_pids },
        allocatable: machine.allocatable.clone(),
    }
}

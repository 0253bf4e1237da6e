//! What of the machine goes into sandboxes and containers.

use std::net::IpAddr;
use std::path::PathBuf;

use minke_core::resources::{LimitFacts, ResourceList};
use minke_core::runtime::DnsConfig;

/// The machine, as specs see it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSettings {
    /// Name of the machine, lower case; host name of Pods with the host's network.
    pub name: String,
    /// Addresses of the machine, primary first.
    pub host_ips: Vec<IpAddr>,
    /// `/var/log/pods`.
    pub log_directory: PathBuf,
    /// Durable state; `<state>/seccomp` holds `Localhost` profiles.
    pub state_directory: PathBuf,
    /// Parent of all pod cgroups, `/minke`.
    pub cgroup_root: String,
    /// Domain of fully qualified names, `cluster.local`.
    pub cluster_domain: String,
    /// The machine's own resolver.
    pub host_dns: DnsConfig,
    /// What limits depend on.
    pub limits: LimitFacts,
    /// What the machine has for Pods.
    pub allocatable: ResourceList,
}

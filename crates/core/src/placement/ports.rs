//! Which ports of the host a Pod wants, and what they conflict with.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::resources::is_sidecar;
use crate::runtime::Protocol;

/// A port of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Number.
    pub port: u16,
    /// Address; `None` is every address.
    pub ip: Option<IpAddr>,
}

impl HostPort {
    /// Whether both can't be bound at a time: the same protocol and number, on the same address or on all.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let any = |ip: Option<IpAddr>| ip.is_none_or(|ip| ip.is_unspecified());
        let addresses = any(self.ip) || any(other.ip) || self.ip == other.ip;
        self.protocol == other.protocol && self.port == other.port && addresses
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        match self.ip {
            Some(ip) => write!(f, "{}/{protocol} on {ip}", self.port),
            None => write!(f, "{}/{protocol}", self.port),
        }
    }
}

/// The transport protocol of this name; TCP is the default.
#[must_use]
pub fn protocol(name: Option<&str>) -> Protocol {
    match name {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        Some(_) | None => Protocol::Tcp,
    }
}

/// The ports of the host that a Pod wants: of its containers and sidecars, which run together. Plain init containers
/// come and go before, and don't count, as upstream. With the host's network every declared port is one of the host.
#[must_use]
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = pod.spec.as_ref() else { return Vec::new() };
    let host_network = spec.host_network.unwrap_or(false);
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c));
    let ports = |container: &Container| container.ports.clone().unwrap_or_default();
    let mut wanted = Vec::new();
    for port in sidecars.chain(&spec.containers).flat_map(ports) {
        let number = port.host_port.filter(|n| *n > 0).or(host_network.then_some(port.container_port));
        let Some(number) = number.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0) else { continue };
        let ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty()).and_then(|ip| ip.parse().ok());
        let port = HostPort { protocol: protocol(port.protocol.as_deref()), port: number, ip };
        if !wanted.contains(&port) {
            wanted.push(port);
        }
    }
    wanted
}

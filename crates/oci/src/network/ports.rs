//! Host ports: which Pod has which, and whether a process of the machine is in the way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use minke_core::runtime::{PortMapping, Protocol, SandboxId};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::claims::Claims;
use super::error::{NetworkError, protocol_name};

/// A claimed host port, as the name of its link: `tcp-8080-any`, `udp-53-10.0.0.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct HostPort {
    protocol: Protocol,
    port: u16,
    ip: Option<IpAddr>,
}

impl HostPort {
    fn of(mapping: &PortMapping) -> Self {
        Self { protocol: mapping.protocol, port: mapping.host_port, ip: specific(mapping.host_ip) }
    }

    fn name(self) -> String {
        let ip = self.ip.map_or_else(|| "any".to_owned(), |ip| ip.to_string());
        format!("{}-{}-{ip}", protocol_name(self.protocol).to_ascii_lowercase(), self.port)
    }

    fn parse(name: &str) -> Option<Self> {
        let (protocol, rest) = name.split_once('-')?;
        let (port, ip) = rest.split_once('-')?;
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "sctp" => Protocol::Sctp,
            _ => return None,
        };
        let ip = if ip == "any" { None } else { Some(ip.parse().ok()?) };
        Some(Self { protocol, port: port.parse().ok()?, ip })
    }

    /// Whether a packet could be meant for both. "Every address" of one family overlaps "every address" at large.
    fn overlaps(self, other: Self) -> bool {
        let same_address = match (self.ip, other.ip) {
            (None, _) | (_, None) => true,
            (Some(a), Some(b)) => a == b || (a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified())),
        };
        self.protocol == other.protocol && self.port == other.port && same_address
    }
}

/// A mapped IPv4 address (`::ffff:10.0.0.1`) is the IPv4 address.
fn specific(ip: Option<IpAddr>) -> Option<IpAddr> {
    ip.map(|ip| ip.to_canonical())
}

/// The host ports of one state directory. Callers hold the network's lock.
#[derive(Debug, Clone)]
pub(super) struct HostPorts {
    claims: Claims,
}

impl HostPorts {
    pub(super) fn open(directory: PathBuf) -> Result<Self, NetworkError> {
        Ok(Self { claims: Claims::open(directory)? })
    }

    /// Claims all of them, or none and says which one is taken by whom. The same port twice in one request is one
    /// claim: which of the two gets the packets is decided where the address translation is made.
    pub(super) fn claim(&self, mappings: &[PortMapping], owner: &SandboxId) -> Result<(), NetworkError> {
        if mappings.is_empty() {
            return Ok(());
        }
        let held: Vec<(HostPort, SandboxId)> =
            self.claims.list()?.into_iter().filter_map(|(name, by)| Some((HostPort::parse(&name)?, by))).collect();
        let taken = |wanted: HostPort, by: &SandboxId| NetworkError::PortTaken {
            protocol: wanted.protocol,
            port: wanted.port,
            ip: wanted.ip,
            by: by.clone(),
        };
        for wanted in mappings.iter().map(HostPort::of) {
            if let Some((_, by)) = held.iter().find(|(port, by)| port.overlaps(wanted) && by != owner) {
                return Err(taken(wanted, by));
            }
            probe(wanted)?;
        }
        for wanted in mappings.iter().map(HostPort::of) {
            self.claims.claim(&wanted.name(), owner)?;
        }
        Ok(())
    }

    pub(super) fn release(&self, owner: &SandboxId) -> Result<(), NetworkError> {
        self.claims.release(owner)
    }

    /// Every sandbox that has a host port.
    pub(super) fn owners(&self) -> Result<Vec<SandboxId>, NetworkError> {
        Ok(self.claims.list()?.into_iter().map(|(_, owner)| owner).collect())
    }
}

/// Whether a process listens there: address translation comes first and would take the port from it silently.
fn probe(wanted: HostPort) -> Result<(), NetworkError> {
    let (kind, protocol) = match wanted.protocol {
        Protocol::Tcp => (SocketType::STREAM, ipproto::TCP),
        Protocol::Udp => (SocketType::DGRAM, ipproto::UDP),
        Protocol::Sctp => (SocketType::STREAM, ipproto::SCTP),
    };
    let families = match wanted.ip {
        Some(ip) => vec![ip],
        None => vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
    };
    for ip in families {
        let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        // A family or protocol that the kernel lacks has no listeners.
        let Ok(socket) = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol)) else { continue };
        if kind == SocketType::STREAM {
            // Without this, connections that are merely closing would count as taken.
            let _ = sockopt::set_socket_reuseaddr(&socket, true);
        }
        if ip.is_ipv6() {
            let _ = sockopt::set_ipv6_v6only(&socket, true);
        }
        // Any other failure (an address that the machine does not have yet) does not say that the port is taken.
        if rustix::net::bind(&socket, &SocketAddr::new(ip, wanted.port)) == Err(rustix::io::Errno::ADDRINUSE) {
            return Err(NetworkError::PortBusy { protocol: wanted.protocol, port: wanted.port, ip: wanted.ip });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn mapping(protocol: Protocol, port: u16, ip: Option<&str>) -> PortMapping {
        PortMapping { protocol, container_port: 80, host_port: port, host_ip: ip.map(|ip| ip.parse().unwrap()) }
    }

    fn sandbox(name: &str) -> SandboxId {
        SandboxId(name.to_owned())
    }

    #[test]
    fn the_name_of_a_claim_reads_back() {
        for port in [
            mapping(Protocol::Tcp, 80, None),
            mapping(Protocol::Udp, 65535, Some("10.0.0.1")),
            mapping(Protocol::Sctp, 1, Some("fd00::1")),
        ] {
            let port = HostPort::of(&port);
            assert_eq!(HostPort::parse(&port.name()), Some(port));
        }
        for other in ["last", "tcp-80", "tcp-x-any", "icmp-1-any", "tcp-1-here"] {
            assert_eq!(HostPort::parse(other), None, "{other}");
        }
    }

    #[test]
    fn ports_overlap_as_packets_do() {
        let rows = [
            (None, None, true),
            (None, Some("10.0.0.1"), true),
            (Some("10.0.0.1"), Some("10.0.0.1"), true),
            (Some("10.0.0.1"), Some("10.0.0.2"), false),
            (Some("0.0.0.0"), Some("10.0.0.2"), true),
            (Some("0.0.0.0"), Some("fd00::1"), false),
            (Some("::"), Some("fd00::1"), true),
            (Some("::ffff:10.0.0.1"), Some("10.0.0.1"), true),
        ];
        for (a, b, expected) in rows {
            let a = HostPort::of(&mapping(Protocol::Tcp, 80, a));
            let b = HostPort::of(&mapping(Protocol::Tcp, 80, b));
            assert_eq!(a.overlaps(b), expected, "{a:?} {b:?}");
            assert_eq!(b.overlaps(a), expected, "{b:?} {a:?}");
        }
        let tcp = HostPort::of(&mapping(Protocol::Tcp, 80, None));
        assert!(!tcp.overlaps(HostPort::of(&mapping(Protocol::Udp, 80, None))));
        assert!(!tcp.overlaps(HostPort::of(&mapping(Protocol::Tcp, 81, None))));
    }

    #[test]
    fn a_port_of_another_sandbox_is_refused_and_nothing_is_claimed() {
        let directory = tempfile::tempdir().unwrap();
        let ports = HostPorts::open(directory.path().to_owned()).unwrap();
        let free = free_port();
        ports.claim(&[mapping(Protocol::Udp, free, None)], &sandbox("a")).unwrap();
        let other = free_port();
        let wanted = [mapping(Protocol::Udp, other, None), mapping(Protocol::Udp, free, Some("127.0.0.1"))];
        let error = ports.claim(&wanted, &sandbox("b")).unwrap_err();
        assert!(error.to_string().ends_with("is taken by sandbox a"), "{error}");
        assert_eq!(ports.owners().unwrap(), [sandbox("a")]);
        ports.release(&sandbox("a")).unwrap();
        ports.claim(&wanted, &sandbox("b")).unwrap();
    }

    #[test]
    fn a_port_on_which_a_process_listens_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let ports = HostPorts::open(directory.path().to_owned()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = listener.local_addr().unwrap().port();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = socket.local_addr().unwrap().port();
        for (wanted, ip) in [
            (mapping(Protocol::Tcp, tcp, None), "every address"),
            (mapping(Protocol::Tcp, tcp, Some("127.0.0.1")), "127.0.0.1"),
            (mapping(Protocol::Udp, udp, None), "every address"),
        ] {
            let error = ports.claim(&[wanted], &sandbox("a")).unwrap_err();
            assert!(error.to_string().contains(ip), "{error}");
            assert!(matches!(error, NetworkError::PortBusy { .. }), "{error}");
        }
        assert_eq!(ports.owners().unwrap(), []);
    }

    fn free_port() -> u16 {
        UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
    }
}

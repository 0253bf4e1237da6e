//! What is to be translated: host ports as pairs of packet destinations. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use minke_core::runtime::{PortMapping, Protocol};

use super::ipam::Addresses;

/// To which address of the machine a packet is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HostAddress {
    /// Any local address of the family.
    Any,
    /// This one.
    One(IpAddr),
}

/// One destination of the machine and where it goes instead. Both are of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Translation {
    pub(super) protocol: Protocol,
    pub(super) address: HostAddress,
    pub(super) port: u16,
    pub(super) to: SocketAddr,
}

impl Translation {
    /// Whether both would answer for the same packet.
    fn same_destination(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.address == other.address
            && self.port == other.port
            && self.to.is_ipv4() == other.to.is_ipv4()
    }
}

/// The translations of a Pod's host ports. A host address of a family in which the Pod has no address gives none; of
/// two mappings of the same destination the first counts.
pub(super) fn translations(ports: &[PortMapping], addresses: Addresses) -> Vec<Translation> {
    let mut translations: Vec<Translation> = Vec::new();
    for mapping in ports {
        for translation in of_mapping(mapping, addresses).into_iter().flatten() {
            if !translations.iter().any(|earlier| earlier.same_destination(&translation)) {
                translations.push(translation);
            }
        }
    }
    translations
}

fn of_mapping(mapping: &PortMapping, addresses: Addresses) -> [Option<Translation>; 2] {
    let host = mapping.host_ip.map(|ip| ip.to_canonical());
    let v4 = match host {
        None => Some(HostAddress::Any),
        Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Some(HostAddress::Any),
        Some(ip @ IpAddr::V4(_)) => Some(HostAddress::One(ip)),
        Some(IpAddr::V6(_)) => None,
    };
    let v6 = match host {
        None => Some(HostAddress::Any),
        Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Some(HostAddress::Any),
        Some(ip @ IpAddr::V6(_)) => Some(HostAddress::One(ip)),
        Some(IpAddr::V4(_)) => None,
    };
    let translation = |address: Option<HostAddress>, pod: Option<IpAddr>| {
        Some(Translation {
            protocol: mapping.protocol,
            address: address?,
            port: mapping.host_port,
            to: SocketAddr::new(pod?, mapping.container_port),
        })
    };
    [translation(v4, addresses.v4.map(IpAddr::V4)), translation(v6, addresses.v6.map(IpAddr::V6))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        Addresses { v4: Some("10.88.0.2".parse().unwrap()), v6: Some("fd00::2".parse().unwrap()) }
    }

    fn mapping(ip: Option<&str>) -> PortMapping {
        PortMapping {
            protocol: Protocol::Tcp,
            container_port: 80,
            host_port: 8080,
            host_ip: ip.map(|ip| ip.parse().unwrap()),
        }
    }

    #[test]
    fn a_host_address_chooses_the_family() {
        let rows: [(Option<&str>, &[&str]); 6] = [
            (None, &["10.88.0.2:80", "[fd00::2]:80"]),
            (Some("0.0.0.0"), &["10.88.0.2:80"]),
            (Some("::"), &["[fd00::2]:80"]),
            (Some("192.0.2.1"), &["10.88.0.2:80"]),
            (Some("::ffff:192.0.2.1"), &["10.88.0.2:80"]),
            (Some("2001:db8::1"), &["[fd00::2]:80"]),
        ];
        for (ip, expected) in rows {
            let to: Vec<String> = translations(&[mapping(ip)], addresses()).iter().map(|t| t.to.to_string()).collect();
            assert_eq!(to, expected, "{ip:?}");
        }
        assert_eq!(translations(&[mapping(Some("::"))], Addresses { v6: None, ..addresses() }), []);
    }

    #[test]
    fn the_first_of_two_mappings_of_one_destination_counts() {
        let second = PortMapping { container_port: 81, ..mapping(Some("0.0.0.0")) };
        let both = translations(&[mapping(None), second], addresses());
        assert_eq!(both.len(), 2);
        assert!(both.iter().all(|t| t.to.port() == 80));
    }
}

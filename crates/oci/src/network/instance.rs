//! Which bridge and which subnets are this state directory's: several of them live on one machine.
//!
//! The choice is a pure function of the configuration and the machine's routes. It is made once, kept on disk, and
//! forgotten when the last Pod is gone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::config::{AddressPool, NetworkConfig};
use super::error::NetworkError;
use super::ipam::Subnets;
use super::links::Route;
use super::record::digest;
use super::subnet::{Ipv4Subnet, Ipv6Subnet};

/// The bridge that is taken unless another instance has it.
pub(super) const DEFAULT_BRIDGE: &str = "minke0";

const MARK: &str = "minke:";

/// What a state directory calls its own on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instance {
    /// Name of the bridge and of the nft table.
    pub(super) bridge: String,
    pub(super) subnets: Subnets,
}

/// The mark on a bridge that says whose it is.
pub(super) fn alias(state: &Path) -> String {
    format!("{MARK}{}", digest(&state.to_string_lossy(), 16))
}

/// Whether an interface's alias says that it belongs to some instance.
pub(super) fn is_mark(alias: &str) -> bool {
    alias.starts_with(MARK)
}

/// The name for an instance that can't have [`DEFAULT_BRIDGE`].
pub(super) fn other_bridge(state: &Path) -> String {
    format!("minke-{}", digest(&state.to_string_lossy(), 4))
}

/// Interface names: what the kernel takes, less what confuses people and shells.
pub(super) fn check_bridge_name(name: &str) -> Result<(), NetworkError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 15 || !name.chars().all(allowed) {
        return Err(NetworkError::BadBridgeName(name.to_owned()));
    }
    Ok(())
}

/// Chooses subnets that no route overlaps. `ipv6`: whether the kernel has it.
pub(super) fn choose(config: &NetworkConfig, routes: &[Route], ipv6: bool) -> Result<Subnets, NetworkError> {
    let v4 = match config.ipv4 {
        AddressPool::Off => None,
        AddressPool::Subnet(subnet) => Some(free_v4(subnet, routes)?),
        AddressPool::Auto => Some(
            (88..=119)
                .map(|second| Ipv4Addr::new(10, second, 0, 0))
                .filter_map(|network| Ipv4Subnet::new(network, 16))
                .find(|subnet| free_v4(*subnet, routes).is_ok())
                .ok_or(NetworkError::NoFreeSubnet)?,
        ),
    };
    let v6 = match config.ipv6 {
        _ if !ipv6 => None,
        AddressPool::Off => None,
        AddressPool::Subnet(subnet) => Some(free_v6(subnet, routes)?),
        AddressPool::Auto => Some(
            (0..=255)
                .filter_map(|n| unique_local(&config.state, n))
                .find(|subnet| free_v6(*subnet, routes).is_ok())
                .ok_or(NetworkError::NoFreeSubnet)?,
        ),
    };
    if v4.is_none() && v6.is_none() {
        return Err(NetworkError::NoFamily);
    }
    Ok(Subnets { v4, v6 })
}

/// A unique local subnet (RFC 4193) whose 40 bits come from the state directory.
fn unique_local(state: &Path, n: u16) -> Option<Ipv6Subnet> {
    let id = u64::from_str_radix(&digest(&state.to_string_lossy(), 5), 16).ok()?;
    let prefix = u128::from(0xfd_u8) << 120 | u128::from(id) << 80 | u128::from(n) << 64;
    Ipv6Subnet::new(Ipv6Addr::from_bits(prefix), 64)
}

fn free_v4(subnet: Ipv4Subnet, routes: &[Route]) -> Result<Ipv4Subnet, NetworkError> {
    let overlapping = routes.iter().find(|route| match route.network {
        IpAddr::V4(network) => route.prefix > 0 && subnet.overlaps(network, route.prefix),
        IpAddr::V6(_) => false,
    });
    overlapping.map_or(Ok(subnet), |route| Err(in_use(subnet.to_string(), route)))
}

fn free_v6(subnet: Ipv6Subnet, routes: &[Route]) -> Result<Ipv6Subnet, NetworkError> {
    let overlapping = routes.iter().find(|route| match route.network {
        IpAddr::V6(network) => route.prefix > 0 && subnet.overlaps(network, route.prefix),
        IpAddr::V4(_) => false,
    });
    overlapping.map_or(Ok(subnet), |route| Err(in_use(subnet.to_string(), route)))
}

fn in_use(subnet: String, route: &Route) -> NetworkError {
    NetworkError::SubnetInUse { subnet, route: format!("the route to {}/{}", route.network, route.prefix) }
}

/// An interface address that follows from an IP address: one that is used again brings its old hardware address with
/// it, so no neighbour cache is ever wrong and nothing has to be announced. Locally administered.
pub(super) fn hardware_address(address: IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [0x02, 0x6d, a, b, c, d]
        }
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            [0x02, 0x6e, a, b, c, d]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(text: &str) -> Route {
        let (network, prefix) = text.split_once('/').unwrap();
        Route {
            network: network.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
            link: None,
            metric: 0,
            main_table: true,
        }
    }

    #[test]
    fn the_default_pool_steps_aside_for_routes_of_the_machine() {
        let config = NetworkConfig::new("/var/lib/minke");
        let choose = |routes: &[&str]| {
            let routes: Vec<Route> = routes.iter().map(|text| route(text)).collect();
            choose(&config, &routes, true).map(|subnets| subnets.v4.unwrap().to_string())
        };
        assert_eq!(choose(&["0.0.0.0/0", "192.0.2.0/24"]).unwrap(), "10.88.0.0/16");
        assert_eq!(choose(&["0.0.0.0/0", "10.88.0.0/16"]).unwrap(), "10.89.0.0/16");
        assert_eq!(choose(&["10.88.7.0/24", "10.89.1.1/32"]).unwrap(), "10.90.0.0/16");
        assert!(matches!(choose(&["10.0.0.0/8"]), Err(NetworkError::NoFreeSubnet)));
    }

    #[test]
    fn a_configured_subnet_that_is_in_use_is_refused_by_name() {
        let mut config = NetworkConfig::new("/var/lib/minke");
        config.ipv4 = AddressPool::Subnet("192.0.2.0/25".parse().unwrap());
        let error = choose(&config, &[route("192.0.2.0/24")], true).unwrap_err().to_string();
        assert!(error.contains("192.0.2.0/25") && error.contains("192.0.2.0/24"), "{error}");
        config.ipv4 = AddressPool::Off;
        config.ipv6 = AddressPool::Subnet("fd00::/64".parse().unwrap());
        assert!(choose(&config, &[route("fd00::/48")], true).is_err());
    }

    #[test]
    fn a_kernel_without_ipv6_leaves_ipv4_and_nothing_left_is_an_error() {
        let mut config = NetworkConfig::new("/var/lib/minke");
        assert_eq!(choose(&config, &[], false).unwrap().v6, None);
        config.ipv4 = AddressPool::Off;
        assert!(matches!(choose(&config, &[], false), Err(NetworkError::NoFamily)));
        assert!(choose(&config, &[], true).unwrap().v4.is_none());
    }

    #[test]
    fn ipv6_subnets_of_two_state_directories_differ() {
        let of = |state: &str| choose(&NetworkConfig::new(state), &[], true).unwrap().v6.unwrap();
        assert_ne!(of("/a"), of("/b"));
        assert_eq!(of("/a"), of("/a"));
        assert_eq!(of("/a").network().octets()[0], 0xfd);
        let taken = Route { network: IpAddr::V6(of("/a").network()), ..route("fd00::/64") };
        assert_ne!(choose(&NetworkConfig::new("/a"), &[taken], true).unwrap().v6, Some(of("/a")));
    }

    #[test]
    fn names_fit_the_kernel() {
        assert!(check_bridge_name(&other_bridge(Path::new("/some/where"))).is_ok());
        for bad in ["", "sixteen-letters-", "a/b", "a b", "ä", "a.b"] {
            assert!(check_bridge_name(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_chosen_overlaps_no_route(routes in proptest::collection::vec((any::<u16>(), 9_u8..=32), 0..40)) {
            let routes: Vec<Route> = routes
                .into_iter()
                .map(|(bits, prefix)| {
                    let network = Ipv4Addr::from_bits((0x0a58 << 16) + (u32::from(bits) << 5));
                    let network = Ipv4Addr::from_bits(network.to_bits() & (u32::MAX << (32 - prefix)));
                    Route { network: IpAddr::V4(network), prefix, link: None, metric: 0, main_table: true }
                })
                .collect();
            match choose(&NetworkConfig::new("/s"), &routes, false) {
                Ok(subnets) => {
                    let subnet = subnets.v4.unwrap();
                    for route in &routes {
                        let IpAddr::V4(network) = route.network else { continue };
                        prop_assert!(!subnet.contains(network), "{} {:?}", subnet, route);
                    }
                }
                Err(error) => prop_assert!(matches!(error, NetworkError::NoFreeSubnet), "{}", error),
            }
        }
    }
}

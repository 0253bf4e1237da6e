//! Subnets: text, overlap and the n-th address. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is not a subnet for pods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a subnet for pods: {why}")]
pub struct InvalidSubnet {
    text: String,
    why: &'static str,
}

/// An IPv4 subnet, for example `10.88.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ipv4Subnet {
    network: Ipv4Addr,
    prefix: u8,
}

/// An IPv6 subnet, for example `fd00:88::/64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ipv6Subnet {
    network: Ipv6Addr,
    prefix: u8,
}

impl Ipv4Subnet {
    /// A subnet from an address and a prefix length of 8 to 29 bits; bits of the address beyond the prefix are
    /// ignored. `None` for any other prefix: a smaller subnet has no room for pods.
    #[must_use]
    pub const fn new(address: Ipv4Addr, prefix: u8) -> Option<Self> {
        if prefix < 8 || prefix > 29 {
            return None;
        }
        let network = Ipv4Addr::from_bits(address.to_bits() & mask4(prefix));
        Some(Self { network, prefix })
    }

    /// Length of the prefix in bits.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The network's own address.
    #[must_use]
    pub fn network(self) -> Ipv4Addr {
        self.network
    }

    /// The n-th address; 0 is the network's own.
    pub(super) fn host(self, n: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | n)
    }

    /// Which address of this subnet that is.
    pub(super) fn index_of(self, address: Ipv4Addr) -> Option<u32> {
        self.contains(address).then(|| address.to_bits() & !mask4(self.prefix))
    }

    /// The last index a pod may have: the one before the broadcast address.
    pub(super) fn last_host(self) -> u32 {
        (1_u32 << (32 - self.prefix)) - 2
    }

    /// Whether an address lies within.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask4(self.prefix) == self.network.to_bits()
    }

    /// Whether any address lies in both this subnet and `network/prefix`, which may have any prefix length.
    pub(super) fn overlaps(self, network: Ipv4Addr, prefix: u8) -> bool {
        let mask = mask4(self.prefix.min(prefix));
        network.to_bits() & mask == self.network.to_bits() & mask
    }
}

impl Ipv6Subnet {
    /// A subnet from an address and a prefix length of 16 to 120 bits; bits of the address beyond the prefix are
    /// ignored. `None` for any other prefix.
    #[must_use]
    pub const fn new(address: Ipv6Addr, prefix: u8) -> Option<Self> {
        if prefix < 16 || prefix > 120 {
            return None;
        }
        let network = Ipv6Addr::from_bits(address.to_bits() & mask6(prefix));
        Some(Self { network, prefix })
    }

    /// Length of the prefix in bits.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The network's own address.
    #[must_use]
    pub fn network(self) -> Ipv6Addr {
        self.network
    }

    /// The n-th address; 0 is the network's own.
    pub(super) fn host(self, n: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.network.to_bits() | u128::from(n))
    }

    /// Which address of this subnet that is; `None` also beyond the first 2³².
    pub(super) fn index_of(self, address: Ipv6Addr) -> Option<u32> {
        let index = address.to_bits() & !mask6(self.prefix);
        self.contains(address).then_some(index).and_then(|index| u32::try_from(index).ok())
    }

    /// The last index a pod may have. More than 2²⁰ addresses of a subnet are never used: nothing needs them, and
    /// the search for a free one stays short.
    pub(super) fn last_host(self) -> u32 {
        (1_u32 << (128 - self.prefix).min(20)) - 2
    }

    /// Whether an address lies within.
    #[must_use]
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address.to_bits() & mask6(self.prefix) == self.network.to_bits()
    }

    /// Whether any address lies in both this subnet and `network/prefix`, which may have any prefix length.
    pub(super) fn overlaps(self, network: Ipv6Addr, prefix: u8) -> bool {
        let mask = mask6(self.prefix.min(prefix));
        network.to_bits() & mask == self.network.to_bits() & mask
    }
}

const fn mask4(prefix: u8) -> u32 {
    if prefix == 0 { 0 } else { u32::MAX << (32 - prefix) }
}

const fn mask6(prefix: u8) -> u128 {
    if prefix == 0 { 0 } else { u128::MAX << (128 - prefix) }
}

fn split(text: &str) -> Result<(IpAddr, u8), InvalidSubnet> {
    let invalid = |why| InvalidSubnet { text: text.to_owned(), why };
    let (address, prefix) = text.split_once('/').ok_or_else(|| invalid("it has no /prefix"))?;
    let address = address.parse().map_err(|_| invalid("the address can't be read"))?;
    let prefix = prefix.parse().map_err(|_| invalid("the prefix can't be read"))?;
    Ok((address, prefix))
}

impl FromStr for Ipv4Subnet {
    type Err = InvalidSubnet;

    fn from_str(text: &str) -> Result<Self, InvalidSubnet> {
        let invalid = |why| InvalidSubnet { text: text.to_owned(), why };
        match split(text)? {
            (IpAddr::V4(address), prefix) => {
                Self::new(address, prefix).ok_or_else(|| invalid("the prefix must be 8 to 29"))
            }
            (IpAddr::V6(_), _) => Err(invalid("an IPv4 subnet is needed")),
        }
    }
}

impl FromStr for Ipv6Subnet {
    type Err = InvalidSubnet;

    fn from_str(text: &str) -> Result<Self, InvalidSubnet> {
        let invalid = |why| InvalidSubnet { text: text.to_owned(), why };
        match split(text)? {
            (IpAddr::V6(address), prefix) => {
                Self::new(address, prefix).ok_or_else(|| invalid("the prefix must be 16 to 120"))
            }
            (IpAddr::V4(_), _) => Err(invalid("an IPv6 subnet is needed")),
        }
    }
}

macro_rules! as_text {
    ($subnet:ty) => {
        impl fmt::Display for $subnet {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.network, self.prefix)
            }
        }

        impl TryFrom<String> for $subnet {
            type Error = InvalidSubnet;

            fn try_from(text: String) -> Result<Self, InvalidSubnet> {
                text.parse()
            }
        }

        impl From<$subnet> for String {
            fn from(subnet: $subnet) -> Self {
                subnet.to_string()
            }
        }
    };
}

as_text!(Ipv4Subnet);
as_text!(Ipv6Subnet);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn subnets_that_have_no_room_or_are_no_subnets_are_refused() {
        for bad in ["10.0.0.0", "10.0.0.0/30", "10.0.0.0/7", "10.0.0/24", "fd00::/64", "10.0.0.0/x", ""] {
            assert!(bad.parse::<Ipv4Subnet>().is_err(), "{bad}");
        }
        for bad in ["fd00::", "fd00::/121", "fd00::/8", "10.0.0.0/24", "fd00::/64/1"] {
            assert!(bad.parse::<Ipv6Subnet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bits_beyond_the_prefix_are_ignored_and_the_text_comes_back() {
        assert_eq!("10.88.7.9/16".parse::<Ipv4Subnet>().unwrap().to_string(), "10.88.0.0/16");
        assert_eq!("fd00:88::9/64".parse::<Ipv6Subnet>().unwrap().to_string(), "fd00:88::/64");
    }

    #[test]
    fn the_default_route_overlaps_everything_and_neighbours_do_not() {
        let subnet: Ipv4Subnet = "10.88.0.0/16".parse().unwrap();
        assert!(subnet.overlaps(Ipv4Addr::UNSPECIFIED, 0));
        assert!(subnet.overlaps("10.88.3.0".parse().unwrap(), 24));
        assert!(subnet.overlaps("10.0.0.0".parse().unwrap(), 8));
        assert!(!subnet.overlaps("10.89.0.0".parse().unwrap(), 16));
    }

    proptest! {
        #[test]
        fn every_host_has_its_index(bits: u32, prefix in 8_u8..=29, n: u32) {
            let subnet = Ipv4Subnet::new(Ipv4Addr::from_bits(bits), prefix).unwrap();
            let n = n % (subnet.last_host() + 1);
            prop_assert_eq!(subnet.index_of(subnet.host(n)), Some(n));
        }

        #[test]
        fn overlap_is_symmetric_and_means_that_one_holds_the_other(a: u32, p in 8_u8..=29, b: u32, q in 8_u8..=29) {
            let a = Ipv4Subnet::new(Ipv4Addr::from_bits(a), p).unwrap();
            let b = Ipv4Subnet::new(Ipv4Addr::from_bits(b & 0xff0f_ffff), q).unwrap();
            let overlap = a.overlaps(b.network(), q);
            prop_assert_eq!(overlap, b.overlaps(a.network(), p));
            prop_assert_eq!(overlap, a.contains(b.network()) || b.contains(a.network()));
        }

        #[test]
        fn every_ipv6_host_has_its_index(bits: u128, prefix in 16_u8..=120, n: u32) {
            let subnet = Ipv6Subnet::new(Ipv6Addr::from_bits(bits), prefix).unwrap();
            let n = n % (subnet.last_host() + 1);
            prop_assert_eq!(subnet.index_of(subnet.host(n)), Some(n));
        }
    }
}

//! Addresses: every sandbox gets one index, which is its place in the IPv4 and the IPv6 subnet alike.
//!
//! The index after the one given last is tried first, so an address rests for a whole round before it is used again
//! and late packets of a dead Pod do not reach a new one. The choice is [`next_free`], pure; the claims on disk make
//! it hold across crashes and processes.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use minke_core::runtime::SandboxId;
use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::error::NetworkError;
use super::subnet::{Ipv4Subnet, Ipv6Subnet};

/// Index of the gateway, which is the bridge itself.
const GATEWAY: u32 = 1;
/// First index of a Pod.
const FIRST: u32 = 2;

/// The subnets of the Pods. At least one is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subnets {
    pub(super) v4: Option<Ipv4Subnet>,
    pub(super) v6: Option<Ipv6Subnet>,
}

/// The addresses with one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Addresses {
    pub(super) v4: Option<Ipv4Addr>,
    pub(super) v6: Option<Ipv6Addr>,
}

impl Addresses {
    /// Primary first.
    pub(super) fn list(self) -> Vec<IpAddr> {
        self.v4.map(IpAddr::V4).into_iter().chain(self.v6.map(IpAddr::V6)).collect()
    }
}

impl Subnets {
    /// The addresses of the bridge.
    pub(super) fn gateway(self) -> Addresses {
        self.at(GATEWAY)
    }

    fn at(self, index: u32) -> Addresses {
        Addresses { v4: self.v4.map(|s| s.host(index)), v6: self.v6.map(|s| s.host(index)) }
    }

    fn last(self) -> u32 {
        let v4 = self.v4.map_or(u32::MAX, Ipv4Subnet::last_host);
        v4.min(self.v6.map_or(u32::MAX, Ipv6Subnet::last_host))
    }

    /// The index that an address has here.
    fn index_of(self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.v4.and_then(|s| s.index_of(address)),
            IpAddr::V6(address) => self.v6.and_then(|s| s.index_of(address)),
        }
    }
}

impl std::fmt::Display for Subnets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.v4, self.v6) {
            (Some(v4), Some(v6)) => write!(f, "{v4} and {v6}"),
            (Some(v4), None) => write!(f, "{v4}"),
            (None, Some(v6)) => write!(f, "{v6}"),
            (None, None) => f.write_str("no subnet"),
        }
    }
}

/// The first free index after `last`, going round once; `None` when all are taken.
fn next_free(range: std::ops::RangeInclusive<u32>, taken: &BTreeSet<u32>, last: Option<u32>) -> Option<u32> {
    let start = last.filter(|last| range.contains(last) && last != range.end()).map_or(*range.start(), |last| last + 1);
    let free = |index: &u32| !taken.contains(index);
    (start..=*range.end()).find(free).or_else(|| (*range.start()..start).find(free))
}

/// The addresses of one state directory. Callers hold the network's lock.
#[derive(Debug, Clone)]
pub(super) struct Ipam {
    claims: Claims,
    last: PathBuf,
}

impl Ipam {
    pub(super) fn open(directory: PathBuf) -> Result<Self, NetworkError> {
        let last = directory.join("last");
        Ok(Self { claims: Claims::open(directory)?, last })
    }

    /// Gives a sandbox addresses that no other has. The claim is on disk when this returns.
    pub(super) fn allocate(&self, subnets: Subnets, owner: &SandboxId) -> Result<Addresses, NetworkError> {
        let claimed = self.claims.list()?;
        let mut taken: BTreeSet<u32> =
            claimed.iter().filter_map(|(name, _)| subnets.index_of(name.parse().ok()?)).collect();
        // A hint only: without it, or with a wrong one, addresses are reused sooner and stay unique.
        let mut last = fs::read_to_string(&self.last).ok().and_then(|text| text.trim().parse().ok());
        while let Some(index) = next_free(FIRST..=subnets.last(), &taken, last) {
            let addresses = subnets.at(index);
            let Some(primary) = addresses.list().first().copied() else { return Err(NetworkError::NoFamily) };
            if self.claims.claim(&primary.to_string(), owner)? {
                fs::write(&self.last, index.to_string()).map_err(|e| NetworkError::state("writing", &self.last, e))?;
                return Ok(addresses);
            }
            taken.insert(index);
            last = Some(index);
        }
        Err(NetworkError::Exhausted { subnet: subnets.to_string(), used: taken.len() })
    }

    pub(super) fn release(&self, owner: &SandboxId) -> Result<(), NetworkError> {
        self.claims.release(owner)
    }

    /// Every sandbox that has an address.
    pub(super) fn owners(&self) -> Result<Vec<SandboxId>, NetworkError> {
        Ok(self.claims.list()?.into_iter().map(|(_, owner)| owner).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subnets(v4: &str) -> Subnets {
        Subnets { v4: Some(v4.parse().unwrap()), v6: Some("fd00:88::/64".parse().unwrap()) }
    }

    fn sandbox(n: usize) -> SandboxId {
        SandboxId(format!("s{n}"))
    }

    #[test]
    fn one_index_gives_both_addresses_and_the_first_is_the_gateway() {
        let directory = tempfile::tempdir().unwrap();
        let ipam = Ipam::open(directory.path().join("ipam")).unwrap();
        let subnets = subnets("10.88.0.0/24");
        assert_eq!(subnets.gateway().v4, Some("10.88.0.1".parse().unwrap()));
        let first = ipam.allocate(subnets, &sandbox(0)).unwrap();
        assert_eq!(first.list(), ["10.88.0.2".parse::<IpAddr>().unwrap(), "fd00:88::2".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_released_address_rests_for_a_round() {
        let directory = tempfile::tempdir().unwrap();
        let ipam = Ipam::open(directory.path().join("ipam")).unwrap();
        let subnets = subnets("10.88.0.0/29");
        // Five pods fit: .2 to .6.
        let first = ipam.allocate(subnets, &sandbox(0)).unwrap();
        ipam.release(&sandbox(0)).unwrap();
        for n in 1..5 {
            assert_ne!(ipam.allocate(subnets, &sandbox(n)).unwrap(), first);
        }
        assert_eq!(ipam.allocate(subnets, &sandbox(5)).unwrap(), first);
        let error = ipam.allocate(subnets, &sandbox(6)).unwrap_err();
        assert!(matches!(error, NetworkError::Exhausted { used: 5, .. }), "{error}");
        assert!(error.to_string().contains("10.88.0.0/29"), "{error}");
    }

    #[test]
    fn a_damaged_hint_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let ipam = Ipam::open(directory.path().join("ipam")).unwrap();
        for hint in ["", "x", "99999999999", "4294967295", "0"] {
            fs::write(directory.path().join("ipam/last"), hint).unwrap();
            ipam.allocate(subnets("10.88.0.0/24"), &sandbox(1)).unwrap();
        }
    }

    #[test]
    fn only_ipv6_works_too() {
        let directory = tempfile::tempdir().unwrap();
        let ipam = Ipam::open(directory.path().join("ipam")).unwrap();
        let subnets = Subnets { v4: None, v6: Some("fd00:88::/120".parse().unwrap()) };
        let addresses: BTreeSet<_> =
            (0..253).map(|n| ipam.allocate(subnets, &sandbox(n)).unwrap().v6.unwrap()).collect();
        assert_eq!(addresses.len(), 253);
        assert!(ipam.allocate(subnets, &sandbox(253)).is_err());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Allocate(usize),
        Release(usize),
        Reopen,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..12_usize).prop_map(Step::Allocate),
            2 => (0..12_usize).prop_map(Step::Release),
            1 => Just(Step::Reopen),
        ];
        proptest::collection::vec(step, 0..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against a set: an address is given exactly when one is free, it was free, and it is not the one released
        /// last while another is free.
        #[test]
        fn no_address_is_ever_given_twice(steps in steps()) {
            let directory = tempfile::tempdir().unwrap();
            let open = || Ipam::open(directory.path().join("ipam")).unwrap();
            let mut ipam = open();
            let subnets = subnets("10.88.0.0/29");
            let mut model: Vec<(usize, Addresses)> = Vec::new();
            let mut given_last = None;
            for step in steps {
                match step {
                    Step::Allocate(n) => match ipam.allocate(subnets, &sandbox(n)) {
                        Ok(addresses) => {
                            prop_assert!(model.iter().all(|(_, taken)| *taken != addresses));
                            prop_assert!(given_last != Some(addresses) || model.len() == 4);
                            given_last = Some(addresses);
                            model.push((n, addresses));
                        }
                        Err(NetworkError::Exhausted { .. }) => prop_assert_eq!(model.len(), 5),
                        Err(other) => prop_assert!(false, "{}", other),
                    },
                    Step::Release(n) => {
                        ipam.release(&sandbox(n)).unwrap();
                        model.retain(|(owner, _)| *owner != n);
                    }
                    Step::Reopen => ipam = open(),
                }
                prop_assert_eq!(ipam.owners().unwrap().len(), model.len());
            }
        }

        #[test]
        fn the_next_index_is_the_first_free_one_going_round(
            taken in proptest::collection::btree_set(2_u32..20, 0..18),
            last in proptest::option::of(0_u32..25),
        ) {
            let chosen = next_free(2..=19, &taken, last);
            let start = last.filter(|l| (2..19).contains(l)).map_or(2, |l| l + 1);
            let model = (0..18).map(|step| 2 + (start - 2 + step) % 18).find(|index| !taken.contains(index));
            prop_assert_eq!(chosen, model);
        }
    }
}

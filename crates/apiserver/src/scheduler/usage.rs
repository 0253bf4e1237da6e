//! What Pods use of a node, by what they ask for.

use minke_core::placement::HostPort;
use minke_core::resources::{Amount, ResourceList};

/// What one Pod takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Demand {
    /// What it asks for, without what is zero.
    pub(super) requests: ResourceList,
    /// Ports of the host.
    pub(super) ports: Vec<HostPort>,
}

/// What some Pods take together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) pods: i64,
    requests: ResourceList,
    /// Each as often as it is taken.
    ports: Vec<HostPort>,
}

impl Usage {
    pub(super) const NONE: Self = Self { pods: 0, requests: ResourceList::new(), ports: Vec::new() };

    pub(super) fn add(&mut self, demand: &Demand) {
        self.pods += 1;
        for (resource, amount) in &demand.requests {
            *self.requests.entry(resource.clone()).or_default() += *amount;
        }
        self.ports.extend(&demand.ports);
    }

    pub(super) fn remove(&mut self, demand: &Demand) {
        self.pods -= 1;
        for (resource, amount) in &demand.requests {
            if let Some(used) = self.requests.get_mut(resource) {
                *used = *used - *amount;
                if *used == Amount::ZERO {
                    self.requests.remove(resource);
                }
            }
        }
        for port in &demand.ports {
            if let Some(at) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(at);
            }
        }
    }

    pub(super) fn of(&self, resource: &str) -> Amount {
        self.requests.get(resource).copied().unwrap_or_default()
    }

    /// Whether any of these ports is taken.
    pub(super) fn takes(&self, ports: &[HostPort]) -> bool {
        ports.iter().any(|port| self.ports.iter().any(|taken| taken.conflicts_with(port)))
    }
}

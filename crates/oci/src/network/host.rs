//! The machine's side: bridge, forwarding and address translation, made for the first Pod, repaired for every
//! further one, removed with the last.
//!
//! ```text
//! absent ──prepare──► ready ──release, no Pod left──► absent
//!                      │ ▲
//!   bridge or ruleset  ▼ │ prepare
//!   touched by others  in doubt
//! ```
//! "Ready" is believed only while the bridge is there and the packet filter's generation is the one that our last
//! commit made. In doubt everything is put in place again, with the host ports of every Pod on disk.

use std::collections::BTreeSet;
use std::net::IpAddr;

use minke_core::runtime::SandboxId;
use tokio::sync::{Mutex, MutexGuard};

use super::config::{Layout, NetworkConfig};
use super::error::NetworkError;
use super::instance::{
    DEFAULT_BRIDGE, Instance, alias, check_bridge_name, choose, hardware_address, is_mark, other_bridge,
};
use super::links::{Link, Links, Route};
use super::lock;
use super::nat::{Nat, NatError, Table};
use super::ports::HostPorts;
use super::reaper::Reaper;
use super::record::{Attached, Record, Records, link_name, read_json, remove_file, write_json};
use super::sysctl::{self, Sysctls};
use super::translation::{Translation, translations};

const DEFAULT_MTU: u32 = 1500;

/// The machine's side while Pods use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) instance: Instance,
    /// The bridge's number.
    pub(super) bridge: u32,
    pub(super) mtu: u32,
}

impl Ready {
    fn table(&self) -> Table {
        table(&self.instance)
    }
}

fn table(instance: &Instance) -> Table {
    Table { bridge: instance.bridge.clone(), subnets: instance.subnets }
}

/// Everything about the machine. All changes happen under [`Host::lock`].
#[derive(Debug)]
pub(super) struct Host {
    pub(super) links: Links,
    pub(super) reaper: Reaper,
    config: NetworkConfig,
    layout: Layout,
    nat: Nat,
    sysctls: Sysctls,
    records: Records,
    ports: HostPorts,
    state: Mutex<Option<Ready>>,
}

/// The right to change the machine's side.
pub(super) type State<'a> = MutexGuard<'a, Option<Ready>>;

impl Host {
    pub(super) fn new(
        config: NetworkConfig,
        layout: Layout,
        links: Links,
        records: Records,
        ports: HostPorts,
    ) -> Result<Self, NetworkError> {
        let nat = Nat::connect().map_err(nat_failed)?;
        let sysctls = Sysctls::new(config.machine_record());
        let reaper = Reaper::start()?;
        Ok(Self { links, reaper, config, layout, nat, sysctls, records, ports, state: Mutex::new(None) })
    }

    pub(super) async fn lock(&self) -> State<'_> {
        self.state.lock().await
    }

    /// Makes the machine's side ready, whatever it was before.
    pub(super) async fn prepare(&self, state: &mut State<'_>) -> Result<Ready, NetworkError> {
        if let Some(ready) = state.as_ref()
            && self.nat.untouched().await
            && self
                .links
                .find_index(ready.bridge)
                .await?
                .is_some_and(|link| link.up && link.bridge && link.name == ready.instance.bridge)
        {
            return Ok(ready.clone());
        }
        state.take();
        let ready = self.set_up().await?;
        **state = Some(ready.clone());
        Ok(ready)
    }

    /// Adds a Pod's host ports; its record is on disk.
    pub(super) async fn open_ports(&self, state: &mut State<'_>, record: &Record) -> Result<(), NetworkError> {
        let added = translations_of(record);
        let Some(ready) = state.as_ref() else { return Ok(()) };
        if added.is_empty() {
            return Ok(());
        }
        if !self.nat.add(&ready.table(), &added).await.map_err(nat_failed)? {
            self.put_table(&ready.instance).await?;
        }
        // What arrived before is remembered as not translated.
        self.forget(&added).await;
        Ok(())
    }

    /// Removes a Pod's host ports.
    pub(super) async fn close_ports(&self, _state: &mut State<'_>, record: &Record) -> Result<(), NetworkError> {
        let removed = translations_of(record);
        if removed.is_empty() {
            return Ok(());
        }
        if let Some(instance) = self.instance()? {
            self.nat.remove(&table(&instance), &removed).await.map_err(nat_failed)?;
            self.forget(&removed).await;
        }
        Ok(())
    }

    async fn forget(&self, translations: &[Translation]) {
        if let Err(error) = self.nat.forget_connections(translations).await {
            let error = minke_core::runtime::error_chain(&error);
            tracing::warn!(error, "could not forget connections to UDP host ports; clients may have to reconnect");
        }
    }

    /// Removes everything when no Pod is left.
    pub(super) async fn release(&self, state: &mut State<'_>) -> Result<(), NetworkError> {
        if self.in_use()? {
            return Ok(());
        }
        state.take();
        let Some(instance) = self.instance()? else { return Ok(()) };
        self.nat.delete(&table(&instance)).await.map_err(nat_failed)?;
        // The instances of a machine share what they changed of it; the last one puts it back.
        let _machine = lock::acquire(&self.config.machine_lock).await?;
        if let Some(link) = self.links.find(&instance.bridge).await?
            && (self.is_ours(&link) || is_unmarked(&link, &instance))
        {
            self.reaper.remove(&instance.bridge).await?;
        }
        if !self.links.bridges().await?.iter().any(|link| link.alias.as_deref().is_some_and(is_mark)) {
            self.sysctls.restore()?;
        }
        remove_file(&self.layout.instance())
    }

    /// Removes links on the bridge that belong to no live sandbox.
    pub(super) async fn remove_orphans(
        &self,
        _state: &mut State<'_>,
        live: &std::collections::HashSet<SandboxId>,
    ) -> Result<(), NetworkError> {
        let Some(instance) = self.instance()? else { return Ok(()) };
        let Some(bridge) = self.links.find(&instance.bridge).await?.filter(|link| self.is_ours(link)) else {
            return Ok(());
        };
        let wanted: BTreeSet<String> = live.iter().map(link_name).collect();
        let ports = self.links.ports_of(bridge.index).await?;
        let orphans = ports.iter().filter(|port| port.name.starts_with("mk") && !wanted.contains(&port.name));
        let removals = orphans.map(|port| self.reaper.remove(&port.name));
        futures_util::future::try_join_all(removals).await?;
        Ok(())
    }

    /// Whether a Pod on disk uses the bridge. One whose record is damaged counts.
    pub(super) fn in_use(&self) -> Result<bool, NetworkError> {
        for sandbox in self.records.sandboxes()? {
            match self.records.load(&sandbox) {
                Ok(Some(Record { network: Attached::Bridge(_), .. })) | Err(NetworkError::Damaged { .. }) => {
                    return Ok(true);
                }
                Ok(Some(Record { network: Attached::Cni(_), .. }) | None) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(false)
    }

    fn instance(&self) -> Result<Option<Instance>, NetworkError> {
        read_json(&self.layout.instance())
    }

    fn is_ours(&self, link: &Link) -> bool {
        link.bridge && link.alias.as_deref() == Some(&alias(&self.config.state))
    }

    async fn set_up(&self) -> Result<Ready, NetworkError> {
        let routes = self.links.routes().await?;
        let (instance, made, bridge) = self.bridge(&routes).await?;
        let mtu = self.mtu(&routes, bridge).await?;
        self.links.set_bridge(bridge, &alias(&self.config.state), mtu).await?;
        self.switch_on(&instance, bridge, &routes).await?;
        if made {
            self.reconnect(bridge).await?;
        }
        self.put_table(&instance).await?;
        tracing::debug!(bridge = instance.bridge, subnets = %instance.subnets, mtu, "pod network is ready");
        Ok(Ready { instance, bridge, mtu })
    }

    /// The bridge, made where it is missing; whether it was made.
    async fn bridge(&self, routes: &[Route]) -> Result<(Instance, bool, u32), NetworkError> {
        if let Some(instance) = self.instance()?
            && let Some(link) = self.links.find(&instance.bridge).await?
            && self.is_ours(&link)
        {
            return Ok((instance, false, link.index));
        }
        let _machine = lock::acquire(&self.config.machine_lock).await?;
        let instance = self.choose_instance(routes).await?;
        write_json(&self.layout.instance(), &instance)?;
        if let Some(left) = self.links.find(&instance.bridge).await? {
            // Ours, from a crash before the mark was set: the name was chosen because nobody else had it.
            return Ok((instance, true, left.index));
        }
        let gateway = instance.subnets.gateway().list();
        let Some(primary) = gateway.first() else { return Err(NetworkError::NoFamily) };
        self.links.add_bridge(&instance.bridge, hardware_address(*primary)).await?;
        let Some(link) = self.links.find(&instance.bridge).await? else {
            let source = std::io::Error::from_raw_os_error(libc::ENODEV);
            return Err(NetworkError::Netlink { action: format!("making bridge {}", instance.bridge), source });
        };
        self.links.set_bridge(link.index, &alias(&self.config.state), DEFAULT_MTU).await?;
        // The addresses make the routes by which another instance sees that the subnets are taken.
        self.add_addresses(&instance, link.index).await?;
        Ok((instance, true, link.index))
    }

    /// What is on disk while Pods use it, otherwise a new choice. Called under the machine's lock.
    async fn choose_instance(&self, routes: &[Route]) -> Result<Instance, NetworkError> {
        let ours = self.instance()?;
        if let Some(instance) = &ours
            && self.in_use()?
        {
            return Ok(instance.clone());
        }
        // Our own bridge may be there without its mark.
        let own_link = match &ours {
            Some(instance) => self.links.find(&instance.bridge).await?,
            None => None,
        };
        let own_index = own_link
            .filter(|link| ours.as_ref().is_some_and(|instance| is_unmarked(link, instance)))
            .map(|link| link.index);
        let mut relevant = Vec::new();
        for route in routes {
            let live = match route.link {
                None => true,
                // A bridge that is just being removed keeps its routes for a moment.
                Some(link) => Some(link) != own_index && self.links.find_index(link).await?.is_some(),
            };
            if live {
                relevant.push(*route);
            }
        }
        let ipv6 = self.sysctls.has("net/ipv6");
        if !ipv6 {
            tracing::warn!("this kernel has no IPv6: pods get IPv4 addresses only");
        }
        let subnets = choose(&self.config, &relevant, ipv6)?;
        let bridge = match (&self.config.bridge, ours) {
            (Some(name), _) => {
                check_bridge_name(name)?;
                if !self.may_have(name, own_index).await? {
                    return Err(NetworkError::BridgeTaken(name.clone()));
                }
                name.clone()
            }
            (None, Some(instance)) if own_index.is_some() => instance.bridge,
            (None, _) if self.may_have(DEFAULT_BRIDGE, own_index).await? => DEFAULT_BRIDGE.to_owned(),
            (None, _) => {
                let name = other_bridge(&self.config.state);
                if !self.may_have(&name, own_index).await? {
                    return Err(NetworkError::BridgeTaken(name));
                }
                name
            }
        };
        let instance = Instance { bridge, subnets };
        tracing::info!(bridge = instance.bridge, subnets = %instance.subnets, "chose the pod network of this machine");
        Ok(instance)
    }

    /// Whether the name is free, or is that of our own bridge.
    async fn may_have(&self, name: &str, own: Option<u32>) -> Result<bool, NetworkError> {
        Ok(self.links.find(name).await?.is_none_or(|link| self.is_ours(&link) || Some(link.index) == own))
    }

    async fn add_addresses(&self, instance: &Instance, bridge: u32) -> Result<(), NetworkError> {
        let gateway = instance.subnets.gateway();
        if let Some((address, subnet)) = gateway.v4.zip(instance.subnets.v4) {
            self.links.add_address(bridge, IpAddr::V4(address), subnet.prefix()).await?;
        }
        if let Some((address, subnet)) = gateway.v6.zip(instance.subnets.v6) {
            self.sysctls.set_own(&format!("net/ipv6/conf/{}/disable_ipv6", instance.bridge), "0")?;
            self.links.add_address(bridge, IpAddr::V6(address), subnet.prefix()).await?;
        }
        Ok(())
    }

    /// Addresses, loopback routing and forwarding.
    async fn switch_on(&self, instance: &Instance, bridge: u32, routes: &[Route]) -> Result<(), NetworkError> {
        let own = &instance.bridge;
        if instance.subnets.v6.is_some() {
            for name in ["accept_dad", "accept_ra"] {
                self.sysctls.set_own(&format!("net/ipv6/conf/{own}/{name}"), "0")?;
            }
        }
        self.add_addresses(instance, bridge).await?;
        if instance.subnets.v4.is_some() {
            // Host ports answer on 127.0.0.1 as well.
            self.sysctls.set_own(&format!("net/ipv4/conf/{own}/route_localnet"), "1")?;
        }
        let mut uplinks = (Vec::new(), Vec::new());
        let links: BTreeSet<(bool, u32)> = routes
            .iter()
            .filter(|route| route.main_table)
            .filter_map(|route| Some((route.network.is_ipv4(), route.link?)))
            .filter(|(_, link)| *link != bridge)
            .collect();
        for (v4, link) in links {
            if let Some(link) = self.links.find_index(link).await?.filter(|link| link.name != "lo") {
                if v4 { uplinks.0.push(link.name) } else { uplinks.1.push(link.name) }
            }
        }
        let _machine = lock::acquire(&self.config.machine_lock).await?;
        sysctl::allow_forwarding(
            &self.sysctls,
            own,
            instance.subnets.v4.map(|_| uplinks.0.as_slice()),
            instance.subnets.v6.map(|_| uplinks.1.as_slice()),
        )
    }

    /// Puts the Pods' links back on a bridge that was made anew.
    async fn reconnect(&self, bridge: u32) -> Result<(), NetworkError> {
        for sandbox in self.records.sandboxes()? {
            if let Some(link) = self.links.find(&link_name(&sandbox)).await?
                && link.controller != Some(bridge)
            {
                self.links.set_controller(link.index, bridge).await?;
                self.links.start_port(link.index).await?;
            }
        }
        Ok(())
    }

    /// The whole table with every host port on disk.
    async fn put_table(&self, instance: &Instance) -> Result<(), NetworkError> {
        let mut all = Vec::new();
        for owner in self.ports.owners()?.into_iter().collect::<BTreeSet<_>>() {
            match self.records.load(&owner) {
                Ok(Some(record)) => all.extend(translations_of(&record)),
                // Claimed and not yet attached, or damaged: nothing to translate to.
                Ok(None) | Err(NetworkError::Damaged { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let table = table(instance);
        self.nat.replace(&table, &all).await.map_err(nat_failed)?;
        self.nat.pass_firewalls(&table).await.map_err(nat_failed)
    }

    /// As configured, otherwise that of the preferred default route's interface.
    async fn mtu(&self, routes: &[Route], bridge: u32) -> Result<u32, NetworkError> {
        if let Some(mtu) = self.config.mtu {
            return Ok(mtu);
        }
        let default = routes
            .iter()
            .filter(|route| route.main_table && route.prefix == 0 && route.link != Some(bridge))
            .min_by_key(|route| (route.network.is_ipv6(), route.metric));
        match default.and_then(|route| route.link) {
            Some(link) => Ok(self.links.find_index(link).await?.map_or(DEFAULT_MTU, |link| link.mtu)),
            None => Ok(DEFAULT_MTU),
        }
    }
}

/// Whether this is the instance's bridge from a crash before its mark was set. The kernel takes no alias when it makes a
/// link, but it takes the hardware address, which follows from the subnet.
fn is_unmarked(link: &Link, instance: &Instance) -> bool {
    let primary = instance.subnets.gateway().list().first().copied();
    link.bridge && link.alias.is_none() && primary.is_some_and(|p| link.address == hardware_address(p))
}

fn translations_of(record: &Record) -> Vec<Translation> {
    match &record.network {
        Attached::Bridge(addresses) => translations(&record.ports, *addresses),
        Attached::Cni(_) => Vec::new(),
    }
}

fn nat_failed(source: NatError) -> NetworkError {
    NetworkError::Nat { source }
}

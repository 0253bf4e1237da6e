//! Links, addresses and routes over rtnetlink: a thin wrapper that decides nothing.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage,
};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType};
use rtnetlink::{Handle, LinkBridge, LinkBridgePort, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use super::error::NetworkError;

/// A connection to the kernel's routing part in one network namespace.
#[derive(Debug, Clone)]
pub(super) struct Links {
    handle: Handle,
}

/// What is needed to know of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) alias: Option<String>,
    /// Its hardware address.
    pub(super) address: Vec<u8>,
    pub(super) mtu: u32,
    pub(super) up: bool,
    pub(super) bridge: bool,
    pub(super) controller: Option<u32>,
}

/// A unicast route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    /// Destination; unspecified for the default route.
    pub(super) network: IpAddr,
    pub(super) prefix: u8,
    pub(super) link: Option<u32>,
    /// Smaller is preferred.
    pub(super) metric: u32,
    pub(super) main_table: bool,
}

/// A veth pair to make: one end here on a bridge, the other in a Pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct VethPair<'a> {
    pub(super) name: &'a str,
    pub(super) bridge: u32,
    pub(super) mtu: u32,
    pub(super) peer_name: &'a str,
    pub(super) peer_address: [u8; 6],
    pub(super) peer_netns: RawFd,
}

impl Links {
    /// Opens a socket in the calling thread's namespace. The future moves the messages and must be polled; both
    /// belong to the tokio runtime in whose context this is called.
    pub(super) fn connect() -> io::Result<(impl Future<Output = ()> + Send, Self)> {
        let (connection, handle, _unsolicited) = rtnetlink::new_connection()?;
        Ok((connection, Self { handle }))
    }

    /// A link by name; `None` where there is none.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Link>, NetworkError> {
        absent(self.handle.link().get().match_name(name).execute().try_next().await, || {
            format!("looking for link {name}")
        })
    }

    /// A link by number; `None` where there is none.
    pub(super) async fn find_index(&self, index: u32) -> Result<Option<Link>, NetworkError> {
        absent(self.handle.link().get().match_index(index).execute().try_next().await, || {
            format!("looking for link number {index}")
        })
    }

    /// The links of a bridge.
    pub(super) async fn ports_of(&self, bridge: u32) -> Result<Vec<Link>, NetworkError> {
        let mut request = self.handle.link().get();
        request.message_mut().attributes.push(LinkAttribute::Controller(bridge));
        let links: Vec<LinkMessage> =
            request.execute().try_collect().await.map_err(failed(|| "listing links".to_owned()))?;
        // Older kernels ignore the filter.
        Ok(links.iter().map(Link::from).filter(|link| link.controller == Some(bridge)).collect())
    }

    /// Every bridge.
    pub(super) async fn bridges(&self) -> Result<Vec<Link>, NetworkError> {
        let mut request = self.handle.link().get();
        let kind = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]);
        request.message_mut().attributes.push(kind);
        let links: Vec<LinkMessage> =
            request.execute().try_collect().await.map_err(failed(|| "listing bridges".to_owned()))?;
        Ok(links.iter().map(Link::from).filter(|link| link.bridge).collect())
    }

    /// Makes a bridge, down and without addresses.
    pub(super) async fn add_bridge(&self, name: &str, address: [u8; 6]) -> Result<(), NetworkError> {
        let message = LinkMessageBuilder::<LinkBridge>::new(name).address(address.to_vec()).build();
        self.handle.link().add(message).execute().await.map_err(failed(|| format!("making bridge {name}")))
    }

    /// Sets what a bridge of ours has, and brings it up.
    pub(super) async fn set_bridge(&self, index: u32, alias: &str, mtu: u32) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_index(index).alias(alias).mtu(mtu).up().build();
        self.handle.link().set(message).execute().await.map_err(failed(|| "setting up the bridge".to_owned()))
    }

    /// Makes a veth pair, both ends down.
    pub(super) async fn add_veth(&self, pair: VethPair<'_>) -> Result<(), NetworkError> {
        // Neither end can be up before the pair is whole.
        let peer = LinkMessageBuilder::<LinkUnspec>::new()
            .name(pair.peer_name)
            .address(pair.peer_address.to_vec())
            .mtu(pair.mtu)
            .setns_by_fd(pair.peer_netns)
            .build();
        let message = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
            .name(pair.name)
            .mtu(pair.mtu)
            .controller(pair.bridge)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .build();
        let action = || format!("making the veth pair {}", pair.name);
        self.handle.link().add(message).execute().await.map_err(failed(action))
    }

    /// Brings a port of a bridge up. It has no address, not even a link-local one; and the bridge may send a frame back
    /// through it, so that a Pod can talk to itself through its host port where bridged frames pass the packet filter.
    pub(super) async fn start_port(&self, index: u32) -> Result<(), NetworkError> {
        let no_addresses = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
        let port = LinkBridgePort::new(index).hairpin(true).up();
        let without = port.append_extra_attribute(LinkAttribute::AfSpecUnspec(vec![no_addresses])).build();
        match self.handle.link().set_port(without).execute().await {
            // A kernel without IPv6 knows no such addresses.
            Err(error) if io_error(&error).raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                let port = LinkBridgePort::new(index).hairpin(true).up().build();
                self.handle
                    .link()
                    .set_port(port)
                    .execute()
                    .await
                    .map_err(failed(|| "starting a bridge port".to_owned()))
            }
            done => done.map_err(failed(|| "starting a bridge port".to_owned())),
        }
    }

    /// Puts a link on a bridge.
    pub(super) async fn set_controller(&self, index: u32, bridge: u32) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_index(index).controller(bridge).up().build();
        self.handle.link().set(message).execute().await.map_err(failed(|| "putting a link on the bridge".to_owned()))
    }

    /// Brings a link up.
    pub(super) async fn set_up(&self, name: &str) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_name(name).up().build();
        self.handle.link().set(message).execute().await.map_err(failed(|| format!("bringing {name} up")))
    }

    /// Gives a link an address, usable at once. Having it already is fine.
    pub(super) async fn add_address(&self, index: u32, address: IpAddr, prefix: u8) -> Result<(), NetworkError> {
        let mut request = self.handle.address().add(index, address, prefix).replace();
        if address.is_ipv6() {
            request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        request.execute().await.map_err(failed(|| format!("adding address {address}/{prefix}")))
    }

    /// Makes a gateway the default route.
    pub(super) async fn add_default_route(&self, gateway: IpAddr) -> Result<(), NetworkError> {
        let route = match gateway {
            IpAddr::V4(gateway) => RouteMessageBuilder::<Ipv4Addr>::new().gateway(gateway).build(),
            IpAddr::V6(gateway) => RouteMessageBuilder::<Ipv6Addr>::new().gateway(gateway).build(),
        };
        let action = || format!("adding the default route through {gateway}");
        self.handle.route().add(route).replace().execute().await.map_err(failed(action))
    }

    /// The unicast routes of both families, of every table.
    pub(super) async fn routes(&self) -> Result<Vec<Route>, NetworkError> {
        let mut routes = Vec::new();
        for query in [RouteMessageBuilder::<Ipv4Addr>::new().build(), RouteMessageBuilder::<Ipv6Addr>::new().build()] {
            let found: Result<Vec<RouteMessage>, _> = self.handle.route().get(query).execute().try_collect().await;
            match found {
                Ok(found) => routes.extend(found.iter().filter_map(Route::of)),
                // A kernel without IPv6 has no such routes.
                Err(error) if io_error(&error).kind() == io::ErrorKind::Unsupported => {}
                Err(error) => return Err(failed(|| "listing routes".to_owned())(error)),
            }
        }
        Ok(routes)
    }

    /// Removes a link. Blocks the calling thread for a grace period of the kernel (10 to 25 ms).
    pub(super) async fn delete(&self, name: &str) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_name(name).build();
        let deleted = self.handle.link().del_with_message(message).execute().await;
        gone(deleted, || format!("removing link {name}"))
    }

    /// Puts a link into a group.
    pub(super) async fn set_group(&self, name: &str, group: u32) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_name(name).link_group(group).build();
        gone(self.handle.link().set(message).execute().await, || format!("grouping link {name}"))
    }

    /// Removes all links of a group, for little more than the price of one.
    pub(super) async fn delete_group(&self, group: u32) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_index(0).link_group(group).build();
        gone(self.handle.link().del_with_message(message).execute().await, || "removing links".to_owned())
    }
}

impl From<&LinkMessage> for Link {
    fn from(message: &LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            alias: None,
            mtu: 0,
            up: message.header.flags.contains(LinkFlags::Up),
            bridge: false,
            address: Vec::new(),
            controller: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::IfAlias(alias) => link.alias = Some(alias.clone()),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Address(address) => link.address.clone_from(address),
                LinkAttribute::Controller(index) => link.controller = Some(*index),
                LinkAttribute::LinkInfo(infos) => {
                    link.bridge = infos.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Bridge)));
                }
                _ => {}
            }
        }
        link
    }
}

impl Route {
    /// `None` for what is no unicast route: local, broadcast, multicast.
    fn of(message: &RouteMessage) -> Option<Self> {
        if message.header.kind != RouteType::Unicast {
            return None;
        }
        let unspecified = match message.header.address_family {
            AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        let mut route = Self {
            network: unspecified,
            prefix: message.header.destination_prefix_length,
            link: None,
            metric: 0,
            main_table: message.header.table == RouteHeader::RT_TABLE_MAIN,
        };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(address)) => route.network = IpAddr::V4(*address),
                RouteAttribute::Destination(RouteAddress::Inet6(address)) => route.network = IpAddr::V6(*address),
                RouteAttribute::Oif(link) => route.link = Some(*link),
                RouteAttribute::Priority(metric) => route.metric = *metric,
                _ => {}
            }
        }
        Some(route)
    }
}

fn io_error(error: &rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other.to_string()),
    }
}

fn failed(action: impl FnOnce() -> String) -> impl FnOnce(rtnetlink::Error) -> NetworkError {
    |error| NetworkError::Netlink { action: action(), source: io_error(&error) }
}

fn is_absent(error: &rtnetlink::Error) -> bool {
    matches!(io_error(error).raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::ENOENT))
}

fn absent(
    found: Result<Option<LinkMessage>, rtnetlink::Error>,
    action: impl FnOnce() -> String,
) -> Result<Option<Link>, NetworkError> {
    match found {
        Ok(message) => Ok(message.as_ref().map(Link::from)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed(action)(error)),
    }
}

fn gone(done: Result<(), rtnetlink::Error>, action: impl FnOnce() -> String) -> Result<(), NetworkError> {
    match done {
        Err(error) if !is_absent(&error) => Err(failed(action)(error)),
        _ => Ok(()),
    }
}

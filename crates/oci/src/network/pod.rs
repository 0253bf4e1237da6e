//! The Pod's side: its loopback, its interface, its routes.

use std::net::IpAddr;

use super::error::NetworkError;
use super::ipam::{Addresses, Subnets};
use super::links::Links;
use super::netns::Netns;
use super::sysctl;

/// The interface of every Pod.
pub(super) const INTERFACE: &str = "eth0";
const LOOPBACK: &str = "lo";

/// Prepares a Pod's namespace and opens a connection into it. The connection's messages are moved by a task of the
/// network thread until the returned handle is dropped.
pub(super) async fn enter(netns: &Netns) -> Result<Links, NetworkError> {
    let runtime = tokio::runtime::Handle::current();
    let (connection, links) = netns
        .run(move || {
            sysctl::prepare_pod()?;
            let _context = runtime.enter();
            Links::connect()
        })
        .await?;
    tokio::spawn(connection);
    Ok(links)
}

/// Brings loopback up, which every Pod has.
pub(super) async fn start_loopback(links: &Links) -> Result<(), NetworkError> {
    links.set_up(LOOPBACK).await
}

/// Gives the Pod's interface its addresses, brings it up, and makes it the way out.
pub(super) async fn configure(links: &Links, subnets: Subnets, addresses: Addresses) -> Result<(), NetworkError> {
    let Some(interface) = links.find(INTERFACE).await? else {
        let source = std::io::Error::from_raw_os_error(libc::ENODEV);
        return Err(NetworkError::Netlink { action: format!("looking for {INTERFACE} of the pod"), source });
    };
    let gateway = subnets.gateway();
    let v4 = addresses.v4.zip(subnets.v4).zip(gateway.v4).map(|((a, s), g)| (IpAddr::V4(a), s.prefix(), IpAddr::V4(g)));
    let v6 = addresses.v6.zip(subnets.v6).zip(gateway.v6).map(|((a, s), g)| (IpAddr::V6(a), s.prefix(), IpAddr::V6(g)));
    let families = || v4.into_iter().chain(v6);
    for (address, prefix, _) in families() {
        links.add_address(interface.index, address, prefix).await?;
    }
    links.set_up(INTERFACE).await?;
    for (.., gateway) in families() {
        links.add_default_route(gateway).await?;
    }
    Ok(())
}

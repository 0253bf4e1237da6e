//! The machine's own name and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The addresses that the machine talks to the world with, IPv4 first; the loopback where there is no way out.
///
/// Asks the kernel for a route by connecting datagram sockets, which sends nothing.
#[must_use]
pub fn host_addresses() -> Vec<IpAddr> {
    // Addresses set aside for documentation: routed like any other, and nobody's.
    let outside = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
    let local = |target: IpAddr| {
        let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
        socket.connect(SocketAddr::new(target, 9)).ok()?;
        socket.local_addr().ok().map(|a| a.ip()).filter(|ip| !ip.is_unspecified())
    };
    let found: Vec<IpAddr> = outside.into_iter().filter_map(local).collect();
    if found.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { found }
}

/// What the machine is called, in lower case, as the names of nodes are.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_an_address() {
        assert!(!host_addresses().is_empty());
        assert!(host_addresses().iter().all(|ip| !ip.is_unspecified()));
    }
}

//! Which ports of the host are taken by programs that are not ours. I/O; decides nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use minke_core::runtime::Protocol;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::HostPort;

/// Those of these ports that can't be bound, because something else has them. A port that can't be probed (SCTP
/// without its module, an address that the machine lacks) counts as free: the runtime will say more.
#[must_use]
pub fn taken_ports(wanted: &[HostPort]) -> Vec<HostPort> {
    wanted.iter().filter(|port| is_taken(port)).copied().collect()
}

fn is_taken(port: &HostPort) -> bool {
    let addresses = match port.ip {
        Some(ip) => vec![ip],
        None => vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
    };
    addresses.into_iter().any(|ip| bind(port, ip) == Err(Errno::ADDRINUSE))
}

fn bind(port: &HostPort, ip: IpAddr) -> Result<(), Errno> {
    let kind = match port.protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
        Protocol::Sctp => return Ok(()),
    };
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if port.protocol == Protocol::Tcp {
        // Connections that linger after their server ended don't hold the port against a new one.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if ip.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(ip, port.port))?;
    // With address reuse, only listening shows that another one listens.
    if port.protocol == Protocol::Tcp { rustix::net::listen(&socket, 1) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn port(protocol: Protocol, port: u16) -> HostPort {
        HostPort { protocol, port, ip: None }
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        assert_eq!(taken_ports(&[port(Protocol::Tcp, number)]), [port(Protocol::Tcp, number)]);
        drop(listener);
        assert_eq!(taken_ports(&[port(Protocol::Tcp, number)]), []);
    }

    #[test]
    fn protocols_have_ports_of_their_own() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let number = socket.local_addr().unwrap().port();
        assert_eq!(taken_ports(&[port(Protocol::Udp, number)]).len(), 1);
    }

    #[test]
    fn another_address_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let other = HostPort { ip: Some("127.0.0.2".parse().unwrap()), ..port(Protocol::Tcp, number) };
        assert_eq!(taken_ports(&[other]), []);
        let same = HostPort { ip: Some("127.0.0.1".parse().unwrap()), ..other };
        assert_eq!(taken_ports(&[same]), [same]);
    }
}

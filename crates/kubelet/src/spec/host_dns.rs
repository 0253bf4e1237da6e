//! Reads the machine's resolver configuration. I/O; decides only which file to believe.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use minke_core::runtime::DnsConfig;

use super::parse_resolv_conf;

/// Where the real name servers stand when `/etc/resolv.conf` names a local forwarder.
const BEHIND_FORWARDERS: [&str; 2] = ["/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf"];

/// The machine's name servers as a Pod with a network of its own can reach them: where `/etc/resolv.conf` only names
/// a forwarder on the loopback, what the forwarder itself asks.
///
/// # Errors
/// `/etc/resolv.conf` exists and can't be read. A machine without one has no name servers.
pub fn read_host_dns() -> io::Result<DnsConfig> {
    let config = read(Path::new("/etc/resolv.conf"))?;
    let loopback = |server: &String| server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if config.servers.is_empty() || !config.servers.iter().all(loopback) {
        return Ok(config);
    }
    let behind = BEHIND_FORWARDERS.iter().filter_map(|path| read(Path::new(path)).ok());
    Ok(behind.into_iter().find(|c| c.servers.iter().any(|s| !loopback(s))).unwrap_or(config))
}

fn read(path: &Path) -> io::Result<DnsConfig> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(parse_resolv_conf(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DnsConfig::default()),
        Err(error) => Err(error),
    }
}

//! Where to ask, and what the network says in upstream's words.

use std::fmt;
use std::io;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    /// With brackets around an IPv6 address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The address of an action: its own host, else the Pod's first address; its port by number or name.
///
/// # Errors
/// There is no such port, or the Pod has no address; in words.
pub(crate) fn of(
    host: Option<&str>,
    port: &IntOrString,
    container: &Container,
    ips: &[IpAddr],
) -> Result<Address, String> {
    let port = self::port(port, container)?;
    let own = host.filter(|h| !h.is_empty()).map(str::to_owned);
    let host = own.or_else(|| ips.first().map(ToString::to_string)).ok_or("the pod has no address")?;
    Ok(Address { host, port })
}

/// A port by its number, or by its name among the container's ports; a name may also be a number.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|p| p.name.as_deref() == Some(name.as_str()));
            match named.map(|p| p.container_port).or_else(|| name.parse().ok()) {
                Some(number) => number,
                None => return Err(format!("couldn't find port: {name:?} in container {}", container.name)),
            }
        }
    };
    let valid = u16::try_from(number).ok().filter(|n| *n > 0);
    valid.ok_or_else(|| format!("invalid port number: {number}"))
}

/// Connects; in words where that fails.
pub(super) async fn connect(address: &Address) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
    let stream = stream.map_err(|error| {
        let connect = if error.raw_os_error().is_some() { "connect: " } else { "" };
        format!("dial tcp {address}: {connect}{}", words(&error))
    })?;
    // A request is one small write: it is not to wait for another.
    drop(stream.set_nodelay(true));
    Ok(stream)
}

/// The text of an error of the system without its number, in lower case as upstream has it.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resolve_container_port() {
        let container: Container = serde_json::from_value(json!({
            "name": "c", "ports": [{"name": "web", "containerPort": 8080}, {"containerPort": 9}],
        }))
        .unwrap();
        let text = |s: &str| IntOrString::String(s.to_owned());
        for (given, expected) in [
            (IntOrString::Int(23), Ok(23)),
            (text("web"), Ok(8080)),
            (text("17"), Ok(17)),
            (text("foo"), Err("couldn't find port: \"foo\" in container c".to_owned())),
            (IntOrString::Int(0), Err("invalid port number: 0".to_owned())),
            (IntOrString::Int(65536), Err("invalid port number: 65536".to_owned())),
            (text("-5"), Err("invalid port number: -5".to_owned())),
        ] {
            assert_eq!(port(&given, &container), expected, "{given:?}");
        }
    }

    #[test]
    fn the_pods_address_unless_a_host_is_named() {
        let (port, container) = (IntOrString::Int(80), Container::default());
        let ips = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let text = |host, ips: &[IpAddr]| of(host, &port, &container, ips).map(|a| a.to_string());
        assert_eq!(text(None, &ips), Ok("10.0.0.1:80".to_owned()));
        assert_eq!(text(Some(""), &ips[1..]), Ok("[fd00::1]:80".to_owned()));
        assert_eq!(text(Some("example.com"), &[]), Ok("example.com:80".to_owned()));
        assert!(text(None, &[]).is_err());
    }

    #[test]
    fn errors_of_the_system_in_upstreams_words() {
        assert_eq!(words(&io::Error::from_raw_os_error(111)), "connection refused");
        assert_eq!(words(&io::Error::from_raw_os_error(113)), "no route to host");
        assert_eq!(words(&io::Error::other("Odd")), "odd");
    }
}

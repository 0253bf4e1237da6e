//! What a chain answers: addresses and gateway. Pure.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::super::request::Attachment;
use super::invoke::CniError;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    interfaces: Vec<Interface>,
    #[serde(default)]
    ips: Vec<Address>,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default)]
    sandbox: String,
}

#[derive(Deserialize)]
struct Address {
    address: String,
    gateway: Option<IpAddr>,
    interface: Option<usize>,
}

/// The Pod's addresses in the order of the answer: those of an interface inside, or of no interface in particular.
pub(super) fn attachment(plugin: &str, result: &Value) -> Result<Attachment, CniError> {
    let answer =
        Answer::deserialize(result).map_err(|source| CniError::BadResult { plugin: plugin.to_owned(), source })?;
    let inside = |address: &&Address| match address.interface.map(|index| answer.interfaces.get(index)) {
        None => true,
        Some(interface) => interface.is_some_and(|interface| !interface.sandbox.is_empty()),
    };
    let mut ips = Vec::new();
    let mut gateway = None;
    for address in answer.ips.iter().filter(inside) {
        let text = address.address.split('/').next().unwrap_or_default();
        let ip: IpAddr = text.parse().map_err(|_| CniError::BadResult {
            plugin: plugin.to_owned(),
            source: serde::de::Error::custom(format!("{:?} is not an address", address.address)),
        })?;
        if ips.is_empty() {
            gateway = address.gateway;
        }
        ips.push(ip);
    }
    if ips.is_empty() {
        return Err(CniError::NoAddress);
    }
    Ok(Attachment { ips, gateway })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_the_machines_side_do_not_count() {
        let result = json!({
            "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/proc/7/ns/net"}],
            "ips": [
                {"address": "10.0.0.1/24", "interface": 0},
                {"address": "10.0.0.7/24", "gateway": "10.0.0.1", "interface": 1},
                {"address": "fd00::7/64", "gateway": "fd00::1", "interface": 1},
            ],
        });
        let attachment = attachment("bridge", &result).unwrap();
        assert_eq!(attachment.ips, ["10.0.0.7".parse::<IpAddr>().unwrap(), "fd00::7".parse::<IpAddr>().unwrap()]);
        assert_eq!(attachment.gateway, Some("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn an_older_result_names_no_interface() {
        let result = json!({"ips": [{"version": "4", "address": "10.0.0.7/24"}]});
        assert_eq!(attachment("x", &result).unwrap().ips.len(), 1);
    }

    #[test]
    fn no_address_and_no_sense_are_errors() {
        assert!(matches!(attachment("x", &json!({})), Err(CniError::NoAddress)));
        assert!(matches!(attachment("x", &json!({"ips": 7})), Err(CniError::BadResult { .. })));
        let bad = json!({"ips": [{"address": "here"}]});
        assert!(matches!(attachment("x", &bad), Err(CniError::BadResult { .. })));
        let dangling = json!({"ips": [{"address": "10.0.0.7/24", "interface": 9}]});
        assert!(matches!(attachment("x", &dangling), Err(CniError::NoAddress)));
    }
}

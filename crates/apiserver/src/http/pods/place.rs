//! Where a node listens, as its object says. Pure.

use serde_json::Value;

use crate::error::ApiError;

/// Where a node's kubelet listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// An address, or a name; its certificate must be for it.
    pub(super) host: String,
    pub(super) port: u16,
}

const PORT: u16 = 10250;
/// Addresses before names: nothing here needs to be resolved then.
const PREFERRED: [&str; 5] = ["InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname"];

/// Where it listens.
///
/// # Errors
/// 500 for a node that has no address.
pub(super) fn place(node: &Value) -> Result<Place, ApiError> {
    let addresses = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &str| {
        let mut found = addresses.iter().filter(|address| address["type"] == kind);
        found.find_map(|address| address["address"].as_str().filter(|text| !text.is_empty()))
    };
    let host = PREFERRED.into_iter().find_map(of).ok_or_else(|| {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        ApiError::internal(format!("no preferred addresses found for node {name:?}; known addresses: []"))
    })?;
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(PORT);
    Ok(Place { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_better_than_a_name() {
        let address = |kind: &str, text: &str| json!({"type": kind, "address": text});
        let node = |addresses: &[Value], port: Value| {
            json!({
                "metadata": {"name": "n"},
                "status": {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}},
            })
        };
        let both = [address("Hostname", "n"), address("InternalIP", ""), address("InternalIP", "192.0.2.7")];
        assert_eq!(place(&node(&both, json!(1234))).unwrap(), Place { host: "192.0.2.7".to_owned(), port: 1234 });
        let name = [address("Hostname", "n")];
        for port in [json!(null), json!(0), json!(70000), json!("x")] {
            assert_eq!(place(&node(&name, port)).unwrap(), Place { host: "n".to_owned(), port: PORT });
        }
        assert_eq!(place(&node(&[address("Other", "x")], json!(1))).unwrap_err().code(), 500);
        assert_eq!(place(&json!({})).unwrap_err().code(), 500);
    }
}

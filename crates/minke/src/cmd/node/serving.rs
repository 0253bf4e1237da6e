//! How the node's own API is served, as flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use minke_core::runtime::error_chain;
use minke_kubelet::host::host_addresses;
use minke_node::http::ServingCertificate;

use crate::exit::Failure;
use crate::node::ServingSettings;

/// Flags of the node's own API: logs, commands, ports and numbers of its Pods for the cluster.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServingArgs {
    /// Where the node's own API listens, with a certificate of --tls-cert-file or --self-signed [default: 0.0.0.0:10250]
    #[arg(long, value_name = "ADDR", env = "MINKE_NODE_LISTEN", help_heading = "Node API")]
    listen: Option<SocketAddr>,
    /// Its certificate, with those that lead to its authority
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = "Node API")]
    tls_cert_file: Option<PathBuf>,
    /// The certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = "Node API")]
    tls_private_key_file: Option<PathBuf>,
    /// Use a certificate that nobody vouches for; who verifies will refuse it
    #[arg(long, conflicts_with = "tls_cert_file", help_heading = "Node API")]
    self_signed: bool,
    /// The authority of clients' certificates; without it only tokens say who asks
    #[arg(long, value_name = "FILE", help_heading = "Node API")]
    client_ca_file: Option<PathBuf>,
}

/// The kubelet's.
const PORT: u16 = 10250;

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("can't read {}: {}", path.display(), error_chain(&error))))
}

impl ServingArgs {
    /// How it is served; `None`: it is not.
    pub(super) fn settings(&self, node: &str, addresses: &[IpAddr]) -> Result<Option<ServingSettings>, Failure> {
        let certificate = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(chain), Some(key)) => ServingCertificate { chain: read(chain)?, key: read(key)? },
            _ if self.self_signed => {
                let mut addresses = addresses.to_vec();
                if addresses.is_empty() {
                    addresses = host_addresses();
                }
                addresses.push(Ipv4Addr::LOCALHOST.into());
                ServingCertificate::self_signed(&[node], &addresses).map_err(|error| Failure::from_error(&error))?
            }
            _ if self.listen.is_some() || self.client_ca_file.is_some() => {
                return Err(Failure::usage("the node's own API needs a certificate").hint(
                    "name it with --tls-cert-file and --tls-private-key-file, or ask for one with --self-signed",
                ));
            }
            _ => return Ok(None),
        };
        let listen = self.listen.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, PORT).into());
        let clients = self.client_ca_file.as_deref().map(read).transpose()?;
        Ok(Some(ServingSettings { listen, certificate, clients }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_listens_without_a_certificate() {
        let none = ServingArgs::default();
        assert!(none.settings("n", &[]).unwrap().is_none());
        let listen = ServingArgs { listen: Some((Ipv4Addr::LOCALHOST, 0).into()), ..ServingArgs::default() };
        assert!(listen.settings("n", &[]).is_err());
        let asked = ServingArgs { self_signed: true, ..ServingArgs::default() };
        let settings = asked.settings("n", &[]).unwrap().unwrap();
        assert_eq!((settings.listen.port(), settings.clients), (PORT, None));
        let missing = ServingArgs { client_ca_file: Some("/nowhere".into()), ..asked };
        assert!(missing.settings("n", &[]).is_err());
    }
}

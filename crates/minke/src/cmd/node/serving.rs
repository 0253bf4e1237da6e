//! How the node's own API is served, as flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use minke_core::runtime::error_chain;
use minke_kubelet::host::{host_addresses, host_name};
use minke_node::certificates::Store;
use minke_node::http::ServingCertificate;

use serde_json::Value;

use crate::exit::Failure;
use crate::node::{CertificateSource, ServingSettings};

/// Flags of the node's own API: logs, commands, ports and numbers of its Pods for the cluster.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServingArgs {
    /// Where the node's own API listens, with a certificate of --tls-cert-file, --server-tls-bootstrap or --self-signed [default: 0.0.0.0:10250]
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
    /// Ask the cluster for a certificate, and for the next one before it ends; somebody approves: kubectl certificate approve
    #[arg(long, conflicts_with_all = ["tls_cert_file", "self_signed"], help_heading = "Node API")]
    server_tls_bootstrap: bool,
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
    /// `bootstrap`: the configuration file wants the cluster to sign its certificate; `kept`: where certificates are.
    pub(super) fn settings(
        &self,
        node: &str,
        addresses: &[IpAddr],
        bootstrap: bool,
        kept: &Path,
    ) -> Result<Option<ServingSettings>, Failure> {
        let own = || if addresses.is_empty() { host_addresses() } else { addresses.to_vec() };
        let certificate = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(chain), Some(key)) => {
                CertificateSource::Given(ServingCertificate { chain: read(chain)?, key: read(key)? })
            }
            _ if self.self_signed => {
                let mut addresses = own();
                addresses.push(Ipv4Addr::LOCALHOST.into());
                let made = ServingCertificate::self_signed(&[node, &host_name()], &addresses);
                CertificateSource::Given(made.map_err(|error| Failure::from_error(&error))?)
            }
            _ if self.server_tls_bootstrap || bootstrap => CertificateSource::Cluster {
                store: Store::new(kept, "node-serving.pem"),
                // What the Node object says, and no more: whoever approves compares, and whoever asks goes there.
                names: vec![host_name()],
                addresses: own(),
            },
            _ if self.listen.is_some() || self.client_ca_file.is_some() => {
                return Err(Failure::usage("the node's own API needs a certificate").hint(
                    "name it with --tls-cert-file and --tls-private-key-file, or ask for one with --server-tls-bootstrap or \
                     --self-signed",
                ));
            }
            _ => return Ok(None),
        };
        let listen = self.listen.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, PORT).into());
        let clients = self.client_ca_file.as_deref().map(read).transpose()?;
        Ok(Some(ServingSettings { listen, certificate, clients, config: Value::Null }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_listens_without_a_certificate() {
        let settings = |args: &ServingArgs, file| args.settings("n", &[], file, Path::new("/nowhere"));
        let none = ServingArgs::default();
        assert!(settings(&none, false).unwrap().is_none());
        let listen = ServingArgs { listen: Some((Ipv4Addr::LOCALHOST, 0).into()), ..ServingArgs::default() };
        assert!(settings(&listen, false).is_err());
        let of_file = settings(&listen, true).unwrap().unwrap();
        assert!(matches!(of_file.certificate, CertificateSource::Cluster { .. }));
        let asked = ServingArgs { self_signed: true, ..ServingArgs::default() };
        let made = settings(&asked, true).unwrap().unwrap();
        assert_eq!((made.listen.port(), made.clients), (PORT, None));
        assert!(matches!(made.certificate, CertificateSource::Given(_)), "a flag counts more than the file");
        let missing = ServingArgs { client_ca_file: Some("/nowhere".into()), ..asked };
        assert!(settings(&missing, false).is_err());
    }
}

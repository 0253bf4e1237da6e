//! TLS of the node's API: its own certificate, and the authority of clients' ones.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WantsServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, RootCertStore, ServerConfig};

/// Why TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// What is not there or not readable.
    #[error("{what} is no PEM of its kind")]
    Pem {
        /// The certificate, its key, or the clients' authority.
        what: &'static str,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// It has no certificate.
    #[error("{0} has no certificate")]
    Empty(&'static str),
    /// A certificate can't be made.
    #[error("can't make a certificate for {name}")]
    Made {
        /// For which name or address.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// Certificate and key don't belong together, or are of a kind that is not used.
    #[error("TLS refuses the certificate")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A certificate with those that lead to its authority, and its key, as PEM. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct ServingCertificate {
    /// The certificate first.
    pub chain: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServingCertificate")
    }
}

impl ServingCertificate {
    /// A certificate that only itself vouches for: clients that verify will refuse it. For those who ask for it, and for tests.
    ///
    /// # Errors
    /// A name that is none.
    pub fn self_signed(names: &[&str], addresses: &[IpAddr]) -> Result<Self, TlsError> {
        let first = names.first().copied().unwrap_or("node");
        let made = |name: &str| {
            let name = name.to_owned();
            move |source| TlsError::Made { name, source }
        };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, first);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into().map_err(made(name))?));
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        let key = KeyPair::generate().map_err(made(first))?;
        let certificate = params.self_signed(&key).map_err(made(first))?;
        Ok(Self { chain: certificate.pem(), key: key.serialize_pem() })
    }
}

pub(crate) fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all.map_err(|source| TlsError::Pem { what, source })?;
    if all.is_empty() { Err(TlsError::Empty(what)) } else { Ok(all) }
}

fn refused(error: rustls::Error) -> TlsError {
    TlsError::Refused(error.into())
}

/// All but the server's own certificate.
fn builder(clients: Option<&str>) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?;
    Ok(match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("the authority of clients", clients)? {
                roots.add(certificate).map_err(refused)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            // Whoever has a token has no certificate; one that is there must be good.
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|error| TlsError::Refused(error.into()))?)
        }
    })
}

/// Upgrades need HTTP/1.1, so that nothing else is offered.
fn http1(mut config: ServerConfig) -> ServerConfig {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// What the server listens with. `clients`: the authority of clients' certificates; without it only tokens say who asks.
///
/// # Errors
/// What is given is no PEM, or does not belong together.
pub fn server_config(own: &ServingCertificate, clients: Option<&str>) -> Result<ServerConfig, TlsError> {
    let chain = certificates("the serving certificate", &own.chain)?;
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())
        .map_err(|source| TlsError::Pem { what: "the serving certificate's key", source })?;
    Ok(http1(builder(clients)?.with_single_cert(chain, key).map_err(refused)?))
}

/// The same while there is no certificate yet: every handshake fails.
///
/// # Errors
/// The authority is no PEM.
pub fn server_config_without_certificate(clients: Option<&str>) -> Result<ServerConfig, TlsError> {
    Ok(http1(builder(clients)?.with_cert_resolver(Arc::new(NoneYet))))
}

#[derive(Debug)]
struct NoneYet;

impl ResolvesServerCert for NoneYet {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        tracing::debug!("a client came before the node has a serving certificate");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let own = ServingCertificate::self_signed(&["n"], &[IpAddr::from([127, 0, 0, 1])]).unwrap();
        assert!(server_config(&own, None).is_ok() && server_config_without_certificate(Some(&own.chain)).is_ok());
        assert!(server_config(&own, Some(&own.chain)).is_ok());
        let other = ServingCertificate::self_signed(&["n"], &[]).unwrap();
        let mixed = ServingCertificate { chain: own.chain.clone(), key: other.key };
        assert!(matches!(server_config(&mixed, None), Err(TlsError::Refused(_))));
        let no_key = ServingCertificate { chain: own.chain.clone(), key: String::new() };
        assert!(matches!(server_config(&no_key, None), Err(TlsError::Pem { .. })));
        let empty = ServingCertificate { chain: String::new(), key: own.key.clone() };
        assert!(matches!(server_config(&empty, None), Err(TlsError::Empty(_))));
        assert!(matches!(server_config(&own, Some("nothing")), Err(TlsError::Empty(_))));
        assert!(matches!(ServingCertificate::self_signed(&["ü"], &[]), Err(TlsError::Made { .. })));
        assert!(!format!("{own:?}").contains("KEY"));
    }
}

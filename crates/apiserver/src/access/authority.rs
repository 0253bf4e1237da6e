//! The server's own certificate authority: made at the first start, kept in the data directory, never leaves it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::CertificateRequest;
use super::private;

const NAME: &str = "minke-api";
/// Leaves are made at every start; this is for servers that run long.
const LEAF_DAYS: i64 = 365;
const AUTHORITY_DAYS: i64 = 3650;
const BACKDATED_SECONDS: i64 = 300;

/// Why access can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file of the authority can't be read or written.
    #[error("can't use {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A certificate can't be made, or a kept key is none.
    #[error("can't make certificates; if {path} is damaged, remove it and the certificate beside it")]
    Certificate {
        /// The authority's key.
        path: PathBuf,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// A kept key is of a kind that signs no tokens.
    #[error("{path} has no key that tokens can be signed with; remove it, and one is made")]
    SigningKey {
        /// The key.
        path: PathBuf,
    },
    /// TLS refuses what was made.
    #[error("can't set up TLS")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A certificate with its key, as PEM. `Debug` shows neither.
pub struct Identified {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Identified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identified")
    }
}

/// Signs certificates of the server and of clients.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    path: PathBuf,
    now: jiff::Timestamp,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("path", &self.path).finish_non_exhaustive()
    }
}

fn params(common_name: &str, organisations: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    for organisation in organisations {
        name.push(DnType::OrganizationName, *organisation);
    }
    params.distinguished_name = name;
    params
}

fn valid(params: &mut CertificateParams, now: jiff::Timestamp, days: i64) {
    let day = |days: i64| {
        let at = now.checked_add(jiff::SignedDuration::from_hours(days * 24)).unwrap_or(now);
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    // A clock that is a little slow must not refuse a new certificate.
    params.not_before = day(-1);
    params.not_after = day(days);
}

impl Authority {
    /// The authority of a data directory, made if there is none. `now` is when certificates begin to count.
    ///
    /// # Errors
    /// The directory can't be written, or what is in it is no key.
    pub fn open(directory: &Path, now: jiff::Timestamp) -> Result<Self, AccessError> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| AccessError::File { path, source }
        };
        private::directory(directory).map_err(file(directory))?;
        let (key_path, path) = (directory.join("ca.key"), directory.join("ca.crt"));
        let broken = |source| AccessError::Certificate { path: key_path.clone(), source };
        let mut authority = params(NAME, &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        valid(&mut authority, now, AUTHORITY_DAYS);
        let (key, certificate) = match (std::fs::read_to_string(&key_path), std::fs::read_to_string(&path)) {
            (Ok(key), Ok(certificate)) => (KeyPair::from_pem(&key).map_err(broken)?, certificate),
            (Err(error), _) if error.kind() != std::io::ErrorKind::NotFound => return Err(file(&key_path)(error)),
            (Ok(_) | Err(_), _) => {
                let key = KeyPair::generate().map_err(broken)?;
                let certificate = authority.self_signed(&key).map_err(broken)?.pem();
                // The key first: a certificate without one would be believed and useless.
                private::write(&key_path, &key.serialize_pem()).map_err(file(&key_path))?;
                private::write(&path, &certificate).map_err(file(&path))?;
                (key, certificate)
            }
        };
        Ok(Self { issuer: Issuer::new(authority, key), certificate, path: key_path, now })
    }

    /// The authority's certificate, as PEM: what clients trust.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identified, AccessError> {
        let broken = |source| AccessError::Certificate { path: self.path.clone(), source };
        valid(&mut params, self.now, LEAF_DAYS);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(broken)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(broken)?;
        Ok(Identified { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A certificate for a client: whom it names is who asks.
    ///
    /// # Errors
    /// Signing fails.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identified, AccessError> {
        let mut params = params(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A certificate for a node's kubelet to listen with, for these names and addresses.
    ///
    /// # Errors
    /// Signing fails, or a name is none.
    pub fn kubelet(&self, node: &str, names: &[&str], addresses: &[IpAddr]) -> Result<Identified, AccessError> {
        let mut params = params(&format!("system:node:{node}"), &[super::NODES]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            let name = (*name).try_into();
            let name = name.map_err(|source| AccessError::Certificate { path: self.path.clone(), source })?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        self.sign(params)
    }

    /// A certificate as a request asks for one, as PEM: for its key and names, `seconds` from `now`, and for these usages in
    /// upstream's words (`client auth`, `server auth`, `digital signature`, `key encipherment`; others are not given). It begins
    /// five minutes before, as upstream's do, for clocks that are behind.
    ///
    /// # Errors
    /// Signing fails, or a name is none.
    pub fn grant(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        now: jiff::Timestamp,
        seconds: i64,
    ) -> Result<String, AccessError> {
        let broken = |source| AccessError::Certificate { path: self.path.clone(), source };
        let organisations: Vec<&str> = request.organisations.iter().map(String::as_str).collect();
        let mut params = params(&request.common_name, &organisations);
        let names = &mut params.subject_alt_names;
        for name in &request.names {
            names.push(SanType::DnsName(name.as_str().try_into().map_err(broken)?));
        }
        for mail in &request.mails {
            names.push(SanType::Rfc822Name(mail.as_str().try_into().map_err(broken)?));
        }
        for uri in &request.uris {
            names.push(SanType::URI(uri.as_str().try_into().map_err(broken)?));
        }
        names.extend(request.addresses.iter().map(|address| SanType::IpAddress(*address)));
        for usage in usages {
            match *usage {
                "digital signature" => params.key_usages.push(KeyUsagePurpose::DigitalSignature),
                "key encipherment" => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
                "client auth" => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth),
                "server auth" => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth),
                _ => {}
            }
        }
        params.is_ca = IsCa::ExplicitNoCa;
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let at = |second: i64| epoch + std::time::Duration::from_secs(u64::try_from(second).unwrap_or_default());
        params.not_before = at(now.as_second() - BACKDATED_SECONDS);
        params.not_after = at(now.as_second() + seconds);
        let mut serial = [0; 16];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut serial)
            .map_err(|_| broken(rcgen::Error::RingUnspecified))?;
        // Positive, and of a length that does not change.
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(rcgen::SerialNumber::from_slice(&serial));
        Ok(params.signed_by(&request.key, &self.issuer).map_err(broken)?.pem())
    }

    /// What the server listens with: a certificate for these names and addresses, and who may come as whom.
    ///
    /// # Errors
    /// Signing fails, or TLS refuses the result.
    pub fn server(&self, names: &[&str], addresses: &[IpAddr]) -> Result<ServerConfig, AccessError> {
        let mut params = params(NAME, &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            let name = (*name).try_into();
            let name = name.map_err(|source| AccessError::Certificate { path: self.path.clone(), source })?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        let server = self.sign(params)?;
        self.config(&server).map_err(AccessError::Tls)
    }

    fn config(&self, server: &Identified) -> Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes())?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        // Whoever has a token, or asks for health, has no certificate.
        let verifier = verifier.allow_unauthenticated().build()?;
        let certificate = CertificateDer::from_pem_slice(server.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// As whom the server asks nodes: by the name that kubeadm gives it, with a certificate of its own; nodes are believed with a
    /// certificate of this authority alone, for the address that was dialled.
    ///
    /// # Errors
    /// Signing fails, or TLS refuses the result.
    pub fn node_client(&self) -> Result<ClientConfig, AccessError> {
        let own = self.client("kube-apiserver-kubelet-client", &[super::ADMINISTRATORS])?;
        self.client_config(&own).map_err(AccessError::Tls)
    }

    fn client_config(&self, own: &Identified) -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes())?)?;
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())?;
        Ok(ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?)
    }

    /// Writes a kubeconfig, mode 0600, with which an administrator reaches the server at `url`.
    ///
    /// # Errors
    /// Signing or writing fails.
    pub fn kubeconfig(&self, path: &Path, url: &str) -> Result<(), AccessError> {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let admin = self.client("minke-admin", &[super::ADMINISTRATORS])?;
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: minke\nclusters:\n- name: minke\n  cluster:\n    server: {url}\n    \
             certificate-authority-data: {}\ncontexts:\n- name: minke\n  context:\n    cluster: minke\n    user: minke-admin\n\
             users:\n- name: minke-admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            encode(&self.certificate),
            encode(&admin.certificate),
            encode(&admin.key),
        );
        private::write(path, &text).map_err(|source| AccessError::File { path: path.to_owned(), source })
    }
}

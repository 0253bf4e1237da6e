//! The keys of one cluster: the API's certificate, which is its own authority; the authority of everybody else's certificates; and
//! what accounts' tokens are signed with.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedKey, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, generate_simple_self_signed,
};

/// A certificate and its key, as PEM. `Debug` shows neither.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// Who signs the certificates of clients and nodes.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) certificate: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    pub(super) fn new() -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "minke test cluster");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// For a user of these groups.
    pub(super) fn client(&self, user: &str, groups: &[&str]) -> io::Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        groups.iter().for_each(|group| params.distinguished_name.push(DnType::OrganizationName, *group));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    /// For a server at this address.
    pub(super) fn server(&self, name: &str, address: IpAddr) -> io::Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> io::Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Signs what was asked for, as kube-controller-manager does. Good within these seconds since 1970.
    pub(super) fn sign(&self, request: &str, purpose: ExtendedKeyUsagePurpose, good: Range<u64>) -> io::Result<String> {
        let mut request = CertificateSigningRequestParams::from_pem(request).map_err(io::Error::other)?;
        let at = |seconds| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
        (request.params.not_before, request.params.not_after) = (at(good.start), at(good.end));
        request.params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        request.params.extended_key_usages = vec![purpose];
        Ok(request.signed_by(&self.issuer).map_err(io::Error::other)?.pem())
    }
}

/// Writes what the server needs into a directory; gives its certificate as PEM.
pub(super) fn write(directory: &Path, authority: &Authority) -> io::Result<String> {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).map_err(io::Error::other)?;
    let certificate = cert.pem();
    std::fs::write(directory.join("server.crt"), &certificate)?;
    std::fs::write(directory.join("server.key"), signing_key.serialize_pem())?;
    let accounts = KeyPair::generate().map_err(io::Error::other)?;
    std::fs::write(directory.join("accounts.key"), accounts.serialize_pem())?;
    std::fs::write(directory.join("accounts.pub"), accounts.public_key_pem())?;
    std::fs::write(directory.join("clients.crt"), &authority.certificate)?;
    // As kubeadm makes it: the API server may everything at nodes.
    let own = authority.client("kube-apiserver-kubelet-client", &["system:masters"])?;
    std::fs::write(directory.join("kubelet-client.crt"), own.certificate)?;
    std::fs::write(directory.join("kubelet-client.key"), own.key)?;
    Ok(certificate)
}

//! What is asked for (pure but for the key, which is drawn).

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// To be the node, for the API.
    Client,
    /// To be known as the node by those who ask it.
    Serving {
        /// Its names.
        names: Vec<String>,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
}

impl Purpose {
    /// Who signs such certificates, as upstream names them.
    #[must_use]
    pub fn signer(&self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving { .. } => "kubernetes.io/kubelet-serving",
        }
    }

    /// In words, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Client => "client certificate",
            Self::Serving { .. } => "serving certificate",
        }
    }

    fn usages(&self) -> [&'static str; 2] {
        // Not "key encipherment": that is for RSA keys alone, and the signers refuse it with these.
        match self {
            Self::Client => ["digital signature", "client auth"],
            Self::Serving { .. } => ["digital signature", "server auth"],
        }
    }
}

/// A certificate with those that lead to its authority, and its key, as PEM. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate first.
    pub chain: String,
    /// The key.
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// Why nothing can be asked for.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A name of the node that no certificate can have.
    #[error("{0:?} can't stand in a certificate")]
    Name(String),
    /// Nothing is known by which the node could be reached.
    #[error("the node has neither a name nor an address to be served under; name one with --node-ip")]
    Nowhere,
    /// The key can't be drawn or can't sign.
    #[error("can't make a key for a certificate")]
    Key(#[source] rcgen::Error),
}

/// A key, and the request for its certificate. `Debug` shows neither.
pub(super) struct Asked {
    pub(super) key: String,
    pub(super) object: CertificateSigningRequest,
}

/// For a node of this name. Each has a key of its own: one that was on disk may have been read.
pub(super) fn request(node: &str, purpose: &Purpose) -> Result<Asked, RequestError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, user(node));
    if let Purpose::Serving { names, addresses } = purpose {
        for name in names {
            let valid = name.as_str().try_into().map_err(|_| RequestError::Name(name.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(valid));
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        if params.subject_alt_names.is_empty() {
            return Err(RequestError::Nowhere);
        }
    }
    let key = KeyPair::generate().map_err(RequestError::Key)?;
    let pem = params.serialize_request(&key).and_then(|request| request.pem()).map_err(RequestError::Key)?;
    let object = CertificateSigningRequest {
        metadata: ObjectMeta { generate_name: Some("node-csr-".to_owned()), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: purpose.signer().to_owned(),
            usages: Some(purpose.usages().map(str::to_owned).into()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    Ok(Asked { key: key.serialize_pem(), object })
}

/// The node as the API knows it.
pub(super) fn user(node: &str) -> String {
    format!("system:node:{node}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_upstreams_signers_sign() {
        let asked = request("n1", &Purpose::Client).unwrap();
        let spec = asked.object.spec;
        assert_eq!(spec.signer_name, "kubernetes.io/kube-apiserver-client-kubelet");
        assert_eq!(spec.usages.unwrap(), ["digital signature", "client auth"]);
        assert!(spec.request.0.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----"));
        assert!(asked.key.contains("PRIVATE KEY"));
        let purpose = Purpose::Serving { names: vec!["n1".to_owned()], addresses: vec![[192, 0, 2, 1].into()] };
        let spec = request("n1", &purpose).unwrap().object.spec;
        assert_eq!(spec.signer_name, "kubernetes.io/kubelet-serving");
        assert_eq!(spec.usages.unwrap(), ["digital signature", "server auth"]);
    }

    #[test]
    fn what_nobody_would_sign_is_not_asked_for() {
        let nowhere = Purpose::Serving { names: Vec::new(), addresses: Vec::new() };
        assert!(matches!(request("n", &nowhere), Err(RequestError::Nowhere)));
        let strange = Purpose::Serving { names: vec!["ü".to_owned()], addresses: Vec::new() };
        assert!(matches!(request("n", &strange), Err(RequestError::Name(_))));
    }
}

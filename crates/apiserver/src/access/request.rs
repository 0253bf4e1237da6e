//! A certificate signing request (PKCS #10): whom it names, for which key. Pure.

use std::net::IpAddr;

use rcgen::{
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData, SignatureAlgorithm,
};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// Why something is no request that could be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no block of that name.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Pem,
    /// It is no request.
    #[error("the request is no PKCS #10 request")]
    Malformed,
    /// Its key, or what it is signed with, is not known here.
    #[error(
        "the request is signed with an unsupported algorithm: ECDSA (P-256, P-384), RSA of 2048 bits and more, or Ed25519 are"
    )]
    Algorithm,
    /// Whoever made it does not have the key.
    #[error("the request's signature does not belong to its key")]
    Signature,
}

/// What is asked for: who the certificate is to name, and for which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The common name.
    pub common_name: String,
    /// The organisations: groups, to a server.
    pub organisations: Vec<String>,
    /// DNS names.
    pub names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Mail addresses.
    pub mails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    pub(super) key: Key,
}

/// Whose certificate it will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    bytes: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

const ECDSA: &str = "1.2.840.10045.2.1";
const RSA: &str = "1.2.840.113549.1.1.1";
const ED25519: &str = "1.3.101.112";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const SHA256_ECDSA: &str = "1.2.840.10045.4.3.2";
const SHA384_ECDSA: &str = "1.2.840.10045.4.3.3";
const SHA256_RSA: &str = "1.2.840.113549.1.1.11";
const SHA384_RSA: &str = "1.2.840.113549.1.1.12";
const SHA512_RSA: &str = "1.2.840.113549.1.1.13";

/// By the kind of the key, its curve, and what it signs with: how that is checked, and how the key is written.
fn algorithms(
    key: &str,
    curve: &str,
    signed: &str,
) -> Option<(&'static dyn VerificationAlgorithm, &'static SignatureAlgorithm)> {
    Some(match (key, curve, signed) {
        (ECDSA, P256, SHA256_ECDSA) => (&signature::ECDSA_P256_SHA256_ASN1, &PKCS_ECDSA_P256_SHA256),
        (ECDSA, P256, SHA384_ECDSA) => (&signature::ECDSA_P256_SHA384_ASN1, &PKCS_ECDSA_P256_SHA256),
        (ECDSA, P384, SHA256_ECDSA) => (&signature::ECDSA_P384_SHA256_ASN1, &PKCS_ECDSA_P384_SHA384),
        (ECDSA, P384, SHA384_ECDSA) => (&signature::ECDSA_P384_SHA384_ASN1, &PKCS_ECDSA_P384_SHA384),
        (ED25519, _, ED25519) => (&signature::ED25519, &PKCS_ED25519),
        (RSA, _, SHA256_RSA) => (&signature::RSA_PKCS1_2048_8192_SHA256, &PKCS_RSA_SHA256),
        (RSA, _, SHA384_RSA) => (&signature::RSA_PKCS1_2048_8192_SHA384, &PKCS_RSA_SHA256),
        (RSA, _, SHA512_RSA) => (&signature::RSA_PKCS1_2048_8192_SHA512, &PKCS_RSA_SHA256),
        _ => return None,
    })
}

impl CertificateRequest {
    /// Reads a request, PEM of the type `CERTIFICATE REQUEST`, and checks that whoever made it has the key.
    ///
    /// # Errors
    /// It is none, of an algorithm that is not known here, or signed by another key.
    pub fn parse(pem: &[u8]) -> Result<Self, RequestError> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem).map_err(|_| RequestError::Pem)?;
        Self::parse_der(&der)
    }

    /// The same without PEM around it.
    ///
    /// # Errors
    /// As [`CertificateRequest::parse`].
    pub fn parse_der(der: &[u8]) -> Result<Self, RequestError> {
        let (rest, request) = X509CertificationRequest::from_der(der).map_err(|_| RequestError::Malformed)?;
        if !rest.is_empty() {
            return Err(RequestError::Malformed);
        }
        let info = &request.certification_request_info;
        let (key, signed) = (&info.subject_pki, &request.signature_algorithm);
        let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        let (verify, algorithm) = algorithms(
            &key.algorithm.algorithm.to_id_string(),
            &curve.map(|curve| curve.to_id_string()).unwrap_or_default(),
            &signed.algorithm.to_id_string(),
        )
        .ok_or(RequestError::Algorithm)?;
        let bytes = key.subject_public_key.data.to_vec();
        UnparsedPublicKey::new(verify, &bytes)
            .verify(info.raw, &request.signature_value.data)
            .map_err(|_| RequestError::Signature)?;
        let text = |value: Result<&str, _>| {
            value.map(str::to_owned).map_err(|_: x509_parser::error::X509Error| RequestError::Malformed)
        };
        let mut asked = Self {
            // The last one counts, as in Go.
            common_name: info
                .subject
                .iter_common_name()
                .last()
                .map_or(Ok(String::new()), |name| text(name.as_str()))?,
            organisations: info
                .subject
                .iter_organization()
                .map(|name| text(name.as_str()))
                .collect::<Result<_, _>>()?,
            names: Vec::new(),
            addresses: Vec::new(),
            mails: Vec::new(),
            uris: Vec::new(),
            key: Key { bytes, algorithm },
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            // Others ask for what nobody here gives: constraints, usages beyond those of the request.
            let ParsedExtension::SubjectAlternativeName(alternative) = extension else { continue };
            for name in &alternative.general_names {
                match name {
                    GeneralName::DNSName(name) => asked.names.push((*name).to_owned()),
                    GeneralName::RFC822Name(mail) => asked.mails.push((*mail).to_owned()),
                    GeneralName::URI(uri) => asked.uris.push((*uri).to_owned()),
                    GeneralName::IPAddress(bytes) => asked.addresses.push(address(bytes)?),
                    _ => {}
                }
            }
        }
        Ok(asked)
    }
}

fn address(bytes: &[u8]) -> Result<IpAddr, RequestError> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).map(IpAddr::from).map_err(|_| RequestError::Malformed),
        16 => <[u8; 16]>::try_from(bytes).map(IpAddr::from).map_err(|_| RequestError::Malformed),
        _ => Err(RequestError::Malformed),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    /// A request in the name of someone, for names and addresses.
    pub(crate) fn request(user: &str, groups: &[&str], names: &[&str], addresses: &[&str]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.subject_alt_names.extend(names.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())));
        let parsed = addresses.iter().map(|address| SanType::IpAddress(address.parse().unwrap()));
        params.subject_alt_names.extend(parsed);
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    #[test]
    fn a_request_says_whom_it_is_for() {
        let pem = request("system:node:n", &["system:nodes"], &["n", "n.example"], &["10.0.0.1", "::1"]);
        let read = CertificateRequest::parse(pem.as_bytes()).unwrap();
        assert_eq!((read.common_name.as_str(), read.organisations), ("system:node:n", vec!["system:nodes".to_owned()]));
        assert_eq!(read.names, ["n", "n.example"]);
        assert_eq!(read.addresses, ["10.0.0.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
        assert!(read.mails.is_empty() && read.uris.is_empty());
    }

    #[test]
    fn what_is_no_request_is_told_so() {
        let parse = |text: &str| CertificateRequest::parse(text.as_bytes()).map(drop).unwrap_err();
        assert_eq!(parse(""), RequestError::Pem);
        let own = request("a", &[], &[], &[]);
        assert_eq!(parse(&own.replace("CERTIFICATE REQUEST", "CERTIFICATE")), RequestError::Pem);
        let empty = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
        assert_eq!(parse(empty), RequestError::Malformed);
    }

    #[test]
    fn another_name_under_the_same_signature_is_refused() {
        use base64::Engine as _;
        let own = request("system:node:a", &[], &[], &[]);
        let der = CertificateSigningRequestDer::from_pem_slice(own.as_bytes()).unwrap().to_vec();
        let at = der.windows(13).position(|part| part == b"system:node:a").unwrap();
        let mut forged = der;
        forged[at + 12] = b'b';
        let body = base64::engine::general_purpose::STANDARD.encode(forged);
        let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
        assert_eq!(CertificateRequest::parse(pem.as_bytes()).unwrap_err(), RequestError::Signature);
    }
}

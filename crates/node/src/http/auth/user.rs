//! Who asks: of a client's certificate, or of a reviewed token.

use std::collections::BTreeMap;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Everyone who is known is of this group.
const AUTHENTICATED: &str = "system:authenticated";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// An id that is never used again; empty where there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Whom a certificate names that TLS has verified: its common name, with its organisations as groups. `None`: nobody.
pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?;
    let mut groups: Vec<String> = Vec::new();
    for organisation in subject.iter_organization() {
        groups.push(organisation.as_str().ok()?.to_owned());
    }
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    Some(User { name: name.to_owned(), groups, ..User::default() })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(entries: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, text) in entries {
            params.distinguished_name.push(kind.clone(), *text);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_names_a_user_and_groups() {
        let named = certificate(&[(DnType::OrganizationName, "system:masters"), (DnType::CommonName, "root")]);
        let user = of_certificate(&named).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("root", vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()])
        );
        for nobody in [&[][..], &[(DnType::OrganizationName, "system:masters")], &[(DnType::CommonName, "")]] {
            assert_eq!(of_certificate(&certificate(nobody)), None);
        }
        assert_eq!(of_certificate(&CertificateDer::from(vec![0x30, 0x82, 0xff])), None);
    }
}

//! How long a certificate is good, and when its successor is asked for (pure).

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why a certificate can't be read.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// No PEM.
    #[error("is no certificate as PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// No X.509.
    #[error("is no X.509 certificate")]
    Certificate,
}

/// Of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// Good from then on.
    pub begins: Timestamp,
    /// Good until then.
    pub ends: Timestamp,
    /// Whom it names; empty: nobody.
    pub user: String,
}

impl Life {
    /// Of the first certificate in a text.
    ///
    /// # Errors
    /// It is none.
    pub fn of(pem: &str) -> Result<Self, LifeError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(LifeError::Pem)?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| LifeError::Certificate)?;
        let at = |seconds: i64| Timestamp::from_second(seconds).map_err(|_| LifeError::Certificate);
        let validity = certificate.validity();
        let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        Ok(Self {
            begins: at(validity.not_before.timestamp())?,
            ends: at(validity.not_after.timestamp())?,
            user: name.unwrap_or_default().to_owned(),
        })
    }

    /// Whether it is good now.
    #[must_use]
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.begins <= now && now < self.ends
    }

    /// When, at the earliest, the successor of one that came now is asked for: a signer whose certificates are nearly over when they
    /// come must not be asked without end.
    #[must_use]
    pub fn earliest(&self, now: Timestamp) -> Timestamp {
        let quarter = self.ends.duration_since(now) / 4;
        now.checked_add(quarter.max(SignedDuration::from_secs(10))).unwrap_or(self.ends)
    }

    /// When its successor is asked for: after 70 to 90 % of its life, as upstream, another share for each, so that the nodes of a
    /// cluster that came at once don't all ask at once.
    #[must_use]
    pub fn renewal(&self, node: &str) -> Timestamp {
        let mut hasher = DefaultHasher::new();
        (node, self.ends).hash(&mut hasher);
        let share = 0.7 + 0.2 * f64::from(u32::try_from(hasher.finish() % 1000).unwrap_or(0)) / 1000.0;
        let whole = self.ends.duration_since(self.begins).as_secs_f64();
        let after = SignedDuration::try_from_secs_f64(whole * share).unwrap_or(SignedDuration::ZERO);
        self.begins.checked_add(after).unwrap_or(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_says_how_long_it_is_good() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "system:node:n");
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let life = Life::of(&pem).unwrap();
        assert_eq!((life.begins.to_string().as_str(), life.user.as_str()), ("2026-01-01T00:00:00Z", "system:node:n"));
        let at = |text: &str| text.parse().unwrap();
        assert!(!life.is_good(at("2025-12-31T23:59:59Z")) && life.is_good(at("2026-06-01T00:00:00Z")));
        assert!(!life.is_good(at("2027-01-01T00:00:00Z")));
        assert!(Life::of("nothing").is_err());
    }

    #[test]
    fn a_successor_is_asked_for_in_good_time_and_not_by_all_at_once() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let life = Life { begins: at(0), ends: at(1000), user: String::new() };
        let all: std::collections::BTreeSet<_> = (0..50).map(|n| life.renewal(&format!("n{n}"))).collect();
        assert!(all.len() > 20);
        assert!(all.iter().all(|renewal| (at(700)..at(901)).contains(renewal)), "{all:?}");
        assert_eq!(life.renewal("n"), life.renewal("n"), "a restart changes nothing");
        assert_eq!(
            (life.earliest(at(200)), life.earliest(at(990)), life.earliest(at(2000))),
            (at(400), at(1000), at(2010))
        );
    }
}

//! Tokens: one that was given, or those of a GitHub App's installation.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

use crate::forge::{ForgeError, Secret};

/// A token is not used in its last minutes.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Who asks.
#[derive(Debug)]
pub enum Credential {
    /// With a token.
    Token(Secret),
    /// As a GitHub App.
    App(Box<AppKey>),
}

/// A GitHub App's key and installation.
pub struct AppKey {
    app: String,
    installation: u64,
    key: RsaKeyPair,
}

impl std::fmt::Debug for AppKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppKey")
            .field("app", &self.app)
            .field("installation", &self.installation)
            .finish_non_exhaustive()
    }
}

impl AppKey {
    /// A key as GitHub gives it out: PEM, PKCS #1 or #8.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn new(app: &str, installation: u64, pem: &Secret) -> Result<Self, ForgeError> {
        let bad = |why: &str| ForgeError::Credential(format!("github_app_private_key is no RSA key in PEM: {why}"));
        let der = PrivateKeyDer::from_pem_slice(pem.reveal().as_bytes()).map_err(|_| bad("no key found in it"))?;
        let key = match &der {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            _ => return Err(bad("another kind of key")),
        };
        let key = key.map_err(|error| bad(&error.to_string()))?;
        Ok(Self { app: app.to_owned(), installation, key })
    }

    pub(super) fn installation(&self) -> u64 {
        self.installation
    }

    /// A signed claim to be the App, good for nine minutes. It is dated back a minute: clocks differ.
    ///
    /// # Errors
    ///
    /// The machine has no randomness.
    pub fn claim(&self, now: Timestamp) -> Result<Secret, ForgeError> {
        let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let second = now.as_second();
        let header = encode(json!({"alg": "RS256", "typ": "JWT"}));
        let claims = encode(json!({"iat": second - 60, "exp": second + 9 * 60, "iss": self.app}));
        let text = format!("{header}.{claims}");
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| ForgeError::Credential("the App's claim can't be signed".to_owned()))?;
        Ok(Secret::new(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

/// An installation's token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) secret: Secret,
    pub(super) expires: Timestamp,
}

impl Token {
    pub(super) fn is_good(&self, now: Timestamp) -> bool {
        now + MARGIN < self.expires
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    /// Made for these tests, known to nobody else and good for nothing.
    pub(crate) const KEY: &str = include_str!("testdata/rsa-for-tests-only.pem");
    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn a_claim_is_signed_and_says_who_and_until_when() {
        let key = AppKey::new("Iv1.abc", 42, &Secret::new(KEY)).unwrap();
        let claim = key.claim(NOW).unwrap();
        let (text, signature) = claim.reveal().rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.key.public_key());
        public.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.').unwrap().1).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims, json!({"iat": 1_799_999_940, "exp": 1_800_000_540, "iss": "Iv1.abc"}));
    }

    #[test]
    fn what_is_no_key_is_told_and_not_shown() {
        for pem in ["", "hunter2", "-----BEGIN RSA PRIVATE KEY-----\naHVudGVyMg==\n-----END RSA PRIVATE KEY-----\n"] {
            let error = AppKey::new("1", 1, &Secret::new(pem)).unwrap_err().to_string();
            assert!(error.contains("github_app_private_key") && !error.contains("hunter2"), "{error}");
        }
        let key = AppKey::new("1", 1, &Secret::new(KEY)).unwrap();
        assert!(!format!("{key:?} {:?}", Secret::new("hunter2")).contains("hunter2"));
    }

    #[test]
    fn a_token_is_not_used_in_its_last_minutes() {
        let token = Token { secret: Secret::new("t"), expires: NOW + MARGIN };
        assert!(!token.is_good(NOW) && token.is_good(NOW - SignedDuration::from_secs(1)));
    }
}

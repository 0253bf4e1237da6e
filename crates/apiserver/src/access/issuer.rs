//! Signs and reads the tokens of service accounts: JSON Web Tokens, ES256, with a key of the server's own that never leaves
//! its directory.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::authority::AccessError;
use super::claims::{Claims, TokenError};
use super::private;

/// Who issues tokens, and whom they are for where nobody else is named: the name under which Pods of a cluster reach its API.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Longest token that is looked at.
const LONGEST: usize = 16 << 10;

/// The key that signs. `Debug` shows its name alone.
pub struct Issuer {
    key: EcdsaKeyPair,
    name: String,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name).finish_non_exhaustive()
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    /// The issuer of a directory; its key is made if there is none, with mode 0600.
    ///
    /// # Errors
    /// The directory can't be written, or what is in it is no key.
    pub fn open(directory: &Path) -> Result<Self, AccessError> {
        let path = directory.join("sa.key");
        let file = |source| AccessError::File { path: path.clone(), source };
        private::directory(directory).map_err(file)?;
        let broken = |source| AccessError::Certificate { path: path.clone(), source };
        let pair = match std::fs::read_to_string(&path) {
            Ok(text) => KeyPair::from_pem(&text).map_err(broken)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let pair = KeyPair::generate().map_err(broken)?;
                private::write(&path, &pair.serialize_pem()).map_err(file)?;
                pair
            }
            Err(error) => return Err(file(error)),
        };
        let wrong = |_| AccessError::SigningKey { path: path.clone() };
        let der = pair.serialize_der();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new()).map_err(wrong)?;
        let name = encode(Sha256::digest(key.public_key().as_ref()));
        Ok(Self { key, name })
    }

    /// A token with these claims.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        let header = json!({"alg": "ES256", "kid": self.name});
        let text = format!("{}.{}", encode(header.to_string()), encode(claims.to_json().to_string()));
        let signature = self.key.sign(&SystemRandom::new(), text.as_bytes()).map_err(|_| TokenError::Random)?;
        Ok(format!("{text}.{}", encode(signature.as_ref())))
    }

    /// What a token claims, if this issuer has signed it. Whether the claims still hold is another question.
    ///
    /// # Errors
    /// It is no token of ours.
    pub fn read(&self, token: &str) -> Result<Claims, TokenError> {
        let foreign = || TokenError::Foreign;
        if token.len() > LONGEST {
            return Err(TokenError::Foreign);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or_else(foreign)?;
        let (header, payload) = signed.split_once('.').ok_or_else(foreign)?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Foreign);
        let header: Value = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Foreign)?;
        if header["alg"] != "ES256" || header["kid"] != *self.name {
            return Err(TokenError::Foreign);
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(signed.as_bytes(), &decode(signature)?).map_err(|_| TokenError::Foreign)?;
        let payload: Value = serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::Foreign)?;
        Claims::of_json(&payload).ok_or(TokenError::Foreign)
    }

    /// The key as others check tokens by it: a JSON Web Key Set.
    #[must_use]
    pub fn key_set(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let point = self.key.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default();
        let key = json!({
            "use": "sig", "kty": "EC", "kid": self.name, "crv": "P-256", "alg": "ES256", "x": encode(x), "y": encode(y),
        });
        json!({"keys": [key]})
    }

    /// How others find the key: OpenID Connect discovery.
    #[must_use]
    pub fn discovery(address: &str) -> Value {
        json!({
            "issuer": ISSUER,
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn claims() -> Claims {
        Claims {
            audiences: vec![ISSUER.to_owned()],
            issued: 1000,
            expires: 2000,
            id: "j".to_owned(),
            namespace: "ns".to_owned(),
            account: ("sa".to_owned(), "u1".to_owned()),
            pod: Some(("p".to_owned(), "u2".to_owned())),
            node: None,
            secret: None,
        }
    }

    #[test]
    fn what_is_signed_is_read_over_restarts_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let token = Issuer::open(directory.path()).unwrap().sign(&claims()).unwrap();
        let mode = std::fs::metadata(directory.path().join("sa.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Issuer::open(directory.path()).unwrap();
        assert_eq!(again.read(&token).unwrap(), claims());
        let other = tempfile::tempdir().unwrap();
        assert!(Issuer::open(other.path()).unwrap().read(&token).is_err(), "another server's");
        let parts: Vec<&str> = token.split('.').collect();
        let none = encode(json!({"alg": "none", "kid": again.name}).to_string());
        let more = encode(json!({"sub": "system:serviceaccount:ns:admin"}).to_string());
        for forged in [
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{more}.{}", parts[0], parts[2]),
            format!("{}.{}.{}", parts[0], parts[1], encode([0; 64])),
            format!("{}.{}", parts[0], parts[1]),
            String::new(),
            "a.b.c".to_owned(),
            "x".repeat(LONGEST + 1),
        ] {
            assert!(again.read(&forged).is_err(), "{forged:.40}");
        }
        assert!(!format!("{again:?}").contains("key"));
    }

    #[test]
    fn a_damaged_key_is_told_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("sa.key"), "rubbish").unwrap();
        let error = Issuer::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("sa.key"), "{error}");
    }

    #[test]
    fn the_key_set_has_the_public_point() {
        let directory = tempfile::tempdir().unwrap();
        let set = Issuer::open(directory.path()).unwrap().key_set();
        let decoded = |field: &str| URL_SAFE_NO_PAD.decode(set["keys"][0][field].as_str().unwrap()).unwrap().len();
        assert_eq!((decoded("x"), decoded("y")), (32, 32));
        assert!(set["keys"][0].get("d").is_none());
    }
}

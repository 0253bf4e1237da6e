//! Whether a delivery is from who knows the secret.

use ring::hmac;

use crate::forge::Secret;

/// A delivery that anyone could have sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// There is none.
    #[error("the delivery is not signed; set a secret in the webhook's settings")]
    Missing,
    /// It is none.
    #[error("the signature is not sha256= and 64 hexadecimal digits")]
    Malformed,
    /// It is for something else, or by someone else.
    #[error("the signature does not match; is the webhook's secret this receiver's?")]
    Wrong,
}

/// Checks `X-Hub-Signature-256` over the raw body, in constant time. SHA-1 is not accepted.
///
/// # Errors
///
/// It does not hold.
pub fn verify(secret: &Secret, header: Option<&str>, body: &[u8]) -> Result<(), BadSignature> {
    let digits = header.ok_or(BadSignature::Missing)?.strip_prefix("sha256=").ok_or(BadSignature::Malformed)?;
    let mut tag = [0; 32];
    hex::decode_to_slice(digits, &mut tag).map_err(|_| BadSignature::Malformed)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    hmac::verify(&key, body, &tag).map_err(|_| BadSignature::Wrong)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::webhook) fn sign(secret: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        format!("sha256={}", hex::encode(hmac::sign(&key, body)))
    }

    /// GitHub's own example.
    #[test]
    fn the_documented_example_holds() {
        let secret = Secret::new("It's a Secret to Everybody");
        let header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(verify(&secret, Some(header), b"Hello, World!"), Ok(()));
        assert_eq!(verify(&secret, Some(header), b"Hello, World"), Err(BadSignature::Wrong));
        assert_eq!(verify(&Secret::new("other"), Some(header), b"Hello, World!"), Err(BadSignature::Wrong));
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let secret = Secret::new("s");
        assert_eq!(verify(&secret, None, b""), Err(BadSignature::Missing));
        let short = sign("s", b"").replace("sha256=", "sha256=00");
        for header in ["", "sha256=", "sha256=zz", "sha1=0123456789012345678901234567890123456789", &short] {
            assert_eq!(verify(&secret, Some(header), b""), Err(BadSignature::Malformed), "{header}");
        }
    }

    proptest! {
        #[test]
        fn only_the_signature_of_this_body_holds(body: Vec<u8>, header in "\\PC*", flip in 0_usize..64) {
            let good = sign("s", &body);
            prop_assert_eq!(verify(&Secret::new("s"), Some(&good), &body), Ok(()));
            let mut bytes = good.into_bytes();
            let index = "sha256=".len() + flip;
            bytes[index] = if bytes[index] == b'0' { b'1' } else { b'0' };
            let bad = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(verify(&Secret::new("s"), Some(&bad), &body), Err(BadSignature::Wrong));
            prop_assert!(verify(&Secret::new("s"), Some(&header), &body).is_err());
        }
    }
}

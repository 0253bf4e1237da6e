//! Content digests, `sha256:…` and `sha512:…`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// The registered algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha512,
}

/// The digest of some content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a sha256 or sha512 digest")]
pub struct InvalidDigest {
    text: String,
}

impl Digest {
    /// The SHA-256 of some bytes.
    #[must_use]
    pub fn sha256(bytes: &[u8]) -> Self {
        Self { algorithm: Algorithm::Sha256, hex: hex::encode(Sha256::digest(bytes)) }
    }

    /// Starts to compute a digest by the same algorithm.
    #[must_use]
    pub fn hasher(&self) -> Hasher {
        match self.algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
        }
    }

    /// Whether these bytes have this digest.
    #[must_use]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish() == *self
    }

    /// A file name for content with this digest.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.to_string().replace(':', "-")
    }

    /// The digest whose content has this file name.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (algorithm, hex) = name.split_once('-')?;
        format!("{algorithm}:{hex}").parse().ok()
    }

    /// The hexadecimal part.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.algorithm {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        };
        write!(f, "{algorithm}:{}", self.hex)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest { text: text.chars().take(160).collect() };
        let (algorithm, hex) = text.split_once(':').ok_or_else(invalid)?;
        let (algorithm, length) = match algorithm {
            "sha256" => (Algorithm::Sha256, 64),
            "sha512" => (Algorithm::Sha512, 128),
            _ => return Err(invalid()),
        };
        if hex.len() != length || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(invalid());
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A digest in the making.
#[derive(Clone)]
pub enum Hasher {
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-512.
    Sha512(Sha512),
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256(_) => "Sha256(…)",
            Self::Sha512(_) => "Sha512(…)",
        })
    }
}

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(state) => state.update(bytes),
            Self::Sha512(state) => state.update(bytes),
        }
    }

    /// The digest of all bytes so far.
    #[must_use]
    pub fn finish(self) -> Digest {
        match self {
            Self::Sha256(state) => Digest { algorithm: Algorithm::Sha256, hex: hex::encode(state.finalize()) },
            Self::Sha512(state) => Digest { algorithm: Algorithm::Sha512, hex: hex::encode(state.finalize()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_parse_print_and_verify() {
        let digest: Digest = EMPTY.parse().unwrap();
        assert_eq!(digest, Digest::sha256(b""));
        assert_eq!(digest.to_string(), EMPTY);
        assert!(digest.matches(b"") && !digest.matches(b"x"));
        assert_eq!(Digest::from_file_name(&digest.file_name()), Some(digest));
        let long = format!("sha512:{}", "a".repeat(128)).parse::<Digest>().unwrap();
        assert!(!long.matches(b""));
    }

    #[test]
    fn malformed_digests_are_refused() {
        for text in ["", "sha256", "sha256:", "sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", "../../x:y"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        assert!(EMPTY.to_uppercase().parse::<Digest>().is_err());
        assert!(format!("sha256:{}", "/".repeat(64)).parse::<Digest>().is_err());
    }
}

//! Protobuf bodies: `application/vnd.kubernetes.protobuf`, read into the same values as JSON.
//!
//! kubectl from 1.32 on and Go's typed clients send built-in kinds so. Nobody needs to be answered so: they all accept
//! JSON as well.
//!
//! A body is the magic `k8s\0`, then an envelope ([`Unknown`](https://pkg.go.dev/k8s.io/apimachinery/pkg/runtime#Unknown)
//! with `apiVersion`, `kind` and the object's bytes). The object is read by the table of types, not by code a kind: its
//! fields' numbers stand there. Go writes zero values too; what comes out goes through [`crate::strict`], which drops
//! them as Go's JSON does.
//!
//! Input is hostile: depth and number of values are bounded, texts must be UTF-8, and numbers that no field has are
//! skipped as protobuf wants it. `wire` knows the encoding, `message` the types.

mod message;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::{Map, Value};

use crate::schema::{Kind, Types};
use wire::{Reader, Wire};

/// What a body begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The content type of such bodies.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Messages nest at most this deep; a custom resource's schema is the deepest that there is.
const DEEPEST: usize = 64;

/// Most values of one body. A byte or two make one, which takes thirty in memory.
const MOST_VALUES: usize = 500_000;

/// Why a body is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// No magic.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// Compressed or otherwise wrapped.
    #[error("the encoding {0:?} is not read here")]
    Encoding(String),
    /// A kind that is never sent so, or that is not served.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Kind {
        /// From the envelope.
        api_version: String,
        /// From the envelope.
        kind: String,
    },
    /// The bytes end in the middle, or are not of the form.
    #[error("unexpected EOF or malformed bytes in {0}")]
    Malformed(String),
    /// Deeper, or more values, than any object has.
    #[error("the message nests too deep or has too many values")]
    TooLarge,
}

/// Reads a body into an object with `apiVersion` and `kind`.
///
/// # Errors
/// [`ProtoError`]: it is not of the form, of no known kind, or too large.
pub fn decode(types: &Types, body: &[u8]) -> Result<Value, ProtoError> {
    let body = body.strip_prefix(&MAGIC).ok_or(ProtoError::Magic)?;
    let malformed = || ProtoError::Malformed("the envelope".to_owned());
    let (mut api_version, mut kind, mut raw, mut encoding) =
        (String::new(), String::new(), [].as_slice(), String::new());
    let mut envelope = Reader::new(body);
    while let Some((number, wire)) = envelope.field().ok_or_else(malformed)? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => {
                let mut meta = Reader::new(bytes);
                while let Some((number, wire)) = meta.field().ok_or_else(malformed)? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => api_version = utf8(text).ok_or_else(malformed)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text).ok_or_else(malformed)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (3, Wire::Bytes(text)) => encoding = utf8(text).ok_or_else(malformed)?,
            (4, Wire::Bytes(text)) if text != CONTENT_TYPE.as_bytes() && !text.is_empty() => {
                return Err(ProtoError::Encoding(String::from_utf8_lossy(text).into_owned()));
            }
            _ => {}
        }
    }
    if !encoding.is_empty() {
        return Err(ProtoError::Encoding(encoding));
    }
    let Some(Kind::Struct { id, .. }) = types.kind(&api_version, &kind) else {
        return Err(ProtoError::Kind { api_version, kind });
    };
    let mut object = Map::new();
    message::Decoder::new(types).fields(types.get(id), &[], raw, &mut object, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn utf8(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

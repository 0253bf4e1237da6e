//! The object in a write's body: read by its content type, then as its kind's type has it, as `fieldValidation` asks.

use super::query::Query;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::strict::{Decoded, Parsed, decode, decode_custom};

/// The object, with what its writer is warned of.
///
/// # Errors
/// 400 for wrong types, and for unknown or duplicate fields where the client is strict; 422 for a mode that there is not.
pub(crate) fn validated(query: &Query, kind: &Kind, parsed: Parsed) -> Result<Decoded, ApiError> {
    let validation = query.validation("CreateOptions")?;
    let api_version = kind.api_version();
    let given = parsed.value["kind"].as_str().unwrap_or(kind.kind).to_owned();
    let decoded = kind.with_type(|types, schema| match kind.slot {
        // The values of a custom object are its schema's to judge.
        Some(_) => decode_custom(types, schema, parsed, validation),
        None => decode(types, schema, parsed, validation),
    });
    let decoded = decoded.ok_or_else(ApiError::no_resource)?;
    decoded.map_err(|error| error.for_body(&api_version, &given, kind.kind))
}

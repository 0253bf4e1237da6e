//! The object in a write's body: read by its content type, then as its kind's type has it, as `fieldValidation` asks.

use super::query::Query;
use crate::error::{ApiError, Cause};
use crate::kinds::Kind;
use crate::schema::builtin;
use crate::strict::{Decoded, FieldValidation, Parsed, decode};

/// The object, with what its writer is warned of.
///
/// # Errors
/// 400 for wrong types, and for unknown or duplicate fields where the client is strict; 422 for a mode that there is not.
pub(crate) fn validated(query: &Query, kind: &Kind, parsed: Parsed) -> Result<Decoded, ApiError> {
    let mode = query.get("fieldValidation");
    let Some(validation) = FieldValidation::parse(mode) else {
        let message = format!("Unsupported value: {mode:?}: supported values: \"Ignore\", \"Strict\", \"Warn\"");
        let cause = Cause::new("FieldValueNotSupported", message, "fieldValidation");
        return Err(ApiError::invalid("meta.k8s.io", "CreateOptions", "", vec![cause]));
    };
    let (types, api_version) = (builtin(), kind.api_version());
    let Some(schema) = types.kind(&api_version, kind.kind) else {
        return Err(ApiError::internal(format!("{} has no schema", kind.kind)));
    };
    let given = parsed.value["kind"].as_str().unwrap_or(kind.kind).to_owned();
    decode(types, &schema, parsed, validation).map_err(|error| error.for_body(&api_version, &given, kind.kind))
}

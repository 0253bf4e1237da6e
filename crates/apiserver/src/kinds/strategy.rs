//! What differs between kinds when they are written. Every function is pure.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Cause;

/// How an object of the kind is deleted, once nothing holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// At once.
    Plain,
    /// After its grace period, by whoever runs it.
    Graceful,
    /// After everything in it.
    Namespace,
    /// After every object of the kind that it defines.
    Definition,
}

/// The behaviour of a kind.
#[derive(Debug)]
pub struct Strategy {
    /// Reads the object as its type, which drops unknown fields and refuses wrong types, and fills in defaults.
    pub complete: fn(Value) -> Result<Value, serde_json::Error>,
    /// Before the first validation: what only the server says.
    pub create: fn(&mut Value),
    /// Rules for the object alone.
    pub validate: fn(&Value) -> Vec<Cause>,
    /// Rules for the step from the old object to the new one.
    pub validate_update: fn(new: &Value, old: &Value) -> Vec<Cause>,
    /// How it is deleted.
    pub deletion: Deletion,
}

/// Through the type and back: fields that it does not have are dropped.
pub(super) fn typed<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

/// Through the type, with defaults.
pub(super) fn typed_with<T: DeserializeOwned + Serialize>(
    value: Value,
    default: impl Fn(&mut T),
) -> Result<Value, serde_json::Error> {
    let mut typed = serde_json::from_value::<T>(value)?;
    default(&mut typed);
    serde_json::to_value(typed)
}

/// Nothing to do.
pub(super) fn nothing(_: &mut Value) {}

/// No rules of its own.
pub(super) fn no_rules(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}

/// The core's broken rules as causes.
pub(super) fn causes(errors: Vec<minke_core::validation::ValidationError>) -> Vec<Cause> {
    errors.into_iter().map(|e| Cause::new(e.reason.as_str(), e.message, e.path.to_string())).collect()
}

/// A cause: a value that must not be so.
pub(crate) fn invalid(field: &str, value: &Value, why: &str) -> Cause {
    Cause::new("FieldValueInvalid", format!("Invalid value: {value}: {why}"), field)
}

/// A cause: a field that must not be there, or not change.
pub(crate) fn forbidden(field: &str, why: &str) -> Cause {
    Cause::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
}

/// A cause for a field that may not change once it is set.
pub(crate) fn immutable(new: &Value, old: &Value, pointer: &str) -> Option<Cause> {
    let (new, old) = (new.pointer(pointer), old.pointer(pointer));
    let field = pointer.trim_start_matches('/').replace('/', ".");
    (new != old).then(|| invalid(&field, new.unwrap_or(&Value::Null), "field is immutable"))
}

//! What Go writes for a value that nobody set: upstream's objects go through Go structs, and clients see it.
//!
//! | field in Go | not set, it is |
//! |---|---|
//! | pointer, `omitempty` | left out |
//! | pointer | `null` |
//! | `omitzero` | left out |
//! | struct | written with its own fields, `omitempty` or not |
//! | anything else, `omitempty` | left out |
//! | anything else | `""`, `0`, `false`, or `null` for lists and maps |

use serde_json::{Map, Value, json};

use super::{Field, Kind, Types};

impl Types {
    /// A new object of a type, with nothing set.
    #[must_use]
    pub fn empty(&self, kind: &Kind) -> Value {
        match kind {
            Kind::Struct { id, .. } => {
                let fields = &self.get(*id).fields;
                let set = fields.iter().filter_map(|field| Some((field.name.clone().into_owned(), self.unset(field)?)));
                Value::Object(set.collect::<Map<_, _>>())
            }
            Kind::String => json!(""),
            Kind::Bool => json!(false),
            Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => json!(0),
            Kind::Quantity => json!("0"),
            Kind::Bytes
            | Kind::Time
            | Kind::MicroTime
            | Kind::Raw
            | Kind::Fields
            | Kind::Json
            | Kind::SchemaOrArray
            | Kind::SchemaOrBool
            | Kind::SchemaOrStrings
            | Kind::Map { .. }
            | Kind::List { .. } => Value::Null,
        }
    }

    /// What an object has for a field that is not set. `None`: the field is left out.
    #[must_use]
    pub fn unset(&self, field: &Field) -> Option<Value> {
        if field.pointer {
            return if field.omitempty { None } else { Some(Value::Null) };
        }
        if field.omitzero || (field.omitempty && !is_go_struct(&field.kind)) {
            return None;
        }
        Some(self.empty(&field.kind))
    }
}

/// Whether Go's type is a struct, whose zero value `omitempty` does not leave out.
fn is_go_struct(kind: &Kind) -> bool {
    match kind {
        Kind::Struct { .. } | Kind::Quantity | Kind::IntOrString | Kind::Time | Kind::MicroTime | Kind::Raw => true,
        Kind::Json | Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrStrings | Kind::Fields => true,
        Kind::String
        | Kind::Bytes
        | Kind::Bool
        | Kind::Int32
        | Kind::Int64
        | Kind::Double
        | Kind::Map { .. }
        | Kind::List { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;

    #[test]
    fn an_empty_object_has_what_go_writes() {
        let empty = |api_version, kind| builtin().empty(&builtin().kind(api_version, kind).unwrap());
        assert_eq!(empty("v1", "Pod"), json!({"metadata": {}, "spec": {"containers": null}, "status": {}}));
        assert_eq!(empty("v1", "ConfigMap"), json!({"metadata": {}}));
        assert_eq!(empty("coordination.k8s.io/v1", "Lease"), json!({"metadata": {}, "spec": {}}));
        assert_eq!(empty("v1", "Service"), json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}));
        let custom = Types::structural("a/v1", "X", &Value::Null).unwrap();
        assert_eq!(custom.empty(&custom.kind("a/v1", "X").unwrap()), json!({}));
    }
}

//! The types of a custom resource, from the structural schema of its definition.
//!
//! | in the schema | is |
//! |---|---|
//! | `properties` | a struct; open with `x-kubernetes-preserve-unknown-fields` |
//! | `additionalProperties` | a map; atomic with `x-kubernetes-map-type: atomic` |
//! | `items` | a list, by `x-kubernetes-list-type` and `-keys` |
//! | `x-kubernetes-int-or-string` | a number or a string |
//! | `x-kubernetes-embedded-resource` | a struct with `apiVersion`, `kind` and `metadata` besides |
//! | no type, or any fields | any JSON |
//!
//! `metadata` of the root and of embedded resources is the built-in one, whatever the schema says of it.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Field, Kind, ListType, Strategy, Struct, StructId, Types, builtin};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Schemas nest at most this deep; deeper ones are refused rather than followed.
const DEEPEST: usize = 64;

/// Why a schema says no types.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StructuralError {
    /// Nested beyond what any resource has.
    #[error("the schema nests deeper than {DEEPEST} levels")]
    TooDeep,
    /// A type, list type or map type that there is not.
    #[error("{path}: {value:?} is no {what}")]
    Unknown {
        /// Where in the schema.
        path: String,
        /// What is given.
        value: String,
        /// What it should be.
        what: &'static str,
    },
}

impl Types {
    /// The types of a custom resource with the schema `openAPIV3Schema`, which may be null: then any fields are kept.
    ///
    /// # Errors
    /// [`StructuralError`]: the schema nests too deep, or names a type that there is not.
    pub fn structural(api_version: &str, kind: &str, schema: &Value) -> Result<Self, StructuralError> {
        let mut types = Self::default();
        types.copy_object_meta();
        let open = json!({"x-kubernetes-preserve-unknown-fields": true});
        let schema = if schema.is_null() { &open } else { schema };
        let id = types.strukt(schema, "", 0, true)?;
        types.kinds.insert((api_version.to_owned().into(), kind.to_owned().into()), id);
        Ok(types)
    }

    /// `ObjectMeta` and what it refers to, under their own names.
    fn copy_object_meta(&mut self) {
        let from = builtin();
        let mut pending = vec![OBJECT_META];
        let mut order: Vec<&Struct> = Vec::new();
        while let Some(name) = pending.pop() {
            let Some(Kind::Struct { id, .. }) = from.named(name) else { continue };
            let strukt = from.get(id);
            if order.iter().any(|s| s.name == strukt.name) {
                continue;
            }
            self.by_name.insert(strukt.name.clone(), StructId(order.len()));
            order.push(strukt);
            pending
                .extend(strukt.fields.iter().filter_map(|f| struct_in(&f.kind)).map(|id| from.get(id).name.as_ref()));
        }
        for strukt in order {
            let fields = strukt.fields.iter().map(|field| Field { kind: self.moved(&field.kind), ..field.clone() });
            let fields = fields.collect();
            self.structs.push(Struct { name: strukt.name.clone(), atomic: strukt.atomic, open: strukt.open, fields });
        }
    }

    /// A built-in kind with this list's ids.
    fn moved(&self, kind: &Kind) -> Kind {
        match kind {
            Kind::Struct { id, atomic } => {
                let id = self.by_name.get(&builtin().get(*id).name).copied();
                id.map_or(Kind::Json, |id| Kind::Struct { id, atomic: *atomic })
            }
            Kind::List { element, list } => Kind::List { element: Box::new(self.moved(element)), list: list.clone() },
            Kind::Map { value, atomic } => Kind::Map { value: Box::new(self.moved(value)), atomic: *atomic },
            other => other.clone(),
        }
    }

    fn strukt(
        &mut self,
        schema: &Value,
        path: &str,
        depth: usize,
        resource: bool,
    ) -> Result<StructId, StructuralError> {
        let mut fields = Vec::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let kind = self.property(property, &format!("{path}.{name}"), depth + 1)?;
            fields.push(plain(name.clone(), kind));
        }
        if resource {
            fields.push(plain("apiVersion".to_owned(), Kind::String));
            fields.push(plain("kind".to_owned(), Kind::String));
            fields.push(plain("metadata".to_owned(), self.named(OBJECT_META).unwrap_or(Kind::Json)));
        }
        for field in &mut fields {
            let default = schema["properties"][field.name.as_ref()]["default"].as_str();
            field.default = default.map(|text| Cow::Owned(text.to_owned()));
            field.required = schema["required"].as_array().is_some_and(|r| r.iter().any(|r| *r == *field.name));
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let id = StructId(self.structs.len());
        self.structs.push(Struct {
            name: path.to_owned().into(),
            atomic: schema["x-kubernetes-map-type"] == "atomic",
            open: schema["x-kubernetes-preserve-unknown-fields"] == true,
            fields,
        });
        Ok(id)
    }

    fn property(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Kind, StructuralError> {
        if depth > DEEPEST {
            return Err(StructuralError::TooDeep);
        }
        let unknown = |value: &Value, what| StructuralError::Unknown {
            path: path.to_owned(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            what,
        };
        if schema["x-kubernetes-int-or-string"] == true {
            return Ok(Kind::IntOrString);
        }
        let embedded = schema["x-kubernetes-embedded-resource"] == true;
        let atomic = match schema["x-kubernetes-map-type"].as_str() {
            None | Some("granular") => false,
            Some("atomic") => true,
            Some(_) => return Err(unknown(&schema["x-kubernetes-map-type"], "map type")),
        };
        match schema["type"].as_str() {
            Some("object") | None if schema["properties"].is_object() || embedded => {
                let id = self.strukt(schema, path, depth, embedded)?;
                Ok(Kind::Struct { id, atomic })
            }
            Some("object") if schema["additionalProperties"].is_object() => {
                let value = self.property(&schema["additionalProperties"], &format!("{path}.*"), depth + 1)?;
                Ok(Kind::Map { value: Box::new(value), atomic })
            }
            Some("object") if schema["x-kubernetes-preserve-unknown-fields"] == true => Ok(Kind::Json),
            Some("object") if schema["additionalProperties"] == true => Ok(Kind::Json),
            // No fields at all: everything is unknown.
            Some("object") => Ok(Kind::Struct { id: self.strukt(schema, path, depth, false)?, atomic }),
            None => Ok(Kind::Json),
            Some("array") => {
                let element = self.property(&schema["items"], &format!("{path}[]"), depth + 1)?;
                let list = match schema["x-kubernetes-list-type"].as_str() {
                    None | Some("atomic") => ListType::Atomic,
                    Some("set") => ListType::Set,
                    Some("map") => {
                        let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                        ListType::Map(keys.filter_map(Value::as_str).map(|key| Cow::Owned(key.to_owned())).collect())
                    }
                    Some(_) => return Err(unknown(&schema["x-kubernetes-list-type"], "list type")),
                };
                Ok(Kind::List { element: Box::new(element), list })
            }
            Some("string") => Ok(Kind::String),
            Some("boolean") => Ok(Kind::Bool),
            Some("integer") => Ok(Kind::Int64),
            Some("number") => Ok(Kind::Double),
            Some(_) => Err(unknown(&schema["type"], "type")),
        }
    }
}

/// What a custom resource's field is in Go: there is no struct, so nothing is left out or added.
fn plain(name: String, kind: Kind) -> Field {
    Field {
        name: name.into(),
        kind,
        numbers: Vec::new(),
        pointer: true,
        omitempty: true,
        omitzero: false,
        required: false,
        patch: Strategy::default(),
        default: None,
    }
}

fn struct_in(kind: &Kind) -> Option<StructId> {
    match kind {
        Kind::Struct { id, .. } => Some(*id),
        Kind::List { element, .. } => struct_in(element),
        Kind::Map { value, .. } => struct_in(value),
        Kind::String
        | Kind::Bytes
        | Kind::Bool
        | Kind::Int32
        | Kind::Int64
        | Kind::Double
        | Kind::Quantity
        | Kind::IntOrString
        | Kind::Time
        | Kind::MicroTime
        | Kind::Raw
        | Kind::Fields
        | Kind::Json
        | Kind::SchemaOrArray
        | Kind::SchemaOrBool
        | Kind::SchemaOrStrings => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(schema: &Value) -> (Types, Kind) {
        let root = json!({"type": "object", "properties": {"spec": schema}});
        let types = Types::structural("x.example/v1", "X", &root).unwrap();
        let Some(Kind::Struct { id, .. }) = types.kind("x.example/v1", "X") else { panic!() };
        let kind = types.get(id).field("spec").unwrap().kind.clone();
        (types, kind)
    }

    #[test]
    fn structural_schemas_say_the_same_as_the_table() {
        let (types, kind) = spec(&json!({"type": "object", "properties": {
            "port": {"x-kubernetes-int-or-string": true},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "properties": {"id": {"type": "string", "default": "a"}}},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}));
        let Kind::Struct { id, atomic: false } = kind else { panic!("{kind:?}") };
        let spec = types.get(id);
        assert_eq!(spec.field("port").unwrap().kind, Kind::IntOrString);
        assert_eq!(spec.field("free").unwrap().kind, Kind::Json);
        let Kind::List { element, list: ListType::Map(keys) } = &spec.field("items").unwrap().kind else { panic!() };
        assert_eq!(keys, &["id"]);
        let Kind::Struct { id, .. } = **element else { panic!() };
        assert_eq!(types.get(id).field("id").unwrap().default.as_deref(), Some("a"));
    }

    #[test]
    fn metadata_of_a_custom_resource_is_the_built_in_one() {
        let types = Types::structural("x.example/v1", "X", &Value::Null).unwrap();
        let Some(Kind::Struct { id, .. }) = types.kind("x.example/v1", "X") else { panic!() };
        assert!(types.get(id).open);
        let Kind::Struct { id, .. } = types.get(id).field("metadata").unwrap().kind else { panic!() };
        let owners = &types.get(id).field("ownerReferences").unwrap().kind;
        let Kind::List { element, list: ListType::Map(keys) } = owners else { panic!("{owners:?}") };
        assert_eq!(keys, &["uid"]);
        let Kind::Struct { id, atomic: true } = **element else { panic!() };
        assert!(types.get(id).field("blockOwnerDeletion").is_some());
    }

    #[test]
    fn schemas_that_nest_too_deep_are_refused() {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"type": "array", "items": schema});
        }
        let root = json!({"type": "object", "properties": {"spec": schema}});
        assert_eq!(Types::structural("a/v1", "X", &root).unwrap_err(), StructuralError::TooDeep);
        let odd = json!({"type": "object", "properties": {"spec": {"type": "odd"}}});
        assert!(matches!(Types::structural("a/v1", "X", &odd), Err(StructuralError::Unknown { .. })));
    }
}

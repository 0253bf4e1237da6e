//! `types.tbl`: schemas and struct tags joined, a line a field.

use std::fmt::Write as _;

use serde_json::Value;

use super::ApiDataError;
use super::go::{Modules, Tag};
use super::openapi::{Schemas, reference};

/// Types with an encoding of their own, by the letter of the table.
const SPECIAL: &[(&str, char)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", 'q'),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", 'x'),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", 't'),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", 'u'),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", 'v'),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", 'r'),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", 'j'),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", 'A'),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", 'O'),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", 'P'),
];

pub(super) fn write(version: &str, schemas: &Schemas, modules: &mut Modules) -> Result<String, ApiDataError> {
    let mut text = format!(
        "# Kubernetes {version}, from its OpenAPI documents and Go sources (Apache-2.0, The Kubernetes Authors).\n\
         # Made by `cargo xtask api-data {version}`; the grammar stands in src/schema/parse.rs.\n"
    );
    for (name, schema) in schemas {
        if SPECIAL.iter().any(|(special, _)| special == name) {
            continue;
        }
        header(&mut text, name, schema);
        let Some(properties) = schema["properties"].as_object() else { continue };
        let tags = modules.fields(name)?;
        let required = |field: &str| schema["required"].as_array().is_some_and(|r| r.iter().any(|r| r == field));
        for (field, property) in properties {
            let place = format!("{name}.{field}");
            let tag = tags
                .get(field)
                .ok_or_else(|| ApiDataError::Unknown { place: place.clone(), what: "is not in Go's struct".into() })?;
            let path: Vec<String> = tag.path.iter().map(u32::to_string).collect();
            let path = if path.is_empty() { "-".to_owned() } else { path.join(".") };
            let kind = kind(property, schemas, &place)?;
            let flags = flags(tag, required(field));
            // Writing to a String does not fail.
            let _ = write!(text, "{field} {path} {flags} {kind}");
            extras(&mut text, property);
            text.push('\n');
        }
    }
    Ok(text)
}

fn header(text: &mut String, name: &str, schema: &Value) {
    let _ = write!(text, "@{name}");
    if schema["x-kubernetes-map-type"] == "atomic" {
        text.push_str(" atomic");
    }
    for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
        let of = |key: &str| kind[key].as_str().unwrap_or_default();
        let slash = if of("group").is_empty() { "" } else { "/" };
        let _ = write!(text, " {}{slash}{}:{}", of("group"), of("version"), of("kind"));
    }
    text.push('\n');
}

fn flags(tag: &Tag, required: bool) -> String {
    let marks = [(tag.pointer, 'p'), (tag.omitempty, 'o'), (tag.omitzero, 'z'), (required, 'r')];
    let flags: String = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
    if flags.is_empty() { "-".to_owned() } else { flags }
}

fn kind(schema: &Value, schemas: &Schemas, place: &str) -> Result<String, ApiDataError> {
    let unknown = |what: &str| ApiDataError::Unknown { place: place.to_owned(), what: what.to_owned() };
    let map_type = schema["x-kubernetes-map-type"].as_str();
    if let Some(name) = reference(schema) {
        if let Some((_, letter)) = SPECIAL.iter().find(|(special, _)| *special == name) {
            return Ok(letter.to_string());
        }
        if !schemas.contains_key(name) {
            return Err(unknown("refers to nothing"));
        }
        return match map_type {
            None => Ok(name.to_owned()),
            Some("atomic") => Ok(format!("!{name}")),
            Some("granular") => Ok(format!("~{name}")),
            Some(_) => Err(unknown("has a map type that is not known")),
        };
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), None) => Ok("s".into()),
        (Some("string"), Some("byte")) => Ok("y".into()),
        (Some("boolean"), None) => Ok("b".into()),
        (Some("integer"), Some("int32")) => Ok("i".into()),
        (Some("integer"), Some("int64")) => Ok("l".into()),
        (Some("number"), Some("double")) => Ok("f".into()),
        (Some("object"), None) => {
            let mark = if map_type == Some("atomic") { '^' } else { '<' };
            Ok(format!("{mark}{}", kind(&schema["additionalProperties"], schemas, place)?))
        }
        (Some("array"), None) => {
            let element = kind(&schema["items"], schemas, place)?;
            match schema["x-kubernetes-list-type"].as_str() {
                None | Some("atomic") => Ok(format!("*{element}")),
                Some("set") => Ok(format!("+{element}")),
                Some("map") => {
                    let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                    let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
                    Ok(format!("[{}]{element}", keys.join(",")))
                }
                Some(_) => Err(unknown("has a list type that is not known")),
            }
        }
        (found, format) => Err(unknown(&format!("has the type {found:?} with the format {format:?}"))),
    }
}

/// ` @strategy[:key]` and ` =default`, where there are such.
fn extras(text: &mut String, property: &Value) {
    if let Some(strategy) = property["x-kubernetes-patch-strategy"].as_str() {
        let _ = write!(text, " @{strategy}");
        if let Some(key) = property["x-kubernetes-patch-merge-key"].as_str() {
            let _ = write!(text, ":{key}");
        }
    }
    if let Some(default) = property["default"].as_str().filter(|default| !default.is_empty()) {
        let _ = write!(text, " ={default}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value) -> String {
        let schemas = Schemas::from([("io.k8s.api.core.v1.Container".to_owned(), json!({}))]);
        kind(schema, &schemas, "T.f").unwrap()
    }

    #[test]
    fn kinds_are_written_as_their_letters() {
        let container = json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"});
        let quantity =
            json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}]});
        assert_eq!(of(&json!({"type": "array", "items": {"type": "string"}})), "*s");
        assert_eq!(of(&quantity), "q");
        assert_eq!(of(&json!({"type": "object", "additionalProperties": quantity})), "<q");
        let list = json!({
            "type": "array", "items": container,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        });
        assert_eq!(of(&list), "[name]io.k8s.api.core.v1.Container");
        assert!(kind(&json!({"type": "odd"}), &Schemas::new(), "T.f").is_err());
    }

    #[test]
    fn patch_strategies_and_defaults_follow_the_kind() {
        let mut text = String::new();
        extras(
            &mut text,
            &json!({
                "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name", "default": "x",
            }),
        );
        assert_eq!(text, " @merge,retainKeys:name =x");
        let mut text = String::new();
        extras(&mut text, &json!({"default": ""}));
        assert_eq!(text, "");
    }
}

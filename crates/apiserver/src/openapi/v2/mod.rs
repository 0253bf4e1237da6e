//! OpenAPI v2, for clients that have not heard of v3: kubectl 1.28 and older, terraform, Helm's older versions.
//!
//! [`document`] is made of the v3 documents: the same kinds, paths and schemas in the older words. What v2 can't say (`oneOf`,
//! `nullable`, defaults) is left out, as upstream leaves it out. [`protobuf`] is the same as gnostic's messages, the only form
//! in which older kubectls ask for it.

mod wire;

use serde_json::{Map, Value, json};

pub use wire::protobuf;

use super::REFERENCE;

const DEFINITIONS: &str = "#/definitions/";
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
/// What a schema keeps as it is.
const KEPT: [&str; 4] = ["type", "format", "title", "description"];

/// One document of all v3 documents together.
#[must_use]
pub fn document<'a>(documents: impl IntoIterator<Item = &'a Value>, version: &str) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for document in documents {
        for (name, path) in document["paths"].as_object().into_iter().flatten() {
            paths.insert(name.clone(), self::path(path));
        }
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            definitions.entry(name.clone()).or_insert_with(|| self::schema(schema));
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": version}, "paths": paths, "definitions": definitions,
    })
}

fn reference(schema: &Value) -> Option<String> {
    let name = schema["$ref"].as_str()?.strip_prefix(REFERENCE)?;
    Some(format!("{DEFINITIONS}{name}"))
}

fn schema(schema: &Value) -> Value {
    let mut new = Map::new();
    // v3 says what a reference is for beside it, in an `allOf`; v2 in it.
    let referred = match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) => reference(only),
        _ => reference(schema),
    };
    if let Some(reference) = referred {
        new.insert("$ref".to_owned(), reference.into());
        if let Some(description) = schema.get("description") {
            new.insert("description".to_owned(), description.clone());
        }
        return new.into();
    }
    for (field, value) in schema.as_object().into_iter().flatten() {
        let value = match field.as_str() {
            field if KEPT.contains(&field) || field.starts_with("x-kubernetes-") => value.clone(),
            "required" if value.is_array() => value.clone(),
            "properties" => {
                let all = value.as_object().into_iter().flatten();
                all.map(|(name, value)| (name.clone(), self::schema(value))).collect::<Map<_, _>>().into()
            }
            "items" => self::schema(value),
            "additionalProperties" if value.is_object() => self::schema(value),
            "additionalProperties" => value.clone(),
            _ => continue,
        };
        new.insert(field.clone(), value);
    }
    let several = schema.get("oneOf").or(schema.get("anyOf")).is_some();
    if several && !new.contains_key("type") && !new.contains_key("properties") {
        // A quantity, or a number that may be a name.
        new.insert("type".to_owned(), "string".into());
    }
    new.into()
}

fn parameter(parameter: &Value) -> Value {
    let mut new = parameter.clone();
    if let Some(map) = new.as_object_mut() {
        map.remove("schema");
        map.insert("type".to_owned(), parameter["schema"]["type"].clone());
    }
    new
}

fn first_schema(content: &Value) -> Option<&Value> {
    content.as_object()?.values().next().map(|media| &media["schema"])
}

fn operation(operation: &Value) -> Value {
    let mut parameters: Vec<Value> = operation["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    let body = &operation["requestBody"];
    let mut new = json!({
        "description": operation["description"], "produces": ["application/json"],
        "x-kubernetes-group-version-kind": operation["x-kubernetes-group-version-kind"],
    });
    if let Some(schema) = first_schema(&body["content"]) {
        let required = body["required"] == true;
        parameters.push(json!({"name": "body", "in": "body", "required": required, "schema": self::schema(schema)}));
        let consumes: Vec<&String> =
            body["content"].as_object().into_iter().flatten().map(|(media, _)| media).collect();
        new["consumes"] = json!(consumes);
    }
    let responses = operation["responses"].as_object().into_iter().flatten().map(|(code, response)| {
        let mut new = json!({"description": response["description"]});
        if let Some(schema) = first_schema(&response["content"]) {
            new["schema"] = self::schema(schema);
        }
        (code.clone(), new)
    });
    new["responses"] = responses.collect::<Map<_, _>>().into();
    new["parameters"] = parameters.into();
    new
}

fn path(path: &Value) -> Value {
    let mut new: Map<String, Value> = METHODS
        .iter()
        .filter_map(|method| path.get(*method).map(|old| ((*method).to_owned(), operation(old))))
        .collect();
    let parameters = path["parameters"].as_array().into_iter().flatten().map(parameter);
    new.insert("parameters".to_owned(), parameters.collect());
    new.into()
}

#[cfg(test)]
mod tests;

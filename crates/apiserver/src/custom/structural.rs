//! What the schema of a definition must be: structural, so that every field has one type that can be told without looking at
//! values. Upstream's rules and words.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::node::compiled;
use crate::error::Cause;

/// Schemas nest at most this deep.
const DEEPEST: usize = 64;

/// The types that there are.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Words of JSON Schema that definitions may not use.
const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// What may only be said where the type is said.
const OUTER_TEXTS: [&str; 3] = ["type", "title", "description"];
const OUTER_FLAGS: [&str; 4] = [
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];
const OUTER_OTHERS: [&str; 4] = ["default", "externalDocs", "x-kubernetes-list-type", "x-kubernetes-map-type"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn required(at: &str, why: &str) -> Cause {
    Cause::new("FieldValueRequired", format!("Required value: {why}"), at)
}

fn forbidden(at: &str, why: &str) -> Cause {
    crate::kinds::forbidden(at, why)
}

fn invalid(at: &str, value: &Value, why: &str) -> Cause {
    crate::kinds::invalid(at, value, why)
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema[field].as_str().unwrap_or_default()
}

fn object<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema[field].as_object().into_iter().flat_map(Map::iter)
}

fn list<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    schema[field].as_array().into_iter().flatten().enumerate()
}

/// What keeps a schema from being used; `at` is its place in the definition.
pub(super) fn problems(schema: &Value, at: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    words(schema, at, 0, &mut found);
    if found.is_empty() {
        types(schema, at, Level::Root, &mut found);
        junctors(schema, schema, at, at, &mut found);
        found.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
        found.dedup();
    }
    found
}

/// Words that may not be, anywhere; and how deep it goes.
fn words(schema: &Value, at: &str, depth: usize, found: &mut Vec<Cause>) {
    if depth > DEEPEST {
        found.push(forbidden(at, "nests too deep"));
        return;
    }
    for word in UNSUPPORTED.into_iter().filter(|word| schema.get(word).is_some()) {
        found.push(forbidden(&format!("{at}.{word}"), &format!("{word} is not supported")));
    }
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.push(forbidden(&format!("{at}.uniqueItems"), why));
    }
    if schema["type"] == "null" {
        found.push(forbidden(&format!("{at}.type"), "type cannot be set to null, use nullable as an alternative"));
    }
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "null" && !TYPES.contains(&kind) {
        let known = TYPES.map(|known| format!("{known:?}")).join(", ");
        let message = format!("Unsupported value: {kind:?}: supported values: {known}");
        found.push(Cause::new("FieldValueNotSupported", message, format!("{at}.type")));
    }
    if schema["items"].is_array() {
        found.push(forbidden(&format!("{at}.items"), "items must be a schema object and not an array"));
    }
    let additional = &schema["additionalProperties"];
    if object(schema, "properties").next().is_some() && (additional.is_object() || *additional == false) {
        let why = "additionalProperties and properties are mutual exclusive";
        found.push(forbidden(&format!("{at}.additionalProperties"), why));
    }
    if !text(schema, "pattern").is_empty()
        && let Err(error) = compiled(text(schema, "pattern"))
    {
        found.push(invalid(&format!("{at}.pattern"), &schema["pattern"], &error.to_string()));
    }
    for (name, schema) in object(schema, "properties") {
        words(schema, &format!("{at}.properties[{name}]"), depth + 1, found);
    }
    for word in ["items", "additionalProperties", "not"].into_iter().filter(|word| schema[word].is_object()) {
        words(&schema[word], &format!("{at}.{word}"), depth + 1, found);
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for (index, schema) in list(schema, word) {
            words(schema, &format!("{at}.{word}[{index}]"), depth + 1, found);
        }
    }
}

/// Every value has its type.
fn types(schema: &Value, at: &str, level: Level, found: &mut Vec<Cause>) {
    let flag = |name: &str| schema[name] == true;
    let (kind, embedded) = (text(schema, "type"), flag("x-kubernetes-embedded-resource"));
    let (either, open) = (flag("x-kubernetes-int-or-string"), flag("x-kubernetes-preserve-unknown-fields"));
    let type_at = format!("{at}.type");
    if kind == "array" && !schema["items"].is_object() {
        found.push(required(&format!("{at}.items"), "must be specified"));
    }
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        found.push(if kind.is_empty() { required(&type_at, why) } else { invalid(&type_at, &schema["type"], why) });
    } else if kind.is_empty() && !either && !open {
        found.push(required(
            &type_at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    } else if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.push(invalid(&type_at, &schema["type"], "must be object at the root"));
    }
    if level == Level::Root && schema["additionalProperties"].is_object() {
        found.push(forbidden(&format!("{at}.additionalProperties"), "must not be used at the root"));
    }
    if either && open {
        let why = "must be false if x-kubernetes-int-or-string is true";
        found.push(invalid(&format!("{at}.x-kubernetes-preserve-unknown-fields"), &true.into(), why));
    }
    if embedded && !open && object(schema, "properties").next().is_none() {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        found.push(required(&format!("{at}.properties"), why));
    }
    if level == Level::Root || embedded {
        own_fields(schema, at, level, found);
    }
    lists(schema, at, found);
    for (name, below) in object(schema, "properties") {
        if level == Level::Root && name == "metadata" {
            continue;
        }
        let at = format!("{at}.properties[{name}]");
        types(below, &at, Level::Field, found);
        junctors(below, below, &at, &at, found);
    }
    for (word, level) in [("items", Level::Item), ("additionalProperties", Level::Field)] {
        if schema[word].is_object() {
            let at = format!("{at}.{word}");
            types(&schema[word], &at, level, found);
            junctors(&schema[word], &schema[word], &at, &at, found);
        }
    }
}

/// The fields that every object has are not the schema's to change.
fn own_fields(schema: &Value, at: &str, level: Level, found: &mut Vec<Cause>) {
    for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let property = &schema["properties"][name];
        if property.is_object() && property["type"] != wanted {
            let why = format!("must be {wanted}");
            found.push(invalid(&format!("{at}.properties[{name}].type"), &property["type"], &why));
        }
    }
    if level != Level::Root {
        return;
    }
    let metadata = &schema["properties"]["metadata"];
    let only_names = object(metadata, "properties").all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let only_words = metadata.as_object().is_none_or(|map| {
        map.keys().all(|word| matches!(word.as_str(), "type" | "properties" | "description" | "title"))
    });
    if !only_names || !only_words {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        found.push(forbidden(&format!("{at}.properties[metadata]"), why));
    }
}

/// What lists and maps say of their entries.
fn lists(schema: &Value, at: &str, found: &mut Vec<Cause>) {
    let keys: Vec<&str> = list(schema, "x-kubernetes-list-map-keys").filter_map(|(_, key)| key.as_str()).collect();
    let keys_at = format!("{at}.x-kubernetes-list-map-keys");
    let list_type = text(schema, "x-kubernetes-list-type");
    if !list_type.is_empty() && schema["type"] != "array" {
        let why = "must be array if x-kubernetes-list-type is specified";
        found.push(invalid(&format!("{at}.type"), &schema["type"], why));
    }
    match list_type {
        "" | "atomic" | "set" => {
            if !keys.is_empty() {
                found.push(required(
                    &format!("{at}.x-kubernetes-list-type"),
                    "must be map if x-kubernetes-list-map-keys is non-empty",
                ));
            }
            let items = &schema["items"];
            let whole = items["x-kubernetes-map-type"] == "atomic" || items["x-kubernetes-list-type"] == "atomic";
            if list_type == "set" && matches!(text(items, "type"), "object" | "array") && !whole {
                let why = "items may not be objects or lists that are merged if x-kubernetes-list-type is set";
                found.push(invalid(&format!("{at}.items"), &items["type"], why));
            }
        }
        "map" => {
            if keys.is_empty() {
                found.push(required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
            }
            if schema["items"]["type"] != "object" {
                let why = "must be object if parent array's x-kubernetes-list-type is map";
                found.push(invalid(&format!("{at}.items.type"), &schema["items"]["type"], why));
            }
            let needed: BTreeSet<&str> =
                list(&schema["items"], "required").filter_map(|(_, name)| name.as_str()).collect();
            let mut seen = BTreeSet::new();
            for (index, key) in keys.into_iter().enumerate() {
                let property = &schema["items"]["properties"][key];
                let key_at = format!("{keys_at}[{index}]");
                if !seen.insert(key) {
                    found.push(Cause::new("FieldValueDuplicate", format!("Duplicate value: {key:?}"), key_at));
                } else if !property.is_object() {
                    let why = format!("entries must all be names of item properties: {key}");
                    found.push(invalid(&key_at, &key.into(), &why));
                } else if !needed.contains(key) && property["default"].is_null() {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    found.push(required(&format!("{at}.items.properties[{key}].default"), why));
                }
            }
        }
        _ => {
            let message = format!("Unsupported value: {list_type:?}: supported values: \"atomic\", \"map\", \"set\"");
            found.push(Cause::new("FieldValueNotSupported", message, format!("{at}.x-kubernetes-list-type")));
        }
    }
    let map_type = text(schema, "x-kubernetes-map-type");
    if !matches!(map_type, "" | "atomic" | "granular") {
        let message = format!("Unsupported value: {map_type:?}: supported values: \"atomic\", \"granular\"");
        found.push(Cause::new("FieldValueNotSupported", message, format!("{at}.x-kubernetes-map-type")));
    } else if !map_type.is_empty() && schema["type"] != "object" {
        let why = "must be object if x-kubernetes-map-type is specified";
        found.push(invalid(&format!("{at}.type"), &schema["type"], why));
    }
}

/// Alternatives judge values and say no types; and what they speak of, the schema `of` that they belong to has.
fn junctors(schema: &Value, of: &Value, at: &str, of_at: &str, found: &mut Vec<Cause>) {
    let either = schema["x-kubernetes-int-or-string"] == true;
    for word in ["allOf", "anyOf", "oneOf"] {
        for (index, below) in list(schema, word) {
            let bare = either && word != "oneOf" && is_type_alone(below, word);
            if !bare {
                nested(below, of, &format!("{at}.{word}[{index}]"), of_at, found);
            }
        }
    }
    if schema["not"].is_object() {
        nested(&schema["not"], of, &format!("{at}.not"), of_at, found);
    }
}

/// `anyOf: [{type: integer}, {type: string}]`, which tools write beside `x-kubernetes-int-or-string`.
fn is_type_alone(schema: &Value, word: &str) -> bool {
    let one = |schema: &Value| {
        schema.as_object().is_some_and(|map| map.len() == 1) && matches!(text(schema, "type"), "integer" | "string")
    };
    one(schema) || word == "allOf" && list(schema, "anyOf").count() == 2 && list(schema, "anyOf").all(|(_, s)| one(s))
}

fn nested(schema: &Value, of: &Value, at: &str, of_at: &str, found: &mut Vec<Cause>) {
    for word in OUTER_TEXTS.into_iter().filter(|word| !text(schema, word).is_empty()) {
        found.push(forbidden(&format!("{at}.{word}"), "must be empty to be structural"));
    }
    for word in OUTER_FLAGS.into_iter().filter(|word| schema[word] == true) {
        found.push(forbidden(&format!("{at}.{word}"), "must be false to be structural"));
    }
    for word in OUTER_OTHERS.into_iter().filter(|word| !schema[word].is_null()) {
        found.push(forbidden(&format!("{at}.{word}"), "must be undefined to be structural"));
    }
    if schema["additionalProperties"].is_object() {
        found.push(forbidden(&format!("{at}.additionalProperties"), "must be undefined to be structural"));
    }
    for word in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if list(schema, word).next().is_some() {
            found.push(forbidden(&format!("{at}.{word}"), "must be empty to be structural"));
        }
    }
    for (name, below) in object(schema, "properties") {
        let (below_at, outer_at) = (format!("{at}.properties[{name}]"), format!("{of_at}.properties[{name}]"));
        if name == "metadata" {
            found.push(forbidden(&below_at, "must not be specified in a nested context"));
        }
        match &of["properties"][name.as_str()] {
            Value::Null => found.push(required(&outer_at, &format!("because it is defined in {below_at}"))),
            outer => nested(below, outer, &below_at, &outer_at, found),
        }
    }
    if schema["items"].is_object() {
        let (below_at, outer_at) = (format!("{at}.items"), format!("{of_at}.items"));
        match &of["items"] {
            Value::Null => found.push(required(&outer_at, &format!("because it is defined in {below_at}"))),
            outer => nested(&schema["items"], outer, &below_at, &outer_at, found),
        }
    }
    junctors(schema, of, at, of_at, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: &Value) -> Vec<String> {
        problems(schema, "s").iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn structural_schemas_are_accepted() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object", "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
                "spec": {
                    "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minLength": 1}}}],
                },
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "list": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"],
                    "items": {"type": "object", "required": ["n"], "properties": {
                        "n": {"type": "string"}, "p": {"type": "string", "default": "TCP"},
                    }},
                },
            }}),
        ] {
            assert_eq!(told(&schema), [""; 0], "{schema}");
        }
    }

    #[test]
    fn everything_else_is_told_in_upstreams_words() {
        let field = |schema: Value| json!({"type": "object", "properties": {"f": schema}});
        for (schema, expected) in [
            (json!({}), "s.type: Required value: must not be empty at the root"),
            (
                field(json!({"type": "objec"})),
                r#"s.properties[f].type: Unsupported value: "objec": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "s.type: Invalid value: \"array\": must be object at the root",
            ),
            (field(json!({})), "s.properties[f].type: Required value: must not be empty for specified object fields"),
            (field(json!({"type": "array"})), "s.properties[f].items: Required value: must be specified"),
            (
                field(json!({"type": "array", "items": {}})),
                "s.properties[f].items.type: Required value: must not be empty for specified array items",
            ),
            (
                field(json!({"type": "string", "pattern": "("})),
                "s.properties[f].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error: unclosed group",
            ),
            (
                field(
                    json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
                ),
                "s.properties[f].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            (field(json!({"$ref": "#/x"})), "s.properties[f].$ref: Forbidden: $ref is not supported"),
            (
                field(json!({"type": "string", "anyOf": [{"type": "string"}]})),
                "s.properties[f].anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                field(json!({"type": "object", "anyOf": [{"properties": {"x": {"minLength": 1}}}]})),
                "s.properties[f].properties[x]: Required value: because it is defined in s.properties[f].anyOf[0].properties[x]",
            ),
            (
                field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
                "s.properties[f].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ),
            (
                field(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "odd"})),
                "s.properties[f].x-kubernetes-list-type: Unsupported value: \"odd\": supported values: \"atomic\", \"map\", \"set\"",
            ),
            (
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is \
                 implicitly specified",
            ),
        ] {
            assert_eq!(told(&schema), [expected], "{schema}");
        }
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        assert!(told(&json!({"type": "object", "properties": {"f": deep}}))[0].ends_with("Forbidden: nests too deep"));
    }
}

//! A value against its schema, in upstream's words.

use serde_json::{Number, Value};

use super::format;
use super::node::Node;
use crate::error::Cause;

/// Everything that is wrong. Of a value of the wrong type nothing else is said.
pub(super) fn check(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    if !type_fits(node, value, path, found) {
        return;
    }
    if !value.is_null() {
        choices(node, value, path, found);
        match value {
            Value::Number(number) => numbers(node, number, path, found),
            Value::String(text) => texts(node, text, path, found),
            Value::Array(entries) => {
                count(node.items_count, entries.len(), path, "items", found);
                if let Some(items) = &node.items {
                    for (at, entry) in entries.iter().enumerate() {
                        check(items, entry, &format!("{path}[{at}]"), found);
                    }
                }
            }
            Value::Object(fields) => {
                count(node.properties_count, fields.len(), path, "properties", found);
                for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
                    found.push(Cause::new("FieldValueRequired", "Required value", below(path, name)));
                }
                for name in ["apiVersion", "kind"].into_iter().filter(|_| node.embedded) {
                    if fields.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
                        let message = "Required value: must not be empty";
                        found.push(Cause::new("FieldValueRequired", message, below(path, name)));
                    }
                }
                for (name, value) in fields {
                    if let Some(property) = node.field(name) {
                        check(property, value, &below(path, name), found);
                    }
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
    junctors(node, value, path, found);
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The type as upstream names it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_fits(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) -> bool {
    let given = type_of(value);
    let fits = match (given, node.kind.as_str()) {
        ("null", _) if node.nullable => true,
        (given, "") if node.int_or_string => matches!(given, "integer" | "string"),
        (_, "") | ("integer", "number") => true,
        (given, wanted) => given == wanted,
    };
    if !fits {
        let wanted = if node.kind.is_empty() { "integer,string" } else { &node.kind };
        let message = format!("Invalid value: {given:?}: {path} in body must be of type {wanted}: {given:?}");
        found.push(Cause::new("FieldValueTypeInvalid", message, path));
    }
    fits
}

fn invalid(path: &str, value: &dyn std::fmt::Display, why: &str) -> Cause {
    Cause::new("FieldValueInvalid", format!("Invalid value: {value}: {path} in body {why}"), path)
}

fn choices(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    if node.choices.is_empty() || node.choices.contains(value) {
        return;
    }
    let supported: Vec<String> = node
        .choices
        .iter()
        .map(|choice| format!("{:?}", choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)))
        .collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    found.push(Cause::new("FieldValueNotSupported", message, path));
}

fn numbers(node: &Node, number: &Number, path: &str, found: &mut Vec<Cause>) {
    let Some(value) = number.as_f64() else { return };
    if let Some(bound) = node.maximum.filter(|b| value > b.at || b.exclusive && value >= b.at) {
        let or_equal = if bound.exclusive { "" } else { "or equal to " };
        found.push(invalid(path, number, &format!("should be less than {or_equal}{}", bound.at)));
    }
    if let Some(bound) = node.minimum.filter(|b| value < b.at || b.exclusive && value <= b.at) {
        let or_equal = if bound.exclusive { "" } else { "or equal to " };
        found.push(invalid(path, number, &format!("should be greater than {or_equal}{}", bound.at)));
    }
    if let Some(factor) = node.multiple_of.filter(|factor| *factor > 0.0 && (value / factor).fract() != 0.0) {
        found.push(invalid(path, number, &format!("should be a multiple of {factor}")));
    }
    if node.format == "int32" && node.kind == "integer" && number.as_i64().is_none_or(|n| i32::try_from(n).is_err()) {
        found.push(invalid(path, number, "must be of type integer with format int32"));
    }
}

fn texts(node: &Node, text: &str, path: &str, found: &mut Vec<Cause>) {
    let quoted = Value::from(text);
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    // The first of these alone, as upstream.
    if let Some(most) = node.length.1.filter(|most| length > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        found.push(Cause::new("FieldValueTooLong", message, path));
    } else if let Some(least) = node.length.0.filter(|least| length < *least) {
        found.push(invalid(path, &quoted, &format!("should be at least {least} chars long")));
    } else if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        found.push(invalid(path, &quoted, &format!("should match '{pattern}'")));
    }
    if !node.format.is_empty() && !format::is(&node.format, text) {
        let why = format!("Invalid value: {quoted}: {path} in body must be of type {}: {quoted}", node.format);
        found.push(Cause::new("FieldValueTypeInvalid", why, path));
    }
}

fn count(bounds: (Option<i64>, Option<i64>), given: usize, path: &str, what: &str, found: &mut Vec<Cause>) {
    let given = i64::try_from(given).unwrap_or(i64::MAX);
    if let Some(most) = bounds.1.filter(|most| given > *most) {
        let noun = if most == 1 { "item" } else { "items" };
        let message = format!("Too many: {given}: must have at most {most} {noun}");
        found.push(Cause::new("FieldValueTooMany", message, path));
    }
    if let Some(least) = bounds.0.filter(|least| given < *least) {
        found.push(invalid(path, &given, &format!("should have at least {least} {what}")));
    }
}

/// `allOf`, `anyOf`, `oneOf`, `not`. Of alternatives that all fail, the one that fails least is told as well.
fn junctors(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    let problems = |node: &Node| {
        let mut found = Vec::new();
        check(node, value, path, &mut found);
        found
    };
    // Upstream says of these no field.
    let whole = |what: &str| Cause::new("FieldValueInvalid", format!("Invalid value: \"\": {path:?} {what}"), "<nil>");
    for each in &node.all_of {
        found.extend(problems(each));
    }
    let best = |alternatives: &[Vec<Cause>]| alternatives.iter().min_by_key(|found| found.len()).cloned();
    if !node.any_of.is_empty() {
        let each: Vec<Vec<Cause>> = node.any_of.iter().map(problems).collect();
        if each.iter().all(|found| !found.is_empty()) {
            found.push(whole("must validate at least one schema (anyOf)"));
            found.extend(best(&each).unwrap_or_default());
        }
    }
    if !node.one_of.is_empty() {
        let each: Vec<Vec<Cause>> = node.one_of.iter().map(problems).collect();
        match each.iter().filter(|found| found.is_empty()).count() {
            1 => {}
            0 => {
                found.push(whole("must validate one and only one schema (oneOf). Found none valid"));
                found.extend(best(&each).unwrap_or_default());
            }
            many => {
                let what = format!("must validate one and only one schema (oneOf). Found {many} valid alternatives");
                found.push(whole(&what));
            }
        }
    }
    if node.not.as_deref().is_some_and(|not| problems(not).is_empty()) {
        found.push(whole("must not validate the schema (not)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: &Value, value: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        let node = Node::new(&serde_json::from_value(schema).unwrap()).unwrap();
        let mut found = Vec::new();
        check(&node, &json!({"spec": value}), "", &mut found);
        found.iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message)).collect()
    }

    #[test]
    fn values_are_refused_in_upstreams_words() {
        for (schema, value, expected) in [
            (
                json!({"type": "integer"}),
                json!("a"),
                r#"FieldValueTypeInvalid spec: Invalid value: "string": spec in body must be of type integer: "string""#,
            ),
            (
                json!({"type": "integer"}),
                json!(1.5),
                r#"FieldValueTypeInvalid spec: Invalid value: "number": spec in body must be of type integer: "number""#,
            ),
            (
                json!({"type": "object"}),
                Value::Null,
                r#"FieldValueTypeInvalid spec: Invalid value: "null": spec in body must be of type object: "null""#,
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(true),
                r#"FieldValueTypeInvalid spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#,
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "FieldValueInvalid spec: Invalid value: 0: spec in body should be greater than or equal to 1",
            ),
            (
                json!({"type": "integer", "maximum": 9, "exclusiveMaximum": true}),
                json!(9),
                "FieldValueInvalid spec: Invalid value: 9: spec in body should be less than 9",
            ),
            (
                json!({"type": "integer", "multipleOf": 5}),
                json!(7),
                "FieldValueInvalid spec: Invalid value: 7: spec in body should be a multiple of 5",
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("c"),
                r#"FieldValueNotSupported spec: Unsupported value: "c": supported values: "a", "b""#,
            ),
            (
                json!({"type": "string", "minLength": 2}),
                json!("a"),
                r#"FieldValueInvalid spec: Invalid value: "a": spec in body should be at least 2 chars long"#,
            ),
            (
                json!({"type": "string", "pattern": "^a+$"}),
                json!("b"),
                r#"FieldValueInvalid spec: Invalid value: "b": spec in body should match '^a+$'"#,
            ),
            (
                json!({"type": "string", "format": "ipv4"}),
                json!("b"),
                r#"FieldValueTypeInvalid spec: Invalid value: "b": spec in body must be of type ipv4: "b""#,
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
                json!([]),
                "FieldValueInvalid spec: Invalid value: 0: spec in body should have at least 1 items",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
                json!(["a", "b"]),
                "FieldValueTooMany spec: Too many: 2: must have at most 1 item",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                json!(["a", 1]),
                r#"FieldValueTypeInvalid spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer""#,
            ),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
                json!({}),
                "FieldValueRequired spec.a: Required value",
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                json!({"k": 1}),
                r#"FieldValueTypeInvalid spec.k: Invalid value: "integer": spec.k in body must be of type string: "integer""#,
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "not": {"required": ["a"]}}),
                json!({"a": 1}),
                r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must not validate the schema (not)"#,
            ),
            (
                json!({"type": "string", "allOf": [{"minLength": 3}]}),
                json!("a"),
                r#"FieldValueInvalid spec: Invalid value: "a": spec in body should be at least 3 chars long"#,
            ),
        ] {
            assert_eq!(told(&schema, &value), [expected], "{schema} {value}");
        }
    }

    #[test]
    fn alternatives_are_judged_together() {
        let one = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(told(&one, &json!({"a": "x"})), [""; 0]);
        let none = told(&one, &json!({}));
        assert!(
            none[0].ends_with(r#""spec" must validate one and only one schema (oneOf). Found none valid"#),
            "{none:?}"
        );
        assert!(told(&one, &json!({"a": "x", "b": "y"}))[0].ends_with("Found 2 valid alternatives"));
        let any = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
        assert_eq!(told(&any, &json!(1)), [""; 0]);
        assert_eq!(told(&any, &json!("50%")), [""; 0]);
    }

    #[test]
    fn what_may_be_is_not_told() {
        assert_eq!(told(&json!({"type": "number"}), &json!(1)), [""; 0]);
        assert_eq!(told(&json!({"type": "integer"}), &json!(2.0)), [""; 0]);
        assert_eq!(told(&json!({"type": "string", "nullable": true, "enum": ["a"]}), &Value::Null), [""; 0]);
        assert_eq!(told(&json!({"x-kubernetes-preserve-unknown-fields": true}), &json!([1, "a"])), [""; 0]);
    }
}

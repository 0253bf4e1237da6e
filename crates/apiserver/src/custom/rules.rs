//! `x-kubernetes-validations`: rules in CEL, by kube-rs' implementation of Kubernetes' dialect.
//!
//! What it can't evaluate is refused, never passed over. There is no budget of cost as upstream has one: whoever may write
//! definitions is an administrator here.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use crate::error::Cause;

/// Reasons after which rules would judge what is not there.
const BLOCKING: [&str; 5] =
    ["FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"];

/// The rules of a schema.
pub(super) struct Rules(Option<CompiledSchema>);

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rules").field(&self.0.is_some()).finish()
    }
}

/// Whether there is a rule anywhere.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules),
        Value::Array(entries) => entries.iter().any(has_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The parser was made by a generator and may fall over input that nobody thought of.
fn guarded<T>(act: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}

impl Rules {
    /// The rules of a schema, compiled. Those that can't be fail for every object.
    pub(super) fn new(schema: &Value) -> Self {
        Self(has_rules(schema).then(|| guarded(|| compile_schema(schema))).flatten())
    }

    /// Which rules an object breaks, given what its schema says of it otherwise; `old` for rules on changes.
    pub(super) fn problems(&self, object: &Value, old: Option<&Value>, otherwise: &[Cause]) -> Vec<Cause> {
        let Some(compiled) = &self.0 else { return Vec::new() };
        if otherwise.iter().any(|cause| BLOCKING.contains(&cause.reason.as_str())) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                       complete validation";
            return vec![Cause::new("FieldValueInvalid", format!("Invalid value: null: {why}"), "<nil>")];
        }
        let judged = guarded(|| Validator::new().validate_compiled(compiled, object, old));
        match judged {
            Some(Ok(())) => Vec::new(),
            Some(Err(errors)) => errors.into_vec().into_iter().map(cause).collect(),
            None => vec![Cause::new("InternalError", "Internal error: a rule could not be evaluated", "<nil>")],
        }
    }
}

fn cause(error: kube_cel::ValidationError) -> Cause {
    let field = if error.field_path.is_empty() { "<nil>".to_owned() } else { error.field_path };
    let message = error.message;
    match error.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::new("FieldValueForbidden", format!("Forbidden: {message}"), field),
        Some("FieldValueRequired") => Cause::new("FieldValueRequired", format!("Required value: {message}"), field),
        Some("FieldValueDuplicate") => Cause::new("FieldValueDuplicate", format!("Duplicate value: {message}"), field),
        _ => Cause::new("FieldValueInvalid", format!("Invalid value: {message}"), field),
    }
}

/// The rules of a schema that are none, with their places below `root`.
pub(super) fn misspelt(schema: &Value, root: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    walk(schema, root, &mut found);
    found
}

fn walk(schema: &Value, place: &str, found: &mut Vec<Cause>) {
    for (index, rule) in schema["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
        let place = format!("{place}.x-kubernetes-validations[{index}].rule");
        let text = rule["rule"].as_str().unwrap_or_default();
        if text.trim().is_empty() {
            found.push(Cause::new("FieldValueRequired", "Required value: rule is not specified", place));
            continue;
        }
        let alone = serde_json::json!({"x-kubernetes-validations": [rule]});
        let wrong = match guarded(|| compile_schema(&alone)) {
            None => Some("it is not understood".to_owned()),
            Some(compiled) => compiled.compilation_errors().first().map(ToString::to_string),
        };
        found.extend(
            wrong.map(|why| crate::kinds::invalid(&place, &text.into(), &format!("compilation failed: {why}"))),
        );
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        walk(below, &format!("{place}.properties[{name}]"), found);
    }
    for word in ["items", "additionalProperties"].into_iter().filter(|word| schema[word].is_object()) {
        walk(&schema[word], &format!("{place}.{word}"), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(rules: &Value, new: &Value, old: Option<Value>) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "integer"}, "b": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}},
        }, "x-kubernetes-validations": rules}}});
        assert_eq!(misspelt(&schema, "s"), []);
        let found =
            Rules::new(&schema).problems(&json!({"spec": new}), old.map(|old| json!({"spec": old})).as_ref(), &[]);
        found.iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message)).collect()
    }

    #[test]
    fn rules_judge_objects_and_changes() {
        let less = json!([{"rule": "self.a <= self.b", "message": "a must not exceed b"}]);
        assert_eq!(told(&less, &json!({"a": 1, "b": 2}), None), [""; 0]);
        assert_eq!(
            told(&less, &json!({"a": 3, "b": 2}), None),
            ["FieldValueInvalid spec: Invalid value: a must not exceed b"]
        );
        let fixed =
            json!([{"rule": "self.a == oldSelf.a", "message": "a is immutable", "reason": "FieldValueForbidden"}]);
        assert_eq!(told(&fixed, &json!({"a": 3}), None), [""; 0], "nothing has changed yet");
        assert_eq!(
            told(&fixed, &json!({"a": 3}), Some(json!({"a": 2}))),
            ["FieldValueForbidden spec: Forbidden: a is immutable"]
        );
        let one = json!([{"rule": "[has(self.a), has(self.b)].filter(x, x).size() == 1"}]);
        assert_eq!(told(&one, &json!({"b": 1}), None), [""; 0]);
        assert_eq!(told(&one, &json!({}), None).len(), 1);
        let spoken = json!([{"rule": "self.a < 3", "messageExpression": "'a is ' + string(self.a)"}]);
        assert_eq!(told(&spoken, &json!({"a": 7}), None), ["FieldValueInvalid spec: Invalid value: a is 7"]);
    }

    #[test]
    fn rules_that_are_none_are_told_when_they_are_written() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self. <"}, {"rule": ""}]});
        let found = misspelt(&schema, "s");
        assert_eq!(found[0].field, "s.x-kubernetes-validations[0].rule");
        assert!(found[0].message.contains("compilation failed"), "{found:?}");
        assert_eq!(found[1].message, "Required value: rule is not specified");
    }

    #[test]
    fn an_object_of_the_wrong_shape_is_not_judged_by_rules() {
        let rules = Rules::new(&json!({"x-kubernetes-validations": [{"rule": "self.a"}]}));
        let wrong = [Cause::new("FieldValueRequired", "Required value", "a")];
        assert!(rules.problems(&json!({}), None, &wrong)[0].message.contains("were not checked"));
        assert_eq!(Rules::new(&json!({"type": "object"})).problems(&json!({}), None, &wrong), []);
    }
}

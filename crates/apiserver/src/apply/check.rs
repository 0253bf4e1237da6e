//! Whether what is applied is of its type: an applier owns what it sends, so nothing may be ignored.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::{Shape, entries, fields};
use super::step::{Step, display};
use crate::schema::{Kind, Types};

/// Every problem of the value, as upstream words them: `.spec.foo: field not declared in schema`.
pub(super) fn problems(types: &Types, kind: &Kind, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check(types, kind, value, &mut Vec::new(), &mut problems);
    problems
}

fn check(types: &Types, kind: &Kind, value: &Value, path: &mut Vec<Step>, problems: &mut Vec<String>) {
    let problem = |text: String, path: &[Step], problems: &mut Vec<String>| {
        problems.push(format!("{}: {text}", display(path)));
    };
    let wrong = |expected: &str| format!("expected {expected}, got {value}");
    if value.is_null() {
        return;
    }
    match kind {
        Kind::Struct { id, .. } => {
            let strukt = types.get(*id);
            if !value.is_object() {
                return problem(wrong("map"), path, problems);
            }
            for (name, value) in fields(Some(value)) {
                path.push(Step::field(name));
                match strukt.field(name) {
                    Some(field) => check(types, &field.kind, value, path, problems),
                    None if strukt.open => {}
                    None => problems.push(format!("{}: field not declared in schema", display(path))),
                }
                path.pop();
            }
        }
        Kind::Map { value: kind, .. } => {
            if !value.is_object() {
                return problem(wrong("map"), path, problems);
            }
            for (name, value) in fields(Some(value)) {
                path.push(Step::field(name));
                check(types, kind, value, path, problems);
                path.pop();
            }
        }
        Kind::List { element, .. } => {
            if !value.is_array() {
                return problem(wrong("list"), path, problems);
            }
            let shape = Shape::of(types, kind, &[Some(value)]);
            let mut seen = BTreeSet::new();
            for (at, entry) in entries(Some(value)).iter().enumerate() {
                let step = match shape {
                    Shape::Set(_) | Shape::Keyed(..) => match shape.step_to(types, entry) {
                        Ok(step) => step,
                        Err(error) => {
                            problem(format!("element {at}: {error}"), path, problems);
                            continue;
                        }
                    },
                    Shape::Leaf | Shape::Struct(_) | Shape::Map(_) => Step::index(at),
                };
                path.push(step.clone());
                check(types, element, entry, path, problems);
                path.pop();
                if !seen.insert(step.clone()) {
                    problems.push(format!("{}: duplicate entries for key {}", display(path), display(&[step])));
                }
            }
        }
        Kind::String | Kind::Bytes | Kind::Time | Kind::MicroTime => {
            if !value.is_string() {
                problem(wrong("string"), path, problems);
            }
        }
        Kind::Bool => {
            if !value.is_boolean() {
                problem(wrong("boolean"), path, problems);
            }
        }
        Kind::Int32 | Kind::Int64 | Kind::Double => {
            if !value.is_number() {
                problem(wrong("numeric (int or float)"), path, problems);
            }
        }
        Kind::Quantity | Kind::IntOrString => {
            if !value.is_string() && !value.is_number() {
                problem(wrong("scalar"), path, problems);
            }
        }
        Kind::Raw | Kind::Fields | Kind::Json | Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrStrings => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    fn of(spec: &Value) -> Vec<String> {
        let kind = builtin().kind("v1", "Pod").unwrap();
        problems(builtin(), &kind, &json!({"spec": spec}))
    }

    #[test]
    fn every_problem_has_its_path() {
        assert_eq!(
            of(&json!({"nodeName": null, "containers": [{"name": "a", "ports": [{"containerPort": 1}]}]})),
            [""; 0]
        );
        assert_eq!(of(&json!({"foo": 1})), [".spec.foo: field not declared in schema"]);
        assert_eq!(
            of(&json!({"containers": [{"name": "a", "imag": "x"}]})),
            [".spec.containers[name=\"a\"].imag: field not declared in schema"]
        );
        assert_eq!(of(&json!({"hostNetwork": "yes"})), [".spec.hostNetwork: expected boolean, got \"yes\""]);
        assert_eq!(of(&json!({"containers": {}})), [".spec.containers: expected list, got {}"]);
        assert_eq!(of(&json!({"tolerations": [{"key": 1}]})), [".spec.tolerations[0].key: expected string, got 1"]);
    }

    #[test]
    fn entries_need_their_keys_once() {
        assert_eq!(
            of(&json!({"containers": [{"image": "x"}]})),
            [
                ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)"
            ]
        );
        assert_eq!(
            of(&json!({"containers": [{"name": "a"}, {"name": "a"}]})),
            [".spec.containers: duplicate entries for key [name=\"a\"]"]
        );
    }
}

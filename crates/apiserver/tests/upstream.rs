//! What Go's own libraries make of the same patches and writes: `upstream/cases.jsonl`, a line a case.
//!
//! The cases are random Pods, patches with every directive, and sequences of applies and updates by three managers; the
//! answers are those of `k8s.io/apimachinery` v0.37.0 (`strategicpatch.StrategicMergePatch`, and `managedfieldstest`'s
//! manager with the types of Kubernetes v1.37.0). Nulls, times and directives that Go leaves in new entries are no part
//! of the comparison: decoding drops them on both sides.

#![cfg(test)]

use minke_apiserver::apply::{Writer, apply, track};
use minke_apiserver::patch::strategic_merge_patch;
use minke_apiserver::schema::builtin;
use serde_json::{Value, json};

fn cases(with: &str) -> Vec<Value> {
    let lines = include_str!("upstream/cases.jsonl").lines();
    let all = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|case| case.get(with).is_some()).collect()
}

/// Without nulls, and without directives.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !value.is_null() && !name.starts_with('$'));
            Value::Object(kept.map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        Value::Array(entries) => entries.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// The object and its entries, these in an order and without times.
fn split(object: &Value) -> (Value, Vec<String>) {
    let mut object = plain(object);
    let taken = object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    let mut entries: Vec<String> = Vec::new();
    for mut entry in taken.as_ref().and_then(Value::as_array).cloned().unwrap_or_default() {
        entry.as_object_mut().unwrap().remove("time");
        entries.push(entry.to_string());
    }
    entries.sort();
    (object, entries)
}

/// Managers come in any order in Go's messages.
fn lines(message: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = message.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn strategic_merge_patches_give_what_go_gives() {
    let kind = builtin().kind("v1", "Pod").unwrap();
    let cases = cases("patch");
    assert!(!cases.is_empty());
    for case in cases {
        let result = strategic_merge_patch(builtin(), &kind, &case["object"], &case["patch"]).unwrap();
        assert_eq!(plain(&result), plain(&case["result"]), "{}", case["patch"]);
    }
}

#[test]
fn applies_and_updates_leave_what_go_leaves() {
    let kind = builtin().kind("v1", "Pod").unwrap();
    let cases = cases("steps");
    assert!(!cases.is_empty());
    for case in cases {
        let mut live = json!({"apiVersion": "v1", "kind": "Pod"});
        for step in case["steps"].as_array().unwrap() {
            let manager = step["manager"].as_str().unwrap();
            let writer =
                Writer { manager, api_version: "v1", subresource: "", ignored: &[], now: "2026-01-01T00:00:00Z" };
            let mut error = String::new();
            if step["op"] == "apply" {
                match apply(builtin(), &kind, &live, &step["object"], &writer, step["force"] == true) {
                    Ok(object) => live = plain(&object),
                    Err(conflicts) => error = conflicts.to_string(),
                }
            } else {
                live = plain(&track(builtin(), &kind, &live, step["object"].clone(), &writer));
            }
            assert_eq!(lines(&error), lines(step["error"].as_str().unwrap()), "{step}");
            assert_eq!(split(&live), split(&step["live"]), "{step}");
        }
    }
}

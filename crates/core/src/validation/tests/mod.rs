//! One table a concept: what someone writes, and what a server would say. Each row changes one thing of a good Pod.

mod configuration;
mod containers;
mod pod;
mod security;
mod support;
mod volumes;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::defaults::default_pod;

fn pod(metadata: &Value, spec: &Value) -> Pod {
    let mut pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    default_pod(&mut pod);
    pod
}

/// A good container, changed.
fn container(change: &Value) -> Value {
    merged(json!({"name": "c", "image": "i:1"}), change)
}

/// A good spec, changed.
fn spec(change: &Value) -> Value {
    merged(json!({"containers": [container(&json!({}))]}), change)
}

fn merged(mut base: Value, change: &Value) -> Value {
    for (key, value) in change.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

fn said(pod: &Pod) -> Vec<String> {
    validate_pod(pod).iter().map(ValidationError::to_string).collect()
}

/// What is said about a good Pod whose spec is changed.
fn about_spec(change: &Value) -> Vec<String> {
    said(&pod(&json!({"name": "p"}), &spec(change)))
}

/// What is said about a good Pod whose container is changed.
fn about_container(change: &Value) -> Vec<String> {
    about_spec(&json!({"containers": [container(change)]}))
}

/// Checks rows: a change, and the beginning of each thing said about it.
#[track_caller]
fn check(rows: Vec<(Value, Vec<&str>)>, about: impl Fn(&Value) -> Vec<String>) {
    for (change, expected) in rows {
        let said = about(&change);
        assert_eq!(said.len(), expected.len(), "{change}: {said:#?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(expected), "{change}\n said: {said}\nnot: {expected}");
        }
    }
}

#[test]
fn a_plain_pod_is_good() {
    assert_eq!(about_spec(&json!({})), [""; 0]);
}

//! Whole texts in, Pods or diagnostics out.

mod hostile;
mod identity;
mod kinds;
mod properties;
mod secrets;
mod strict;
mod workloads;
mod yaml_and_json;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::*;

fn input(name: &str, text: impl AsRef<[u8]>) -> Input {
    Input { name: name.into(), bytes: text.as_ref().to_vec() }
}

fn parse_one(text: impl AsRef<[u8]>) -> Result<Manifests, Invalid> {
    parse(&[input("m.yaml", text)], Validate::Strict)
}

/// What is read from a text without any problem.
#[track_caller]
fn good(text: impl AsRef<[u8]>) -> Manifests {
    match parse_one(text) {
        Ok(manifests) => manifests,
        Err(invalid) => panic!("{:#?}", lines(&invalid.errors)),
    }
}

/// The only Pod of a text.
#[track_caller]
fn pod(text: impl AsRef<[u8]>) -> Arc<Pod> {
    let manifests = good(text);
    let pods: Vec<_> = manifests.pods().collect();
    assert_eq!(pods.len(), 1);
    pods[0].clone()
}

fn lines(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(Diagnostic::to_string).collect()
}

/// The errors of a text, one line each.
#[track_caller]
fn errors(text: impl AsRef<[u8]>) -> Vec<String> {
    match parse_one(text) {
        Ok(manifests) => panic!("no error: {manifests:#?}"),
        Err(invalid) => lines(&invalid.errors),
    }
}

/// A Pod's manifest with more lines under its only container.
fn with_container_lines(more: &str) -> String {
    let mut text = String::from(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: c\n    image: i:1\n",
    );
    for line in more.lines() {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

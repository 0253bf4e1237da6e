use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use minke_core::identity::PodUid;
use serde_json::{Value, json};

use super::*;

fn key() -> PodKey {
    PodKey::new("ns", "web", PodUid::new("u").unwrap())
}

fn known(kind: ObjectKind, name: &str, known: Known, references: &mut References) {
    references.learned(&ObjectRef { kind, namespace: "ns".into(), name: name.to_owned() }, known);
}

/// Resolves one container's variables; ConfigMap `m` and Secret `s` hold `k`, `absent` does not exist, `locked` can't be read.
fn run(container: &Value) -> (Vec<&'static str>, Result<Vec<EnvVar>, Unresolved>) {
    let mut container = container.clone();
    container["name"] = json!("c");
    let pod = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": "1"}},
        "spec": {"nodeName": "n", "serviceAccountName": "sa", "containers": [container]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let mut references = References::default();
    references.follow(&key(), &pod);
    let map: ConfigMap = serde_json::from_value(
        json!({"metadata": {"name": "m", "namespace": "ns"}, "data": {"k": "from-map", "bad=name": "x"}}),
    )
    .unwrap();
    let secret: Secret = serde_json::from_value(
        json!({"metadata": {"name": "s", "namespace": "ns"}, "data": {"k": "ZnJvbS1zZWNyZXQ="}}),
    )
    .unwrap();
    known(ObjectKind::ConfigMap, "m", Known::ConfigMap(Arc::new(map)), &mut references);
    known(ObjectKind::Secret, "s", Known::Secret(Arc::new(secret)), &mut references);
    for kind in [ObjectKind::ConfigMap, ObjectKind::Secret] {
        known(kind.clone(), "absent", Known::Absent, &mut references);
        known(kind, "locked", Known::Unreadable("forbidden".to_owned()), &mut references);
    }
    let (told, resolved) = resolve_pod(&key(), &pod, &references, &NodeFacts::default());
    let env = resolved.map(|pod| pod.spec.unwrap().containers[0].env.clone().unwrap_or_default());
    (told.iter().map(|told| told.reason).collect(), env)
}

fn literals(env: &[EnvVar]) -> Vec<(&str, &str)> {
    env.iter().map(|var| (var.name.as_str(), var.value.as_deref().unwrap_or("<reference>"))).collect()
}

#[test]
fn values_are_resolved_and_nothing_is_told() {
    let (told, env) = run(&json!({"env": [
        {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"},
        {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]}));
    assert!(told.is_empty());
    let expected = [("A", "1"), ("B", "12"), ("M", "from-map"), ("S", "from-secret"), ("N", "n")];
    assert_eq!(literals(&env.unwrap()), expected);
}

#[test]
fn s22_a_variable_without_a_value_is_empty_and_kept() {
    let (_, env) = run(&json!({"env": [{"name": "EMPTY"}]}));
    assert_eq!(literals(&env.unwrap()), [("EMPTY", "")]);
}

#[test]
fn missing_references_have_upstreams_reasons() {
    let key_ref = |kind: &str, name: &str, optional: bool| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": "nope", "optional": optional}}}]});
    let source =
        |kind: &str, name: &str, optional: bool| json!({"envFrom": [{kind: {"name": name, "optional": optional}}]});
    for (kind, word) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        for (optional, prefix) in [(true, "Optional"), (false, "Mandatory")] {
            let expect = |container: Value, reason: String| {
                let (told, env) = run(&container);
                assert_eq!((told, env.is_ok()), (vec![reason.as_str()], optional), "{container}");
            };
            expect(source(&format!("{kind}Ref"), "absent", optional), format!("{prefix}{word}NotFound"));
            expect(source(&format!("{kind}Ref"), "locked", optional), format!("FailedToRead{prefix}{word}"));
            expect(key_ref(&format!("{kind}KeyRef"), "absent", optional), format!("{prefix}{word}NotFound"));
            let name = if kind == "secret" { "s" } else { "m" };
            expect(key_ref(&format!("{kind}KeyRef"), name, optional), format!("{prefix}{word}KeyNotFound"));
        }
    }
}

#[test]
fn invalid_names_are_skipped_and_told_once_a_source() {
    let (told, env) = run(&json!({"envFrom": [{"configMapRef": {"name": "m"}}]}));
    assert_eq!(told, ["InvalidEnvironmentVariableNames"]);
    assert_eq!(literals(&env.unwrap()), [("k", "from-map")]);
}

#[test]
fn r10_a_field_that_is_not_supported_is_told() {
    let (told, env) = run(&json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]}));
    assert_eq!(told, ["Failed"]);
    let unresolved = env.unwrap_err();
    assert_eq!(unresolved.container, "c");
    assert!(unresolved.message.contains("status.phase"), "{unresolved}");
}

#[test]
fn addresses_that_only_the_provider_knows_stay_references() {
    let var = json!({"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    let (told, env) = run(&json!({"env": [var]}));
    let env = env.unwrap();
    assert!(told.is_empty() && env[0].value_from.is_some() && env[0].value.is_none());
}

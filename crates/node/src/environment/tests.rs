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

/// Resolves one container's variables.
fn run(container: &Value) -> (Vec<&'static str>, Result<Vec<EnvVar>, Unresolved>) {
    let mut container = container.clone();
    container["name"] = json!("c");
    let (told, resolved) = run_pod(&json!({"containers": [container]}));
    let env = resolved.map(|pod| pod.spec.unwrap().containers[0].env.clone().unwrap_or_default());
    (told.iter().map(|told| told.reason).collect(), env)
}

/// Resolves a Pod's variables; ConfigMap `m` and Secret `s` hold `k`, `absent` does not exist, `locked` can't be read.
fn run_pod(spec: &Value) -> (Vec<Told>, Result<Pod, Unresolved>) {
    let mut spec = spec.clone();
    (spec["nodeName"], spec["serviceAccountName"]) = (json!("n"), json!("sa"));
    let metadata = json!({
        "name": "web", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": "1"}, "annotations": {"y": "\"q\"", "x": "1"},
    });
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
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
    resolve_pod(&key(), &pod, &references, &NodeFacts::default())
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

/// A provider that knows the address expands what is composed of it; an empty one in its place would be a wrong address for ever.
#[test]
fn what_is_composed_of_an_address_stays_as_it_was_written() {
    let ip = json!({"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    let (_, env) = run(&json!({"env": [
        {"name": "PORT", "value": "80"}, ip, {"name": "URL", "value": "http://$(IP):$(PORT)"},
        {"name": "PAGE", "value": "$(URL)/index"}, {"name": "OTHER", "value": "$(PORT)"},
        {"name": "IP", "value": "fixed"}, {"name": "LATER", "value": "$(IP)"},
    ]}));
    let expected = [
        ("PORT", "80"),
        ("IP", "fixed"),
        ("URL", "http://$(IP):$(PORT)"),
        ("PAGE", "$(URL)/index"),
        ("OTHER", "80"),
        ("LATER", "fixed"),
    ];
    assert_eq!(literals(&env.unwrap()), expected);
}

#[test]
fn init_and_ephemeral_containers_are_resolved_as_regular_ones_are() {
    let env = json!([
        {"name": "A", "value": "1"},
        {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "nope", "optional": true}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
        {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['y']"}}},
    ]);
    let from = json!([{"secretRef": {"name": "s"}}]);
    let named = |name: &str| json!({"name": name, "env": env.clone(), "envFrom": from.clone()});
    let (told, pod) = run_pod(&json!({
        "initContainers": [named("i1"), named("i2")],
        "containers": [named("c1"), named("c2")],
        "ephemeralContainers": [named("e1")],
    }));
    let reasons: Vec<_> = told.iter().map(|told| told.reason).collect();
    assert_eq!(reasons, ["OptionalConfigMapKeyNotFound"; 5], "each container says so");
    let spec = pod.unwrap().spec.unwrap();
    let regular = spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| (&c.name, &c.env, &c.env_from));
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|c| (&c.name, &c.env, &c.env_from));
    let mut seen = 0;
    for (name, env, env_from) in regular.chain(ephemeral) {
        let mut env = env.clone().unwrap();
        env.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = [
            ("A", "1"),
            ("ACCOUNT", "sa"),
            ("LABEL", "1"),
            ("M", "from-map"),
            ("NODE", "n"),
            ("NOTE", "\"q\""),
            ("S", "from-secret"),
            ("k", "from-secret"),
        ];
        assert_eq!(literals(&env), expected, "{name}");
        assert!(env_from.is_none(), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[test]
fn an_optional_source_that_is_missing_is_told_and_the_mandatory_one_after_it_fails() {
    for (kind, word) in [("configMapRef", "ConfigMap"), ("secretRef", "Secret")] {
        let from = json!([{kind: {"name": "absent", "optional": true}}, {kind: {"name": "absent"}}]);
        let (told, pod) = run_pod(&json!({"containers": [{"name": "c", "envFrom": from}]}));
        let reasons: Vec<_> = told.iter().map(|told| told.reason.to_owned()).collect();
        assert_eq!(reasons, [format!("Optional{word}NotFound"), format!("Mandatory{word}NotFound")]);
        assert!(told.iter().all(|told| told.message.contains("\"absent\"")), "{told:?}");
        assert_eq!(pod.unwrap_err().container, "c");
    }
}

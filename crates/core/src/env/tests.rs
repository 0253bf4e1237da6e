//! Tests of environment, expansion and downward API.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::objects::ObjectSet;
use crate::resources::{Amount, ResourceList};
use crate::runtime::EnvVar;

fn known(name: &str) -> Option<String> {
    match name {
        "VAR_A" => Some("A".to_owned()),
        "VAR_B" => Some("B".to_owned()),
        "VAR_REF" => Some("$(VAR_A)".to_owned()),
        "VAR_EMPTY" => Some(String::new()),
        _ => None,
    }
}

/// Rows of upstream's own table (`expand_test.go`), restated.
#[test]
fn expansion_follows_kubernetes_rules() {
    for (input, expected) in [
        ("whole", "whole"),
        ("", ""),
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A)$(VAR_B)", "AB"),
        ("a-$(VAR_A)", "a-A"),
        ("$(VAR_REF)", "$(VAR_A)"),
        ("%%$(VAR_REF)", "%%$(VAR_A)"),
        ("foo$(VAR_EMPTY)bar", "foobar"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$$$$$(VAR_A)", "$$A"),
        ("$VAR_A", "$VAR_A"),
        ("${VAR_A}", "${VAR_A}"),
        ("$", "$"),
        ("$$", "$"),
        ("foo$", "foo$"),
        ("$(VAR_A", "$(VAR_A"),
        ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
        ("$(VAR_A $(VAR_B)", "$(VAR_A $(VAR_B)"),
        ("$()", "$()"),
        ("$($(VAR_A))", "$($(VAR_A))"),
        ("\n$(VAR_A)\n", "\nA\n"),
        ("ü$(VAR_A)ü$ü", "üAü$ü"),
    ] {
        assert_eq!(expand(input, known), expected, "{input:?}");
    }
}

/// The rules once more, a character at a time.
fn model(input: &str) -> String {
    let chars: Vec<char> = input.chars().collect();
    let (mut output, mut at) = (String::new(), 0);
    while at < chars.len() {
        if chars[at] != '$' || at + 1 == chars.len() {
            output.push(chars[at]);
            at += 1;
        } else if chars[at + 1] == '$' {
            output.push('$');
            at += 2;
        } else if let Some(length) =
            (chars[at + 1] == '(').then(|| chars[at + 2..].iter().position(|c| *c == ')')).flatten()
        {
            let name: String = chars[at + 2..at + 2 + length].iter().collect();
            output.push_str(&known(&name).unwrap_or_else(|| format!("$({name})")));
            at += 3 + length;
        } else {
            output.push('$');
            at += 1;
        }
    }
    output
}

proptest! {
    #[test]
    fn expansion_equals_the_model(input in prop::collection::vec(prop_oneof![
        Just("$"), Just("("), Just(")"), Just("VAR_A"), Just("VAR_REF"), Just("x"), Just("ü"), Just("$(VAR_B)"), Just("$$"),
    ], 0..20).prop_map(|parts| parts.concat())) {
        prop_assert_eq!(expand(&input, known), model(&input));
    }

    #[test]
    fn text_without_dollars_is_untouched(input in "[^$]*") {
        prop_assert_eq!(expand(&input, known), input);
    }
}

fn pod(extra: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "u1",
            "labels": {"app": "shop", "z/y": "1"},
            "annotations": {"note": "line\n\"two\""},
        },
        "spec": {"serviceAccountName": "sa", "containers": [{
            "name": "c", "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}},
        }]},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

struct World {
    pod: Pod,
    objects: ObjectSet,
    allocatable: ResourceList,
    host: Vec<IpAddr>,
    ips: Vec<IpAddr>,
}

impl World {
    fn new() -> Self {
        let mut objects = ObjectSet::default();
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "cfg", "namespace": "ns"}, "data": {"a": "1", "b": "2", "KEY=X": "never"},
        }))
        .unwrap();
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "sec", "namespace": "ns"}, "data": {"password": "aHVudGVyMg==", "binary": "/w==", "nul": "AGE="},
        }))
        .unwrap();
        objects.insert_config_map(map);
        objects.insert_secret(secret);
        let allocatable = [("cpu", "4"), ("memory", "8Gi")];
        Self {
            pod: pod(&json!({})),
            objects,
            allocatable: allocatable.map(|(n, a)| (n.to_owned(), Amount::parse(a).unwrap())).into(),
            host: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            ips: vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()],
        }
    }

    fn facts(&self) -> DownwardFacts<'_> {
        DownwardFacts {
            pod: &self.pod,
            pod_ips: &self.ips,
            host_ips: &self.host,
            node_name: "node",
            allocatable: &self.allocatable,
        }
    }

    fn resolve(&self, container: &Value) -> Result<Vec<(String, String)>, EnvError> {
        let mut whole = json!({"name": "c"});
        for (key, value) in container.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let container: Container = serde_json::from_value(whole).unwrap();
        let resolved = resolve(&container, &self.objects, &self.facts())?;
        Ok(resolved.vars.into_iter().map(|v| (v.name, v.value)).collect())
    }

    fn one(&self, from: &Value) -> Result<Vec<(String, String)>, EnvError> {
        self.resolve(&json!({"env": [{"name": "X", "valueFrom": from}]}))
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn literals_see_only_what_came_before() {
    let env = json!({"env": [
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "l"},
        {"name": "AGAIN", "value": "$(LATE)-$$(LATE)"},
        {"name": "LATE", "value": "$(LATE)$(LATE)"},
    ]});
    let expected = pairs(&[("EARLY", "$(LATE)"), ("LATE", "ll"), ("AGAIN", "l-$(LATE)")]);
    assert_eq!(World::new().resolve(&env), Ok(expected));
}

#[test]
fn env_overrides_env_from_and_later_sources_override_earlier_ones() {
    let env = json!({
        "envFrom": [{"configMapRef": {"name": "cfg"}}, {"prefix": "P_", "configMapRef": {"name": "cfg"}}, {"configMapRef": {"name": "gone", "optional": true}}],
        "env": [{"name": "a", "value": "own $(P_b)"}],
    });
    let expected = pairs(&[("a", "own 2"), ("b", "2"), ("P_a", "1"), ("P_b", "2")]);
    assert_eq!(World::new().resolve(&env), Ok(expected));
}

#[test]
fn names_that_can_not_be_variables_are_skipped_with_an_event() {
    let world = World::new();
    let container: Container =
        serde_json::from_value(json!({"name": "c", "envFrom": [{"configMapRef": {"name": "cfg"}}]})).unwrap();
    let resolved = resolve(&container, &world.objects, &world.facts()).unwrap();
    assert_eq!(
        resolved.skipped,
        [
            "Keys [KEY=X] from the EnvFrom configMap ns/cfg were skipped since they are considered invalid environment variable names."
        ]
    );
    assert!(!is_env_name("") && !is_env_name("a=b") && !is_env_name("ü") && !is_env_name("a\n"));
    assert!(is_env_name("1st.key-x") && is_env_name("A B"));
}

#[test]
fn references_to_keys() {
    let world = World::new();
    let x = |value: &str| Ok(pairs(&[("X", value)]));
    assert_eq!(world.one(&json!({"configMapKeyRef": {"name": "cfg", "key": "a"}})), x("1"));
    assert_eq!(world.one(&json!({"secretKeyRef": {"name": "sec", "key": "password"}})), x("hunter2"));
    for optional in [
        json!({"configMapKeyRef": {"name": "cfg", "key": "zz", "optional": true}}),
        json!({"configMapKeyRef": {"name": "zz", "key": "a", "optional": true}}),
        json!({"secretKeyRef": {"name": "sec", "key": "zz", "optional": true}}),
        json!({"secretKeyRef": {"name": "zz", "key": "a", "optional": true}}),
    ] {
        assert_eq!(world.one(&optional), Ok(vec![]), "{optional}");
    }
}

#[test]
fn missing_references_fail_with_upstreams_words() {
    let world = World::new();
    let words = |from: &Value| world.one(from).unwrap_err().to_string();
    assert_eq!(words(&json!({"configMapKeyRef": {"name": "zz", "key": "a"}})), "configmap \"zz\" not found");
    assert_eq!(words(&json!({"secretKeyRef": {"name": "zz", "key": "a"}})), "secret \"zz\" not found");
    assert_eq!(
        words(&json!({"configMapKeyRef": {"name": "cfg", "key": "zz"}})),
        "couldn't find key zz in ConfigMap ns/cfg"
    );
    assert_eq!(words(&json!({"secretKeyRef": {"name": "sec", "key": "zz"}})), "couldn't find key zz in Secret ns/sec");
    let from = |source: &Value| world.resolve(&json!({"envFrom": [source]})).unwrap_err().to_string();
    assert_eq!(from(&json!({"secretRef": {"name": "zz"}})), "secret \"zz\" not found");
    assert_eq!(from(&json!({"configMapRef": {"name": "zz"}})), "configmap \"zz\" not found");
}

#[test]
fn values_that_can_not_be_variables_are_refused_without_showing_them() {
    let world = World::new();
    for (key, why) in [("binary", "is not UTF-8"), ("nul", "contains a NUL byte")] {
        let error = world.one(&json!({"secretKeyRef": {"name": "sec", "key": key}})).unwrap_err();
        assert!(error.to_string().ends_with(why), "{error}");
    }
    let shown = format!("{:?}", world.resolve(&json!({"envFrom": [{"secretRef": {"name": "sec"}}]})));
    assert!(!shown.contains("hunter2"), "{shown}");
    let debug = format!("{:?}", EnvVar { name: "X".to_owned(), value: "hunter2".to_owned() });
    assert!(!debug.contains("hunter2"), "{debug}");
}

#[test]
fn fields_of_the_pod() {
    let world = World::new();
    for (path, expected) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u1"),
        ("metadata.labels['app']", "shop"),
        ("metadata.labels['z/y']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", "line\n\"two\""),
        ("spec.nodeName", "node"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1,2001:db8::1"),
        ("status.podIP", "10.0.0.5"),
        ("status.podIPs", "10.0.0.5,fd00::5"),
    ] {
        assert_eq!(world.facts().env_field(path).as_deref(), Ok(expected), "{path}");
    }
    for path in ["metadata.labels", "metadata.foo", "spec.containers", "", "metadata.name['x']", "metadata.labels['x"] {
        assert_eq!(world.facts().env_field(path), Err(DownwardError::UnsupportedField(path.to_owned())));
    }
}

#[test]
fn a_host_network_pod_has_the_hosts_address() {
    let mut world = World::new();
    world.ips.clear();
    assert_eq!(world.facts().env_field("status.podIP").as_deref(), Ok(""));
    world.pod = pod(&json!({"hostNetwork": true}));
    assert_eq!(world.facts().env_field("status.podIP").as_deref(), Ok("192.0.2.1"));
}

#[test]
fn maps_of_the_pod_as_files() {
    let world = World::new();
    assert_eq!(world.facts().file_field("metadata.labels").as_deref(), Ok("app=\"shop\"\nz/y=\"1\""));
    assert_eq!(world.facts().file_field("metadata.annotations").as_deref(), Ok("note=\"line\\n\\\"two\\\"\""));
    assert!(world.facts().file_field("status.podIP").is_err());
}

#[test]
fn resources_of_a_container() {
    let world = World::new();
    let container = &world.pod.spec.as_ref().unwrap().containers[0];
    let of = |selector: &Value| {
        let selector = serde_json::from_value(selector.clone()).unwrap();
        world.facts().resource(&selector, Some(container))
    };
    for (selector, expected) in [
        (json!({"resource": "limits.memory"}), "67108864"),
        (json!({"resource": "limits.memory", "divisor": "1Mi"}), "64"),
        (json!({"resource": "limits.memory", "divisor": "1Gi"}), "1"),
        (json!({"resource": "requests.cpu"}), "1"),
        (json!({"resource": "requests.cpu", "divisor": "1m"}), "250"),
        (json!({"resource": "requests.cpu", "divisor": "0"}), "1"),
        (json!({"resource": "limits.cpu"}), "4"),
        (json!({"resource": "requests.memory"}), "67108864"),
        (json!({"resource": "limits.hugepages-2Mi"}), "0"),
        (json!({"resource": "requests.cpu", "containerName": "c", "divisor": "1m"}), "250"),
    ] {
        assert_eq!(of(&selector).as_deref(), Ok(expected), "{selector}");
    }
    assert_eq!(
        of(&json!({"resource": "limits.gpu"})),
        Err(DownwardError::UnsupportedResource("limits.gpu".to_owned()))
    );
    assert_eq!(of(&json!({"resource": "cpu", "containerName": "x"})), Err(DownwardError::NoContainer("x".to_owned())));
}

#[test]
fn commands_are_expanded_with_the_whole_environment() {
    let container: Container =
        serde_json::from_value(json!({"name": "c", "command": ["$(A)", "$$(A)"], "args": ["$(B)", "$(C)"]})).unwrap();
    let var = |name: &str, value: &str| EnvVar { name: name.to_owned(), value: value.to_owned() };
    let (command, args) = expand_command(&container, &[var("A", "1"), var("B", "")]);
    assert_eq!(command, ["1", "$(A)"]);
    assert_eq!(args, ["", "$(C)"]);
}

#[test]
fn strict_expressions_need_every_value() {
    let env =
        [EnvVar { name: "A".to_owned(), value: "x".to_owned() }, EnvVar { name: "E".to_owned(), value: String::new() }];
    assert_eq!(expand_strict("a/$(A)", &env).as_deref(), Ok("a/x"));
    assert_eq!(expand_strict("$(E)", &env), Err(MissingValue("E".to_owned())));
    assert_eq!(expand_strict("$(NO)$(E)", &env), Err(MissingValue("NO".to_owned())));
}

#[test]
fn services_are_told_first_and_give_way() {
    let mut bed = World::new();
    let variables = [("WEB_SERVICE_HOST", "10.0.0.9"), ("WEB_SERVICE_PORT", "80")];
    bed.objects.set_service_env(variables.map(|(n, v)| (n.to_owned(), v.to_owned())).into());
    let env = bed.resolve(&json!({"env": [
        {"name": "WEB_SERVICE_PORT", "value": "81"}, {"name": "URL", "value": "http://$(WEB_SERVICE_HOST):$(WEB_SERVICE_PORT)"},
    ]}));
    let expected = [("WEB_SERVICE_HOST", "10.0.0.9"), ("WEB_SERVICE_PORT", "81"), ("URL", "http://10.0.0.9:81")];
    assert_eq!(env.unwrap(), pairs(&expected));
}

//! What holds for every input.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::defaults::{default_pod, identify};
use crate::validation::{unsupported, validate_pod};

/// Names of every kind that Kubernetes allows.
fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,8}[a-z0-9]"
}

/// Texts that YAML could take for something else.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,16}",
        "[a-z: #'\"\\\\{}&*!|>%@`\n\t-]{0,12}",
        Just("yes".to_owned()),
        Just("null".to_owned()),
        Just("0644".to_owned()),
        Just("1e3".to_owned()),
        Just("héé\u{1F600}\u{85}\u{2028}".to_owned()),
        Just("\u{0}\u{7}\u{1b}".to_owned()),
    ]
}

fn container() -> impl Strategy<Value = Value> {
    let env = vec(("[A-Z_][A-Z0-9_]{0,6}", text()), 0..4)
        .prop_map(|env| env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Value>());
    let port = option::of((1..65536i32, prop_oneof![Just("TCP"), Just("UDP")]));
    let resources = option::of((1..4000u32, 1..64u32));
    (name(), name(), vec(text(), 0..4), env, port, resources, any::<bool>()).prop_map(
        |(name, image, args, env, port, resources, tty)| {
            let mut container = json!({"name": name, "image": image, "args": args, "env": env, "tty": tty});
            if let Some((port, protocol)) = port {
                container["ports"] = json!([{"containerPort": port, "protocol": protocol}]);
            }
            if let Some((cpu, memory)) = resources {
                container["resources"] = json!({"limits": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}});
            }
            container
        },
    )
}

/// A valid Pod as someone would write it.
fn pods() -> impl Strategy<Value = Value> {
    let labels = btree_map(name(), name(), 0..4);
    let annotations = btree_map(name(), text(), 0..3);
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    (name(), labels, annotations, vec(container(), 1..4), policy, option::of(0..100i64)).prop_map(
        |(name, labels, annotations, mut containers, policy, grace)| {
            for (i, container) in containers.iter_mut().enumerate() {
                container["name"] = format!("c{i}").into();
            }
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": labels, "annotations": annotations},
                "spec": {"containers": containers, "restartPolicy": policy}
            });
            if let Some(grace) = grace {
                pod["spec"]["terminationGracePeriodSeconds"] = grace.into();
            }
            pod
        },
    )
}

/// Writes a value as block YAML, keys in the order that `reversed` says.
fn to_yaml(value: &Value, indent: usize, reversed: bool, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            if reversed {
                entries.reverse();
            }
            for (key, value) in entries {
                out.push_str(&format!("\n{pad}{}:", serde_json::to_string(key).unwrap()));
                to_yaml(value, indent + 2, reversed, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{pad}-"));
                to_yaml(item, indent + 2, reversed, out);
            }
        }
        scalar => out.push_str(&format!(" {scalar}")),
    }
}

fn yaml_of(value: &Value, reversed: bool) -> String {
    let mut text = String::new();
    to_yaml(value, 0, reversed, &mut text);
    // serde_json leaves characters as they are that YAML wants escaped.
    text.chars()
        .flat_map(|c| {
            if c != '\n' && (c.is_control() || c == '\u{feff}') {
                format!("\\u{:04x}", c as u32).chars().collect()
            } else {
                vec![c]
            }
        })
        .chain(['\n'])
        .collect()
}

/// The same Pod by another way: serde_json, then defaults and identity.
fn reference(value: &Value) -> Pod {
    let mut pod: Pod = serde_json::from_value(value.clone()).unwrap();
    default_pod(&mut pod);
    identify(&mut pod, 0);
    pod
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_is_the_same_in_json_and_yaml_in_any_order(value in pods()) {
        let expected = reference(&value);
        prop_assert_eq!(validate_pod(&expected), []);
        prop_assert_eq!(unsupported(expected.spec.as_ref().unwrap(), &crate::validation::FieldPath::root()), []);
        let texts = [value.to_string(), serde_json::to_string_pretty(&value).unwrap(), yaml_of(&value, false), yaml_of(&value, true)];
        for text in texts {
            match parse_one(&text) {
                Ok(manifests) => {
                    let pods: Vec<_> = manifests.pods().collect();
                    prop_assert_eq!(pods.len(), 1);
                    prop_assert_eq!(&**pods[0], &expected, "{}", text);
                }
                Err(invalid) => prop_assert!(false, "{:?}\n{}", lines(&invalid.errors), text),
            }
        }
    }

    /// What comes out can be put in again: the same Pod, the same uid.
    #[test]
    fn a_finished_pod_reads_as_itself(value in pods()) {
        let once = reference(&value);
        let again = parse_one(serde_json::to_string(&once).unwrap());
        let again = again.map_err(|invalid| TestCaseError::fail(format!("{:?}", lines(&invalid.errors))))?;
        prop_assert_eq!(&**again.pods().next().unwrap(), &once);
    }

    /// Any one edit of a good manifest gives Pods or diagnostics with a place in the text, never a panic.
    #[test]
    fn a_damaged_manifest_is_read_or_refused(value in pods(), at in any::<prop::sample::Index>(), junk in "[ -~\n\t\u{0}é]{0,3}", cut in 0..4usize, json in any::<bool>()) {
        let text = if json { serde_json::to_string_pretty(&value).unwrap() } else { yaml_of(&value, false) };
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        let end = (at + cut).min(chars.len());
        chars.splice(at..end, junk.chars());
        let text: String = chars.into_iter().collect();
        if let Err(invalid) = parse_one(&text) {
            let lines = text.split('\n').count() as u32;
            prop_assert!(!invalid.errors.is_empty());
            for error in &invalid.errors {
                prop_assert!(error.line >= 1 && error.line <= lines + 1 && error.column >= 1, "{} in {:?}", error, text);
                let _ = error.render();
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse_one(&bytes);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"'|>&*!%#?\\- \n\ta0.<é]{0,60}") {
        let _ = parse_one(&text);
    }
}

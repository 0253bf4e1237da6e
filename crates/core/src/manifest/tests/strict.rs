//! Unknown, duplicate and mistyped fields.

use super::*;

#[test]
fn every_problem_of_a_pod_is_named_with_its_place() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  lables: {app: web}
spec:
  containers:
  - name: c
    imagee: nginx
    image: nginx
    ports: [{containerPort: \"80\"}]
    env:
    - name: A
      value: 8080
    - name: B
      value: yes
    name: d
  restartPolicy: [Always]
";
    let expected = [
        r#"m.yaml:5:3: metadata.lables: unknown field "lables" (did you mean "labels"?)"#,
        r#"m.yaml:9:5: spec.containers[0].imagee: unknown field "imagee" (did you mean "image"?)"#,
        r#"m.yaml:11:29: spec.containers[0].ports[0].containerPort: must be a 32-bit integer, not the string "80" (leave out the quotes)"#,
        r#"m.yaml:14:14: spec.containers[0].env[0].value: must be a string, not an integer (quote it: "8080")"#,
        r#"m.yaml:16:14: spec.containers[0].env[1].value: must be a string, not a boolean (quote it: "yes")"#,
        r#"m.yaml:17:5: spec.containers[0].name: the key "name" is given again; first at line 8, column 5"#,
        r#"m.yaml:18:18: spec.restartPolicy: must be a string, not a list"#,
    ];
    assert_eq!(errors(text), expected);
}

#[test]
fn excerpts_show_the_line() {
    let invalid = parse_one(with_container_lines("imagee: nginx")).unwrap_err();
    let expected = "error: spec.containers[0].imagee: unknown field \"imagee\"\n --> m.yaml:9:5\n  |\n9 |     imagee: nginx\n  |     ^\n  = hint: did you mean \"image\"?\n";
    assert_eq!(invalid.errors[0].render(), expected);
}

#[test]
fn validate_warn_turns_unknown_and_duplicate_into_warnings() {
    let text = with_container_lines("imagee: nginx\nimage: j:1");
    let manifests = parse(&[input("m.yaml", &text)], Validate::Warn).unwrap();
    assert_eq!(
        lines(&manifests.warnings),
        [
            r#"m.yaml:9:5: spec.containers[0].imagee: unknown field "imagee" (did you mean "image"?)"#,
            r#"m.yaml:10:5: spec.containers[0].image: the key "image" is given again; first at line 8, column 5"#,
        ]
    );
    let pod = manifests.pods().next().unwrap();
    let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref();
    assert_eq!(image, Some("j:1"), "the last one counts");
}

#[test]
fn validate_ignore_says_nothing_of_unknown_and_duplicate() {
    let text = with_container_lines("imagee: nginx\nimage: j:1");
    let manifests = parse(&[input("m.yaml", &text)], Validate::Ignore).unwrap();
    assert_eq!(manifests.warnings, []);
}

#[test]
fn mistyped_is_an_error_in_every_mode() {
    let text = with_container_lines("stdin: 1");
    for validate in [Validate::Strict, Validate::Warn, Validate::Ignore] {
        let invalid = parse(&[input("m.yaml", &text)], validate).unwrap_err();
        assert_eq!(
            lines(&invalid.errors),
            ["m.yaml:9:12: spec.containers[0].stdin: must be a boolean, not the number 1"]
        );
    }
}

#[test]
fn values_that_a_type_refuses_do_not_hide_the_rest() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  creationTimestamp: yesterday
  deletionTimestamp: tomorrow
spec:
  containers:
  - name: c
    image: i
    livenessProbe:
      httpGet: {port: {a: 1}}
    stdinn: true
";
    let found = errors(text);
    let starts = [
        "m.yaml:5:22: metadata.creationTimestamp: must be ",
        "m.yaml:6:22: metadata.deletionTimestamp: must be ",
        "m.yaml:12:23: spec.containers[0].livenessProbe.httpGet.port: must be an integer or a string, not an object",
        r#"m.yaml:13:5: spec.containers[0].stdinn: unknown field "stdinn" (did you mean "stdin"?)"#,
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (line, start) in found.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn types_as_kubernetes_has_them() {
    let cases = [
        ("stdin: yes", None),
        ("stdin: \"yes\"", Some(r#"must be a boolean, not the string "yes" (leave out the quotes)"#)),
        ("tty: On", None),
        ("resources: {limits: {cpu: 1}}", None),
        ("resources: {limits: {cpu: 0.5}}", None),
        ("resources: {limits: {memory: 1e3}}", None),
        ("resources: {limits: {cpu: true}}", Some("must be a quantity, not a boolean")),
        ("readinessProbe: {tcpSocket: {port: http}}", None),
        ("readinessProbe: {tcpSocket: {port: 80}}", None),
        ("readinessProbe: {tcpSocket: {port: 80.5}}", Some("must be an integer or a string, not a number")),
        ("ports: [{containerPort: 80.0}]", None),
        ("ports: [{containerPort: 80.5}]", Some("must be a 32-bit integer, not the number 80.5")),
        ("ports: [{containerPort: 4294967376}]", Some("must be a 32-bit integer, not the number 4294967376")),
        (
            "securityContext: {runAsUser: 99999999999999999999}",
            Some("must be an integer, not the number 99999999999999999999"),
        ),
        ("args: sleep", Some(r#"must be a list, not the string "sleep""#)),
        ("args: {a: b}", Some(r#"must be a list, not an object (begin each item with "- ")"#)),
        ("args: [a, 1]", Some(r#"must be a string, not an integer (quote it: "1")"#)),
        ("args: [a, null]", None),
        ("args: ~", None),
        ("env: [[]]", Some("must be an object, not a list")),
        ("securityContext: on", Some("must be an object, not a boolean")),
        ("workingDir: 2024-01-01", None),
        ("workingDir: 0x1F", Some(r#"must be a string, not an integer (quote it: "0x1F")"#)),
        ("securityContext: {runAsUser: 0o17}", None),
    ];
    for (line, expected) in cases {
        let result = parse_one(with_container_lines(line));
        match expected {
            None => assert!(result.is_ok(), "{line}: {:?}", result.map_err(|e| lines(&e.errors))),
            Some(message) => {
                let found = lines(&result.unwrap_err().errors);
                assert!(found.len() == 1 && found[0].ends_with(message), "{line}: {found:?}");
            }
        }
    }
}

#[test]
fn modes_may_be_octal() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n  volumes:\n  - name: v\n    configMap: {name: m, defaultMode: 0400}\n";
    let pod = pod(text);
    let volumes = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap();
    assert_eq!(volumes[0].config_map.as_ref().unwrap().default_mode, Some(0o400));
}

#[test]
fn broken_rules_point_at_the_field_or_at_what_should_hold_it() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: Web
spec:
  restartPolicy: Sometimes
  containers:
  - name: a
    image: i
    volumeMounts:
    - {name: gone, mountPath: /x}
  - name: b
  volumes:
  - name: claim
    persistentVolumeClaim:
      claimName: c
";
    let found = errors(text);
    let expected = [
        "m.yaml:4:9: metadata.name: Invalid value: \"Web\": a lowercase RFC 1123 subdomain",
        "m.yaml:6:18: spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        "m.yaml:11:14: spec.containers[0].volumeMounts[0].name: Not found: \"gone\"",
        "m.yaml:12:5: spec.containers[1].image: Required value",
        "m.yaml:15:5: spec.volumes[0].persistentVolumeClaim: Forbidden: not supported by minke run: persistent volume claims",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (line, start) in found.iter().zip(expected) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn a_foreign_file_does_not_flood_the_terminal() {
    let mut text =
        String::from("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n");
    for i in 0..5000 {
        text.push_str(&format!("  x{i}: 1\n"));
    }
    let invalid = parse_one(&text).unwrap_err();
    assert_eq!(invalid.errors.len(), 100);
    assert_eq!(invalid.unlisted, 4900);
    assert_eq!(invalid.to_string(), "5000 problems in the manifests");
    // What is only counted must not hide what is an error in this mode.
    text.push_str("  restartPolicy: 3\n");
    let invalid = parse(&[input("m.yaml", &text)], Validate::Warn).unwrap_err();
    assert_eq!(
        lines(&invalid.errors),
        ["m.yaml:5006:18: spec.restartPolicy: must be a string, not an integer (quote it: \"3\")"]
    );
}

//! Which documents are objects, and lists of them.

use super::*;

fn pod_text(name: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n")
}

fn names(manifests: &Manifests) -> Vec<&str> {
    manifests.pods().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn documents_come_in_order_and_empty_ones_do_not_count() {
    let text = format!("---\n# nothing\n---\n{}---\n---\n{}...\n---\n", pod_text("a"), pod_text("b"));
    assert_eq!(names(&good(text)), ["a", "b"]);
    assert_eq!(names(&good("# only a comment\n")), [""; 0]);
    assert_eq!(names(&good("")), [""; 0]);
}

#[test]
fn lists_are_opened() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}}]}"#;
    let manifests = good(list);
    assert_eq!(names(&manifests), ["a"]);
    assert!(manifests.objects.config_map("default", "m").is_some());

    let typed =
        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: c, image: i}]}\n";
    assert_eq!(names(&good(typed)), ["a"], "items of a typed list may leave out what they are");
}

#[test]
fn problems_in_lists_have_the_whole_path() {
    let text = "apiVersion: v1\nkind: List\nitmes: []\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec:\n    containers: [{name: c, imag: i}]\n- kind: Pod\n- 7\n";
    assert_eq!(
        errors(text),
        [
            r#"m.yaml:3:1: itmes: unknown field "itmes" (did you mean "items"?)"#,
            r#"m.yaml:9:28: items[0].spec.containers[0].imag: unknown field "imag" (did you mean "image"?)"#,
            r#"m.yaml:10:3: items[1].apiVersion: Required value (a Pod is v1)"#,
            r#"m.yaml:11:3: items[2]: an object with apiVersion and kind is wanted here, not an integer"#,
        ]
    );
}

#[test]
fn what_is_not_understood_is_said_with_what_is() {
    let cases = [
        (
            "kind: Service\napiVersion: v1\n",
            "m.yaml:1:7: kind: the kind \"Service\" is not understood (understood are Pod, Job, Deployment, ConfigMap, Secret and lists of them)",
        ),
        ("kind: pod\napiVersion: v1\n", "m.yaml:1:7: kind: the kind \"pod\" is not understood (did you mean \"Pod\"?)"),
        (
            "kind: Deployment\napiVersion: extensions/v1beta1\n",
            "m.yaml:2:13: apiVersion: \"extensions/v1beta1\" is not the version of a Deployment (write apps/v1)",
        ),
        ("kind: Job\napiVersion: v1\n", "m.yaml:2:13: apiVersion: \"v1\" is not the version of a Job (write batch/v1)"),
        ("kind: Pod\n", "m.yaml:1:1: apiVersion: Required value (a Pod is v1)"),
        (
            "apiVersion: v1\n",
            "m.yaml:1:1: kind: Required value (understood are Pod, Job, Deployment, ConfigMap, Secret and lists of them)",
        ),
        ("kind: 3\n", "m.yaml:1:7: kind: must be a string"),
        ("- a\n", "m.yaml:1:1: an object with apiVersion and kind is wanted here, not a list"),
        ("just text\n", "m.yaml:1:1: an object with apiVersion and kind is wanted here, not a string"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), [expected], "{text}");
    }
}

#[test]
fn one_bad_document_spoils_all_and_every_problem_is_listed() {
    let inputs = [
        input("a.yaml", pod_text("a")),
        input("b.yaml", format!("{}---\nkind: Nope\napiVersion: v1\n", pod_text("B"))),
        input("c.yaml", "a: [\n"),
    ];
    let found = lines(&parse(&inputs, Validate::Strict).unwrap_err().errors);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].starts_with("b.yaml:3:18: metadata.name: Invalid value"), "{found:?}");
    assert!(found[1].starts_with("b.yaml:6:7: kind:"), "{found:?}");
    assert!(found[2].starts_with("c.yaml:2:1: "), "{found:?}");
}

#[test]
fn config_maps_and_secrets_are_kept_by_name() {
    let text = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: m, namespace: ns}
data: {8080: text, yes: more}
binaryData: {b: AAEC}
immutable: true
---
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {a: YQ==, both: b2xk}
stringData: {both: new, c: text}
";
    let objects = good(text).objects;
    let map = objects.config_map("ns", "m").unwrap();
    let data: Vec<_> = map.data.as_ref().unwrap().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(data, [("8080", "text"), ("true", "more")]);
    assert_eq!(map.binary_data.as_ref().unwrap()["b"].0, [0, 1, 2]);
    let secret = objects.secret("default", "s").unwrap();
    let data: Vec<_> = secret.data.as_ref().unwrap().iter().map(|(k, v)| (k.as_str(), v.0.as_slice())).collect();
    assert_eq!(data, [("a", &b"a"[..]), ("both", b"new"), ("c", b"text")]);
    assert_eq!(secret.string_data, None);
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
}

#[test]
fn one_name_is_for_one_object_over_all_files() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
    let a = format!("{}---\n{map}", pod_text("web"));
    let b = format!("{}---\n{map}---\n{}", pod_text("web"), map.replace("{name: m}", "{name: m, namespace: other}"));
    let invalid = parse(&[input("a.yaml", a), input("b.yaml", b)], Validate::Strict).unwrap_err();
    assert_eq!(
        lines(&invalid.errors),
        [
            r#"b.yaml:3:18: metadata.name: duplicate Pod "default/web"; the first is at a.yaml:3:18"#,
            r#"b.yaml:8:18: metadata.name: duplicate ConfigMap "default/m"; the first is at a.yaml:8:18"#,
        ]
    );
}

#[test]
fn one_uid_is_for_one_pod() {
    let text = format!("{}---\n{}", pod_text("a"), pod_text("b"))
        .replace("name: a}\n", "name: a, uid: u}\n")
        .replace("name: b}\n", "name: b, uid: u}\n");
    let found = errors(text);
    assert_eq!(found, [r#"m.yaml:8:26: metadata.uid: duplicate uid "u"; the first is at m.yaml:3:26"#]);
}

#[test]
fn a_dump_of_a_running_pod_is_taken_without_what_the_server_wrote() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  creationTimestamp: \"2024-05-01T10:00:00Z\"
  resourceVersion: \"42\"
  managedFields: [{manager: kubectl, fieldsV1: {\"f:spec\": {\"f:x\": {}}}}]
spec: {containers: [{name: c, image: i}]}
status:
  phase: Running
  podIP: 10.0.0.1
";
    let pod = pod(text);
    assert_eq!(pod.status, None);
    assert_eq!(pod.metadata.resource_version, None);
    assert_eq!(pod.metadata.managed_fields, None);
}

//! Volumes and mounts.

use super::*;

#[test]
fn volumes_have_a_name_and_one_source() {
    let about = |volumes: &Value| about_spec(&json!({"volumes": volumes}));
    let rows = vec![
        (json!([{"name": "v"}]), vec![]),
        (json!([{"name": ""}]), vec!["spec.volumes[0].name: Required value"]),
        (json!([{"name": "a.b"}]), vec!["spec.volumes[0].name: Invalid value: \"a.b\""]),
        (json!([{"name": "v"}, {"name": "v"}]), vec!["spec.volumes[1].name: Duplicate value: \"v\""]),
        (
            json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
            vec!["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
    ];
    check(rows, about);
    let nothing = Pod {
        metadata: serde_json::from_value(json!({"name": "p"})).unwrap(),
        spec: serde_json::from_value(spec(&json!({"volumes": [{"name": "v"}]}))).unwrap(),
        status: None,
    };
    assert_eq!(said(&nothing), ["spec.volumes[0]: Required value: must specify a volume type"], "without defaults");
}

#[test]
fn sources() {
    let about = |source: &Value| about_spec(&json!({"volumes": [merged(json!({"name": "v"}), source)]}));
    let items = |item: Value| json!({"configMap": {"name": "m", "items": [item]}});
    let rows = vec![
        (json!({"hostPath": {"path": "/x", "type": "Socket"}}), vec![]),
        (json!({"hostPath": {"path": ""}}), vec!["spec.volumes[0].hostPath.path: Required value"]),
        (
            json!({"hostPath": {"path": "/a/../b"}}),
            vec!["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            json!({"hostPath": {"path": "/x", "type": "Dir"}}),
            vec!["spec.volumes[0].hostPath.type: Unsupported value: \"Dir\""],
        ),
        (json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}), vec![]),
        (json!({"emptyDir": {"medium": "Disk"}}), vec!["spec.volumes[0].emptyDir.medium: Unsupported value: \"Disk\""]),
        (
            json!({"emptyDir": {"sizeLimit": "-1"}}),
            vec!["spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
        ),
        (
            json!({"emptyDir": {"sizeLimit": "big"}}),
            vec!["spec.volumes[0].emptyDir.sizeLimit: Invalid value: \"big\": is not a quantity"],
        ),
        (json!({"configMap": {}}), vec!["spec.volumes[0].configMap.name: Required value"]),
        (
            json!({"configMap": {"name": "m", "defaultMode": 0o1000}}),
            vec![
                "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (json!({"secret": {"secretName": ""}}), vec!["spec.volumes[0].secret.secretName: Required value"]),
        (
            json!({"secret": {"secretName": "s", "defaultMode": -1}}),
            vec!["spec.volumes[0].secret.defaultMode: Invalid value: -1"],
        ),
        (items(json!({"key": "k", "path": "a/b", "mode": 0o600})), vec![]),
        (
            items(json!({"key": "", "path": ""})),
            vec![
                "spec.volumes[0].configMap.items[0].key: Required value",
                "spec.volumes[0].configMap.items[0].path: Required value",
            ],
        ),
        (
            items(json!({"key": "k", "path": "/a"})),
            vec!["spec.volumes[0].configMap.items[0].path: Invalid value: \"/a\": must be a relative path"],
        ),
        (
            items(json!({"key": "k", "path": "a/../b"})),
            vec!["spec.volumes[0].configMap.items[0].path: Invalid value: \"a/../b\": must not contain '..'"],
        ),
        (
            items(json!({"key": "k", "path": "..a"})),
            vec!["spec.volumes[0].configMap.items[0].path: Invalid value: \"..a\": must not start with '..'"],
        ),
        (
            items(json!({"key": "k", "path": "a", "mode": 0o1000})),
            vec!["spec.volumes[0].configMap.items[0].mode: Invalid value: 512"],
        ),
    ];
    check(rows, about);
}

#[test]
fn fields_of_the_pod_as_files() {
    let about = |item: &Value| about_spec(&json!({"volumes": [{"name": "v", "downwardAPI": {"items": [item]}}]}));
    let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
    let one = "spec.volumes[0].downwardAPI.items[0]";
    let rows: Vec<(Value, Vec<String>)> = vec![
        (field("metadata.labels"), vec![]),
        (field("metadata.labels['a']"), vec![]),
        (field("status.podIP"), vec![format!("{one}.fieldRef.fieldPath: Unsupported value: \"status.podIP\"")]),
        (
            json!({"path": "f"}),
            vec![format!("{one}: Required value: one of fieldRef and resourceFieldRef is required")],
        ),
        (
            json!({"path": "f", "resourceFieldRef": {"resource": "limits.cpu"}}),
            vec![format!("{one}.resourceFieldRef.containerName: Required value")],
        ),
        (json!({"path": "f", "resourceFieldRef": {"resource": "limits.cpu", "containerName": "c"}}), vec![]),
        (
            merged(field("metadata.name"), &json!({"resourceFieldRef": {"resource": "limits.cpu"}})),
            vec![format!(
                "{one}: Invalid value: \"resource\": fieldRef and resourceFieldRef can not be specified simultaneously"
            )],
        ),
    ];
    let rows =
        rows.iter().map(|(change, lines)| (change.clone(), lines.iter().map(String::as_str).collect())).collect();
    check(rows, about);
}

#[test]
fn projections() {
    let about = |sources: &Value| about_spec(&json!({"volumes": [{"name": "v", "projected": {"sources": sources}}]}));
    let map = json!({"configMap": {"name": "m", "items": [{"key": "k", "path": "f"}]}});
    let secret = json!({"secret": {"name": "s", "items": [{"key": "k", "path": "f"}]}});
    let rows = vec![
        (json!([map]), vec![]),
        (json!([{}]), vec!["spec.volumes[0].projected.sources[0]: Required value: must specify a source"]),
        (
            json!([merged(map.clone(), &json!({"secret": {"name": "s"}}))]),
            vec!["spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        ),
        (
            json!([map, secret]),
            vec!["spec.volumes[0].projected.sources[1]: Invalid value: \"f\": conflicting duplicate paths"],
        ),
        (
            json!([{"secret": {"name": ""}}, {"configMap": {}}]),
            vec![
                "spec.volumes[0].projected.sources[0].secret.name: Required value",
                "spec.volumes[0].projected.sources[1].configMap.name: Required value",
            ],
        ),
    ];
    check(rows, about);
}

#[test]
fn mounts() {
    let about = |mounts: &Value| {
        about_spec(&json!({"volumes": [{"name": "v"}], "containers": [container(&json!({"volumeMounts": mounts}))]}))
    };
    let mount = |change: Value| json!([merged(json!({"name": "v", "mountPath": "/x"}), &change)]);
    let one = "spec.containers[0].volumeMounts[0]";
    let rows: Vec<(Value, Vec<String>)> = vec![
        (mount(json!({"subPath": "a/b", "readOnly": true, "recursiveReadOnly": "Enabled"})), vec![]),
        (mount(json!({"name": ""})), vec![format!("{one}.name: Required value")]),
        (mount(json!({"name": "w"})), vec![format!("{one}.name: Not found: \"w\"")]),
        (mount(json!({"mountPath": ""})), vec![format!("{one}.mountPath: Required value")]),
        (
            json!([{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]),
            vec!["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique".to_owned()],
        ),
        (
            mount(json!({"subPath": "/a"})),
            vec![format!("{one}.subPath: Invalid value: \"/a\": must be a relative path")],
        ),
        (
            mount(json!({"subPath": "a/.."})),
            vec![format!("{one}.subPath: Invalid value: \"a/..\": must not contain '..'")],
        ),
        (
            mount(json!({"subPathExpr": "../$(A)"})),
            vec![format!("{one}.subPathExpr: Invalid value: \"../$(A)\": must not contain '..'")],
        ),
        (
            mount(json!({"subPath": "a", "subPathExpr": "b"})),
            vec![format!("{one}.subPathExpr: Invalid value: \"b\": subPathExpr and subPath are mutually exclusive")],
        ),
        (
            mount(json!({"mountPropagation": "Shared"})),
            vec![format!("{one}.mountPropagation: Unsupported value: \"Shared\"")],
        ),
        (
            mount(json!({"mountPropagation": "Bidirectional"})),
            vec![format!(
                "{one}.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
            )],
        ),
        (
            mount(json!({"recursiveReadOnly": "Enabled"})),
            vec![format!("{one}.recursiveReadOnly: Forbidden: may only be specified when readOnly is true")],
        ),
        (
            mount(json!({"readOnly": true, "mountPropagation": "HostToContainer", "recursiveReadOnly": "Enabled"})),
            vec![format!("{one}.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None")],
        ),
    ];
    let rows =
        rows.iter().map(|(change, lines)| (change.clone(), lines.iter().map(String::as_str).collect())).collect();
    check(rows, about);
}

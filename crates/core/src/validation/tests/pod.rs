//! The Pod as a whole, its names, its name resolution.

use super::*;

#[test]
fn metadata() {
    let long = "a".repeat(254);
    let rows = vec![
        (json!({"name": ""}), vec!["metadata.name: Required value: name or generateName is required"]),
        (json!({"generateName": "a-"}), vec![]),
        (
            json!({"generateName": "A-"}),
            vec!["metadata.generateName: Invalid value: \"A-\": a lowercase RFC 1123 subdomain"],
        ),
        (json!({"name": "a.b"}), vec![]),
        (json!({"name": "a_b"}), vec!["metadata.name: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain"]),
        (json!({"name": long}), vec!["metadata.name: Invalid value: \"aaa"]),
        (
            json!({"name": "p", "namespace": "a.b"}),
            vec!["metadata.namespace: Invalid value: \"a.b\": a lowercase RFC 1123 label"],
        ),
        (json!({"name": "p", "uid": "../x"}), vec!["metadata.uid: Invalid value: \"../x\""]),
        (
            json!({"name": "p", "labels": {"a b": "c"}}),
            vec!["metadata.labels[a b]: Invalid value: \"a b\": the name part"],
        ),
        (json!({"name": "p", "labels": {"a": "-"}}), vec!["metadata.labels[a]: Invalid value: \"-\": a valid label"]),
        (json!({"name": "p", "labels": {"a": ""}}), vec![]),
        (json!({"name": "p", "annotations": {"Ab/c": "any\nthing"}}), vec![]),
        (
            json!({"name": "p", "annotations": {"/c": ""}}),
            vec!["metadata.annotations: Invalid value: \"/c\": the prefix part must not be empty"],
        ),
        (
            json!({"name": "p", "annotations": {"a": "x".repeat(256 * 1024)}}),
            vec!["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
    ];
    check(rows, |metadata| said(&pod(metadata, &spec(&json!({})))));
}

#[test]
fn a_pod_needs_a_spec() {
    let pod = Pod { metadata: serde_json::from_value(json!({"name": "p"})).unwrap(), ..Pod::default() };
    assert_eq!(said(&pod), ["spec: Required value"]);
}

#[test]
fn policies_and_times() {
    let rows = vec![
        (json!({"containers": []}), vec!["spec.containers: Required value"]),
        (
            json!({"restartPolicy": "always"}),
            vec![
                "spec.restartPolicy: Unsupported value: \"always\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            vec!["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (json!({"activeDeadlineSeconds": 1}), vec![]),
        (
            json!({"activeDeadlineSeconds": 2147483648_i64}),
            vec!["spec.activeDeadlineSeconds: Invalid value: 2147483648"],
        ),
        (json!({"terminationGracePeriodSeconds": 0}), vec![]),
        (
            json!({"terminationGracePeriodSeconds": -1}),
            vec!["spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (json!({"nodeSelector": {"a b": "c"}}), vec!["spec.nodeSelector[a b]: Invalid value"]),
        (json!({"nodeName": "A"}), vec!["spec.nodeName: Invalid value: \"A\""]),
        (json!({"serviceAccountName": "A"}), vec!["spec.serviceAccountName: Invalid value: \"A\""]),
        (json!({"imagePullSecrets": [{"name": "ok"}, {}]}), vec!["spec.imagePullSecrets[1].name: Required value"]),
        (
            json!({"os": {"name": "plan9"}}),
            vec!["spec.os.name: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
        ),
        (json!({"os": {"name": ""}}), vec!["spec.os.name: Required value"]),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            vec!["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            json!({"readinessGates": [{"conditionType": "a b"}]}),
            vec!["spec.readinessGates[0].conditionType: Invalid value"],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn host_names() {
    let rows = vec![
        (json!({"hostname": "a.b"}), vec!["spec.hostname: Invalid value: \"a.b\": a lowercase RFC 1123 label"]),
        (json!({"subdomain": "A"}), vec!["spec.subdomain: Invalid value: \"A\""]),
        (json!({"hostname": "a", "subdomain": "b"}), vec![]),
        (json!({"hostnameOverride": "a.b"}), vec![]),
        (
            json!({"hostnameOverride": "a".repeat(60) + ".bcdef"}),
            vec!["spec.hostnameOverride: Too long: may not be more than 64 bytes"],
        ),
        (
            json!({"hostnameOverride": "a", "hostNetwork": true}),
            vec!["spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"],
        ),
        (
            json!({"hostnameOverride": "a", "setHostnameAsFQDN": true}),
            vec!["spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN"],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn namespaces() {
    let rows = vec![
        (
            json!({"shareProcessNamespace": true, "hostPID": true}),
            vec![
                "spec.shareProcessNamespace: Invalid value: true: shareProcessNamespace and hostPID cannot both be enabled",
            ],
        ),
        (json!({"shareProcessNamespace": true}), vec![]),
        (json!({"hostUsers": false}), vec![]),
        (json!({"hostUsers": true, "hostNetwork": true}), vec![]),
        (
            json!({"hostUsers": false, "hostNetwork": true, "hostPID": true, "hostIPC": true}),
            vec![
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.hostPID: Forbidden: when `hostUsers` is false",
                "spec.hostIPC: Forbidden: when `hostUsers` is false",
            ],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn name_resolution() {
    let many: Vec<String> = (0..33).map(|i| format!("d{i}.example")).collect();
    let long = vec!["a.".repeat(100); 11];
    let rows = vec![
        (json!({"dnsPolicy": "Cluster"}), vec!["spec.dnsPolicy: Unsupported value: \"Cluster\""]),
        (
            json!({"dnsPolicy": "None"}),
            vec!["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {}}),
            vec![
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
            ],
        ),
        (json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["::1"]}}), vec![]),
        (
            json!({"dnsConfig": {"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "x"]}}),
            vec![
                "spec.dnsConfig.nameservers: Invalid value: 4: must not have more than 3 nameservers",
                "spec.dnsConfig.nameservers[3]: Invalid value: \"x\": must be a valid IP address",
            ],
        ),
        (
            json!({"dnsConfig": {"searches": many}}),
            vec!["spec.dnsConfig.searches: Invalid value: 33: must not have more than 32 search paths"],
        ),
        (
            json!({"dnsConfig": {"searches": long}}),
            vec!["spec.dnsConfig.searches: Invalid value: 2210: must not have more than 2048 characters"],
        ),
        (json!({"dnsConfig": {"searches": [".", "a.b.", "_tcp.a"]}}), vec![]),
        (
            json!({"dnsConfig": {"searches": ["a b", ""]}}),
            vec![
                "spec.dnsConfig.searches[0]: Invalid value: \"a b\"",
                "spec.dnsConfig.searches[1]: Invalid value: \"\"",
            ],
        ),
        (
            json!({"dnsConfig": {"options": [{"name": "ndots", "value": "2"}, {"value": "2"}]}}),
            vec!["spec.dnsConfig.options[1]: Required value: must not be empty"],
        ),
        (
            json!({"hostAliases": [{"ip": "1.2.3", "hostnames": ["ok", "no_"]}]}),
            vec![
                "spec.hostAliases[0].ip: Invalid value: \"1.2.3\": must be a valid IP address",
                "spec.hostAliases[0].hostnames[1]: Invalid value: \"no_\"",
            ],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn tolerations() {
    let about = |toleration: &Value| about_spec(&json!({"tolerations": [toleration]}));
    let rows = vec![
        (json!({"operator": "Exists"}), vec![]),
        (json!({"key": "a", "value": "b"}), vec![]),
        (json!({"key": "a b", "operator": "Exists"}), vec!["spec.tolerations[0].key: Invalid value: \"a b\""]),
        (
            json!({"value": "b"}),
            vec!["spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty"],
        ),
        (json!({"key": "a", "operator": "Like"}), vec!["spec.tolerations[0].operator: Unsupported value: \"Like\""]),
        (
            json!({"key": "a", "operator": "Exists", "value": "b"}),
            vec!["spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
        ),
        (json!({"key": "a", "value": "b c"}), vec!["spec.tolerations[0].operator: Invalid value: \"b c\""]),
        (json!({"key": "a", "effect": "Never"}), vec!["spec.tolerations[0].effect: Unsupported value: \"Never\""]),
        (
            json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}),
            vec![
                "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        ),
        (json!({"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}), vec![]),
    ];
    check(rows, about);
}

//! Containers and what belongs to them.

use super::*;

#[test]
fn names_and_images() {
    let rows = vec![
        (json!({"name": ""}), vec!["spec.containers[0].name: Required value"]),
        (json!({"name": "a.b"}), vec!["spec.containers[0].name: Invalid value: \"a.b\": a lowercase RFC 1123 label"]),
        (json!({"name": "a".repeat(64)}), vec!["spec.containers[0].name: Invalid value"]),
        (json!({"image": null}), vec!["spec.containers[0].image: Required value"]),
        (
            json!({"image": " i"}),
            vec!["spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace"],
        ),
        (json!({"image": "a b"}), vec!["spec.containers[0].image: Invalid value: \"a b\""]),
        (
            json!({"imagePullPolicy": "always"}),
            vec![
                "spec.containers[0].imagePullPolicy: Unsupported value: \"always\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            json!({"terminationMessagePolicy": "Log"}),
            vec![
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"Log\": supported values: \"File\", \"FallbackToLogsOnError\"",
            ],
        ),
        (
            json!({"terminationMessagePath": "x"}),
            vec!["spec.containers[0].terminationMessagePath: Invalid value: \"x\": must be an absolute path"],
        ),
        (json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}), vec![]),
        (
            json!({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "No"}]}),
            vec![
                "spec.containers[0].resizePolicy[0].resourceName: Unsupported value: \"disk\"",
                "spec.containers[0].resizePolicy[0].restartPolicy: Unsupported value: \"No\"",
            ],
        ),
    ];
    check(rows, about_container);
}

#[test]
fn names_are_unique_over_both_lists() {
    let a = container(&json!({"name": "a"}));
    let rows = vec![
        (json!({"containers": [a, a]}), vec!["spec.containers[1].name: Duplicate value: \"a\""]),
        (
            json!({"containers": [a], "initContainers": [a]}),
            vec!["spec.initContainers[0].name: Duplicate value: \"a\""],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn init_containers() {
    let about =
        |change: &Value| about_spec(&json!({"initContainers": [merged(json!({"name": "i", "image": "i:1"}), change)]}));
    let probe = json!({"exec": {"command": ["true"]}});
    let not_here = "Forbidden: may not be set for init containers without restartPolicy=Always";
    let lines: Vec<String> = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"]
        .map(|field| format!("spec.initContainers[0].{field}: {not_here}"))
        .to_vec();
    let all = json!({"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        "lifecycle": {"preStop": probe}});
    let rows = vec![
        (json!({}), vec![]),
        (all.clone(), lines.iter().map(String::as_str).collect()),
        (merged(all, &json!({"restartPolicy": "Always"})), vec![]),
        (
            json!({"restartPolicy": "OnFailure"}),
            vec![
                "spec.initContainers[0].restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
            ],
        ),
        (json!({"image": ""}), vec!["spec.initContainers[0].image: Required value"]),
    ];
    check(rows, about);
}

#[test]
fn ports() {
    let about = |ports: &Value| about_container(&json!({"ports": ports}));
    let rows = vec![
        (json!([{"containerPort": 1}, {"containerPort": 65535, "protocol": "SCTP"}]), vec![]),
        (json!([{}]), vec!["spec.containers[0].ports[0].containerPort: Required value"]),
        (
            json!([{"containerPort": 65536}]),
            vec![
                "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            ],
        ),
        (json!([{"containerPort": -1}]), vec!["spec.containers[0].ports[0].containerPort: Invalid value: -1"]),
        (
            json!([{"containerPort": 1, "hostPort": 70000}]),
            vec!["spec.containers[0].ports[0].hostPort: Invalid value: 70000"],
        ),
        (
            json!([{"containerPort": 1, "protocol": "tcp"}]),
            vec![
                "spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
            ],
        ),
        (
            json!([{"containerPort": 1, "hostIP": "host"}]),
            vec!["spec.containers[0].ports[0].hostIP: Invalid value: \"host\": must be a valid IP address"],
        ),
        (
            json!([{"containerPort": 1, "name": "HTTP"}]),
            vec!["spec.containers[0].ports[0].name: Invalid value: \"HTTP\""],
        ),
        (
            json!([{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
            vec!["spec.containers[0].ports[1].name: Duplicate value: \"a\""],
        ),
        (json!([{"containerPort": 1}, {"containerPort": 1}]), vec![]),
        (
            json!([{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]),
            vec!["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
        ),
        (
            json!([{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80, "protocol": "UDP"}]),
            vec![],
        ),
        (
            json!([{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80, "hostIP": "127.0.0.1"}]),
            vec![],
        ),
    ];
    check(rows, about);
    let port = json!([{"containerPort": 1, "hostPort": 80}]);
    let clash = json!({
        "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always", "ports": port}, {"name": "i", "image": "i", "ports": port}],
        "containers": [container(&json!({"ports": port}))]
    });
    let host = json!({"hostNetwork": true, "containers": [container(&json!({"ports": port}))]});
    let rows = vec![
        (clash, vec!["spec.containers[0].ports[0].hostPort: Duplicate value: \"TCP//80\""]),
        (
            host,
            vec![
                "spec.containers[0].ports[0].containerPort: Invalid value: 1: must match `hostPort` when `hostNetwork` is true",
            ],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn variables() {
    let about = |variable: &Value| about_container(&json!({"env": [variable]}));
    let from = |source: Value| json!({"name": "A", "valueFrom": source});
    let field = |path: &str| json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let resource = |name: &str, divisor: &str| json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": name, "divisor": divisor}}});
    let one = "spec.containers[0].env[0]";
    let rows: Vec<(Value, Vec<String>)> = vec![
        (json!({"name": "A.b-c", "value": ""}), vec![]),
        (json!({"value": "x"}), vec![format!("{one}.name: Required value")]),
        (json!({"name": "A=B"}), vec![format!("{one}.name: Invalid value: \"A=B\"")]),
        (
            from(json!({})),
            vec![format!("{one}.valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`")],
        ),
        (
            from(json!({"fieldRef": {"fieldPath": "metadata.name"}, "configMapKeyRef": {"name": "m", "key": "k"}})),
            vec![format!("{one}.valueFrom: Invalid value: \"\": may not have more than one field specified at a time")],
        ),
        (
            json!({"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            vec![format!("{one}.valueFrom: Invalid value: \"\": may not be specified when `value` is not empty")],
        ),
        (
            from(json!({"configMapKeyRef": {"name": "", "key": ""}})),
            vec![
                format!("{one}.valueFrom.configMapKeyRef.name: Required value"),
                format!("{one}.valueFrom.configMapKeyRef.key: Required value"),
            ],
        ),
        (
            from(json!({"secretKeyRef": {"name": "s", "key": "a/b"}})),
            vec![format!("{one}.valueFrom.secretKeyRef.key: Invalid value: \"a/b\"")],
        ),
        (from(json!({"secretKeyRef": {"name": "s", "key": ".a"}})), vec![]),
        (field(""), vec![format!("{one}.valueFrom.fieldRef.fieldPath: Required value")]),
        (field("status.podIP"), vec![]),
        (field("metadata.labels['app.kubernetes.io/name']"), vec![]),
        (field("metadata.annotations['Ab']"), vec![]),
        (
            field("metadata.labels['a b']"),
            vec![format!("{one}.valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.labels['a b']\"")],
        ),
        (
            field("metadata.labels"),
            vec![format!(
                "{one}.valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\""
            )],
        ),
        (
            field("status.phase"),
            vec![format!("{one}.valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\"")],
        ),
        (
            from(json!({"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}})),
            vec![format!("{one}.valueFrom.fieldRef.apiVersion: Unsupported value: \"v2\": supported values: \"v1\"")],
        ),
        (resource("limits.cpu", "1m"), vec![]),
        (
            resource("limits.cpu", "1Mi"),
            vec![format!(
                "{one}.valueFrom.resourceFieldRef.divisor: Unsupported value: \"1Mi\": supported values: \"1\", \"1m\""
            )],
        ),
        (resource("requests.memory", "1Mi"), vec![]),
        (resource("limits.hugepages-2Mi", "1Mi"), vec![]),
        (
            resource("limits.gpu", "1"),
            vec![format!("{one}.valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\"")],
        ),
        (resource("", "1"), vec![format!("{one}.valueFrom.resourceFieldRef.resource: Required value")]),
    ];
    let rows =
        rows.iter().map(|(change, lines)| (change.clone(), lines.iter().map(String::as_str).collect())).collect();
    check(rows, about);
}

#[test]
fn variables_from_whole_objects() {
    let about = |source: &Value| about_container(&json!({"envFrom": [source]}));
    let rows = vec![
        (json!({"configMapRef": {"name": "m"}, "prefix": "P_"}), vec![]),
        (
            json!({"prefix": "P="}),
            vec![
                "spec.containers[0].envFrom[0].prefix: Invalid value: \"P=\"",
                "spec.containers[0].envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ],
        ),
        (
            json!({"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}}),
            vec![
                "spec.containers[0].envFrom[0]: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        ),
        (json!({"secretRef": {}}), vec!["spec.containers[0].envFrom[0].secretRef.name: Required value"]),
    ];
    check(rows, about);
}

#[test]
fn resources() {
    let about = |resources: &Value| about_container(&json!({"resources": resources}));
    let rows = vec![
        (json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "0.5", "memory": "1024Mi"}}), vec![]),
        (
            json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "0.6"}}),
            vec![
                "spec.containers[0].resources.requests[cpu]: Invalid value: \"0.6\": must be less than or equal to cpu limit of 500m",
            ],
        ),
        (
            json!({"limits": {"cpu": "-1"}}),
            vec![
                "spec.containers[0].resources.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            json!({"requests": {"memory": "1 Gi"}}),
            vec!["spec.containers[0].resources.requests[memory]: Invalid value: \"1 Gi\": is not a quantity"],
        ),
        (
            json!({"requests": {"gpu": "1"}}),
            vec![
                "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
            ],
        ),
        (
            json!({"limits": {"x.com/gpu": "1"}, "requests": {"x.com/gpu": "2"}}),
            vec![
                "spec.containers[0].resources.requests[x.com/gpu]: Invalid value: \"2\": must be equal to x.com/gpu limit of 1",
            ],
        ),
        (
            json!({"limits": {"x.com/gpu": "1500m"}, "requests": {"x.com/gpu": "1500m"}}),
            vec![
                "spec.containers[0].resources.limits[x.com/gpu]: Invalid value: \"1500m\": must be an integer",
                "spec.containers[0].resources.requests[x.com/gpu]: Invalid value: \"1500m\": must be an integer",
            ],
        ),
        (
            json!({"requests": {"x.com/gpu": "1"}}),
            vec![
                "spec.containers[0].resources.limits: Required value: limit must be set for non overcommitable resources",
            ],
        ),
        (json!({"limits": {"hugepages-2Mi": "4Mi"}}), vec![]),
    ];
    check(rows, about);
    let rows = vec![
        (json!({"resources": {"limits": {"cpu": "1"}}}), vec![]),
        (
            json!({"resources": {"limits": {"ephemeral-storage": "1"}, "requests": {"ephemeral-storage": "1"}}}),
            vec![
                "spec.resources.limits[ephemeral-storage]: Invalid value",
                "spec.resources.requests[ephemeral-storage]: Invalid value",
            ],
        ),
    ];
    check(rows, about_spec);
}

#[test]
fn probes() {
    let exec = json!({"exec": {"command": ["true"]}});
    let with = |change: Value| merged(exec.clone(), &change);
    let one = |field: &str, probe: &Value| about_container(&json!({field: probe}));
    let at = "spec.containers[0].livenessProbe";
    let rows: Vec<(Value, Vec<String>)> = vec![
        (exec.clone(), vec![]),
        (json!({}), vec![format!("{at}: Required value: must specify a handler type")]),
        (json!({"exec": {"command": []}}), vec![format!("{at}.exec.command: Required value")]),
        (
            with(json!({"tcpSocket": {"port": 1}})),
            vec![format!("{at}.tcpSocket: Forbidden: may not specify more than 1 handler type")],
        ),
        (
            json!({"tcpSocket": {"port": 0}}),
            vec![format!("{at}.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive")],
        ),
        (json!({"tcpSocket": {"port": "HTTP"}}), vec![format!("{at}.tcpSocket.port: Invalid value: \"HTTP\"")]),
        (json!({"httpGet": {"port": "web", "scheme": "HTTPS"}}), vec![]),
        (
            json!({"httpGet": {"port": 1, "scheme": "http"}}),
            vec![format!("{at}.httpGet.scheme: Unsupported value: \"http\"")],
        ),
        (
            json!({"httpGet": {"port": 1, "httpHeaders": [{"name": "X-A", "value": ""}, {"name": "a b", "value": ""}]}}),
            vec![format!("{at}.httpGet.httpHeaders[1].name: Invalid value: \"a b\"")],
        ),
        (json!({"grpc": {"port": 0}}), vec![format!("{at}.grpc.port: Required value")]),
        (
            with(json!({"initialDelaySeconds": -1})),
            vec![format!("{at}.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0")],
        ),
        (with(json!({"failureThreshold": -3})), vec![format!("{at}.failureThreshold: Invalid value: -3")]),
        (with(json!({"successThreshold": 2})), vec![format!("{at}.successThreshold: Invalid value: 2: must be 1")]),
        (
            with(json!({"terminationGracePeriodSeconds": 0})),
            vec![format!("{at}.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0")],
        ),
        (with(json!({"terminationGracePeriodSeconds": 1})), vec![]),
    ];
    let rows =
        rows.iter().map(|(change, lines)| (change.clone(), lines.iter().map(String::as_str).collect())).collect();
    check(rows, |probe| one("livenessProbe", probe));
    let two = with(json!({"successThreshold": 2}));
    assert_eq!(one("readinessProbe", &two), [""; 0]);
    assert_eq!(one("startupProbe", &two).len(), 1);
    let grace = with(json!({"terminationGracePeriodSeconds": 1}));
    assert_eq!(
        one("readinessProbe", &grace),
        [
            "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes"
        ]
    );
}

#[test]
fn lifecycle_hooks() {
    let about = |lifecycle: &Value| about_container(&json!({"lifecycle": lifecycle}));
    let rows = vec![
        (json!({"preStop": {"sleep": {"seconds": 30}}}), vec![]),
        (
            json!({"preStop": {"sleep": {"seconds": 31}}}),
            vec![
                "spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (
            json!({"preStop": {"sleep": {"seconds": -1}}}),
            vec!["spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: -1"],
        ),
        (
            json!({"postStart": {}}),
            vec!["spec.containers[0].lifecycle.postStart: Required value: must specify a handler type"],
        ),
        (
            json!({"stopSignal": "SIGUSR1"}),
            vec![
                "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`",
            ],
        ),
    ];
    check(rows, about);
    let with_os = |lifecycle: &Value| {
        about_spec(&json!({"os": {"name": "linux"}, "containers": [container(&json!({"lifecycle": lifecycle}))]}))
    };
    let not =
        |signal: &str| format!("spec.containers[0].lifecycle.stopSignal: Invalid value: {signal:?}: is not a signal");
    for good in ["SIGTERM", "SIGRTMIN", "SIGRTMIN+15", "SIGRTMAX-14"] {
        assert_eq!(with_os(&json!({"stopSignal": good})), [""; 0], "{good}");
    }
    for bad in ["TERM", "SIG", "SIGRTMIN+16", "SIGRTMIN-1", "SIGRTMAX+1", "sigterm", "15"] {
        let said = with_os(&json!({"stopSignal": bad}));
        assert!(said.len() == 1 && said[0].starts_with(&not(bad)), "{said:?}");
    }
}

//! Security contexts.

use super::*;

#[test]
fn of_pods() {
    let about = |context: &Value| about_spec(&json!({"securityContext": context}));
    let range = "must be between 0 and 2147483647, inclusive";
    let lines = [
        format!("spec.securityContext.runAsUser: Invalid value: -1: {range}"),
        format!("spec.securityContext.runAsGroup: Invalid value: 2147483648: {range}"),
        format!("spec.securityContext.fsGroup: Invalid value: -2: {range}"),
        format!("spec.securityContext.supplementalGroups[1]: Invalid value: -3: {range}"),
    ];
    let rows = vec![
        (json!({"runAsUser": 0, "runAsGroup": 2147483647, "fsGroup": 1, "supplementalGroups": [1, 2]}), vec![]),
        (
            json!({"runAsUser": -1, "runAsGroup": 2147483648_i64, "fsGroup": -2, "supplementalGroups": [1, -3]}),
            lines.iter().map(String::as_str).collect(),
        ),
        (
            json!({"fsGroupChangePolicy": "Never"}),
            vec![
                "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"Never\": supported values: \"Always\", \"OnRootMismatch\"",
            ],
        ),
        (
            json!({"supplementalGroupsPolicy": "None"}),
            vec![
                "spec.securityContext.supplementalGroupsPolicy: Unsupported value: \"None\": supported values: \"Merge\", \"Strict\"",
            ],
        ),
        (
            json!({"runAsNonRoot": true, "runAsUser": 0}),
            vec!["spec.securityContext.runAsUser: Invalid value: 0: must not be 0 when `runAsNonRoot` is true"],
        ),
        (json!({"runAsNonRoot": true}), vec![]),
        (
            json!({"sysctls": [{"name": "net.core.somaxconn", "value": "1"}, {"name": "kernel/shm_rmid_forced", "value": "1"}]}),
            vec![],
        ),
        (json!({"sysctls": [{"name": "", "value": ""}]}), vec!["spec.securityContext.sysctls[0].name: Required value"]),
        (
            json!({"sysctls": [{"name": "A.b", "value": ""}]}),
            vec!["spec.securityContext.sysctls[0].name: Invalid value: \"A.b\""],
        ),
        (
            json!({"sysctls": [{"name": "net.a", "value": ""}, {"name": "net/a", "value": ""}]}),
            vec!["spec.securityContext.sysctls[1].name: Duplicate value: \"net/a\""],
        ),
    ];
    check(rows, about);
    let sysctls = json!({"sysctls": [{"name": "net.a", "value": ""}, {"name": "kernel.shmmax", "value": "1"}]});
    let rows = vec![(
        json!({"hostNetwork": true, "hostIPC": true, "securityContext": sysctls}),
        vec![
            "spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
            "spec.securityContext.sysctls[1].name: Invalid value: \"kernel.shmmax\": may not be specified when 'hostIPC' is true",
        ],
    )];
    check(rows, about_spec);
}

#[test]
fn profiles() {
    let about = |profile: &Value| about_spec(&json!({"securityContext": {"seccompProfile": profile}}));
    let rows = vec![
        (json!({"type": "RuntimeDefault"}), vec![]),
        (json!({"type": "Localhost", "localhostProfile": "a/b.json"}), vec![]),
        (json!({"type": ""}), vec!["spec.securityContext.seccompProfile.type: Required value"]),
        (json!({"type": "Default"}), vec!["spec.securityContext.seccompProfile.type: Unsupported value: \"Default\""]),
        (
            json!({"type": "Localhost"}),
            vec![
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when type is Localhost",
            ],
        ),
        (
            json!({"type": "Unconfined", "localhostProfile": "a"}),
            vec![
                "spec.securityContext.seccompProfile.localhostProfile: Invalid value: \"a\": can only be set when type is Localhost",
            ],
        ),
        (
            json!({"type": "Localhost", "localhostProfile": "../a"}),
            vec![
                "spec.securityContext.seccompProfile.localhostProfile: Invalid value: \"../a\": must not contain '..'",
            ],
        ),
        (
            json!({"type": "Localhost", "localhostProfile": "/a"}),
            vec![
                "spec.securityContext.seccompProfile.localhostProfile: Invalid value: \"/a\": must be a relative path",
            ],
        ),
    ];
    check(rows, about);
    let app_armor = |context: &Value| about_container(&json!({"securityContext": context}));
    let rows = vec![
        (json!({"appArmorProfile": {"type": "Unconfined"}}), vec![]),
        (
            json!({"appArmorProfile": {"type": "Localhost"}}),
            vec!["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value"],
        ),
    ];
    check(rows, app_armor);
}

#[test]
fn of_containers() {
    let about = |context: &Value| about_container(&json!({"securityContext": context}));
    let at = "spec.containers[0].securityContext";
    let rows: Vec<(Value, Vec<String>)> = vec![
        (json!({"privileged": true, "allowPrivilegeEscalation": true}), vec![]),
        (
            json!({"privileged": true, "allowPrivilegeEscalation": false}),
            vec![format!(
                "{at}.allowPrivilegeEscalation: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            )],
        ),
        (
            json!({"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": false}),
            vec![format!("{at}.allowPrivilegeEscalation: Invalid value: false: cannot set")],
        ),
        (json!({"capabilities": {"add": ["NET_ADMIN", "CAP_CHOWN", "all"], "drop": ["ALL"]}}), vec![]),
        (
            json!({"capabilities": {"add": ["NET_ADMN"], "drop": ["X"]}}),
            vec![
                format!("{at}.capabilities.add[0]: Invalid value: \"NET_ADMN\": is not a capability of Linux"),
                format!("{at}.capabilities.drop[0]: Invalid value: \"X\""),
            ],
        ),
        (json!({"procMount": "Masked"}), vec![format!("{at}.procMount: Unsupported value: \"Masked\"")]),
        (
            json!({"procMount": "Unmasked"}),
            vec![format!("{at}.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`")],
        ),
        (json!({"runAsUser": -1}), vec![format!("{at}.runAsUser: Invalid value: -1")]),
        (
            json!({"runAsNonRoot": true, "runAsUser": 0}),
            vec![format!("{at}.runAsUser: Invalid value: 0: must not be 0 when `runAsNonRoot` is true")],
        ),
        (json!({"runAsNonRoot": true, "runAsUser": 1}), vec![]),
    ];
    let rows =
        rows.iter().map(|(change, lines)| (change.clone(), lines.iter().map(String::as_str).collect())).collect();
    check(rows, about);
}

#[test]
fn non_root_over_both_levels() {
    let about = |contexts: &Value| {
        let container = container(&json!({"securityContext": contexts["container"]}));
        about_spec(&json!({"securityContext": contexts["pod"], "containers": [container]}))
    };
    let here = "spec.containers[0].securityContext.runAsUser: Invalid value: 0";
    let there = "spec.securityContext.runAsUser: Invalid value: 0";
    let rows = vec![
        (json!({"pod": {"runAsNonRoot": true}, "container": {"runAsUser": 0}}), vec![here]),
        (json!({"pod": {"runAsUser": 0}, "container": {"runAsNonRoot": true}}), vec![here]),
        (json!({"pod": {"runAsNonRoot": true, "runAsUser": 0}, "container": {}}), vec![there]),
        (json!({"pod": {"runAsNonRoot": true, "runAsUser": 0}, "container": {"runAsUser": 1}}), vec![]),
        (json!({"pod": {"runAsNonRoot": true, "runAsUser": 0}, "container": {"runAsNonRoot": false}}), vec![]),
        (json!({"pod": {"runAsNonRoot": true, "runAsUser": 1}, "container": {"runAsUser": 0}}), vec![here]),
        (json!({"pod": {"runAsNonRoot": true, "runAsUser": 0}, "container": {"runAsNonRoot": true}}), vec![there]),
    ];
    check(rows, about);
}

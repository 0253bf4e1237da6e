//! What one machine can't do is said, by field.

use k8s_openapi::api::core::v1::PodSpec;

use super::*;

fn refused(change: &Value) -> Vec<String> {
    let pod = pod(&json!({"name": "p"}), &spec(change));
    let spec: &PodSpec = pod.spec.as_ref().unwrap();
    unsupported(spec, &FieldPath::of("spec")).iter().map(ValidationError::to_string).collect()
}

#[test]
fn what_needs_a_cluster_is_refused() {
    let not = "Forbidden: not supported by minke run: ";
    let volume = |source: Value| json!({"volumes": [merged(json!({"name": "v"}), &source)]});
    let with = |change: Value| json!({"containers": [container(&change)]});
    let rows: Vec<(Value, &str)> = vec![
        (volume(json!({"persistentVolumeClaim": {"claimName": "c"}})), "spec.volumes[0].persistentVolumeClaim"),
        (volume(json!({"ephemeral": {}})), "spec.volumes[0].ephemeral"),
        (volume(json!({"nfs": {"server": "s", "path": "/"}})), "spec.volumes[0].nfs"),
        (volume(json!({"csi": {"driver": "d"}})), "spec.volumes[0].csi"),
        (volume(json!({"gitRepo": {"repository": "r"}})), "spec.volumes[0].gitRepo"),
        (volume(json!({"image": {"reference": "r"}})), "spec.volumes[0].image"),
        (volume(json!({"emptyDir": {"medium": "HugePages"}})), "spec.volumes[0].emptyDir.medium"),
        (
            volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
            "spec.volumes[0].projected.sources[0].serviceAccountToken",
        ),
        (
            volume(json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "t"}}]}})),
            "spec.volumes[0].projected.sources[0].clusterTrustBundle",
        ),
        (json!({"resourceClaims": [{"name": "r"}]}), "spec.resourceClaims"),
        (json!({"schedulingGates": [{"name": "g"}]}), "spec.schedulingGates"),
        (json!({"runtimeClassName": "kata"}), "spec.runtimeClassName"),
        (json!({"os": {"name": "windows"}}), "spec.os.name"),
        (json!({"securityContext": {"windowsOptions": {}}}), "spec.securityContext.windowsOptions"),
        (
            json!({"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}}),
            "spec.securityContext.appArmorProfile",
        ),
        (with(json!({"restartPolicy": "Never"})), "spec.containers[0].restartPolicy"),
        (with(json!({"restartPolicyRules": [{"action": "Restart"}]})), "spec.containers[0].restartPolicyRules"),
        (with(json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]})), "spec.containers[0].volumeDevices"),
        (with(json!({"resources": {"claims": [{"name": "r"}]}})), "spec.containers[0].resources.claims"),
        (with(json!({"resources": {"limits": {"x.com/gpu": "1"}}})), "spec.containers[0].resources.limits[x.com/gpu]"),
        (
            with(
                json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]}),
            ),
            "spec.containers[0].env[0].valueFrom.fileKeyRef",
        ),
    ];
    for (change, path) in rows {
        let said = refused(&change);
        assert_eq!(said.len(), 1, "{change}: {said:?}");
        assert!(said[0].starts_with(&format!("{path}: {not}")), "{change}: {said:?}");
    }
}

#[test]
fn what_one_machine_can_do_is_not_refused() {
    let change = json!({
        "volumes": [{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "hostPath": {"path": "/"}},
            {"name": "c", "configMap": {"name": "m"}}, {"name": "d", "secret": {"secretName": "s"}},
            {"name": "e", "downwardAPI": {}}, {"name": "f", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
        "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}],
        "nodeName": "elsewhere", "priorityClassName": "high", "schedulerName": "mine", "hostUsers": false,
        "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}
    });
    assert_eq!(refused(&change), [""; 0]);
}

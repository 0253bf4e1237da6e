//! Defaults of a Pod as a whole.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec};

use super::container::default_container;
use super::volume::default_volume;

/// Fills in a Pod: its spec, and the namespace `default`.
pub fn default_pod(pod: &mut Pod) {
    pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    if let Some(spec) = &mut pod.spec {
        default_pod_spec(spec);
    }
}

/// Fills in the Pod template of a controller.
pub fn default_template(template: &mut PodTemplateSpec) {
    if let Some(spec) = &mut template.spec {
        default_pod_spec(spec);
    }
}

/// Fills in a Pod's spec.
pub fn default_pod_spec(spec: &mut PodSpec) {
    fill(&mut spec.restart_policy, "Always");
    fill(&mut spec.dns_policy, "ClusterFirst");
    fill(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_default();
    default_service_account(spec);
    let host_network = spec.host_network == Some(true);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        default_container(container);
        if host_network {
            default_host_ports(container);
        }
    }
    for volume in spec.volumes.iter_mut().flatten() {
        default_volume(volume);
    }
    // The Pod's own requests follow its limits where no container asks for anything.
    if let Some(resources) = &mut spec.resources {
        for (name, limit) in resources.limits.clone().into_iter().flatten() {
            let asked = |container: &Container| {
                let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
                requests.is_some_and(|requests| requests.contains_key(&name))
            };
            if !spec.containers.iter().any(asked) {
                resources.requests.get_or_insert_default().entry(name).or_insert(limit);
            }
        }
    }
}

/// Sets an enumeration that is absent or empty, which is the same to a server.
pub(super) fn fill(field: &mut Option<String>, value: &str) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(value.to_owned());
    }
}

/// The old name of the field mirrors the new one; either may be written.
fn default_service_account(spec: &mut PodSpec) {
    if spec.service_account_name.is_none() {
        spec.service_account_name.clone_from(&spec.service_account);
    }
    spec.service_account.clone_from(&spec.service_account_name);
}

/// In the host's network a container's port is the host's.
fn default_host_ports(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        if port.host_port.is_none_or(|port| port == 0) {
            port.host_port = Some(port.container_port);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn defaulted(pod: Value) -> Value {
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        default_pod(&mut pod);
        let once = serde_json::to_value(&pod).unwrap();
        default_pod(&mut pod);
        assert_eq!(serde_json::to_value(&pod).unwrap(), once, "filling in twice changes nothing");
        once
    }

    fn spec_of(spec: &Value) -> Value {
        defaulted(json!({"metadata": {"name": "p"}, "spec": spec}))["spec"].clone()
    }

    #[test]
    fn a_minimal_pod_is_what_a_server_would_make_of_it() {
        let pod = defaulted(json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}
        }));
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "containers": [{
                    "name": "c",
                    "image": "nginx",
                    "imagePullPolicy": "Always",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File"
                }],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30
            }
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn what_is_given_stays() {
        let given = json!({
            "containers": [{
                "name": "c", "image": "i:1", "imagePullPolicy": "Never", "resources": {},
                "terminationMessagePath": "/x", "terminationMessagePolicy": "FallbackToLogsOnError"
            }],
            "dnsPolicy": "Default", "enableServiceLinks": false, "restartPolicy": "Never", "schedulerName": "s",
            "securityContext": {"runAsUser": 1}, "terminationGracePeriodSeconds": 0
        });
        assert_eq!(spec_of(&given), given);
    }

    #[test]
    fn pull_policy_follows_the_tag() {
        let digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000";
        let cases = [
            ("nginx".to_owned(), "Always"),
            ("nginx:latest".to_owned(), "Always"),
            ("nginx:1.27".to_owned(), "IfNotPresent"),
            ("localhost:5000/nginx".to_owned(), "Always"),
            ("localhost:5000/nginx:1".to_owned(), "IfNotPresent"),
            (format!("nginx{digest}"), "IfNotPresent"),
            (format!("nginx:latest{digest}"), "Always"),
            (format!("nginx:1{digest}"), "IfNotPresent"),
        ];
        for (image, policy) in cases {
            let spec = spec_of(&json!({"containers": [{"name": "c", "image": image}]}));
            assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn ports_are_tcp_and_the_hosts_in_its_network() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 5353}]);
        let spec = spec_of(&json!({"containers": [{"name": "c", "ports": ports}]}));
        assert_eq!(
            spec["containers"][0]["ports"],
            json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP", "hostPort": 5353}])
        );
        let spec =
            spec_of(&json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}],
            "initContainers": [{"name": "i", "ports": [{"containerPort": 81}]}]}));
        assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 80);
        assert_eq!(spec["initContainers"][0]["ports"][0]["hostPort"], 81);
    }

    #[test]
    fn requests_follow_limits() {
        let spec = spec_of(&json!({"containers": [{"name": "c", "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}}]}));
        let requests = &spec["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "100m", "memory": "1Gi"}));
    }

    #[test]
    fn probes_get_their_times_and_places() {
        let spec = spec_of(&json!({"containers": [{"name": "c",
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 80}, "periodSeconds": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}}}]}));
        let container = &spec["containers"][0];
        let expected = json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        assert_eq!(container["livenessProbe"], expected);
        assert_eq!(container["readinessProbe"]["grpc"], json!({"port": 80, "service": ""}));
        assert_eq!(container["readinessProbe"]["periodSeconds"], 3);
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"], json!({"port": 80, "path": "/", "scheme": "HTTP"}));
    }

    #[test]
    fn volumes_get_modes_types_and_an_empty_directory() {
        let spec = spec_of(&json!({"containers": [], "volumes": [
            {"name": "none"},
            {"name": "cm", "configMap": {"name": "m"}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "d", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "h", "hostPath": {"path": "/x"}}
        ]}));
        assert_eq!(
            spec["volumes"],
            json!([
                {"name": "none", "emptyDir": {}},
                {"name": "cm", "configMap": {"name": "m", "defaultMode": 0o644}},
                {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
                {"name": "d", "downwardAPI": {"defaultMode": 0o644,
                    "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}]}},
                {"name": "p", "projected": {"defaultMode": 0o644,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
                {"name": "h", "hostPath": {"path": "/x", "type": ""}}
            ])
        );
    }

    #[test]
    fn field_references_of_variables_get_a_version() {
        let spec = spec_of(&json!({"containers": [{"name": "c",
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}));
        assert_eq!(spec["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    }

    #[test]
    fn either_name_of_the_service_account_will_do() {
        for field in ["serviceAccount", "serviceAccountName"] {
            let spec = spec_of(&json!({"containers": [], field: "robot"}));
            assert_eq!((&spec["serviceAccount"], &spec["serviceAccountName"]), (&json!("robot"), &json!("robot")));
        }
    }

    #[test]
    fn a_pods_own_requests_follow_its_limits_unless_a_container_asks() {
        let pod = |container: Value| {
            spec_of(&json!({"containers": [container], "resources": {"limits": {"cpu": "2"}}}))["resources"].clone()
        };
        assert_eq!(pod(json!({"name": "c"}))["requests"], json!({"cpu": "2"}));
        let asking = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        assert_eq!(pod(asking)["requests"], Value::Null);
    }
}

use super::*;

fn row(api_version: &str, kind: &str, object: &Value) -> Vec<Value> {
    of(api_version, kind).1(object, "2026-01-01T01:00:00Z".parse().unwrap())
}

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn nodes() {
    let node = json!({
        "metadata": {"name": "n", "creationTimestamp": CREATED,
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "amd64"},
        },
    });
    let expected = [
        "n",
        "Ready,SchedulingDisabled",
        "edge,worker",
        "60m",
        "v1",
        "10.0.0.1",
        "<none>",
        "<unknown>",
        "6.1 (amd64)",
        "<unknown>",
    ];
    assert_eq!(row("v1", "Node", &node), expected);
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(row("v1", "Node", &lost)[1], "NotReady");
    assert_eq!(row("v1", "Node", &json!({}))[1..3], [json!("Unknown"), json!("<none>")]);
}

#[test]
fn events_of_both_groups_read_the_same() {
    let core = json!({
        "metadata": {"name": "e"}, "type": "Warning", "reason": "Failed", "message": " text\n", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": CREATED, "lastTimestamp": "2026-01-01T00:55:00Z",
    });
    let events = json!({
        "metadata": {"name": "e"}, "type": "Warning", "reason": "Failed", "note": " text\n", "deprecatedCount": 3,
        "regarding": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "reportingController": "kubelet", "reportingInstance": "n",
        "deprecatedFirstTimestamp": CREATED, "deprecatedLastTimestamp": "2026-01-01T00:55:00Z",
    });
    let expected = [
        json!("5m"),
        json!("Warning"),
        json!("Failed"),
        json!("pod/p"),
        json!("spec"),
        json!("kubelet, n"),
        json!("text"),
        json!("60m"),
        json!(3),
        json!("e"),
    ];
    assert_eq!(row("v1", "Event", &core), expected);
    assert_eq!(row("events.k8s.io/v1", "Event", &events), expected);
    let series = json!({"eventTime": "2026-01-01T00:00:00.000000Z", "series": {"count": 7, "lastObservedTime": "2026-01-01T00:59:00.000000Z"}});
    let cells = row("v1", "Event", &series);
    assert_eq!((&cells[0], &cells[7], &cells[8]), (&json!("60s"), &json!("60m"), &json!(7)));
}

#[test]
fn services() {
    let service = |spec: Value| row("v1", "Service", &json!({"metadata": {"name": "s"}, "spec": spec}))[1..5].to_vec();
    assert_eq!(
        service(json!({"type": "ClusterIP", "clusterIPs": ["10.1.1.1"], "ports": [{"port": 80, "protocol": "TCP"}]})),
        ["ClusterIP", "10.1.1.1", "<none>", "80/TCP"]
    );
    assert_eq!(
        service(
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}], "externalIPs": ["1.2.3.4"]})
        ),
        ["NodePort", "<none>", "1.2.3.4", "80:30000/TCP"]
    );
    assert_eq!(service(json!({"type": "LoadBalancer"}))[2], "<pending>");
    assert_eq!(service(json!({"type": "ExternalName", "externalName": "e.x"}))[2], "e.x");
}

#[test]
fn volumes_and_claims() {
    let volume = json!({
        "metadata": {"name": "v", "creationTimestamp": CREATED}, "status": {"phase": "Bound"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "d", "name": "c"}, "volumeMode": "Block"},
    });
    let expected = ["v", "1Gi", "RWO,RWX", "Retain", "Bound", "d/c", "fast", "<unset>", "", "60m", "Block"];
    assert_eq!(row("v1", "PersistentVolume", &volume), expected);
    let claim =
        json!({"metadata": {"name": "c", "deletionTimestamp": CREATED}, "spec": {}, "status": {"phase": "Pending"}});
    let expected = ["c", "Terminating", "", "", "", "", "<unset>", "<unknown>", "<unset>"];
    assert_eq!(row("v1", "PersistentVolumeClaim", &claim), expected);
}

#[test]
fn certificate_requests() {
    let cells = |spec: Value, status: Value| {
        let request = json!({"metadata": {"name": "r", "creationTimestamp": CREATED}, "spec": spec, "status": status});
        row("certificates.k8s.io/v1", "CertificateSigningRequest", &request)
    };
    let spec = json!({"signerName": "example.com/s", "username": "u", "expirationSeconds": 3600});
    assert_eq!(cells(spec, json!({})), ["r", "60m", "example.com/s", "u", "60m", "Pending"]);
    let conditions = |names: &[&str]| names.iter().map(|name| json!({"type": name})).collect::<Vec<_>>();
    let condition = |names: &[&str], certificate: &str| {
        let status = json!({"conditions": conditions(names), "certificate": certificate});
        cells(json!({}), status)[4..].to_vec()
    };
    assert_eq!(condition(&["Approved"], "YQ=="), ["<none>", "Approved,Issued"]);
    assert_eq!(condition(&["Denied", "Failed"], ""), ["<none>", "Denied,Failed"]);
}

#[test]
fn small_kinds() {
    let secret = json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "", "b": ""}});
    assert_eq!(row("v1", "Secret", &secret), [json!("s"), json!("Opaque"), json!(2), json!("<unknown>")]);
    let map = json!({"metadata": {"name": "c"}, "data": {"a": ""}, "binaryData": {"b": ""}});
    assert_eq!(row("v1", "ConfigMap", &map)[1], 2);
    let class = json!({"metadata": {"name": "p"}, "value": 7, "globalDefault": true, "preemptionPolicy": "Never"});
    assert_eq!(row("scheduling.k8s.io/v1", "PriorityClass", &class)[1..3], [json!(7), json!(true)]);
    let definition = json!({"metadata": {"name": "d", "creationTimestamp": CREATED}});
    assert_eq!(row("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition), ["d", CREATED]);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]});
    assert_eq!(
        row("rbac.authorization.k8s.io/v1", "RoleBinding", &binding),
        ["b", "Role/r", "<unknown>", "u", "", "n/s"]
    );
}

//! Columns and cells of every kind but Pods: data, and small functions for what is computed.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{age, condition, count, joined, labels, list, text, text_or};
use super::pod;

/// Name, type, priority, description.
type Columns = &'static [(&'static str, &'static str, i64, &'static str)];
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

const NAME: (&str, &str, i64, &str) = ("Name", "string", 0, "Name of the object, unique in its namespace.");
const AGE: (&str, &str, i64, &str) = ("Age", "string", 0, "Time since the object was created.");

const fn column(name: &'static str, description: &'static str) -> (&'static str, &'static str, i64, &'static str) {
    (name, "string", 0, description)
}

const fn wide(name: &'static str, description: &'static str) -> (&'static str, &'static str, i64, &'static str) {
    (name, "string", 1, description)
}

const POD: Columns = &[
    NAME,
    column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    column("Status", "The aggregate status of the containers in this pod."),
    column("Restarts", "How often the containers in this pod have restarted, and when one did last."),
    AGE,
    wide("IP", "Primary address of the pod."),
    wide("Node", "Node that the pod is bound to."),
    wide("Nominated Node", "Node that makes room for the pod."),
    wide("Readiness Gates", "How many of the pod's readiness gates are open."),
];

const NODE: Columns = &[
    NAME,
    column("Status", "The status of the node"),
    column("Roles", "The roles of the node"),
    AGE,
    column("Version", "Version that the node's agent reports."),
    wide("Internal-IP", "Address inside of the cluster."),
    wide("External-IP", "Address for those outside of the cluster."),
    wide("OS-Image", "Operating system that the node reports."),
    wide("Kernel-Version", "Kernel that the node reports."),
    wide("Container-Runtime", "Container runtime that the node reports."),
];

const EVENT: Columns = &[
    column("Last Seen", "Time since it was observed last."),
    column("Type", "Normal or Warning."),
    column("Reason", "Why, in one word for machines."),
    column("Object", "What it is about."),
    wide("Subobject", "Part of the object that it is about."),
    wide("Source", "Who has observed it."),
    column("Message", "What happened, for people."),
    wide("First Seen", "Time since it was observed first."),
    wide("Count", "How often it was observed."),
    wide("Name", "Name of the object, unique in its namespace."),
];

const NAMESPACE: Columns = &[NAME, column("Status", "The status of the namespace"), AGE];
const SECRET: Columns =
    &[NAME, column("Type", "What the secret is for."), column("Data", "Number of values in it."), AGE];
const CONFIG_MAP: Columns = &[NAME, column("Data", "Number of values in it."), AGE];
const SERVICE_ACCOUNT: Columns = &[NAME, AGE];

const SERVICE: Columns = &[
    NAME,
    column("Type", "How the service is reached."),
    column("Cluster-IP", "Address inside of the cluster."),
    column("External-IP", "Addresses for those outside of the cluster."),
    column("Port(s)", "Ports that the service listens on."),
    AGE,
    wide("Selector", "Labels of the pods behind it."),
];

const PERSISTENT_VOLUME: Columns = &[
    NAME,
    column("Capacity", "Size of the volume."),
    column("Access Modes", "How the volume can be mounted."),
    column("Reclaim Policy", "What happens to the volume when its claim goes."),
    column("Status", "Whether the volume is bound."),
    column("Claim", "Claim that the volume is bound to."),
    column("StorageClass", "StorageClass of the pv"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    column("Reason", "Why the volume is in its state."),
    AGE,
    wide("VolumeMode", "Filesystem or Block."),
];

const PERSISTENT_VOLUME_CLAIM: Columns = &[
    NAME,
    column("Status", "Whether the claim is bound."),
    column("Volume", "Volume that the claim is bound to."),
    column("Capacity", "Size of that volume."),
    column("Access Modes", "How that volume can be mounted."),
    column("StorageClass", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    wide("VolumeMode", "Filesystem or Block."),
];

const LEASE: Columns = &[NAME, column("Holder", "Who holds the lease."), AGE];
const RUNTIME_CLASS: Columns = &[NAME, column("Handler", "What the runtime calls it."), AGE];

const PRIORITY_CLASS: Columns = &[
    NAME,
    ("Value", "integer", 0, "Priority of pods with this class."),
    ("Global-Default", "boolean", 0, "Whether pods without a class have this one."),
    AGE,
    column("PreemptionPolicy", "Whether such pods make others go."),
];

const BINDING: Columns = &[
    NAME,
    column("Role", "Role that is bound."),
    AGE,
    wide("Users", "Users in the binding."),
    wide("Groups", "Groups in the binding."),
    wide("ServiceAccounts", "Service accounts in the binding."),
];

/// Kinds without columns of their own, as upstream's default.
const OTHER: Columns = &[NAME, ("Created At", "date", 0, "When the object was created.")];

/// Every kind with a printer here, and one without.
#[cfg(test)]
pub(super) const KINDS: [(&str, &str); 17] = [
    ("v1", "Pod"),
    ("v1", "Node"),
    ("v1", "Event"),
    ("events.k8s.io/v1", "Event"),
    ("v1", "Namespace"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("v1", "Service"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("coordination.k8s.io/v1", "Lease"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

pub(super) fn of(api_version: &str, kind: &str) -> (Columns, Cells) {
    match (api_version, kind) {
        ("v1", "Pod") => (POD, pod::cells),
        ("v1", "Node") => (NODE, node),
        ("v1" | "events.k8s.io/v1", "Event") => (EVENT, event),
        ("v1", "Namespace") => {
            (NAMESPACE, |object, now| vec![name(object), text(&object["status"]["phase"]).into(), aged(object, now)])
        }
        ("v1", "Secret") => (SECRET, |object, now| {
            vec![name(object), text(&object["type"]).into(), count(&object["data"]).into(), aged(object, now)]
        }),
        ("v1", "ConfigMap") => (CONFIG_MAP, |object, now| {
            let values = count(&object["data"]) + count(&object["binaryData"]);
            vec![name(object), values.into(), aged(object, now)]
        }),
        ("v1", "ServiceAccount") => (SERVICE_ACCOUNT, |object, now| vec![name(object), aged(object, now)]),
        ("v1", "Service") => (SERVICE, service),
        ("v1", "PersistentVolume") => (PERSISTENT_VOLUME, persistent_volume),
        ("v1", "PersistentVolumeClaim") => (PERSISTENT_VOLUME_CLAIM, persistent_volume_claim),
        ("coordination.k8s.io/v1", "Lease") => {
            (LEASE, |object, now| vec![name(object), text(&object["spec"]["holderIdentity"]).into(), aged(object, now)])
        }
        ("node.k8s.io/v1", "RuntimeClass") => {
            (RUNTIME_CLASS, |object, now| vec![name(object), text(&object["handler"]).into(), aged(object, now)])
        }
        ("scheduling.k8s.io/v1", "PriorityClass") => (PRIORITY_CLASS, |object, now| {
            let value = object["value"].as_i64().unwrap_or(0);
            let default = object["globalDefault"] == true;
            vec![
                name(object),
                value.into(),
                default.into(),
                aged(object, now),
                text(&object["preemptionPolicy"]).into(),
            ]
        }),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => (BINDING, binding),
        _ => (OTHER, |object, _| vec![name(object), text(&object["metadata"]["creationTimestamp"]).into()]),
    }
}

fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

fn aged(object: &Value, now: Timestamp) -> Value {
    age(&object["metadata"]["creationTimestamp"], now).into()
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let (status, info) = (&node["status"], &node["status"]["nodeInfo"]);
    let mut states = vec![match condition(&status["conditions"], "Ready") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }];
    if node["spec"]["unschedulable"] == true {
        states.push("SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|address| address["type"] == kind);
        found.map_or("<none>", |address| text(&address["address"])).to_owned()
    };
    let mut kernel = text_or(&info["kernelVersion"], "<unknown>").to_owned();
    let architecture = text(&info["architecture"]);
    if !architecture.is_empty() {
        kernel.push_str(&format!(" ({architecture})"));
    }
    vec![
        name(node),
        states.join(",").into(),
        roles(&node["metadata"]["labels"]).into(),
        aged(node, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        text_or(&info["osImage"], "<unknown>").into(),
        kernel.into(),
        text_or(&info["containerRuntimeVersion"], "<unknown>").into(),
    ]
}

fn roles(labels: &Value) -> String {
    let mut roles: Vec<&str> = labels
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then(|| text(value)),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

/// Both groups' Events: the fields have other names in the younger one.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, events: &str| [&event[core], &event[events]].into_iter().find(|value| !value.is_null());
    let either = |core, events| either(core, events).unwrap_or(&Value::Null);
    let series = &event["series"];
    let first_time = [either("firstTimestamp", "deprecatedFirstTimestamp"), &event["eventTime"]];
    let first =
        first_time.into_iter().find(|time| !text(time).is_empty()).map_or("<unknown>".to_owned(), |t| age(t, now));
    let last_time = either("lastTimestamp", "deprecatedLastTimestamp");
    let last = match () {
        () if !series.is_null() => age(&series["lastObservedTime"], now),
        () if text(last_time).is_empty() => first.clone(),
        () => age(last_time, now),
    };
    let count = match series.is_null() {
        false => series["count"].as_i64().unwrap_or(0),
        true => either("count", "deprecatedCount").as_i64().filter(|count| *count != 0).unwrap_or(1),
    };
    let about = either("involvedObject", "regarding");
    let kind = text(&about["kind"]).to_lowercase();
    let target = match text(&about["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource");
    let component = text_or(&source["component"], text(either("reportingComponent", "reportingController")));
    let source = match text_or(&source["host"], text(&event["reportingInstance"])) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        target.into(),
        text(&about["fieldPath"]).into(),
        source.into(),
        text(either("message", "note")).trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let ports: Vec<String> = list(&spec["ports"])
        .iter()
        .map(|port| {
            let (number, protocol) = (port["port"].as_i64().unwrap_or(0), text(&port["protocol"]));
            match port["nodePort"].as_i64().unwrap_or(0) {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let ips = joined(&spec["externalIPs"], ",");
    let external = match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if ips.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => ips,
        "LoadBalancer" => {
            let ingress = list(&service["status"]["loadBalancer"]["ingress"]).iter();
            let mut places: Vec<&str> = ingress.map(|i| text_or(&i["ip"], text(&i["hostname"]))).collect();
            places.retain(|place| !place.is_empty());
            places.sort_unstable();
            places.dedup();
            places.extend(list(&spec["externalIPs"]).iter().map(text));
            if places.is_empty() { "<pending>".to_owned() } else { places.join(",") }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    };
    vec![
        name(service),
        text(&spec["type"]).into(),
        text_or(&spec["clusterIPs"][0], "<none>").into(),
        external.into(),
        ports.into(),
        aged(service, now),
        labels(&spec["selector"]).into(),
    ]
}

fn access_modes(modes: &Value) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let given = |mode: &str| list(modes).iter().any(|given| given == mode);
    short.iter().filter(|(mode, _)| given(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn storage_class(object: &Value) -> &str {
    let annotation = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    annotation.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

fn phase(object: &Value) -> &str {
    let deleted = !object["metadata"]["deletionTimestamp"].is_null();
    if deleted { "Terminating" } else { text(&object["status"]["phase"]) }
}

/// A pointer in Go: absent is not empty.
fn or_unset(value: &Value) -> Value {
    value.as_str().unwrap_or("<unset>").into()
}

fn persistent_volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
    };
    vec![
        name(volume),
        text_or(&spec["capacity"]["storage"], "0").into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(volume).into(),
        claim.into(),
        storage_class(volume).into(),
        or_unset(&spec["volumeAttributesClassName"]),
        text(&volume["status"]["reason"]).into(),
        aged(volume, now),
        or_unset(&spec["volumeMode"]),
    ]
}

fn persistent_volume_claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let volume = text(&spec["volumeName"]);
    let bound = !volume.is_empty();
    let capacity = if bound { text_or(&status["capacity"]["storage"], "0") } else { "" };
    let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
    vec![
        name(claim),
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        storage_class(claim).into(),
        or_unset(&spec["volumeAttributesClassName"]),
        aged(claim, now),
        or_unset(&spec["volumeMode"]),
    ]
}

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
    let subjects = |kind: &str| {
        let of_kind = list(&binding["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        let names = of_kind.map(|subject| match text(&subject["namespace"]) {
            "" => text(&subject["name"]).to_owned(),
            namespace => format!("{namespace}/{}", text(&subject["name"])),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(binding),
        role.into(),
        aged(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

#[cfg(test)]
mod tests {
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
        let service =
            |spec: Value| row("v1", "Service", &json!({"metadata": {"name": "s"}, "spec": spec}))[1..5].to_vec();
        assert_eq!(
            service(
                json!({"type": "ClusterIP", "clusterIPs": ["10.1.1.1"], "ports": [{"port": 80, "protocol": "TCP"}]})
            ),
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
        let claim = json!({"metadata": {"name": "c", "deletionTimestamp": CREATED}, "spec": {}, "status": {"phase": "Pending"}});
        let expected = ["c", "Terminating", "", "", "", "", "<unset>", "<unknown>", "<unset>"];
        assert_eq!(row("v1", "PersistentVolumeClaim", &claim), expected);
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
}

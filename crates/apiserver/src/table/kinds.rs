//! The cells of every kind but Pods: small functions for what is computed.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{age, condition, count, joined, labels, list, since, text, text_or};
use super::columns::{
    BINDING, CERTIFICATE_REQUEST, CONFIG_MAP, Columns, EVENT, LEASE, NAMESPACE, NODE, OTHER, PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM, POD, PRIORITY_CLASS, RUNTIME_CLASS, SECRET, SERVICE, SERVICE_ACCOUNT,
};
use super::pod;

type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// Every kind with a printer here, and one without.
#[cfg(test)]
pub(super) const KINDS: [(&str, &str); 18] = [
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
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
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
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => (CERTIFICATE_REQUEST, certificate_request),
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

fn certificate_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&request["spec"], &request["status"]);
    let has = |name: &str| list(&status["conditions"]).iter().any(|condition| condition["type"] == name);
    let mut states = vec![match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }];
    states.extend(has("Failed").then_some("Failed"));
    states.extend((!text(&status["certificate"]).is_empty()).then_some("Issued"));
    let wanted =
        spec["expirationSeconds"].as_i64().and_then(|seconds| Timestamp::from_second(now.as_second() - seconds).ok());
    vec![
        name(request),
        aged(request, now),
        text_or(&spec["signerName"], "<none>").into(),
        text(&spec["username"]).into(),
        wanted.map_or_else(|| "<none>".to_owned(), |then| since(then, now)).into(),
        states.join(",").into(),
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
mod tests;

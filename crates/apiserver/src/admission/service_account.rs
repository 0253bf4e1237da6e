//! Who a Pod is: its service account, and the volume with which it can show that.

use serde_json::{Value, json};

use super::{Facts, list, text};

/// The account of Pods that name none.
pub const DEFAULT_ACCOUNT: &str = "default";
/// The ConfigMap in each namespace by which Pods trust the server.
pub const ROOT_CERTIFICATES: &str = "kube-root-ca.crt";
/// Where programs look for their token.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
/// An hour and a little: upstream tells tokens that were asked for by admission from others by it.
const SECONDS: i64 = 3607;
const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";

pub(super) fn admit(pod: &mut Value, facts: &dyn Facts) -> Result<(), String> {
    if !text(pod, MIRROR).is_empty() {
        return mirror(pod);
    }
    let name = match text(pod, "/spec/serviceAccountName") {
        "" => DEFAULT_ACCOUNT.to_owned(),
        name => name.to_owned(),
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        pod["spec"][field] = name.clone().into();
    }
    let Some(account) = facts.find("serviceaccounts", &name) else {
        let namespace = text(pod, "/metadata/namespace");
        return Err(format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"));
    };
    let wanted = pod["spec"]["automountServiceAccountToken"].as_bool();
    let wanted = wanted.or_else(|| account["automountServiceAccountToken"].as_bool()).unwrap_or(true);
    if wanted && facts.mounts_tokens() {
        mount(pod, facts);
    }
    if list(&mut pod["spec"], "imagePullSecrets").is_empty()
        && let Some(secrets) = account["imagePullSecrets"].as_array()
    {
        pod["spec"]["imagePullSecrets"] = json!(secrets);
    }
    Ok(())
}

/// A node's report of a static Pod, which runs whatever the API says: it is given nothing that it did not have.
fn mirror(pod: &Value) -> Result<(), String> {
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let volumes = pod["spec"]["volumes"].as_array();
    for volume in volumes.into_iter().flatten() {
        if volume.get("secret").is_some_and(|secret| !secret.is_null()) {
            return Err("a mirror pod may not reference secrets".to_owned());
        }
        let sources = volume.pointer("/projected/sources").and_then(Value::as_array);
        if sources.into_iter().flatten().any(|source| source.get("serviceAccountToken").is_some_and(|t| !t.is_null())) {
            return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
        }
    }
    Ok(())
}

fn mount(pod: &mut Value, facts: &dyn Facts) {
    // A Pod that was copied brings the volume with it.
    let volumes = pod["spec"]["volumes"].as_array();
    let own = volumes.into_iter().flatten().find_map(|volume| {
        let name = volume["name"].as_str()?;
        (name.starts_with(VOLUME) && volume.get("projected").is_some()).then(|| name.to_owned())
    });
    let there = own.is_some();
    let name = own.unwrap_or_else(|| format!("{VOLUME}{}", facts.suffix()));
    let mut mounted = false;
    for kind in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = list(container, "volumeMounts");
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
                mounted = true;
            }
        }
    }
    if mounted && !there {
        list(&mut pod["spec"], "volumes").push(json!({
            "name": name,
            "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
                {"configMap": {"name": ROOT_CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ]},
        }));
    }
}

//! Certificate signing requests: who asks is the server's to say, what is asked never changes, approval and certificate are
//! written through subresources of their own. Rules and words are upstream's (`pkg/registry/certificates`,
//! `pkg/apis/certificates/validation`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Map, Value, json};

use super::plain;
use super::strategy::{forbidden, invalid};
use crate::access::{ADMINISTRATORS, CertificateRequest, Identity};
use crate::error::Cause;

/// Signs certificates that clients show to the server.
pub(crate) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signs those of kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signs those that kubelets listen with.
pub(crate) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Shortest life that can be asked for, in seconds.
const SHORTEST: i64 = 600;

/// What is asked, of an object of the kind.
///
/// # Errors
/// Why it can't be read, in words.
pub(crate) fn asked(object: &Value) -> Result<CertificateRequest, String> {
    let bytes = STANDARD.decode(text(&object["spec"]["request"])).map_err(|error| error.to_string())?;
    CertificateRequest::parse(&bytes).map_err(|error| error.to_string())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn conditions(object: &Value) -> &[Value] {
    object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The conditions of a type.
pub(crate) fn conditions_of<'a>(object: &'a Value, name: &str) -> Vec<&'a Value> {
    conditions(object).iter().filter(|condition| condition["type"] == name).collect()
}

/// Nobody says for themselves that they are trusted.
pub(super) fn create(object: &mut Value) {
    object["status"] = json!({});
}

/// Writes down who asks, whatever they say.
pub(crate) fn sign(object: &mut Value, who: &Identity) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    if !who.user.is_empty() {
        spec.insert("username".to_owned(), who.user.clone().into());
    }
    if !who.uid.is_empty() {
        spec.insert("uid".to_owned(), who.uid.clone().into());
    }
    if !who.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(who.groups));
    }
    if !who.extra.is_empty() {
        let extra: Map<String, Value> = who.extra.iter().map(|(key, value)| (key.clone(), json!([value]))).collect();
        spec.insert("extra".to_owned(), extra.into());
    }
}

/// Why nobody may ask for this, if so: administrators are not made by a signature.
pub(crate) fn refused(object: &Value) -> Option<String> {
    let asked = (object["spec"]["signerName"] == CLIENT).then(|| asked(object).ok()).flatten()?;
    let master = asked.organisations.iter().any(|group| group == ADMINISTRATORS);
    master.then(|| format!("use of {CLIENT} signer with {ADMINISTRATORS} group is not allowed"))
}

/// Why a node may not ask for this, if so: it asks in its own name.
pub(crate) fn refused_to_node(node: &str, object: &Value) -> Option<String> {
    if ![KUBELET_CLIENT, KUBELET_SERVING].contains(&text(&object["spec"]["signerName"])) {
        return None;
    }
    match asked(object) {
        Ok(asked) if asked.common_name == format!("system:node:{node}") => None,
        Ok(_) => Some(format!("can only create a node CSR with CN=system:node:{node}")),
        Err(why) => Some(format!("unable to parse csr: {why}")),
    }
}

fn required(field: &str) -> Cause {
    Cause::new("FieldValueRequired", "Required value", field)
}

fn duplicate(field: &str, value: &str) -> Cause {
    Cause::new("FieldValueDuplicate", format!("Duplicate value: {value:?}"), field)
}

fn not_supported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
    let message = format!("Unsupported value: {value:?}: supported values: {}", supported.join(", "));
    Cause::new("FieldValueNotSupported", message, field)
}

/// The rules of a request alone.
pub(super) fn validate(object: &Value) -> Vec<Cause> {
    let mut found = plain::metadata_of_any_name(object);
    let spec = &object["spec"];
    if let Err(why) = asked(object) {
        found.push(invalid("spec.request", &spec["request"], &why));
    }
    let usages: Vec<&str> = spec["usages"].as_array().into_iter().flatten().map(text).collect();
    if usages.is_empty() {
        found.push(required("spec.usages"));
    }
    for (index, usage) in usages.iter().enumerate() {
        let field = format!("spec.usages[{index}]");
        if !USAGES.contains(usage) {
            found.push(not_supported(&field, usage, &USAGES));
        }
        if usages[..index].contains(usage) {
            found.push(duplicate(&field, usage));
        }
    }
    found.extend(signer(text(&spec["signerName"])));
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < SHORTEST) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        found.push(invalid("spec.expirationSeconds", &seconds.into(), why));
    }
    found.extend(states(object));
    if let Some(why) = certificate(object) {
        found.push(invalid("status.certificate", &"<certificate data>".into(), why));
    }
    found
}

/// The name of a signer: a domain and a path.
fn signer(name: &str) -> Option<Cause> {
    let field = "spec.signerName";
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = |label: &str| {
        let ends = label.starts_with('-') || label.ends_with('-');
        !label.is_empty() && label.len() <= 63 && label.chars().all(good) && !ends
    };
    let wrong = |why: &str| Some(invalid(field, &name.into(), why));
    let whole = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    match name.split_once('/') {
        _ if name.is_empty() => Some(required(field)),
        _ if name == LEGACY => wrong("the legacy signerName is not allowed via this API version"),
        None => wrong(whole),
        Some((_, path)) if path.contains('/') => wrong(whole),
        Some((domain, _)) if domain.len() > 253 || !domain.split('.').all(label) => {
            wrong("its domain must consist of lowercase RFC 1123 labels")
        }
        Some((domain, _)) if !domain.contains('.') => {
            wrong("should be a domain with at least two segments separated by dots")
        }
        Some((_, path)) if !path.split('.').all(label) => wrong("its path must consist of lowercase RFC 1123 labels"),
        Some(_) => None,
    }
}

fn states(object: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    let mut decided = "";
    for (index, condition) in conditions(object).iter().enumerate() {
        let (name, status) = (text(&condition["type"]), text(&condition["status"]));
        let field = |name: &str| format!("status.conditions[{index}].{name}");
        if name.is_empty() {
            found.push(required(&field("type")));
        }
        let final_one = matches!(name, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if final_one { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            found.push(required(&field("status")));
        } else if !allowed.contains(&status) {
            found.push(not_supported(&field("status"), status, allowed));
        }
        if matches!(name, "Approved" | "Denied") {
            if !decided.is_empty() && decided != name {
                let why = "Approved and Denied conditions are mutually exclusive";
                found.push(invalid("status.conditions", &name.into(), why));
            }
            decided = name;
        }
        if conditions(object)[..index].iter().any(|before| before["type"] == name) {
            found.push(duplicate(&field("type"), name));
        }
    }
    found
}

/// What is wrong with the certificate that was written, if there is one.
fn certificate(object: &Value) -> Option<&'static str> {
    let encoded = text(&object["status"]["certificate"]);
    if encoded.is_empty() {
        return None;
    }
    let Ok(bytes) = STANDARD.decode(encoded) else { return Some("must be base64") };
    let mut blocks = 0;
    for block in CertificateDer::pem_slice_iter(&bytes) {
        let Ok(block) = block else { return Some("only CERTIFICATE PEM blocks are allowed") };
        if webpki::EndEntityCert::try_from(&block).is_err() {
            return Some("found a CERTIFICATE PEM block that is no certificate");
        }
        blocks += 1;
    }
    (blocks == 0).then_some("must contain at least one CERTIFICATE PEM block")
}

/// Conditions get their times where their writer names none.
pub(crate) fn stamp(new: &mut Value, old: &Value, now: &str) {
    let all = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in all.into_iter().flatten() {
        let Value::Object(condition) = condition else { continue };
        let absent = |condition: &Map<String, Value>, field: &str| condition.get(field).is_none_or(Value::is_null);
        if absent(condition, "lastUpdateTime") {
            condition.insert("lastUpdateTime".to_owned(), now.into());
        }
        if absent(condition, "lastTransitionTime") {
            let same = |before: &&Value| {
                Some(&before["type"]) == condition.get("type") && Some(&before["status"]) == condition.get("status")
            };
            let before = conditions(old).iter().find(same).map(|before| before["lastTransitionTime"].clone());
            let at = before.filter(|at| !at.is_null()).unwrap_or_else(|| now.into());
            condition.insert("lastTransitionTime".to_owned(), at);
        }
    }
}

/// The status after a write of the approval: what it says, with the writer's conditions.
pub(crate) fn take_approval(new: &Value, old: &Value) -> Value {
    let mut status = old["status"].as_object().cloned().unwrap_or_default();
    match new["status"].get("conditions") {
        Some(conditions) => drop(status.insert("conditions".to_owned(), conditions.clone())),
        None => drop(status.remove("conditions")),
    }
    status.into()
}

/// The status after a write of the status: who approved what is not its writer's to change.
pub(crate) fn take_status(new: &Value, old: &Value) -> Value {
    let mut status = new["status"].clone();
    for name in ["Approved", "Denied"] {
        let before = conditions_of(old, name);
        if before.len() != conditions_of(new, name).len() {
            continue;
        }
        let mut before = before.into_iter();
        let all = status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
        for condition in all.filter(|one| one["type"] == name) {
            if let Some(before) = before.next() {
                *condition = before.clone();
            }
        }
    }
    status
}

/// Whether a write is one of the approval or of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Whether it is approved.
    Approval,
    /// What has come of it.
    Outcome,
}

/// What may change: decisions are made once and stay, and so does a certificate.
pub(crate) fn changes(new: &Value, old: &Value, writes: Writes) -> Vec<Cause> {
    let mut found = Vec::new();
    for name in ["Approved", "Denied", "Failed"] {
        let (before, after) = (conditions_of(old, name), conditions_of(new, name));
        if after.len() < before.len() {
            let why = format!("updates may not remove a condition of type {name:?}");
            found.push(forbidden("status.conditions", &why));
        } else if after.len() > before.len() && writes == Writes::Outcome && name != "Failed" {
            let why = format!("updates may not add a condition of type {name:?}");
            found.push(forbidden("status.conditions", &why));
        }
    }
    let of = |object: &Value| text(&object["status"]["certificate"]).to_owned();
    let (before, after) = (of(old), of(new));
    if before != after && !before.is_empty() {
        found.push(forbidden("status.certificate", "updates may not modify existing certificate content"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::certificate_request;

    fn object(spec: &Value) -> Value {
        let pem = certificate_request("system:node:n", &["system:nodes"], &[], &[]);
        let mut object = json!({"metadata": {"name": "csr-1"}, "spec": {
            "request": STANDARD.encode(pem), "signerName": KUBELET_CLIENT, "usages": ["digital signature", "client auth"],
        }});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        object
    }

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn a_request_is_whole_or_every_fault_is_told() {
        assert_eq!(validate(&object(&json!({}))), []);
        for (spec, expected) in [
            (json!({"request": "bm8="}), vec!["spec.request"]),
            (json!({"usages": []}), vec!["spec.usages"]),
            (json!({"usages": ["client auth", "client auth"]}), vec!["spec.usages[1]"]),
            (json!({"usages": ["client auth", "any auth"]}), vec!["spec.usages[1]"]),
            (json!({"signerName": ""}), vec!["spec.signerName"]),
            (json!({"signerName": LEGACY}), vec!["spec.signerName"]),
            (json!({"signerName": "signer"}), vec!["spec.signerName"]),
            (json!({"signerName": "a/b"}), vec!["spec.signerName"]),
            (json!({"signerName": "a.b/c/d"}), vec!["spec.signerName"]),
            (json!({"signerName": "a.b/C"}), vec!["spec.signerName"]),
            (json!({"signerName": "example.com/own.signer"}), vec![]),
            (json!({"expirationSeconds": 599}), vec!["spec.expirationSeconds"]),
            (json!({"expirationSeconds": 600}), vec![]),
        ] {
            assert_eq!(fields(&validate(&object(&spec))), expected, "{spec}");
        }
    }

    #[test]
    fn who_asks_is_the_servers_to_say() {
        let mut forged =
            object(&json!({"username": "root", "uid": "0", "groups": ["system:masters"], "extra": {"a": ["b"]}}));
        let who = Identity { user: "u".to_owned(), groups: vec!["g".to_owned()], ..Identity::default() };
        sign(&mut forged, &who);
        assert_eq!((&forged["spec"]["username"], &forged["spec"]["groups"]), (&json!("u"), &json!(["g"])));
        assert!(forged["spec"].get("uid").is_none() && forged["spec"].get("extra").is_none());
    }

    #[test]
    fn nobody_is_made_an_administrator_and_a_node_asks_in_its_own_name() {
        let pem = STANDARD.encode(certificate_request("u", &[ADMINISTRATORS], &[], &[]));
        assert!(refused(&object(&json!({"request": pem, "signerName": CLIENT}))).is_some());
        assert!(refused(&object(&json!({"signerName": CLIENT}))).is_none());
        assert_eq!(refused_to_node("n", &object(&json!({}))), None);
        assert!(refused_to_node("m", &object(&json!({}))).is_some());
        assert_eq!(refused_to_node("m", &object(&json!({"signerName": "example.com/own"}))), None);
    }

    #[test]
    fn a_decision_stays_and_only_approval_makes_one() {
        let with = |conditions: Value, certificate: &str| {
            let mut object = object(&json!({}));
            object["status"] = json!({"conditions": conditions, "certificate": certificate});
            object
        };
        let approved = json!([{"type": "Approved", "status": "True", "reason": "a"}]);
        let both = json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]);
        let (none, yes) = (with(json!([]), ""), with(approved.clone(), ""));
        assert_eq!(changes(&yes, &none, Writes::Approval), []);
        assert_eq!(fields(&changes(&yes, &none, Writes::Outcome)), ["status.conditions"]);
        assert_eq!(fields(&changes(&none, &yes, Writes::Approval)), ["status.conditions"]);
        assert_eq!(fields(&states(&with(both, ""))), ["status.conditions"]);
        assert_eq!(
            fields(&states(&with(json!([{"type": "Approved", "status": "False"}]), ""))),
            ["status.conditions[0].status"]
        );
        assert_eq!(
            fields(&changes(&with(approved.clone(), "b"), &with(approved, "a"), Writes::Outcome)),
            ["status.certificate"]
        );
        // A writer of the status that rewrites an approval changes nothing of it.
        let other = with(
            json!([{"type": "Approved", "status": "True", "reason": "other"}, {"type": "Failed", "status": "True"}]),
            "",
        );
        let taken = take_status(&other, &yes);
        assert_eq!(
            (&taken["conditions"][0]["reason"], &taken["conditions"][1]["type"]),
            (&json!("a"), &json!("Failed"))
        );
    }

    #[test]
    fn conditions_get_their_times_once() {
        let mut new = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}]}});
        let old =
            json!({"status": {"conditions": [{"type": "Approved", "status": "True", "lastTransitionTime": "then"}]}});
        stamp(&mut new, &old, "now");
        let times = |index: usize| {
            let condition = &new["status"]["conditions"][index];
            (text(&condition["lastUpdateTime"]), text(&condition["lastTransitionTime"]))
        };
        assert_eq!((times(0), times(1)), (("now", "then"), ("now", "now")));
    }
}

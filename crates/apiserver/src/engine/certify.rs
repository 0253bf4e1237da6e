//! Certificates that are asked for: kubelets' are approved without a person, what is approved is signed, and what is over is
//! forgotten. Upstream's `csrapproving`, `csrsigning` and `csrcleaner` controllers; what is decided is pure.
//!
//! Upstream leaves certificates that kubelets listen with to a person. Here they are approved if the node asks in person and for
//! nothing but the addresses that its Node object has: there is one machine, and its node is known.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{DeleteOptions, Engine, ListOptions, Part, Place, meta};
use crate::access::{Attempt, Authority, CertificateRequest, Identity, NODES, allows};
use crate::error::ApiError;
use crate::kinds::certificate::{self, CLIENT, KUBELET_CLIENT, KUBELET_SERVING};
use crate::kinds::find;

/// How long a certificate counts, if nobody asks for less: a year, as upstream.
const LONGEST_SECONDS: i64 = 365 * 24 * 3600;
const SHORTEST_SECONDS: i64 = 600;
/// How long a request is kept that has been decided on, and one that nobody has.
const DECIDED_SECONDS: i64 = 3600;
const PENDING_SECONDS: i64 = 24 * 3600;
const NODE_PREFIX: &str = "system:node:";

/// What is to be done about a request.
#[derive(Debug, PartialEq)]
enum Next {
    /// Nothing, or it is somebody else's.
    Wait,
    /// It is approved, with these words.
    Approve(&'static str),
    /// It can't be signed, for this reason.
    Fail(String),
    /// It is signed, for so many seconds.
    Sign(i64),
    /// It is forgotten.
    Forget,
}

fn usages(object: &Value) -> Vec<&str> {
    object["spec"]["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Why a signer of the server's refuses a request; `None`: it does not.
fn refused(signer: &str, asked: &CertificateRequest, usages: &[&str]) -> Option<String> {
    let given: HashSet<&str> = usages.iter().copied().collect();
    let exactly = |needed: &str| {
        let least = HashSet::from(["digital signature", needed]);
        // Keys of RSA can encipher other keys.
        let most = HashSet::from(["digital signature", "key encipherment", needed]);
        let why = format!("usages did not match [digital signature key encipherment {needed}]");
        (given != least && given != most).then_some(why)
    };
    let says = |wrong: bool, why: &str| wrong.then(|| why.to_owned());
    let kubelet = says(asked.organisations != [NODES], "subject organization is not system:nodes");
    let named =
        says(!asked.common_name.starts_with(NODE_PREFIX), "subject common name does not begin with system:node:");
    let mail = says(!asked.mails.is_empty(), "Email subjectAltNames are not allowed");
    let uri = says(!asked.uris.is_empty(), "URI subjectAltNames are not allowed");
    match signer {
        KUBELET_CLIENT => kubelet
            .or(says(!asked.names.is_empty(), "DNS subjectAltNames are not allowed"))
            .or(mail)
            .or(says(!asked.addresses.is_empty(), "IP subjectAltNames are not allowed"))
            .or(uri)
            .or(named)
            .or(exactly("client auth")),
        KUBELET_SERVING => kubelet
            .or(says(asked.names.is_empty() && asked.addresses.is_empty(), "DNS or IP subjectAltName is required"))
            .or(mail)
            .or(uri)
            .or(exactly("server auth"))
            .or(named),
        _ => {
            let other =
                given.iter().find(|usage| !["client auth", "digital signature", "key encipherment"].contains(usage));
            other
                .map(|usage| format!("invalid usage for client certificate: {usage}"))
                .or(says(!given.contains("client auth"), "missing required usage for client certificate: client auth"))
        }
    }
}

/// Who asks, as it was written down when they did.
fn asking(object: &Value) -> Identity {
    let spec = &object["spec"];
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(|group| group.as_str().map(str::to_owned));
    Identity {
        user: spec["username"].as_str().unwrap_or_default().to_owned(),
        groups: groups.collect(),
        ..Identity::default()
    }
}

/// Names and addresses of a Node.
fn of_node(node: &Value) -> HashSet<String> {
    let all = node["status"]["addresses"].as_array().into_iter().flatten();
    all.filter_map(|address| address["address"].as_str().map(str::to_owned)).collect()
}

/// With which words a request is approved at once, if it is.
fn approves(object: &Value, asked: &CertificateRequest, node: Option<&Value>) -> Option<&'static str> {
    let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
    if ![KUBELET_CLIENT, KUBELET_SERVING].contains(&signer) || refused(signer, asked, &usages(object)).is_some() {
        return None;
    }
    let who = asking(object);
    let itself = who.user == asked.common_name;
    let may = |part| {
        let attempt = Attempt {
            verb: "create",
            group: "certificates.k8s.io",
            resource: "certificatesigningrequests",
            subresource: part,
            namespace: "",
            name: "",
        };
        allows(&who, &attempt)
    };
    if signer == KUBELET_SERVING {
        let own = of_node(node?);
        let mut wanted = asked.names.iter().cloned().chain(asked.addresses.iter().map(ToString::to_string));
        let known = itself && who.node().is_some() && wanted.all(|name| own.contains(&name));
        return known.then_some("Auto approving kubelet serving certificate for the addresses of its Node.");
    }
    match itself && may("selfnodeclient") {
        true => Some("Auto approving self kubelet client certificate after SubjectAccessReview."),
        false if may("nodeclient") => Some("Auto approving kubelet client certificate after SubjectAccessReview."),
        false => None,
    }
}

/// Seconds since a time that is written down; none where there is none.
fn age(at: &Value, now: jiff::Timestamp) -> i64 {
    at.as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok()).map_or(0, |at| now.as_second() - at.as_second())
}

/// What is to be done about a request; `node` is the Node that it is about, if there is one.
fn next(object: &Value, node: Option<&Value>, now: jiff::Timestamp) -> Next {
    let has = |name: &str| !certificate::conditions_of(object, name).is_empty();
    let issued = object["status"]["certificate"].as_str().is_some_and(|text| !text.is_empty());
    let decided = ["Approved", "Denied", "Failed"]
        .into_iter()
        .flat_map(|name| certificate::conditions_of(object, name))
        .map(|condition| age(&condition["lastUpdateTime"], now))
        .max();
    match decided {
        Some(age) if age > DECIDED_SECONDS && (issued || has("Denied") || has("Failed")) => return Next::Forget,
        Some(age) if age > PENDING_SECONDS => return Next::Forget,
        None if age(&object["metadata"]["creationTimestamp"], now) > PENDING_SECONDS => return Next::Forget,
        Some(_) if issued || has("Denied") || has("Failed") => return Next::Wait,
        Some(_) | None => {}
    }
    let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
    let (true, Ok(asked)) = ([CLIENT, KUBELET_CLIENT, KUBELET_SERVING].contains(&signer), certificate::asked(object))
    else {
        return Next::Wait;
    };
    if !has("Approved") {
        return approves(object, &asked, node).map_or(Next::Wait, Next::Approve);
    }
    match refused(signer, &asked, &usages(object)) {
        Some(why) => Next::Fail(why),
        None => {
            let wanted = object["spec"]["expirationSeconds"].as_i64().unwrap_or(LONGEST_SECONDS);
            Next::Sign(wanted.clamp(SHORTEST_SECONDS, LONGEST_SECONDS))
        }
    }
}

impl Engine {
    /// The same engine, which signs certificates that are asked for and approved.
    #[must_use]
    pub fn with_authority(mut self, authority: std::sync::Arc<Authority>) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Sees to every request.
    pub(super) async fn certify(&self) -> Result<(), ApiError> {
        let Some(kind) = find("certificates.k8s.io", "v1", "certificatesigningrequests") else { return Ok(()) };
        if self.store.count(&kind.resource()) == 0 {
            return Ok(());
        }
        for entry in self.list(kind, None, &ListOptions::default())?.entries {
            let object = entry.parse().map_err(ApiError::internal)?;
            let name = meta::text(&object, "name").to_owned();
            let place = Place { kind, namespace: "", name: &name };
            match self.certify_one(place, &object).await {
                Ok(()) => {}
                // Somebody else was faster, or it is gone: the next round looks again.
                Err(error) if matches!(error.code(), 404 | 409 | 422) => {
                    tracing::debug!(%error, request = name, "a certificate request was not seen to");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn certify_one(&self, place: Place<'_>, object: &Value) -> Result<(), ApiError> {
        let user = object["spec"]["username"].as_str().unwrap_or_default();
        let node = find("", "v1", "nodes").zip(user.strip_prefix(NODE_PREFIX));
        let node = node.and_then(|(kind, name)| self.load(Place { kind, namespace: "", name }).ok());
        let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "reason": reason, "message": message});
        let (part, status) = match next(object, node.as_ref().map(|(_, node)| node), self.time()) {
            Next::Wait => return Ok(()),
            Next::Forget => {
                let mut options = DeleteOptions::default();
                options.preconditions.uid = Some(meta::text(object, "uid").to_owned());
                return self.delete(place, &options).await.map(drop);
            }
            Next::Approve(message) => {
                (Part::Approval, Outcome::Condition(condition("Approved", "AutoApproved", message)))
            }
            Next::Fail(why) => (Part::Status, Outcome::Condition(condition("Failed", "SignerValidationFailure", &why))),
            Next::Sign(seconds) => match self.issue(object, seconds) {
                Ok(Some(pem)) => (Part::Status, Outcome::Certificate(pem)),
                Ok(None) => return Ok(()),
                Err(why) => (Part::Status, Outcome::Condition(condition("Failed", "SignerValidationFailure", &why))),
            },
        };
        let options = WriteOptions { field_manager: "minke".to_owned(), ..WriteOptions::default() };
        let change = |old: &Value| {
            let mut new = old.clone();
            match &status {
                Outcome::Certificate(encoded) => new["status"]["certificate"] = encoded.clone().into(),
                Outcome::Condition(condition) => match new["status"]["conditions"].as_array_mut() {
                    Some(conditions) => conditions.push(condition.clone()),
                    None => new["status"]["conditions"] = json!([condition]),
                },
            }
            Ok(new)
        };
        self.change(place, part, &options, change).await.map(drop)
    }

    /// The certificate, as it is written into the object; `None` where nobody signs.
    fn issue(&self, object: &Value, seconds: i64) -> Result<Option<String>, String> {
        use base64::Engine as _;
        let Some(authority) = &self.authority else { return Ok(None) };
        let asked = certificate::asked(object)?;
        let pem = authority.grant(&asked, &usages(object), self.time(), seconds);
        let pem = pem.map_err(|error| minke_core::runtime::error_chain(&error))?;
        Ok(Some(base64::engine::general_purpose::STANDARD.encode(pem)))
    }
}

/// What is written into a status.
enum Outcome {
    Condition(Value),
    Certificate(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{BOOTSTRAPPERS, certificate_request};
    use base64::Engine as _;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn object(user: &str, groups: &[&str], signer: &str, usage: &str, pem: &str) -> Value {
        let request = base64::engine::general_purpose::STANDARD.encode(pem);
        json!({
            "metadata": {"name": "csr-1", "creationTimestamp": NOW},
            "spec": {
                "username": user, "groups": groups, "signerName": signer, "request": request,
                "usages": ["digital signature", usage],
            },
            "status": {},
        })
    }

    fn client(user: &str, groups: &[&str], of: &str) -> Value {
        let pem = certificate_request(&format!("system:node:{of}"), &[NODES], &[], &[]);
        object(user, groups, KUBELET_CLIENT, "client auth", &pem)
    }

    fn serving(user: &str, names: &[&str], addresses: &[&str]) -> Value {
        let pem = certificate_request("system:node:n", &[NODES], names, addresses);
        object(user, &[NODES], KUBELET_SERVING, "server auth", &pem)
    }

    fn now() -> jiff::Timestamp {
        NOW.parse().unwrap()
    }

    fn node() -> Value {
        json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}]}})
    }

    fn decided(mut object: Value, condition: &str, at: &str) -> Value {
        object["status"]["conditions"] = json!([{"type": condition, "status": "True", "lastUpdateTime": at}]);
        object
    }

    #[test]
    fn who_becomes_a_node_and_a_node_itself_are_approved_and_nobody_else() {
        let approved = |object: &Value| matches!(next(object, Some(&node()), now()), Next::Approve(_));
        assert!(approved(&client("kubelet", &[BOOTSTRAPPERS], "n")));
        assert!(approved(&client("system:node:n", &[NODES], "n")));
        assert!(!approved(&client("system:node:m", &[NODES], "n")), "in another one's name");
        assert!(!approved(&client("u", &["people"], "n")));
        let mut other = client("kubelet", &[BOOTSTRAPPERS], "n");
        other["spec"]["signerName"] = CLIENT.into();
        assert!(!approved(&other), "a person approves those");
        let mut more = client("kubelet", &[BOOTSTRAPPERS], "n");
        more["spec"]["usages"] = json!(["digital signature", "client auth", "server auth"]);
        assert!(!approved(&more));
    }

    #[test]
    fn a_node_listens_under_its_own_addresses_alone() {
        let approved = |object: &Value, node: Option<&Value>| matches!(next(object, node, now()), Next::Approve(_));
        assert!(approved(&serving("system:node:n", &["n"], &["10.0.0.1"]), Some(&node())));
        assert!(!approved(&serving("system:node:n", &["n"], &["10.0.0.1"]), None), "it has not registered yet");
        assert!(!approved(&serving("system:node:n", &["kubernetes.default"], &["10.0.0.1"]), Some(&node())));
        assert!(!approved(&serving("system:node:n", &[], &["10.0.0.2"]), Some(&node())));
        assert!(!approved(&serving("system:node:m", &["n"], &[]), Some(&node())));
        assert!(!approved(&serving("system:node:n", &[], &[]), Some(&node())), "for nothing at all");
    }

    #[test]
    fn what_is_approved_is_signed_for_as_long_as_was_asked() {
        let approved = decided(client("u", &[], "n"), "Approved", NOW);
        assert_eq!(next(&approved, None, now()), Next::Sign(LONGEST_SECONDS));
        let asked = |seconds: i64| {
            let mut object = approved.clone();
            object["spec"]["expirationSeconds"] = seconds.into();
            next(&object, None, now())
        };
        assert_eq!(
            (asked(3600), asked(1), asked(i64::MAX)),
            (Next::Sign(3600), Next::Sign(600), Next::Sign(LONGEST_SECONDS))
        );
        let denied = decided(client("kubelet", &[BOOTSTRAPPERS], "n"), "Denied", NOW);
        assert_eq!(next(&denied, None, now()), Next::Wait);
        let foreign = |mut object: Value| {
            object["spec"]["signerName"] = "example.com/own".into();
            object
        };
        assert_eq!(next(&foreign(approved.clone()), None, now()), Next::Wait, "it is another signer's");
        let mut done = approved;
        done["status"]["certificate"] = "YQ==".into();
        assert_eq!(next(&done, None, now()), Next::Wait);
    }

    #[test]
    fn what_a_signer_does_not_sign_fails_with_upstreams_reason() {
        let fails = |signer: &str, usage: &str, user: &str, groups: &[&str], names: &[&str]| {
            let pem = certificate_request(user, groups, names, &[]);
            match next(&decided(object("root", &[], signer, usage, &pem), "Approved", NOW), None, now()) {
                Next::Fail(why) => why,
                other => panic!("{other:?}"),
            }
        };
        let organisation = "subject organization is not system:nodes";
        assert_eq!(fails(KUBELET_CLIENT, "client auth", "system:node:n", &["other"], &[]), organisation);
        assert_eq!(
            fails(KUBELET_CLIENT, "client auth", "n", &[NODES], &[]),
            "subject common name does not begin with system:node:"
        );
        assert_eq!(
            fails(KUBELET_CLIENT, "client auth", "system:node:n", &[NODES], &["n"]),
            "DNS subjectAltNames are not allowed"
        );
        assert_eq!(
            fails(KUBELET_SERVING, "server auth", "system:node:n", &[NODES], &[]),
            "DNS or IP subjectAltName is required"
        );
        assert_eq!(fails(CLIENT, "server auth", "u", &[], &[]), "invalid usage for client certificate: server auth");
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        let (hour, day) = (at("2026-01-02T01:00:01Z"), at("2026-01-03T00:00:01Z"));
        let pending = client("u", &[], "n");
        assert_eq!((next(&pending, None, hour), next(&pending, None, day)), (Next::Wait, Next::Forget));
        assert_eq!(next(&decided(pending.clone(), "Denied", NOW), None, hour), Next::Forget);
        let mut issued = decided(pending, "Approved", NOW);
        issued["status"]["certificate"] = "YQ==".into();
        assert_eq!(next(&issued, None, hour), Next::Forget);
    }
}

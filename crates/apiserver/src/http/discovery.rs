//! What there is, for clients that ask first: versions, groups, resources, plain and aggregated. Pure, over the kinds that are
//! served at the moment.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use crate::kinds::{Deletion, Kind, Nature};

/// The API that is spoken: the version whose types and rules these are. Clients choose behaviour by it.
pub(crate) const MINOR: &str = "37";

/// Subresources that are reached by POST alone: of which kind, name, group, version, kind of the body.
const ACTIONS: [(&str, &str, &str, &str, &str); 3] = [
    ("Pod", "binding", "", "v1", "Binding"),
    ("Pod", "eviction", "policy", "v1", "Eviction"),
    ("ServiceAccount", "token", "authentication.k8s.io", "v1", "TokenRequest"),
];

/// What reaches into a Pod: name, kind of the options (the Pod's own where there is none), verbs.
const REACHING: [(&str, &str, &[&str]); 4] = [
    ("attach", "PodAttachOptions", &["create", "get"]),
    ("exec", "PodExecOptions", &["create", "get"]),
    ("log", "", &["get"]),
    ("portforward", "PodPortForwardOptions", &["create", "get"]),
];

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Those of namespaces, which go one by one.
const NAMESPACE_VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
/// The same of custom kinds, in upstream's order.
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// What can be done to objects whose definition goes.
const LAST_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
/// What can be done with questions.
const QUESTION_VERBS: [&str; 1] = ["create"];
/// What can be done with what is measured.
const MEASURED_VERBS: [&str; 2] = ["get", "list"];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The version, and whose it is.
pub(crate) fn git_version() -> String {
    format!("v1.{MINOR}.0+minke-{}", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": git_version(),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// A path below objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Of the body: empty where it is that of the object.
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
    /// Whether it is answered with something else than an object: a stream, a text.
    pub(crate) reaches: bool,
}

impl Part {
    /// `apiVersion` and kind of the body.
    pub(crate) fn body(&self, of: &Kind) -> (String, &'static str) {
        match (self.kind, self.group) {
            ("", _) => (of.api_version(), of.kind),
            (kind, "") => (self.version.to_owned(), kind),
            (kind, group) => (format!("{group}/{}", self.version), kind),
        }
    }

    /// Its HTTP methods, as OpenAPI writes them.
    pub(crate) fn methods(&self) -> Vec<&'static str> {
        let method = |verb: &&'static str| match *verb {
            "create" => "post",
            "update" => "put",
            verb => verb,
        };
        self.verbs.iter().map(method).collect()
    }
}

/// What is below the objects of a kind.
pub(crate) fn parts(kind: &Kind) -> Vec<Part> {
    let part = |name| Part { name, group: "", version: "", kind: "", verbs: &PART_VERBS, reaches: false };
    let action = |&(_, name, group, version, kind)| Part { group, version, kind, verbs: &["create"], ..part(name) };
    // Only the core's Pods: a custom kind may have the same name.
    let of = if kind.slot.is_none() { kind.kind } else { "" };
    let mut parts: Vec<Part> = ACTIONS.iter().filter(|action| action.0 == of).map(action).collect();
    if kind.strategy.deletion == Deletion::Namespace {
        parts.push(Part { verbs: &["update"], ..part("finalize") });
    }
    if kind.status {
        parts.push(part("status"));
    }
    if kind.approved {
        parts.push(part("approval"));
    }
    if kind.strategy.deletion == Deletion::Graceful {
        parts.extend(["ephemeralcontainers", "resize"].map(part));
        let reaching = |&(name, kind, verbs)| Part { version: "v1", kind, verbs, reaches: true, ..part(name) };
        parts.extend(REACHING.iter().map(reaching));
    }
    if kind.definition().is_some_and(|definition| definition.scale.is_some()) {
        parts.push(Part { group: "autoscaling", version: "v1", kind: "Scale", ..part("scale") });
    }
    // Those of definitions are told in the order in which they are declared.
    if kind.slot.is_none() {
        parts.sort_unstable_by_key(|part| part.name);
    }
    parts
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    let going = kind.slot.map(|slot| slot.get().is_some_and(|definition| definition.source.terminating));
    match (kind.nature, going) {
        (Nature::Question, _) => &QUESTION_VERBS,
        (Nature::Measured, _) => &MEASURED_VERBS,
        (Nature::Stored, None) if kind.strategy.deletion == Deletion::Namespace => &NAMESPACE_VERBS,
        (Nature::Stored, None) => &VERBS,
        (Nature::Stored, Some(false)) => &CUSTOM_VERBS,
        (Nature::Stored, Some(true)) => &LAST_VERBS,
    }
}

/// Groups in the order of the kinds, without the core.
pub(crate) fn groups<'a>(kinds: &[&'a Kind]) -> Vec<&'a str> {
    let mut groups: Vec<&str> = Vec::new();
    for kind in kinds.iter().filter(|kind| !kind.group.is_empty()) {
        if !groups.contains(&kind.group) {
            groups.push(kind.group);
        }
    }
    groups
}

/// How far a version is: stable before beta before alpha, later ones first, whatever else last.
fn maturity(version: &str) -> (u8, Reverse<(u64, u64)>, &str) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let major = rest[..digits].parse::<u64>().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (0, Some(0)),
            rest if rest.starts_with("beta") => (1, rest[4..].parse().ok()),
            rest if rest.starts_with("alpha") => (2, rest[5..].parse().ok()),
            _ => (3, None),
        };
        Some((stage, Reverse((major, minor?))))
    });
    match parsed {
        Some((stage, order)) => (stage, order, ""),
        None => (4, Reverse((0, 0)), version),
    }
}

/// The versions of a group, the preferred one first.
pub(crate) fn versions<'a>(kinds: &[&'a Kind], group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = kinds.iter().filter(|kind| kind.group == group).map(|kind| kind.version).collect();
    versions.sort_by_key(|version| maturity(version));
    versions.dedup();
    versions
}

pub(crate) fn core_versions(address: &str) -> Value {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
}

fn group_value(kinds: &[&Kind], name: &str) -> Option<Value> {
    let versions: Vec<Value> = versions(kinds, name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

pub(crate) fn group(kinds: &[&Kind], name: &str) -> Option<Value> {
    let mut group = group_value(kinds, name)?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

pub(crate) fn group_list(kinds: &[&Kind]) -> Value {
    let groups: Vec<Value> = groups(kinds).into_iter().filter_map(|name| group_value(kinds, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The kinds of a group and version, the server's own by name.
pub(crate) fn of<'a>(kinds: &[&'a Kind], group: &str, version: &str) -> Vec<&'a Kind> {
    let mut found: Vec<&Kind> =
        kinds.iter().filter(|kind| kind.group == group && kind.version == version).copied().collect();
    found.sort_by_key(|kind| if kind.slot.is_none() { kind.plural } else { "" });
    found
}

pub(crate) fn resources(kinds: &[&Kind], group: &str, version: &str) -> Option<Value> {
    let kinds = of(kinds, group, version);
    let first = kinds.first()?;
    let mut resources = Vec::new();
    for kind in &kinds {
        let mut resource = Map::new();
        for (field, value) in [
            ("name", json!(kind.plural)),
            ("singularName", json!(kind.singular)),
            ("namespaced", json!(kind.namespaced)),
            ("kind", json!(kind.kind)),
            ("verbs", json!(verbs(kind))),
            ("shortNames", json!(kind.short_names)),
            ("categories", json!(kind.categories)),
        ] {
            if value.as_array().is_none_or(|list| !list.is_empty()) {
                resource.insert(field.to_owned(), value);
            }
        }
        resources.push(Value::Object(resource));
        for part in parts(kind) {
            let mut resource = json!({
                "name": format!("{}/{}", kind.plural, part.name), "singularName": "", "namespaced": kind.namespaced,
                "kind": part.body(kind).1, "verbs": part.verbs,
            });
            if !part.group.is_empty() {
                resource["group"] = part.group.into();
                resource["version"] = part.version.into();
            }
            resources.push(resource);
        }
    }
    let version = first.api_version();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
    // That of the core is older than versions of such lists.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

/// `APIGroupDiscoveryList` v2: of the core, or of all other groups.
pub(crate) fn aggregated(kinds: &[&Kind], core: bool) -> Value {
    let names = if core { vec![""] } else { groups(kinds) };
    let group = |group: &str| {
        let versions: Vec<Value> = versions(kinds, group)
            .into_iter()
            .map(|version| {
                let resources: Vec<Value> = of(kinds, group, version).into_iter().map(aggregated_resource).collect();
                json!({"version": version, "freshness": "Current", "resources": resources})
            })
            .collect();
        json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
    };
    let items: Vec<Value> = names.into_iter().map(group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let this = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let part = |part: Part| {
        let body = match part.kind {
            "" => this.clone(),
            name => json!({"group": part.group, "version": part.version, "kind": name}),
        };
        json!({"subresource": part.name, "responseKind": body, "verbs": part.verbs})
    };
    let parts: Vec<Value> = parts(kind).into_iter().map(part).collect();
    json!({
        "resource": kind.plural, "responseKind": this, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": verbs(kind), "shortNames": kind.short_names,
        "categories": kind.categories, "subresources": parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{BUILTIN, find};

    #[test]
    fn mature_versions_come_first() {
        let mut versions = ["v1alpha1", "foo", "v1", "v2beta1", "v1beta2", "v10", "v2", "v11alpha2", "v1beta1", "bar"];
        versions.sort_by_key(|version| maturity(version));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "bar", "foo"]
        );
    }

    #[test]
    fn every_kind_is_in_the_list_of_its_version_and_in_the_aggregated_one() {
        let kinds: Vec<&Kind> = BUILTIN.iter().collect();
        for kind in BUILTIN {
            let list = resources(&kinds, kind.group, kind.version).unwrap();
            assert!(list["resources"].as_array().unwrap().iter().any(|r| r["name"] == kind.plural), "{}", kind.plural);
            let all = aggregated(&kinds, kind.group.is_empty()).to_string();
            assert!(all.contains(&format!("\"resource\":\"{}\"", kind.plural)), "{}", kind.plural);
        }
        assert!(resources(&kinds, "apps", "v1").is_none() && group(&kinds, "apps").is_none());
    }

    #[test]
    fn parts_say_whose_body_they_have() {
        let names = |plural: &str| {
            let kind = find("", "v1", plural).unwrap();
            parts(kind).iter().map(|part| (part.name, part.body(kind).0, part.methods())).collect::<Vec<_>>()
        };
        assert_eq!(
            names("pods"),
            [
                ("attach", "v1".to_owned(), vec!["post", "get"]),
                ("binding", "v1".to_owned(), vec!["post"]),
                ("ephemeralcontainers", "v1".to_owned(), vec!["get", "patch", "put"]),
                ("eviction", "policy/v1".to_owned(), vec!["post"]),
                ("exec", "v1".to_owned(), vec!["post", "get"]),
                ("log", "v1".to_owned(), vec!["get"]),
                ("portforward", "v1".to_owned(), vec!["post", "get"]),
                ("resize", "v1".to_owned(), vec!["get", "patch", "put"]),
                ("status", "v1".to_owned(), vec!["get", "patch", "put"]),
            ]
        );
        assert_eq!(names("namespaces")[0].0, "finalize");
    }
}

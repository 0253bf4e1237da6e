//! What there is, for clients that ask first: versions, groups, resources, plain and aggregated, and the part of OpenAPI
//! that kubectl looks at before it writes.

use serde_json::{Map, Value, json};

use crate::kinds::{BUILTIN, Deletion, Kind};

/// The API that is spoken. Clients choose behaviour by it.
pub(crate) const MINOR: &str = "33";

/// Subresources that are reached by POST alone: of which kind, name, group, version, kind of the body.
const ACTIONS: [(&str, &str, &str, &str, &str); 2] =
    [("Pod", "binding", "", "v1", "Binding"), ("Pod", "eviction", "policy", "v1", "Eviction")];

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0+minke-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// Groups in the order of the table, without the core.
pub(crate) fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = BUILTIN.iter().map(|kind| kind.group).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups
}

pub(crate) fn core_versions(address: &str) -> Value {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
}

pub(crate) fn group(name: &str) -> Option<Value> {
    let version = BUILTIN.iter().find(|kind| kind.group == name)?.version;
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    Some(
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [version], "preferredVersion": version}),
    )
}

pub(crate) fn group_list() -> Value {
    let groups: Vec<Value> = groups().into_iter().filter_map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn kinds(group: &str, version: &str) -> Vec<&'static Kind> {
    BUILTIN.iter().filter(|kind| kind.group == group && kind.version == version).collect()
}

pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let kinds = kinds(group, version);
    let first = kinds.first()?;
    let mut resources = Vec::new();
    for kind in &kinds {
        let mut resource = Map::new();
        for (field, value) in [
            ("name", json!(kind.plural)),
            ("singularName", json!(kind.singular)),
            ("namespaced", json!(kind.namespaced)),
            ("kind", json!(kind.kind)),
            ("verbs", json!(VERBS)),
            ("shortNames", json!(kind.short_names)),
            ("categories", json!(kind.categories)),
        ] {
            if value.as_array().is_none_or(|list| !list.is_empty()) {
                resource.insert(field.to_owned(), value);
            }
        }
        resources.push(Value::Object(resource));
        for (name, group, version, body) in actions(kind) {
            let name = format!("{}/{name}", kind.plural);
            resources.push(json!({
                "name": name, "singularName": "", "namespaced": kind.namespaced, "group": group, "version": version,
                "kind": body, "verbs": ["create"],
            }));
        }
        if kind.status {
            let name = format!("{}/status", kind.plural);
            resources.push(json!({
                "name": name, "singularName": "", "namespaced": kind.namespaced, "kind": kind.kind, "verbs": STATUS_VERBS,
            }));
        }
        if kind.strategy.deletion == Deletion::Namespace {
            resources.push(json!({
                "name": "namespaces/finalize", "singularName": "", "namespaced": false, "kind": "Namespace", "verbs": ["update"],
            }));
        }
    }
    let version = first.api_version();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}))
}

fn actions(kind: &Kind) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    let of = kind.kind;
    ACTIONS.iter().filter(move |action| action.0 == of).map(|action| (action.1, action.2, action.3, action.4))
}

/// `APIGroupDiscoveryList` v2: of the core, or of all other groups.
pub(crate) fn aggregated(core: bool) -> Value {
    let names = if core { vec![""] } else { groups() };
    let items: Vec<Value> = names
        .into_iter()
        .filter_map(|group| {
            let version = BUILTIN.iter().find(|kind| kind.group == group)?.version;
            let resources: Vec<Value> = kinds(group, version).into_iter().map(aggregated_resource).collect();
            let version = json!({"version": version, "freshness": "Current", "resources": resources});
            Some(json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": [version]}))
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let this = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut parts: Vec<Value> = actions(kind)
        .map(|(name, group, version, body)| {
            let body = json!({"group": group, "version": version, "kind": body});
            json!({"subresource": name, "responseKind": body, "verbs": ["create"]})
        })
        .collect();
    if kind.status {
        parts.push(json!({"subresource": "status", "responseKind": this, "verbs": STATUS_VERBS}));
    }
    json!({
        "resource": kind.plural, "responseKind": this, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": VERBS, "shortNames": kind.short_names, "categories": kind.categories,
        "subresources": parts,
    })
}

/// The index of OpenAPI documents.
pub(crate) fn openapi_index() -> Value {
    let mut paths = Map::new();
    for group in std::iter::once("").chain(groups()) {
        if let Some(kind) = BUILTIN.iter().find(|kind| kind.group == group) {
            let path = prefix(kind);
            let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn prefix(kind: &Kind) -> String {
    format!("{}/{}", if kind.group.is_empty() { "api" } else { "apis" }, kind.api_version())
}

/// The document of a group and version: a PATCH for each kind that says that fields are validated here. kubectl asks for
/// nothing else before it writes.
pub(crate) fn openapi(group: &str, version: &str) -> Option<Value> {
    let kinds = kinds(group, version);
    let first = kinds.first()?;
    let mut paths = Map::new();
    for kind in &kinds {
        let namespace = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let path = format!("/{}/{namespace}{}/{{name}}", prefix(first), kind.plural);
        let validation = json!({
            "name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": true},
            "description": "What happens with fields that are not known: Ignore, Warn (the default) or Strict.",
        });
        paths.insert(
            path,
            json!({"patch": {
                "operationId": format!("patch{}", kind.kind),
                "parameters": [validation],
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            }}),
        );
    }
    let info = json!({"title": "Kubernetes", "version": format!("v1.{MINOR}.0")});
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths}))
}

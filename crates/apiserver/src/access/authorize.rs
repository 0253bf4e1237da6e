//! The fixed authorizer. Pure.

use super::{ADMINISTRATORS, Identity, NODES};
use crate::error::ApiError;

/// What someone is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'a str,
    /// The group of the resource.
    pub group: &'a str,
    /// The resource's plural.
    pub resource: &'a str,
    /// `status`, … or empty.
    pub subresource: &'a str,
    /// The namespace; empty for all of them, or none.
    pub namespace: &'a str,
    /// The name; empty where there is none.
    pub name: &'a str,
}

const READ: [&str; 3] = ["get", "list", "watch"];

/// Whether they may. Administrators may everything; a node what its kubelet does: read what Pods refer to, write itself, its
/// Pods' status and its lease, tell events. Nobody else may anything.
#[must_use]
pub fn allows(identity: &Identity, attempt: &Attempt<'_>) -> bool {
    let is = |group: &str| identity.groups.iter().any(|own| own == group);
    if is(ADMINISTRATORS) {
        return true;
    }
    let Some(node) = identity.user.strip_prefix("system:node:").filter(|_| is(NODES)) else { return false };
    let reads = READ.contains(&attempt.verb);
    let own = attempt.name == node || attempt.name.is_empty() && attempt.verb == "create";
    match (attempt.group, attempt.resource, attempt.subresource) {
        ("", "pods", "") => reads || matches!(attempt.verb, "create" | "delete"),
        ("", "pods", "status") => matches!(attempt.verb, "get" | "update" | "patch"),
        ("", "pods", "eviction") => attempt.verb == "create",
        ("", "nodes", "" | "status") => reads || own && matches!(attempt.verb, "create" | "update" | "patch"),
        ("", "events", "") => matches!(attempt.verb, "create" | "patch" | "update"),
        ("coordination.k8s.io", "leases", "") => {
            attempt.namespace == "kube-node-lease"
                && own
                && !matches!(attempt.verb, "deletecollection" | "list" | "watch")
        }
        // Secrets by name alone: whoever runs a node must not be able to list them.
        ("", "secrets" | "configmaps", "") => attempt.verb == "get",
        ("", "services" | "persistentvolumeclaims" | "persistentvolumes" | "serviceaccounts", "")
        | ("node.k8s.io", "runtimeclasses", "")
        | ("scheduling.k8s.io", "priorityclasses", "") => reads,
        _ => false,
    }
}

/// 403 with upstream's sentence.
#[must_use]
pub fn forbidden(identity: &Identity, attempt: &Attempt<'_>) -> ApiError {
    let resource = match attempt.subresource {
        "" => attempt.resource.to_owned(),
        part => format!("{}/{part}", attempt.resource),
    };
    let scope = match attempt.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {:?} cannot {} resource {resource:?} in API group {:?} {scope}",
        identity.user, attempt.verb, attempt.group
    );
    ApiError::forbidden(attempt.group, attempt.resource, attempt.name, &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: &str, groups: &[&str]) -> Identity {
        Identity { user: user.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    fn attempt<'a>(verb: &'a str, resource: &'a str, subresource: &'a str, name: &'a str) -> Attempt<'a> {
        Attempt { verb, group: "", resource, subresource, namespace: "ns", name }
    }

    #[test]
    fn deny_is_the_default() {
        for nobody in [who("x", &[]), who("system:masters", &[]), who("system:node:n", &[]), who("x", &[NODES])] {
            for verb in ["get", "list", "create", "delete"] {
                assert!(!allows(&nobody, &attempt(verb, "pods", "", "p")), "{nobody:?} {verb}");
            }
        }
        assert!(allows(&who("root", &[ADMINISTRATORS]), &attempt("deletecollection", "secrets", "", "")));
    }

    #[test]
    fn a_node_does_what_its_kubelet_does_and_no_more() {
        let node = who("system:node:n", &[NODES]);
        for (verb, resource, part, name) in [
            ("list", "pods", "", ""),
            ("patch", "pods", "status", "p"),
            ("delete", "pods", "", "p"),
            ("get", "secrets", "", "s"),
            ("create", "events", "", ""),
            ("patch", "nodes", "status", "n"),
            ("create", "nodes", "", ""),
        ] {
            assert!(allows(&node, &attempt(verb, resource, part, name)), "{verb} {resource}");
        }
        for (verb, resource, part, name) in [
            ("list", "secrets", "", ""),
            ("update", "pods", "", "p"),
            ("patch", "nodes", "status", "other"),
            ("delete", "nodes", "", "n"),
            ("create", "pods", "binding", "p"),
            ("create", "namespaces", "", ""),
        ] {
            assert!(!allows(&node, &attempt(verb, resource, part, name)), "{verb} {resource}");
        }
        let lease = |namespace, name| Attempt {
            verb: "update",
            group: "coordination.k8s.io",
            resource: "leases",
            subresource: "",
            namespace,
            name,
        };
        assert!(allows(&node, &lease("kube-node-lease", "n")));
        assert!(!allows(&node, &lease("kube-node-lease", "m")) && !allows(&node, &lease("default", "n")));
    }

    #[test]
    fn a_refusal_is_upstreams_sentence() {
        let error = forbidden(&who("x", &[]), &attempt("list", "pods", "", ""));
        assert_eq!(
            error.to_string(),
            r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "ns""#
        );
    }
}

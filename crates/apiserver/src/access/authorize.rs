//! The fixed authorizer. Pure.

use serde_json::{Value, json};

use super::roles::{self, Rule, Scope};
use super::{ADMINISTRATORS, AUTHENTICATED, BOOTSTRAPPERS, CONTROLLERS, Identity, MONITORS};
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

/// The roles of someone.
fn roles(identity: &Identity) -> Vec<&'static [Rule]> {
    let is = |group: &str| identity.groups.iter().any(|own| own == group);
    let mut roles = Vec::new();
    if is(ADMINISTRATORS) {
        roles.push(roles::ADMINISTRATOR);
    }
    if identity.node().is_some() {
        roles.push(roles::NODE);
    }
    if is(BOOTSTRAPPERS) {
        roles.push(roles::BOOTSTRAPPER);
    }
    match identity.user.as_str() {
        "system:kube-scheduler" => roles.push(roles::SCHEDULER),
        "system:kube-controller-manager" => roles.push(roles::CONTROLLER),
        _ if is(CONTROLLERS) => roles.push(roles::CONTROLLER),
        _ => {}
    }
    if is(AUTHENTICATED) {
        roles.push(roles::KNOWN);
    }
    roles
}

fn matches(rule: &Rule, identity: &Identity, attempt: &Attempt<'_>) -> bool {
    let any = |list: &[&str], wanted: &str| list.iter().any(|one| *one == "*" || *one == wanted);
    let resource = match attempt.subresource {
        "" => attempt.resource.to_owned(),
        part => format!("{}/{part}", attempt.resource),
    };
    let own = || identity.node().is_some_and(|node| node == attempt.name);
    let scope = match rule.scope {
        Scope::All => true,
        Scope::Named => !attempt.name.is_empty(),
        Scope::Namespace(namespace) => attempt.namespace == namespace,
        Scope::Own => own(),
        Scope::OwnIn(namespace) => attempt.namespace == namespace && own(),
    };
    let group = rule.group == "*" || rule.group == attempt.group;
    scope && group && any(rule.verbs, attempt.verb) && any(rule.resources, &resource)
}

/// Whether they may. Administrators may everything, others what their role's table says; nobody else may anything.
#[must_use]
pub fn allows(identity: &Identity, attempt: &Attempt<'_>) -> bool {
    roles(identity).into_iter().flatten().any(|rule| matches(rule, identity, attempt))
}

/// Whether they may read a path that is no object: discovery and the version for everyone who is known, metrics for
/// administrators and the group `system:monitoring`.
#[must_use]
pub fn allows_path(identity: &Identity, verb: &str, path: &str) -> bool {
    let is = |group: &str| identity.groups.iter().any(|own| own == group);
    let under = |list: &[&str]| {
        list.iter().any(|one| one.strip_suffix('*').map_or(*one == path, |prefix| path.starts_with(prefix)))
    };
    let reads = matches!(verb, "get" | "head");
    is(ADMINISTRATORS)
        || reads && is(AUTHENTICATED) && under(roles::PATHS)
        || reads && is(MONITORS) && under(roles::MONITORED)
}

/// What someone may in a namespace, as `SelfSubjectRulesReview` lists it: of objects, and of other paths.
#[must_use]
pub fn rules(identity: &Identity, namespace: &str) -> (Vec<Value>, Vec<Value>) {
    let inside = |rule: &&Rule| match rule.scope {
        Scope::All | Scope::Named | Scope::Own => true,
        Scope::Namespace(own) | Scope::OwnIn(own) => own == namespace,
    };
    let told = |rule: &Rule| {
        let mut told = json!({"verbs": rule.verbs, "apiGroups": [rule.group], "resources": rule.resources});
        if let (Scope::Own | Scope::OwnIn(_), Some(node)) = (rule.scope, identity.node()) {
            told["resourceNames"] = json!([node]);
        }
        told
    };
    let objects = roles(identity).into_iter().flatten().filter(inside).map(told).collect();
    let is = |group: &str| identity.groups.iter().any(|own| own == group);
    let mut paths = Vec::new();
    if is(ADMINISTRATORS) {
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    if is(AUTHENTICATED) {
        paths.push(json!({"verbs": ["get"], "nonResourceURLs": roles::PATHS}));
    }
    if is(MONITORS) {
        paths.push(json!({"verbs": ["get"], "nonResourceURLs": roles::MONITORED}));
    }
    (objects, paths)
}

/// 403 with upstream's sentence, for a path that is no object.
#[must_use]
pub fn forbidden_path(identity: &Identity, verb: &str, path: &str) -> ApiError {
    let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", identity.user);
    ApiError::new(crate::error::Reason::Forbidden, message)
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
    use super::super::NODES;
    use super::*;

    fn who(user: &str, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Identity { user: user.to_owned(), groups, ..Identity::default() }
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
            ("list", "configmaps", "", ""),
            ("deletecollection", "pods", "", ""),
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
    fn schedulers_and_controllers_have_their_tables() {
        let scheduler = who("system:kube-scheduler", &[]);
        assert!(allows(&scheduler, &attempt("create", "pods", "binding", "p")));
        assert!(!allows(&scheduler, &attempt("get", "secrets", "", "s")));
        let controller = who("x", &["minke:controllers"]);
        assert!(allows(&controller, &attempt("create", "pods", "", "")));
        assert!(!allows(&controller, &attempt("delete", "namespaces", "", "ns")));
        assert!(!allows(&controller, &attempt("create", "pods", "binding", "p")));
    }

    #[test]
    fn a_service_account_may_ask_who_it_is_and_nothing_else() {
        let account = who("system:serviceaccount:ns:default", &["system:serviceaccounts", AUTHENTICATED]);
        for verb in ["get", "list", "watch", "create", "delete"] {
            for resource in ["pods", "secrets", "configmaps", "serviceaccounts", "events"] {
                assert!(!allows(&account, &attempt(verb, resource, "", "")), "{verb} {resource}");
            }
        }
        let review = Attempt {
            group: "authorization.k8s.io",
            namespace: "",
            ..attempt("create", "selfsubjectaccessreviews", "", "")
        };
        assert!(allows(&account, &review));
        assert!(!allows(&account, &Attempt { resource: "subjectaccessreviews", ..review }));
        assert!(allows_path(&account, "get", "/version") && allows_path(&account, "get", "/apis/node.k8s.io/v1"));
        assert!(!allows_path(&account, "get", "/metrics") && !allows_path(&account, "post", "/version"));
        assert!(allows_path(&who("p", &["system:monitoring"]), "get", "/metrics"));
        let (objects, paths) = rules(&account, "ns");
        assert_eq!((objects.len(), paths.len()), (2, 1));
        assert_eq!(objects[0]["resources"], json!(["selfsubjectreviews"]));
    }

    #[test]
    fn what_someone_may_is_listed_by_namespace() {
        let node = who("system:node:n", &[NODES]);
        let leases = |namespace: &str| {
            let (objects, _) = rules(&node, namespace);
            objects.iter().filter(|rule| rule["resources"] == json!(["leases"])).count()
        };
        assert_eq!((leases("kube-node-lease"), leases("default")), (2, 0));
        let (objects, paths) = rules(&who("root", &[ADMINISTRATORS]), "ns");
        assert_eq!(objects, [json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})]);
        assert_eq!(paths, [json!({"verbs": ["*"], "nonResourceURLs": ["*"]})]);
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

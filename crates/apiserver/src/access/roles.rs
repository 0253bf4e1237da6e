//! Who may what, as tables: the roles that this server has. Nobody can add one.

/// Something that a role allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// Verbs; `*` is each.
    pub(super) verbs: &'static [&'static str],
    /// The group; `*` is each.
    pub(super) group: &'static str,
    /// Resources, with their subresources: `pods`, `pods/status`; `*` is each.
    pub(super) resources: &'static [&'static str],
    /// In which objects.
    pub(super) scope: Scope,
}

/// What objects a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All.
    All,
    /// Any one that is named: also as the only one of a list or watch.
    Named,
    /// Those of one namespace.
    Namespace(&'static str),
    /// The one that has the name of who asks.
    Own,
    /// That one, in one namespace.
    OwnIn(&'static str),
}

const READ: &[&str] = &["get", "list", "watch"];
const CREATE: &[&str] = &["create"];
const TELL: &[&str] = &["create", "patch", "update"];
const WRITE: &[&str] = &["create", "delete", "patch", "update"];

const fn rule(verbs: &'static [&'static str], group: &'static str, resources: &'static [&'static str]) -> Rule {
    Rule { verbs, group, resources, scope: Scope::All }
}

const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const NODE_LEASES: &str = "kube-node-lease";

/// `system:masters`.
pub(super) const ADMINISTRATOR: &[Rule] = &[rule(&["*"], "*", &["*"])];

/// Everyone who is known: to ask who one is and what one may.
pub(super) const KNOWN: &[Rule] = &[
    rule(CREATE, "authentication.k8s.io", &["selfsubjectreviews"]),
    rule(CREATE, "authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
];

/// Who becomes a node: asks for its certificate, and sees the answer. `nodeclient` is what the approver asks about.
pub(super) const BOOTSTRAPPER: &[Rule] = &[
    rule(&["create", "get", "list", "watch"], CERTIFICATES, &["certificatesigningrequests"]),
    rule(CREATE, CERTIFICATES, &["certificatesigningrequests/nodeclient"]),
];

/// A node: what its kubelet does. What of it is limited to its own Pods is decided with the objects at hand.
pub(super) const NODE: &[Rule] = &[
    rule(READ, "", &["pods", "nodes", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"]),
    // A report of a static Pod; the end of a Pod.
    rule(&["create", "delete"], "", &["pods"]),
    rule(&["get", "patch", "update"], "", &["pods/status"]),
    rule(CREATE, "", &["pods/eviction", "serviceaccounts/token", "nodes"]),
    rule(TELL, "", &["events"]),
    rule(TELL, "events.k8s.io", &["events"]),
    // By name alone: whoever runs a node must not be able to list them all.
    Rule { verbs: READ, group: "", resources: &["secrets", "configmaps"], scope: Scope::Named },
    rule(READ, "node.k8s.io", &["runtimeclasses"]),
    rule(READ, "scheduling.k8s.io", &["priorityclasses"]),
    rule(CREATE, "authentication.k8s.io", &["tokenreviews"]),
    rule(CREATE, "authorization.k8s.io", &["subjectaccessreviews", "localsubjectaccessreviews"]),
    // The next certificate before this one ends.
    rule(&["create", "get", "list", "watch"], CERTIFICATES, &["certificatesigningrequests"]),
    rule(CREATE, CERTIFICATES, &["certificatesigningrequests/selfnodeclient"]),
    Rule { verbs: &["get", "patch", "update"], group: "", resources: &["nodes", "nodes/status"], scope: Scope::Own },
    Rule { verbs: CREATE, group: COORDINATION, resources: &["leases"], scope: Scope::Namespace(NODE_LEASES) },
    Rule {
        verbs: &["get", "update", "patch", "delete"],
        group: COORDINATION,
        resources: &["leases"],
        scope: Scope::OwnIn(NODE_LEASES),
    },
];

/// `system:kube-scheduler`: who schedules in this server's place.
pub(super) const SCHEDULER: &[Rule] = &[
    rule(&["get", "list", "watch", "delete"], "", &["pods"]),
    rule(CREATE, "", &["pods/binding"]),
    rule(&["patch", "update"], "", &["pods/status"]),
    rule(
        READ,
        "",
        &["nodes", "namespaces", "services", "persistentvolumeclaims", "persistentvolumes", "replicationcontrollers"],
    ),
    rule(TELL, "", &["events"]),
    rule(TELL, "events.k8s.io", &["events"]),
    rule(READ, "scheduling.k8s.io", &["priorityclasses"]),
    rule(&["create", "get", "list", "watch", "patch", "update"], COORDINATION, &["leases"]),
    rule(CREATE, "authentication.k8s.io", &["tokenreviews"]),
    rule(CREATE, "authorization.k8s.io", &["subjectaccessreviews"]),
];

/// `system:kube-controller-manager`, and whoever is in the group `minke:controllers`: makes and ends Pods and what they need.
pub(super) const CONTROLLER: &[Rule] = &[
    rule(READ, "*", &["*"]),
    rule(
        &["create", "delete", "deletecollection", "patch", "update"],
        "",
        &["pods", "configmaps", "secrets", "services"],
    ),
    rule(
        &["patch", "update"],
        "",
        &["pods/status", "pods/ephemeralcontainers", "pods/resize", "nodes/status", "nodes"],
    ),
    rule(CREATE, "", &["pods/eviction", "serviceaccounts/token"]),
    rule(WRITE, "", &["serviceaccounts", "persistentvolumeclaims", "persistentvolumes", "events"]),
    rule(WRITE, "events.k8s.io", &["events"]),
    rule(WRITE, COORDINATION, &["leases"]),
    rule(CREATE, "authentication.k8s.io", &["tokenreviews"]),
    rule(CREATE, "authorization.k8s.io", &["subjectaccessreviews"]),
];

/// Paths that are no objects, for everyone who is known; `/*` at the end is everything below.
pub(super) const PATHS: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
    "/version",
    "/version/",
    "/healthz",
    "/livez",
    "/readyz",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
];
/// Those of who watches over servers.
pub(super) const MONITORED: &[&str] =
    &["/metrics", "/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*"];

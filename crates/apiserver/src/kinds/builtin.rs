//! The table of kinds.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::{Value, json};

use super::strategy::{Deletion, Strategy, no_rules, nothing, typed};
use super::{Kind, Nature, certificate, configuration, namespace, plain, pod, service, update, view, volume};
use crate::custom;

/// A kind of the core in namespaces, without anything special.
pub(super) const BASE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    status: false,
    generation: false,
    unconditional: true,
    returns_deleted: false,
    selectable: &[],
    view: None,
    nature: Nature::Stored,
    allocates: false,
    approved: false,
    strategy: STRATEGY,
    slot: None,
};

/// A question about who may what.
const QUESTION: Kind = Kind { namespaced: false, nature: Nature::Question, ..BASE };

const STRATEGY: Strategy = Strategy {
    complete: typed::<ConfigMap>,
    create: nothing,
    validate: plain::metadata,
    validate_update: no_rules,
    deletion: Deletion::Plain,
};

/// What all kinds of definitions have in common: their rules are in their slots.
pub(crate) const CUSTOM: Kind =
    Kind { generation: true, unconditional: false, strategy: Strategy { complete: Ok, ..STRATEGY }, ..BASE };

/// Every kind that the server knows by itself.
pub static BUILTIN: &[Kind] = &[
    Kind {
        kind: "Pod",
        plural: "pods",
        returns_deleted: true,
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        status: true,
        generation: true,
        selectable: &[
            ("spec.nodeName", "spec.nodeName", ""),
            ("spec.restartPolicy", "spec.restartPolicy", ""),
            ("spec.schedulerName", "spec.schedulerName", ""),
            ("spec.serviceAccountName", "spec.serviceAccountName", ""),
            ("spec.hostNetwork", "spec.hostNetwork", "false"),
            ("status.phase", "status.phase", ""),
            ("status.podIP", "status.podIP", ""),
            ("status.nominatedNodeName", "status.nominatedNodeName", ""),
        ],
        strategy: Strategy {
            complete: pod::complete,
            create: pod::create,
            validate: pod::validate,
            validate_update: update::pod,
            deletion: Deletion::Graceful,
        },
        ..BASE
    },
    Kind {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        status: true,
        selectable: &[("status.phase", "status.phase", "")],
        strategy: Strategy {
            complete: namespace::complete,
            create: namespace::create,
            validate: plain::label_name,
            deletion: Deletion::Namespace,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        namespaced: false,
        status: true,
        selectable: &[("spec.unschedulable", "spec.unschedulable", "false")],
        strategy: Strategy { complete: typed::<Node>, ..STRATEGY },
        ..BASE
    },
    Kind {
        kind: "ConfigMap",
        plural: "configmaps",
        singular: "configmap",
        short_names: &["cm"],
        strategy: Strategy {
            validate: configuration::config_map,
            validate_update: configuration::config_map_update,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        kind: "Secret",
        plural: "secrets",
        singular: "secret",
        selectable: &[("type", "type", "")],
        strategy: Strategy {
            complete: configuration::complete_secret,
            validate: configuration::secret,
            validate_update: configuration::secret_update,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        selectable: &[
            ("involvedObject.kind", "involvedObject.kind", ""),
            ("involvedObject.namespace", "involvedObject.namespace", ""),
            ("involvedObject.name", "involvedObject.name", ""),
            ("involvedObject.uid", "involvedObject.uid", ""),
            ("involvedObject.apiVersion", "involvedObject.apiVersion", ""),
            ("involvedObject.resourceVersion", "involvedObject.resourceVersion", ""),
            ("involvedObject.fieldPath", "involvedObject.fieldPath", ""),
            ("reason", "reason", ""),
            ("reportingComponent", "reportingComponent", ""),
            ("source", "source.component", ""),
            ("type", "type", ""),
        ],
        strategy: Strategy { complete: typed::<Event>, validate: plain::event, ..STRATEGY },
        ..BASE
    },
    Kind {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        returns_deleted: true,
        singular: "serviceaccount",
        short_names: &["sa"],
        strategy: Strategy { complete: typed::<ServiceAccount>, ..STRATEGY },
        ..BASE
    },
    Kind {
        kind: "Service",
        plural: "services",
        returns_deleted: true,
        singular: "service",
        short_names: &["svc"],
        categories: &["all"],
        status: true,
        allocates: true,
        selectable: &[("spec.clusterIP", "spec.clusterIP", ""), ("spec.type", "spec.type", "")],
        strategy: Strategy {
            complete: service::complete,
            create: service::create,
            validate: service::validate,
            validate_update: service::update,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        returns_deleted: true,
        singular: "persistentvolumeclaim",
        short_names: &["pvc"],
        status: true,
        strategy: Strategy {
            complete: volume::complete_claim,
            create: volume::pending,
            validate: volume::claim,
            validate_update: volume::claim_update,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        returns_deleted: true,
        singular: "persistentvolume",
        short_names: &["pv"],
        namespaced: false,
        status: true,
        strategy: Strategy {
            complete: volume::complete_volume,
            create: volume::pending,
            validate: volume::volume,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        unconditional: false,
        strategy: Strategy { complete: typed::<Lease>, validate: plain::lease, ..STRATEGY },
        ..BASE
    },
    Kind {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        plural: "runtimeclasses",
        singular: "runtimeclass",
        namespaced: false,
        strategy: Strategy {
            complete: typed::<RuntimeClass>,
            validate: plain::runtime_class,
            validate_update: plain::runtime_class_update,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        singular: "priorityclass",
        short_names: &["pc"],
        namespaced: false,
        generation: true,
        strategy: Strategy {
            complete: plain::priority_class,
            validate: plain::priority_class_rules,
            validate_update: plain::priority_class_update,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        generation: true,
        unconditional: false,
        strategy: Strategy {
            complete: custom::complete,
            create: custom::create,
            validate: custom::validate,
            validate_update: custom::update,
            deletion: Deletion::Definition,
        },
        ..BASE
    },
    Kind {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
        singular: "certificatesigningrequest",
        short_names: &["csr"],
        namespaced: false,
        status: true,
        approved: true,
        selectable: &[("spec.signerName", "spec.signerName", "")],
        strategy: Strategy {
            complete: typed::<CertificateSigningRequest>,
            create: certificate::create,
            validate: certificate::validate,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        view: Some(&view::EVENTS),
        // Under the names of what is stored.
        selectable: &[
            ("regarding.kind", "involvedObject.kind", ""),
            ("regarding.namespace", "involvedObject.namespace", ""),
            ("regarding.name", "involvedObject.name", ""),
            ("regarding.uid", "involvedObject.uid", ""),
            ("regarding.apiVersion", "involvedObject.apiVersion", ""),
            ("regarding.resourceVersion", "involvedObject.resourceVersion", ""),
            ("regarding.fieldPath", "involvedObject.fieldPath", ""),
            ("reason", "reason", ""),
            ("reportingController", "reportingComponent", ""),
            ("type", "type", ""),
        ],
        strategy: Strategy {
            complete: typed::<k8s_openapi::api::events::v1::Event>,
            validate: view::event,
            ..STRATEGY
        },
        ..BASE
    },
    Kind {
        group: AUTHENTICATION,
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        ..QUESTION
    },
    Kind { group: AUTHENTICATION, kind: "TokenReview", plural: "tokenreviews", singular: "tokenreview", ..QUESTION },
    Kind {
        group: AUTHORIZATION,
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        ..QUESTION
    },
    Kind {
        group: AUTHORIZATION,
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        ..QUESTION
    },
    Kind {
        group: AUTHORIZATION,
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        ..QUESTION
    },
    Kind {
        group: AUTHORIZATION,
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        ..QUESTION
    },
];

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// What every server has from its first start: kind and object.
#[must_use]
pub fn initial_objects() -> Vec<Value> {
    let mut objects: Vec<Value> = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    for (name, value, what) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "must run in the cluster, but can be moved to another node if necessary.",
        ),
        ("system-node-critical", 2_000_001_000, "must not be moved from their current node."),
    ] {
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "description": format!("Used for system critical pods that {what}"),
        }));
    }
    objects
}

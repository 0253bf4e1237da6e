//! What of a Pod the scheduler looks at.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Affinity, Pod, PodSpec, PreferredSchedulingTerm, Toleration};
use minke_core::placement::host_ports;
use minke_core::priority::pod_priority;
use minke_core::resources::{Amount, pod_requests};

use super::message::{Report, SCHEDULER};
use super::usage::Demand;

/// Which Pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: a Pod that is created again under its name is another one.
    pub uid: String,
}

/// What a Pod asks of its node beside room.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rules {
    /// A spec with nothing but the node selector and the required affinity to nodes.
    pub(super) selector: PodSpec,
    pub(super) preferred: Vec<PreferredSchedulingTerm>,
    pub(super) tolerations: Vec<Toleration>,
    /// Names of the gates that hold it.
    pub(super) gates: Vec<String>,
    /// Whether it may take the place of others.
    pub(super) preempts: bool,
}

/// A Pod, reduced to what decides about it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodFacts {
    /// Which.
    pub id: PodRef,
    /// Whether it is this scheduler's to place.
    pub(super) ours: bool,
    /// Its node, if it has one.
    pub(super) node: Option<String>,
    /// The node that was to be made free for it.
    pub(super) nominated: Option<String>,
    /// Whether it has ended: it uses nothing any more.
    pub(super) done: bool,
    pub(super) deleting: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) priority: i32,
    pub(super) demand: Demand,
    pub(super) rules: Rules,
    /// What its condition `PodScheduled` says.
    pub(super) reported: Option<Report>,
}

fn said(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

impl PodFacts {
    /// The facts of a Pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let id = PodRef { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) };
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let mut requests = pod_requests(pod);
        requests.retain(|_, amount| *amount > Amount::ZERO);
        let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity);
        let preferred = affinity.as_ref().and_then(|a| a.preferred_during_scheduling_ignored_during_execution.clone());
        let condition = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False");
        Self {
            id,
            ours: spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == SCHEDULER),
            node: said(spec.node_name.as_ref()),
            nominated: said(status.nominated_node_name.as_ref()),
            done: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            deleting: metadata.deletion_timestamp.is_some(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            priority: pod_priority(pod),
            demand: Demand { requests, ports: host_ports(pod) },
            rules: Rules {
                selector: PodSpec {
                    node_selector: spec.node_selector,
                    affinity: affinity.map(|node| Affinity { node_affinity: Some(node), ..Affinity::default() }),
                    ..PodSpec::default()
                },
                preferred: preferred.unwrap_or_default(),
                tolerations: spec.tolerations.unwrap_or_default(),
                gates: spec.scheduling_gates.unwrap_or_default().into_iter().map(|gate| gate.name).collect(),
                preempts: spec.preemption_policy.as_deref() != Some("Never"),
            },
            reported: condition.map(|condition| Report {
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
            }),
        }
    }

    /// Whether it waits for a node from us.
    pub(super) fn waits(&self) -> bool {
        self.ours && self.node.is_none() && !self.done && !self.deleting
    }

    /// The node that it uses room of.
    pub(super) fn uses(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| !self.done)
    }

    /// Whether what decides about it is what it was: status and labels come and go.
    pub(super) fn asks_the_same(&self, other: &Self) -> bool {
        (&self.demand, &self.rules, self.priority) == (&other.demand, &other.rules, other.priority)
    }
}

//! What is wrong with what is seen now, whatever was before: one file a place where the cluster tells it.

mod container;
mod ended;
mod event;
mod node;
mod pod;
mod waiting;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Event, Node, Pod};

use super::{Evidence, Finding, History, Role};
use crate::resources::is_sidecar;

/// Everything that can be seen of a Pod.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// As it was seen last.
    pub pod: &'a Pod,
    /// Its node, where that may be seen.
    pub node: Option<&'a Node>,
    /// Its events, where they may be seen.
    pub events: &'a [Event],
    /// Whether the Pod is still there.
    pub presence: Presence,
    /// Whoever watches has deleted it.
    pub own_deletion: bool,
    /// Up to which moment it is known to have been so; `None`: up to now. Of what happened since then nothing is known, so
    /// a budget that has ended since then fails nobody: the trouble may have healed out of sight.
    pub as_of: Option<Duration>,
}

/// Whether a Pod is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is.
    Here,
    /// A deletion was seen, or a complete list did not have it.
    Gone,
    /// Its name belongs to another uid now.
    Replaced,
}

impl<'a> Sight<'a> {
    /// A Pod, and nothing else that may be seen.
    #[must_use]
    pub fn of(pod: &'a Pod) -> Self {
        Self { pod, node: None, events: &[], presence: Presence::Here, own_deletion: false, as_of: None }
    }
}

/// The time of a judgement, on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// On the caller's monotonic clock: budgets and settling run on it.
    pub moment: Duration,
    /// On the wall. A Pod that was unschedulable for an hour before anybody looked has used up its budget.
    pub wall: Timestamp,
}

/// What the caller wants of the judge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// How patient to be.
    pub budgets: super::Budgets,
    /// Main containers whose end does not fail the Pod.
    pub services: BTreeSet<String>,
}

/// A container of the spec, with what its status says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) pod: &'a Pod,
    pub(super) spec: &'a Container,
    pub(super) role: Role,
    pub(super) status: Option<&'a ContainerStatus>,
}

impl Member<'_> {
    /// What every finding about this container says.
    pub(super) fn evidence(&self) -> Evidence {
        Evidence {
            container: Some(self.spec.name.clone()),
            role: Some(self.role),
            image: self.spec.image.clone(),
            node: node_name(self.pod),
            restarts: self.status.map(|s| s.restart_count).filter(|count| *count > 0),
            ..Evidence::default()
        }
    }
}

/// The containers of a Pod in the spec's order, init containers first. Ephemeral containers have no part in it.
pub(super) fn members<'a>(pod: &'a Pod, policy: &'a Policy) -> impl Iterator<Item = Member<'a>> {
    let status = pod.status.as_ref();
    let init = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();
    let main = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let spec = pod.spec.iter();
    spec.flat_map(move |spec| {
        let first = spec.init_containers.iter().flatten().map(move |c| {
            let role = if is_sidecar(c) { Role::Sidecar } else { Role::Init };
            (c, role, init)
        });
        let rest = spec.containers.iter().map(move |c| {
            let role = if policy.services.contains(&c.name) { Role::Service } else { Role::Main };
            (c, role, main)
        });
        first.chain(rest)
    })
    .map(move |(spec, role, statuses)| Member {
        pod,
        spec,
        role,
        status: statuses.iter().find(|s| s.name == spec.name),
    })
}

fn node_name(pod: &Pod) -> Option<String> {
    pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|name| !name.is_empty())
}

/// What every finding about the whole Pod says.
fn pod_evidence(pod: &Pod, reason: &str, message: &str) -> Evidence {
    Evidence { reason: reason.to_owned(), message: message.to_owned(), node: node_name(pod), ..Evidence::default() }
}

/// All findings of a sight, in no order that means anything; and ends of containers that fail nobody.
pub(super) fn find(sight: &Sight<'_>, policy: &Policy, history: &History) -> (Vec<Finding>, Vec<Finding>) {
    let mut found = Vec::new();
    let mut notes = Vec::new();
    pod::find(sight, &mut found);
    node::find(sight, &mut found);
    container::find(sight, policy, history, &mut found, &mut notes);
    event::find(sight, policy, &mut found);
    (found, notes)
}

/// How long before its mark whatever takes the Pod away may have killed its containers. A kubelet says so only with the end.
pub(super) fn kill_takes(pod: &Pod) -> jiff::SignedDuration {
    let by_kubelet = pod::disruption(pod).is_some_and(|c| c.reason.as_deref() == Some("TerminationByKubelet"));
    let grace = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds).unwrap_or(30);
    jiff::SignedDuration::from_secs(2 + if by_kubelet { grace.clamp(0, 3600) } else { 0 })
}

/// When whatever takes the Pod away began, for telling what came before it from what it did.
pub(super) fn taken_at(pod: &Pod) -> Option<Timestamp> {
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|time| {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0);
        time.0.checked_sub(jiff::SignedDuration::from_secs(grace)).unwrap_or(time.0)
    });
    let disrupted = pod::disruption(pod).and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0);
    [deleted, disrupted].into_iter().flatten().min()
}

//! Whether what was asked of `minke run` has come about: a pure function over what is known of each Pod.
//!
//! ```text
//! (standing of each Pod, Until) ──verdict──► per Pod ──evaluate──► Reached | Waiting | Failed(why)
//!            └──diagnosis──► what is wrong, as `minke_core::judgement` names it ──fault──► the exit code
//! ```
//!
//! `running`: each Pod has had a moment at which every container of it ran, or had completed with 0 where it is not
//! restarted. The first Pod that can't get there fails the whole. `completed`: every Pod has ended; failures are told when all have.

mod diagnosis;
mod fault;
mod verdict;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use clap::ValueEnum;
use k8s_openapi::api::core::v1::{Event, Pod};
use minke_core::identity::PodKey;
use minke_core::judgement::Finding;
use minke_kubelet::PodReport;
use serde::Serialize;

pub(crate) use self::diagnosis::{of_report, of_tracked};
pub(crate) use self::fault::Fault;
use crate::exit::Exit;

/// What `minke run` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Until {
    /// All containers of each Pod run at once; those that are not restarted may have completed with 0
    Running,
    /// All Pods have ended
    Completed,
}

/// What is known of a Pod that this command asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Standing {
    /// Not handed over yet: it waits for its turn behind others of its Job.
    Queued,
    /// Handed over; the agent has not answered yet.
    Offered,
    /// Taken on; nothing reported yet.
    Applied,
    /// Admission refused it.
    Rejected {
        /// `OutOfcpu`, `NodePorts`, …
        reason: String,
        /// For people.
        message: String,
    },
    /// As reported last.
    Reported(PodReport),
    /// Removed by someone else.
    Gone,
}

/// A Pod that this command asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tracked {
    /// Who it is.
    pub(crate) key: PodKey,
    /// As wanted.
    pub(crate) pod: Arc<Pod>,
    /// What is known.
    pub(crate) standing: Standing,
    /// Failures of the machine on its behalf that no status shows (sandbox, mounts), and the newest one's text.
    pub(crate) trouble: Trouble,
    /// What events said of it, newest first.
    pub(crate) events: VecDeque<Event>,
}

/// Repeated failures that only events tell of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// How many in a row.
    pub(crate) count: u32,
    /// The newest.
    pub(crate) message: String,
}

/// How many events of a Pod are kept: more than one trouble makes before it is told.
const EVENTS: usize = 32;

impl Tracked {
    /// A Pod that has not been handed over.
    pub(crate) fn queued(key: PodKey, pod: Arc<Pod>) -> Self {
        Self { key, pod, standing: Standing::Queued, trouble: Trouble::default(), events: VecDeque::new() }
    }

    /// Keeps what an event said.
    pub(crate) fn heard(&mut self, reason: &str, message: &str) {
        let event = Event { reason: Some(reason.to_owned()), message: Some(message.to_owned()), ..Event::default() };
        self.events.push_front(event);
        self.events.truncate(EVENTS);
    }
}

/// Why a Pod keeps the goal from being reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The Pod, `namespace/name`.
    pub(crate) pod: String,
    /// Whose fault it is.
    pub(crate) fault: Fault,
    /// What happened.
    pub(crate) why: Finding,
}

impl fmt::Display for Blocked {
    /// `default/web: ImageNotFound: container app (image x:2): … [configuration]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.pod, self.why, self.why.cause.category())
    }
}

/// The state of the goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It came about.
    Reached,
    /// It may yet.
    Waiting,
    /// It can't any more. All Pods in its way, in the manifests' order.
    Failed(Vec<Blocked>),
}

impl Goal {
    /// The exit code, once decided. Of several causes the gravest counts: system, then rejection, then containers.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self {
            Self::Reached => Some(Exit::Reached),
            Self::Waiting => None,
            Self::Failed(blocked) => blocked.iter().map(|b| b.fault).max().map(Fault::exit),
        }
    }
}

/// What one Pod means for the goal.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// As wanted.
    Met,
    /// Not yet.
    Waiting,
    /// Never.
    Blocked(Fault, Box<Finding>),
}

/// Judges all Pods together.
pub(crate) fn evaluate(pods: &[Tracked], until: Until) -> Goal {
    let mut blocked = Vec::new();
    let mut waiting = false;
    for tracked in pods {
        match verdict::of(tracked, until) {
            Verdict::Met => {}
            Verdict::Waiting => waiting = true,
            Verdict::Blocked(fault, why) => {
                blocked.push(Blocked { pod: tracked.key.full_name(), fault, why: *why });
            }
        }
    }
    let wait_for_the_rest = waiting && until == Until::Completed;
    match (blocked.is_empty(), waiting) {
        (false, _) if !wait_for_the_rest => Goal::Failed(blocked),
        (true, false) => Goal::Reached,
        _ => Goal::Waiting,
    }
}

/// Pods that can never complete, by `namespace/name`: with `--until completed` they are a mistake of usage.
pub(crate) fn never_completing(pods: &[Arc<Pod>]) -> Vec<String> {
    let never = |pod: &&Arc<Pod>| {
        pod.spec.as_ref().is_some_and(|spec| {
            spec.restart_policy.as_deref().unwrap_or("Always") == "Always" && spec.active_deadline_seconds.is_none()
        })
    };
    let name = |pod: &Arc<Pod>| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default())
    };
    pods.iter().filter(never).map(name).collect()
}

#[cfg(test)]
mod tests;

//! What a timeline holds, as it is asked for: Pods, their lanes, and the transitions on them.

use std::sync::Arc;

use jiff::Timestamp;
use minke_core::identity::PodKey;
use serde::{Deserialize, Serialize};

/// A part of the way to a running container that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// The Pod's volumes are set up.
    Volumes,
    /// The Pod's sandbox is made, its network included.
    Sandbox,
    /// An image is fetched.
    Pull,
    /// A container is created.
    Create,
    /// A container is started.
    Start,
    /// A postStart hook runs.
    PostStart,
}

/// Something that happened to a Pod or to a container of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum Transition {
    /// The Pod was taken on.
    Admitted,
    /// The Pod was taken over from an earlier agent; what came before is not known here.
    Adopted,
    /// Admission refused the Pod.
    Rejected {
        /// `OutOfcpu`, `NodePorts`, …
        reason: String,
    },
    /// A step began.
    Began {
        /// Which.
        step: Step,
    },
    /// A step that had begun succeeded.
    Done {
        /// Which.
        step: Step,
    },
    /// A step that had begun failed.
    Failed {
        /// Which.
        step: Step,
        /// In few words; never the content of a Secret.
        reason: String,
    },
    /// The container's process runs.
    Running,
    /// The container, or the whole Pod, is ready.
    Ready,
    /// It is not ready any more.
    NotReady,
    /// The container waits before it is started again.
    BackOff {
        /// For how long, in microseconds.
        for_us: i64,
    },
    /// The container is told to stop.
    Stopping {
        /// Why.
        reason: String,
    },
    /// The container ended.
    Exited {
        /// Its exit code; absent when nobody saw it.
        code: Option<i32>,
        /// `Completed`, `Error`, `OOMKilled`, …
        reason: String,
    },
    /// The Pod's published phase became another one.
    Phase {
        /// `Pending`, `Running`, `Succeeded`, `Failed`.
        phase: String,
    },
    /// The Pod must stop.
    Terminating {
        /// Why.
        reason: String,
    },
    /// Nothing of the Pod runs, nothing will.
    Terminated,
    /// The Pod is cleaned up.
    Finished,
    /// The Pod was forgotten.
    Gone,
}

/// One transition on a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in microseconds of monotonic time from [`Timelines::origin`]; negative for what happened before the agent
    /// started.
    pub at: i64,
    /// The container; absent for the Pod itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Arc<str>>,
    /// Which attempt of the container (or of the Pod's sandbox).
    #[serde(default)]
    pub attempt: u32,
    /// What happened.
    #[serde(flatten)]
    pub transition: Transition,
}

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LaneKind {
    /// An init container.
    Init,
    /// An init container that is restarted always.
    Sidecar,
    /// A container of the Pod.
    Main,
}

/// A container's lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The container's name.
    pub name: Arc<str>,
    /// What it is for.
    pub kind: LaneKind,
}

/// What is known of one Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTimeline {
    /// The Pod.
    #[serde(flatten)]
    pub pod: PodKey,
    /// Its containers in the spec's order, init containers first.
    pub lanes: Vec<Lane>,
    /// Transitions, oldest first.
    pub entries: Vec<Entry>,
    /// How many transitions were not kept. They lie between the first ones and the newest.
    pub dropped: u64,
}

/// What an agent knows of its Pods, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timelines {
    /// The wall-clock time of the agent's monotonic zero. For people: it orders nothing.
    pub origin: Timestamp,
    /// This moment, in microseconds since then.
    pub now: i64,
    /// Pods that are here, then those that were forgotten lately.
    pub pods: Vec<PodTimeline>,
}

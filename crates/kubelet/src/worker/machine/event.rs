//! What a Pod's machine is told, and what it says is to be done.

use std::time::Duration;

use crate::worker::lifecycle::{Mode, Step};
use crate::{DesiredPod, Eviction, StopRequest};

/// What a sync came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOutcome {
    /// All is as wanted, or on the way there.
    Settled,
    /// Nothing of the Pod is left to do: stop what remains.
    Terminal,
    /// The Pod is past its deadline.
    DeadlineExceeded,
    /// The network is not ready.
    NetworkNotReady,
    /// A container or image is in back-off; the earliest ends in this time.
    BackOff(Duration),
    /// The sandbox could not be made.
    SandboxFailed,
    /// Something else failed.
    Failed,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// Done.
    Done,
    /// [`Step::Confirm`] found a container alive.
    StillRunning,
    /// To be tried again.
    Failed,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The runtime changed something.
    Changed,
    /// A probe's verdict changed.
    Probed,
    /// The runtime answers again after a while in which it did not.
    Returned,
    /// [`Machine::timer`](super::Machine::timer) is past.
    Timer,
    /// `activeDeadlineSeconds` are past.
    Deadline,
    /// Someone wants the Pod stopped, or removed.
    Stop(StopRequest),
    /// The Pod is wanted otherwise than before: the newest wish, which has all those before it in it.
    Updated(DesiredPod),
    /// The machine needs the Pod's place.
    Evict(Eviction),
    /// The sync ended.
    Synced(SyncOutcome),
    /// The step ended.
    Stepped(StepOutcome),
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Drop the job that runs.
    Cancel,
    /// Begin a sync.
    Sync(Mode),
    /// Begin a step.
    Step(Step),
    /// Save the lifecycle; before any job that follows in the list begins.
    Save,
    /// Publish the stage.
    Publish,
    /// Publish the status anew: as it was observed last, with what probes say now.
    Refresh,
    /// The Pod is forgotten: the worker ends.
    End,
}

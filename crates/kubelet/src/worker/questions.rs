//! What other parts may ask about a Pod. Only its worker answers, so that nobody guesses: every early termination that
//! the kubelet once had came from a component that thought it knew.
//!
//! A Pod without a worker is not known. Until the runtime was listed once, what runs of it may still turn up; after
//! that it is nobody's, and what is left of it may go.

use super::lifecycle::{Lifecycle, Then};
use crate::PodStage;

/// What a worker says of its Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodFacts {
    /// Where it is in its life.
    pub stage: PodStage,
    /// The machine needed its place.
    pub evicted: bool,
    /// It is to be forgotten.
    pub deleted: bool,
}

impl PodFacts {
    pub(super) fn new() -> Self {
        Self { stage: PodStage::Syncing, evicted: false, deleted: false }
    }

    /// The facts of a Pod that is here in its life.
    #[must_use]
    pub fn of(lifecycle: &Lifecycle) -> Self {
        let evicted = lifecycle.cause().is_some_and(super::lifecycle::Cause::is_eviction);
        let deleted = match lifecycle {
            Lifecycle::Syncing(_) | Lifecycle::Finished { .. } => false,
            Lifecycle::Terminating { then, .. } | Lifecycle::Terminated { then, .. } => *then == Then::Remove,
            Lifecycle::Removing { .. } | Lifecycle::Removed => true,
        };
        Self { stage: lifecycle.stage(), evicted, deleted }
    }

    fn must_stop(self) -> bool {
        match self.stage {
            PodStage::Syncing => false,
            PodStage::Terminating | PodStage::Terminated | PodStage::Finished => true,
        }
    }

    fn is_stopped(self) -> bool {
        match self.stage {
            PodStage::Syncing | PodStage::Terminating => false,
            PodStage::Terminated | PodStage::Finished => true,
        }
    }
}

/// The answers about one Pod, at one moment. A Pod never goes back, so what has come true stays true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// What its worker says; `None` without one.
    pub known: Option<PodFacts>,
    /// The runtime was listed since the agent began.
    pub synced: bool,
}

impl Answers {
    /// `IsPodKnownTerminated`: there is a worker, and nothing of the Pod runs, nor will.
    #[must_use]
    pub fn is_known_terminated(self) -> bool {
        self.known.is_some_and(PodFacts::is_stopped)
    }

    /// `CouldHaveRunningContainers`.
    #[must_use]
    pub fn could_have_running_containers(self) -> bool {
        self.known.map_or(!self.synced, |facts| !facts.is_stopped())
    }

    /// `ShouldPodBeFinished`: nothing is left to be done for it.
    #[must_use]
    pub fn should_be_finished(self) -> bool {
        self.known.map_or(self.synced, |facts| facts.stage == PodStage::Finished)
    }

    /// `IsPodTerminationRequested`.
    #[must_use]
    pub fn is_termination_requested(self) -> bool {
        self.known.is_some_and(PodFacts::must_stop)
    }

    /// `ShouldPodContainersBeTerminating`: nothing of it may be started any more. Workers begin to stop containers
    /// the moment that they must, so for a known Pod this is [`Self::is_termination_requested`].
    #[must_use]
    pub fn containers_should_be_terminating(self) -> bool {
        self.known.map_or(self.synced, PodFacts::must_stop)
    }

    /// `ShouldPodRuntimeBeRemoved`: its sandboxes and cgroups may go.
    #[must_use]
    pub fn runtime_should_be_removed(self) -> bool {
        self.known.map_or(self.synced, PodFacts::is_stopped)
    }

    /// `ShouldPodContentBeRemoved`: its containers, logs and volumes may go.
    #[must_use]
    pub fn content_should_be_removed(self) -> bool {
        self.known.map_or(self.synced, |facts| facts.evicted || (facts.deleted && facts.is_stopped()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, facts, then the seven answers in the order of upstream's table.
    type Row = (&'static str, Answers, [bool; 7]);

    #[test]
    fn questions_other_subsystems_ask() {
        let known =
            |stage, evicted, deleted| Answers { known: Some(PodFacts { stage, evicted, deleted }), synced: false };
        let unknown = |synced| Answers { known: None, synced };
        use PodStage::{Finished, Syncing, Terminated, Terminating};
        let (y, n) = (true, false);
        let rows: [Row; 9] = [
            ("unknown before the first listing", unknown(false), [n, y, n, n, n, n, n]),
            ("unknown after it", unknown(true), [n, n, y, n, y, y, y]),
            ("kept", known(Syncing, false, false), [n, y, n, n, n, n, n]),
            ("stopping", known(Terminating, false, false), [n, y, n, y, y, n, n]),
            ("stopping, evicted", known(Terminating, true, false), [n, y, n, y, y, n, y]),
            ("stopping, deleted", known(Terminating, false, true), [n, y, n, y, y, n, n]),
            ("stopped", known(Terminated, false, false), [y, n, n, y, y, y, n]),
            ("stopped, deleted", known(Terminated, false, true), [y, n, n, y, y, y, y]),
            ("finished", known(Finished, false, false), [y, n, y, y, y, y, n]),
        ];
        for (name, of, expected) in rows {
            let answers = [
                of.is_known_terminated(),
                of.could_have_running_containers(),
                of.should_be_finished(),
                of.is_termination_requested(),
                of.containers_should_be_terminating(),
                of.runtime_should_be_removed(),
                of.content_should_be_removed(),
            ];
            assert_eq!(answers, expected, "{name}");
        }
    }
}

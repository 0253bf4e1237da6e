//! The states, and what each means for others.

use jiff::Timestamp;
use minke_core::judgement::Cause;

use super::facts::{EndClass, Fault, PodFacts};
use super::timing::Timing;
use crate::ids::{JobId, RunnerId, Slot};

/// Why a runner goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It has done its job, or was lost with it.
    Done,
    /// Fewer are wanted.
    Surplus,
    /// The template has changed.
    Stale,
    /// Its Pod will never work: what the judgement of it says.
    NeverWorks(Cause),
    /// Its Pod did not start in time.
    NeverStarted,
    /// Its Pod runs and the forge never saw it.
    NeverOnline,
    /// The forge does not know it any more.
    Vanished,
    /// Its Pod was deleted by someone else.
    PodDeleted,
    /// Its Pod was on a node that is lost.
    NodeLost,
    /// Its Pod ended without a job.
    Ended(EndClass),
    /// Someone has changed what was written about it.
    Unreadable,
}

/// Where a runner is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// A registration was asked for.
    Requested,
    /// It has one, and its Pod is being made or starting.
    Registered {
        /// The registration.
        id: RunnerId,
    },
    /// It waits for a job.
    Idle {
        /// The registration.
        id: RunnerId,
    },
    /// It has a job. Nobody touches it until the job or the Pod has ended.
    Busy {
        /// The registration.
        id: RunnerId,
        /// The job, if it is known which.
        job: Option<JobId>,
    },
    /// It is to go; the forge is asked to remove its registration.
    Draining {
        /// The registration.
        id: RunnerId,
        /// Why it goes.
        why: Why,
        /// How often the forge was asked.
        tries: u32,
        /// When it is asked next.
        due: Timestamp,
    },
    /// It can get no job any more, and its Pod may be deleted.
    Deregistered {
        /// Why it went.
        why: Why,
    },
    /// Nothing is left.
    Gone,
}

/// One runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Its place.
    pub slot: Slot,
    /// The hash of its template.
    pub template: String,
    /// Its state.
    pub life: Life,
    /// Since when.
    pub since: Timestamp,
    /// When something was last asked about it: another look waits from then on.
    pub looked: Timestamp,
    /// Its Pod, once seen.
    pub pod: Option<PodFacts>,
}

impl Why {
    /// It goes without having had a job, by a fault of its own, of its template, or of what all of the template need.
    #[must_use]
    pub fn is_failure(self) -> bool {
        match self {
            Self::NeverWorks(cause) => EndClass::of(cause) == EndClass::Runner,
            Self::NeverStarted | Self::NeverOnline | Self::Ended(EndClass::Runner) => true,
            Self::Done
            | Self::Surplus
            | Self::Stale
            | Self::Vanished
            | Self::PodDeleted
            | Self::NodeLost
            | Self::Ended(EndClass::Success | EndClass::Infrastructure)
            | Self::Unreadable => false,
        }
    }
}

impl Life {
    /// Why it goes, once it does.
    #[must_use]
    pub fn why(&self) -> Option<Why> {
        match self {
            Self::Draining { why, .. } | Self::Deregistered { why } => Some(*why),
            Self::Requested | Self::Registered { .. } | Self::Idle { .. } | Self::Busy { .. } | Self::Gone => None,
        }
    }

    /// The registration.
    #[must_use]
    pub fn id(&self) -> Option<RunnerId> {
        match self {
            Self::Registered { id } | Self::Idle { id } | Self::Busy { id, .. } | Self::Draining { id, .. } => {
                Some(*id)
            }
            Self::Requested | Self::Deregistered { .. } | Self::Gone => None,
        }
    }

    /// The word for it, in annotations and status.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Requested => "Requested",
            Self::Registered { .. } => "Registered",
            Self::Idle { .. } => "Idle",
            Self::Busy { .. } => "Busy",
            Self::Draining { .. } => "Draining",
            Self::Deregistered { .. } => "Deregistered",
            Self::Gone => "Gone",
        }
    }
}

impl Runner {
    /// A registration is asked for.
    #[must_use]
    pub fn requested(slot: Slot, template: String, now: Timestamp) -> Self {
        Self { slot, template, life: Life::Requested, since: now, looked: now, pod: None }
    }

    /// A Pod that has ended, and of which nothing else is known.
    #[must_use]
    pub fn unreadable(slot: Slot, pod: PodFacts, now: Timestamp) -> Self {
        let life = Life::Deregistered { why: Why::Unreadable };
        Self { slot, template: String::new(), life, since: now, looked: now, pod: Some(pod) }
    }

    /// Its Pod has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.ended.is_some())
    }

    /// Its Pod is being deleted.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.deleting_since.is_some())
    }

    /// It waits for a job, or will.
    #[must_use]
    pub fn available(&self) -> bool {
        match self.life {
            Life::Requested | Life::Registered { .. } | Life::Idle { .. } => !self.ended() && !self.deleting(),
            Life::Busy { .. } | Life::Draining { .. } | Life::Deregistered { .. } | Life::Gone => false,
        }
    }

    /// When something has to happen at the latest; `None`: it is gone.
    #[must_use]
    pub fn deadline(&self, timing: &Timing) -> Option<Timestamp> {
        let pod = self.pod.as_ref();
        match self.life {
            Life::Requested => Some(self.since + timing.register),
            Life::Registered { .. } => Some(match pod {
                None => self.since + timing.pod,
                Some(pod) => {
                    // A node whose clock is behind must not have its runners late before they began.
                    pod.running_since.map_or(self.since + timing.start, |since| since.max(self.since) + timing.online)
                }
            }),
            Life::Idle { .. } => Some(self.looked.max(self.since) + timing.idle),
            Life::Busy { .. } => Some((self.since + timing.job).max(self.looked + timing.job_again)),
            Life::Draining { due, .. } => Some(self.patience(timing).map_or(due, |over| due.min(over))),
            Life::Deregistered { .. } if pod.is_none() => Some(self.since + timing.pod),
            Life::Deregistered { .. } => {
                let asked = pod.and_then(|pod| pod.deleting_since).unwrap_or(self.since);
                Some(asked.max(self.looked) + timing.force)
            }
            Life::Gone => None,
        }
    }

    /// When a draining runner goes without the forge's word: its Pod can't do anything any more.
    #[must_use]
    pub fn patience(&self, timing: &Timing) -> Option<Timestamp> {
        let pod = self.pod.as_ref()?;
        let ended = pod.ended.map(|ended| ended.at.max(self.since) + timing.ended);
        let lost = pod.node_lost.then(|| self.since + timing.node_lost);
        ended.or(lost)
    }

    /// What is wrong with its Pod.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.pod.as_ref()?.outlook.fault()
    }

    /// Its node is lost.
    #[must_use]
    pub fn node_lost(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.node_lost)
    }
}

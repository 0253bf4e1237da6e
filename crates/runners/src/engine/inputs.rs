//! What the engine hears, and what it says.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::demand::{JobEvent, Poll};
use crate::ids::{JobId, RunnerId, Slot};
use crate::life::{BadRecord, PodFacts, Record, Removal, Timing};
use crate::plan::Scaling;

/// What a set is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Its name, which its Pods' names begin with.
    pub set: String,
    /// The hash of its template.
    pub template: String,
    /// How it scales.
    pub scaling: Scaling,
    /// How long each state may last.
    pub timing: Timing,
}

/// A Pod of the set as the cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its slot.
    pub slot: Slot,
    /// The state that was written to it.
    pub record: Result<Record, BadRecord>,
    /// What it says itself.
    pub facts: PodFacts,
}

/// A runner as the forge lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeRunner {
    /// Its number.
    pub id: RunnerId,
    /// Its name.
    pub name: String,
    /// It is connected.
    pub online: bool,
    /// It has a job.
    pub busy: bool,
}

/// Why the forge gave no registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The name is taken.
    Conflict,
    /// It did not answer, or not sensibly.
    Unavailable,
    /// The budget is used up until then.
    Limited(Timestamp),
    /// The credential is missing or may not.
    Credential,
}

/// Why there is no Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCreated {
    /// There is one of this name.
    Exists,
    /// The quota is used up.
    Quota,
    /// The cluster refuses it for good.
    Invalid,
    /// Nobody knows: the answer was lost.
    Unknown,
}

/// Something was heard.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// All Pods of the set, from a consistent list: at the start, and whenever a watch begins anew.
    Listed(Vec<Seen>),
    /// A Pod has appeared or changed.
    Pod(Seen),
    /// A Pod is no more.
    PodGone {
        /// Its slot.
        slot: Slot,
        /// Its uid.
        uid: String,
    },
    /// The forge's answer to [`Command::Register`].
    Registered {
        /// The slot.
        slot: Slot,
        /// The name that was asked for.
        name: String,
        /// The registration.
        outcome: Result<RunnerId, Refused>,
    },
    /// The cluster's answer to [`Command::CreatePod`].
    Created {
        /// The slot.
        slot: Slot,
        /// The registration that it was for.
        id: RunnerId,
        /// How it went.
        outcome: Result<(), NotCreated>,
    },
    /// The forge's answer to [`Command::Remove`].
    Removed {
        /// Whom.
        id: RunnerId,
        /// Its answer.
        outcome: Removal,
    },
    /// The forge's answer to [`Command::ListRunners`].
    Runners {
        /// When the first page was asked for.
        began: Timestamp,
        /// All runners of the scope.
        runners: Vec<ForgeRunner>,
    },
    /// A job that is this set's.
    Job(JobEvent),
    /// A queued job that is another set's now.
    Elsewhere(JobId),
    /// Slots that can't be filled for now, whatever is in them: their claims are on their way out.
    Closed(BTreeSet<Slot>),
    /// The jobs of a source that are this set's.
    Polled(Poll),
    /// The set was changed.
    Settings(Box<Settings>),
    /// Time has passed.
    Tick,
}

/// Something people should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// The forge forbids the removal of a runner.
    RemovalForbidden,
    /// A Pod went without the forge's word: there is no credential to ask with.
    NoCredential,
    /// A Pod that can't run any more went without the forge's word: it did not answer.
    Unanswered,
    /// What is written on a Pod can't be understood; it is left alone until it ends.
    UnreadableState,
}

/// Something is to be done. Those of one call may be carried out at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask the forge for a registration of this name.
    Register {
        /// For whom.
        slot: Slot,
        /// The runner's name at the forge: no other has ever had it.
        name: String,
    },
    /// Make the Pod, with a finalizer.
    CreatePod {
        /// Whose.
        slot: Slot,
        /// The registration that it starts with.
        id: RunnerId,
        /// What is written on it.
        record: Record,
    },
    /// Write the state; when it does not [hold the Pod](Record::holds_pod), take the finalizer off in the same write.
    Persist {
        /// Whose.
        slot: Slot,
        /// On this Pod and no other of the name.
        uid: String,
        /// What.
        record: Record,
    },
    /// Ask the forge to remove a registration.
    Remove {
        /// Which.
        id: RunnerId,
    },
    /// Delete a Pod.
    DeletePod {
        /// Whose.
        slot: Slot,
        /// This one and no other of the name.
        uid: String,
    },
    /// Take the finalizer off and delete a Pod without grace.
    ForceDelete {
        /// Whose.
        slot: Slot,
        /// This one and no other of the name.
        uid: String,
    },
    /// List the runners of the scope. One list serves all sets of a scope.
    ListRunners,
    /// Tell people.
    Warn {
        /// About whom.
        slot: Slot,
        /// What.
        warning: Warning,
    },
}

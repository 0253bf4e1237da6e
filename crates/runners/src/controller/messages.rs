//! What a book hears, and what it wants.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use serde_json::Value;

use super::cluster::Notice;
use super::stages::Stage;
use super::writes::Write;
use crate::demand::Told;
use crate::engine::{ForgeRunner, NotCreated, Refused, Warning};
use crate::forge::Registration;
use crate::ids::{RunnerId, Slot};
use crate::life::Removal;
use crate::set::{RunnerSet, RunnerSetStatus};

/// Something was heard.
#[derive(Debug)]
pub enum Heard {
    /// All Pods of the set.
    Pods(Vec<Arc<Pod>>),
    /// One.
    Pod(Arc<Pod>),
    /// One is gone.
    PodGone(Arc<Pod>),
    /// All claims of the set.
    Claims(Vec<Arc<PersistentVolumeClaim>>),
    /// One.
    Claim(Arc<PersistentVolumeClaim>),
    /// One is gone.
    ClaimGone(Arc<PersistentVolumeClaim>),
    /// The set was changed, and is valid.
    Set(Arc<RunnerSet>),
    /// Of jobs.
    Told(Told),
    /// The forge's list of all runners of the scope.
    Runners {
        /// When it was asked.
        began: Timestamp,
        /// Them.
        runners: Arc<Vec<ForgeRunner>>,
    },
    /// The answer to [`Effect::Register`].
    Registered {
        /// For whom.
        slot: Slot,
        /// Under which name.
        name: String,
        /// The registration.
        outcome: Result<Registration, Refused>,
    },
    /// The Secret of an [`Effect::Create`] is there.
    SecretMade(String),
    /// The answer to a Pod of [`Effect::Create`].
    Created {
        /// Whose.
        slot: Slot,
        /// For which registration.
        id: RunnerId,
        /// How it went.
        outcome: Result<(), NotCreated>,
    },
    /// The answer to [`Effect::Remove`].
    Removed {
        /// Whom.
        id: RunnerId,
        /// What the forge said.
        outcome: Removal,
    },
    /// The answer to [`Effect::Write`].
    Written {
        /// Whose.
        slot: Slot,
        /// It has to be tried again.
        again: bool,
    },
    /// The answer to [`Effect::Status`].
    StatusWritten {
        /// It is written.
        good: bool,
    },
}

/// A Pod to be made, with its claim if it has none yet.
#[derive(Debug, Clone, PartialEq)]
pub struct PodToMake {
    /// Whose.
    pub slot: Slot,
    /// For which registration.
    pub id: RunnerId,
    /// It.
    pub pod: Box<Pod>,
    /// Its claim: one that exists already is as good.
    pub claim: Option<Box<PersistentVolumeClaim>>,
}

/// Something is to be done. Effects of one call may be performed at the same time.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the forge for a registration.
    Register {
        /// For whom.
        slot: Slot,
        /// Under which name.
        name: String,
    },
    /// Make the Secret, then the Pods.
    Create {
        /// Their configurations; `None`: it is there.
        secret: Option<Box<Secret>>,
        /// Them.
        pods: Vec<PodToMake>,
    },
    /// Write a state.
    Write {
        /// Which.
        write: Write,
        /// The Pod's name.
        pod: String,
        /// As what.
        patch: Value,
    },
    /// Delete a Pod.
    Delete {
        /// Its name.
        pod: String,
        /// This one and no other of the name.
        uid: String,
        /// Take the finalizer off first, and without grace.
        force: bool,
    },
    /// Ask the forge to remove a registration.
    Remove {
        /// Which.
        id: RunnerId,
    },
    /// List the runners of the scope.
    ListRunners,
    /// Delete a claim.
    DeleteClaim {
        /// Its name.
        name: String,
        /// This one and no other of the name.
        uid: String,
    },
    /// Delete a Secret.
    DeleteSecret {
        /// Its name.
        name: String,
    },
    /// Delete the set's Secrets with configurations but these.
    SweepSecrets {
        /// Of these batches.
        keep: Vec<String>,
        /// And those of this life of the controller: they may be made while others are swept.
        session: String,
    },
    /// Change the set itself: its finalizer.
    PatchSet {
        /// A merge patch.
        patch: Value,
    },
    /// Write the status.
    Status(Box<RunnerSetStatus>),
    /// Tell people.
    Notice(Notice),
    /// Someone has come so far after so long.
    Took(Stage, SignedDuration),
    /// A runner has failed before its first job.
    Failed {
        /// The identifier of the cause.
        cause: &'static str,
        /// Whose matter it is.
        category: &'static str,
    },
}

/// A warning as people read it: a word and a sentence.
pub(super) fn words(warning: Warning) -> (&'static str, &'static str) {
    match warning {
        Warning::RemovalForbidden => {
            ("RemovalForbidden", "GitHub forbids the removal of the runner's registration; the credential may not")
        }
        Warning::NoCredential => (
            "NoCredential",
            "the Pod goes, and its registration may stay at GitHub: there is no credential to ask with",
        ),
        Warning::Unanswered => {
            ("ForgeUnanswered", "the Pod goes, and its registration is removed later: GitHub did not answer")
        }
        Warning::UnreadableState => {
            ("UnreadableState", "the annotations of this runner were changed; it is left alone until it ends")
        }
    }
}

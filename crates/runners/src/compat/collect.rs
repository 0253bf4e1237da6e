//! Which owners count, and what is done with those that are on their way out. In listing order, first rule first.

use jiff::Timestamp;

use super::bucket::{Bucket, RunnerPod};
use super::decide::{Hold, HoldReason, Inputs, RESYNC};

/// An owner as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// It has a deletion time.
    pub deleting: bool,
    /// The hash of the template it was made from.
    pub template_hash: Option<String>,
    /// It was asked to go.
    pub requested: bool,
    /// All its runners are off the forge.
    pub complete: bool,
    /// Its own controller has seen it through.
    pub synced: bool,
    /// When it was stamped; stamps have whole seconds.
    pub sync_time: Option<Timestamp>,
    /// Its Pods, any number.
    pub pods: Vec<RunnerPod>,
}

/// How many of an owner's Pods are in each bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub(super) total: usize,
    pub(super) completed: usize,
    pub(super) running: usize,
    pub(super) pending: usize,
}

/// The owners that count, and what became of the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected<'a> {
    /// They take part in the decision.
    pub owners: Vec<(&'a Owner, Tally)>,
    /// Marked as complete (step 2 of 4).
    pub complete: Vec<String>,
    /// Deleted (step 3 of 4), or because all their Pods have ended.
    pub delete: Vec<String>,
    /// The newest stamp of those that count.
    pub last_sync: Option<Timestamp>,
    /// Owners without a hash, left alone.
    pub unmanaged: Vec<String>,
    /// The pass ends here.
    pub abort: Option<Hold>,
}

/// Walks the owners.
#[must_use]
pub fn collect<'a>(inputs: &Inputs<'a>, now: Timestamp) -> Collected<'a> {
    let mut found = Collected::default();
    for owner in inputs.owners {
        let hash = match owner.template_hash.as_deref() {
            None => {
                found.unmanaged.push(owner.name.clone());
                continue;
            }
            Some("") => {
                found.abort = Some(Hold { reason: HoldReason::EmptyHash(owner.name.clone()), wake_at: now + RESYNC });
                return found;
            }
            Some(hash) => hash,
        };
        debug_assert!(!hash.is_empty());
        if owner.deleting {
            continue;
        }
        if owner.complete {
            found.delete.push(owner.name.clone());
            continue;
        }
        if owner.requested && owner.pods.iter().all(RunnerPod::safe_to_delete) {
            found.complete.push(owner.name.clone());
            continue;
        }
        found.last_sync = found.last_sync.max(owner.sync_time);
        let tally = tally(owner, now);
        if tally.total > 0 && tally.total == tally.completed {
            found.delete.push(owner.name.clone());
            let reason = HoldReason::OneCompletedOwnerAPass(owner.name.clone());
            found.abort = Some(Hold { reason, wake_at: now + RESYNC });
            return found;
        }
        if !owner.synced {
            found.abort = Some(Hold { reason: HoldReason::Unsynced(owner.name.clone()), wake_at: now + RESYNC });
            return found;
        }
        found.owners.push((owner, tally));
    }
    found
}

fn tally(owner: &Owner, now: Timestamp) -> Tally {
    let mut tally = Tally::default();
    for pod in &owner.pods {
        tally.total += 1;
        match pod.bucket(now) {
            Bucket::Completed => tally.completed += 1,
            Bucket::Running => tally.running += 1,
            Bucket::Pending => tally.pending += 1,
            Bucket::RegistrationTimeout | Bucket::Terminating => {}
        }
    }
    tally
}

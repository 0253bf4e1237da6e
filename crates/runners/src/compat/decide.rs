//! How many owners are made, which are asked to go, and which stale one is deleted.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::collect::{Collected, Owner, Tally, collect};

/// How long missing ephemeral runners are presumed to have finished.
pub const RECREATION_DELAY: SignedDuration = SignedDuration::from_mins(10);

/// When a pass that ended early is repeated if nothing else happens: upstream's resync.
pub(super) const RESYNC: SignedDuration = SignedDuration::from_mins(1);

/// What the engine is given.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// How many runners there should be.
    pub desired: u32,
    /// The newest demand that the autoscaler has seen.
    pub effective: Option<Timestamp>,
    /// Runners take one job each.
    pub ephemeral: bool,
    /// The hash of the template that is wanted now.
    pub template_hash: &'a str,
    /// All owners, in listing order.
    pub owners: &'a [Owner],
}

/// Why nothing, or not all, was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldReason {
    /// An owner's hash is empty: the whole pass does nothing.
    EmptyHash(String),
    /// One owner whose Pods have ended is deleted a pass, and nothing else happens in it.
    OneCompletedOwnerAPass(String),
    /// An owner that is not synced holds up all others.
    Unsynced(String),
    /// Missing ephemeral runners are presumed to have finished their jobs.
    PresumedFinished,
    /// An owner has several Pods, and no number of owners gives the number of runners.
    NotDivisible,
    /// The sums contradict each other; upstream panics.
    Inconsistent,
}

/// Nothing is done, until something happens or a moment comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// When to look again.
    pub wake_at: Timestamp,
}

/// What goes into the set's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// All Pods of owners with the wanted template.
    pub total: usize,
    /// Those that run.
    pub running: usize,
}

/// What the legacy engine does in one pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LegacyPlan {
    /// How many owners are made.
    pub create: usize,
    /// Who is asked to go (step 1 of 4), the newest first.
    pub retire: Vec<String>,
    /// Who is marked as complete (step 2 of 4).
    pub complete: Vec<String>,
    /// Who is deleted.
    pub delete: Vec<String>,
    /// Owners without a hash: left alone, where upstream crashes.
    pub unmanaged: Vec<String>,
    /// Why nothing more was done.
    pub hold: Option<Hold>,
    /// `None`: the pass ended without a status.
    pub status: Option<Counts>,
}

/// One pass.
#[must_use]
pub fn decide(inputs: &Inputs<'_>, now: Timestamp) -> LegacyPlan {
    let collected = collect(inputs, now);
    let Collected { owners, complete, delete, last_sync, unmanaged, abort } = collected;
    let mut plan = LegacyPlan { complete, delete, unmanaged, ..LegacyPlan::default() };
    if abort.is_some() {
        plan.hold = abort;
        return plan;
    }
    let (mut current, stale): (Vec<_>, Vec<_>) =
        owners.into_iter().partition(|(owner, _)| owner.template_hash.as_deref() == Some(inputs.template_hash));
    current.sort_by_key(|(owner, _)| owner.created);
    let running: usize = current.iter().map(|(_, tally)| tally.running).sum();
    let live = running + current.iter().map(|(_, tally)| tally.pending).sum::<usize>();
    let desired = usize::try_from(inputs.desired).unwrap_or(usize::MAX);
    if desired > live {
        let presumed_until = last_sync.filter(|last| inputs.ephemeral && inputs.effective.is_some_and(|e| *last > e));
        match presumed_until.map(|last| last + RECREATION_DELAY).filter(|until| now < *until) {
            Some(wake_at) => plan.hold = Some(Hold { reason: HoldReason::PresumedFinished, wake_at }),
            None => {
                plan.create = desired - live;
                return plan;
            }
        }
    } else if desired <= running {
        let (retained, victims) = victims(&current, desired);
        match retained.cmp(&desired) {
            Ordering::Equal => plan.retire = victims,
            Ordering::Greater => {
                plan.hold = Some(Hold { reason: HoldReason::NotDivisible, wake_at: now + RESYNC });
                return plan;
            }
            Ordering::Less => {
                plan.hold = Some(Hold { reason: HoldReason::Inconsistent, wake_at: now + RESYNC });
                return plan;
            }
        }
    }
    if let Some((owner, _)) = stale.first() {
        plan.delete.push(owner.name.clone());
        return plan;
    }
    plan.status = Some(Counts { total: current.iter().map(|(_, tally)| tally.total).sum(), running });
    plan
}

/// From the newest on: who is kept until `desired` runners are, and who of the rest was not asked yet.
fn victims(current: &[(&Owner, Tally)], desired: usize) -> (usize, Vec<String>) {
    let mut retained = 0;
    let mut victims = Vec::new();
    for (owner, tally) in current.iter().rev() {
        if tally.running == 0 || retained >= desired {
            if !owner.requested {
                victims.push(owner.name.clone());
            }
        } else {
            retained += tally.running;
        }
    }
    (retained, victims)
}

#[cfg(test)]
mod tests;

//! The decision.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::breaker::{Breaker, Verdict};
use super::limits::Scaling;
use super::window::Window;
use crate::ids::{RunnerId, Slot};
use crate::life::{Life, Runner, Why};

/// When what is held back for want of a slot is looked at again, should no runner leave before.
const SLOT_RETRY: SignedDuration = SignedDuration::from_secs(30);
/// How soon new runners follow those of an old template.
const AFTER_DRAIN: SignedDuration = SignedDuration::from_secs(1);

/// What is known of a set.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// Its runners, one a slot.
    pub runners: &'a [Runner],
    /// Slots that hold something that is no runner of ours, or not known to be free.
    pub taken: &'a BTreeSet<Slot>,
    /// The hash of the template that is wanted now.
    pub template: &'a str,
    /// How it scales.
    pub scaling: &'a Scaling,
    /// What was remembered.
    pub memory: &'a Memory,
    /// Nothing can be created.
    pub blocked: Option<Blocked>,
}

/// What jobs want.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// So many wait.
    pub queued: u32,
    /// These runners have one, whatever else is known of them.
    pub running: BTreeSet<RunnerId>,
}

/// What one pass remembers for the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// What was wanted lately.
    pub window: Window,
    /// Failures of the template.
    pub breaker: Breaker,
}

/// Why nothing can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// Why.
    pub reason: HoldReason,
    /// Until when.
    pub until: Timestamp,
}

/// Why what is wanted is not done, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldReason {
    /// More are wanted than the maximum.
    AtMax,
    /// Slots are still held by runners that go.
    SlotsTaken,
    /// Runners of an old template go first.
    DrainsFirst,
    /// More are wanted, not for long enough.
    StabilisingUp,
    /// Fewer are wanted, not for long enough.
    StabilisingDown,
    /// All that is too much has a job.
    SurplusBusy,
    /// The template's runners fail; the next try comes later.
    CrashLoop,
    /// One runner of a failing template tries.
    Canary,
    /// A failing template does not replace runners of the old one.
    KeepsOldTemplate,
    /// The forge does not answer.
    ForgeUnavailable,
    /// The forge's budget is used up.
    RateLimited,
    /// The credential is missing or refused.
    Credential,
    /// The cluster's quota is used up.
    Quota,
    /// The cluster's API does not take new Pods.
    ApiUnavailable,
}

impl HoldReason {
    /// All there are.
    pub const ALL: [Self; 14] = [
        Self::AtMax,
        Self::SlotsTaken,
        Self::DrainsFirst,
        Self::StabilisingUp,
        Self::StabilisingDown,
        Self::SurplusBusy,
        Self::CrashLoop,
        Self::Canary,
        Self::KeepsOldTemplate,
        Self::ForgeUnavailable,
        Self::RateLimited,
        Self::Credential,
        Self::Quota,
        Self::ApiUnavailable,
    ];
}

/// Something is wanted and not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// When it is looked at again at the latest.
    pub wake_at: Timestamp,
}

/// How many runners do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Wanted, within the limits.
    pub desired: u32,
    /// Pods that have not ended, or are about to be.
    pub replicas: u32,
    /// On their way.
    pub pending: u32,
    /// Waiting for a job.
    pub idle: u32,
    /// With a job.
    pub busy: u32,
    /// On their way out.
    pub draining: u32,
    /// Jobs without a runner.
    pub queued: u32,
    /// Of an old template.
    pub stale: u32,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Slots that get a runner.
    pub create: Vec<Slot>,
    /// Runners that are to go; the forge has the last word.
    pub retire: Vec<(Slot, Why)>,
    /// Runners that may go, and whose Pods are deleted now: all of them.
    pub delete: Vec<Slot>,
    /// What is not done, and why.
    pub holds: Vec<Hold>,
    /// When to plan again if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// For the status.
    pub counts: Counts,
    /// For the next pass.
    pub memory: Memory,
}

/// One pass.
#[must_use]
pub fn plan(snapshot: &Snapshot<'_>, wanted: &Wanted, now: Timestamp) -> Plan {
    let limits = snapshot.scaling.limits(now);
    let mut memory = snapshot.memory.clone();
    memory.breaker.observe(snapshot.runners, snapshot.template, now);
    let verdict = memory.breaker.verdict(snapshot.runners, now);

    let busy = |runner: &Runner| {
        matches!(runner.life, Life::Busy { .. }) || runner.life.id().is_some_and(|id| wanted.running.contains(&id))
    };
    let mut counts = Counts { queued: wanted.queued, ..Counts::default() };
    let mut spare = Vec::new();
    for runner in snapshot.runners.iter().filter(|runner| runner.life != Life::Gone) {
        counts.replicas += u32::from(!runner.ended());
        counts.stale += u32::from(runner.template != snapshot.template && !runner.ended());
        if busy(runner) && !runner.ended() {
            counts.busy += 1;
        } else if runner.available() {
            let idle = matches!(runner.life, Life::Idle { .. });
            counts.idle += u32::from(idle);
            counts.pending += u32::from(!idle);
            spare.push(runner);
        } else if !runner.ended() {
            counts.draining += 1;
        }
    }

    let unlimited = limits.min.max(counts.busy.saturating_add(wanted.queued).saturating_add(limits.min_idle));
    counts.desired = unlimited.min(limits.max);
    memory.window.push(counts.desired, now);

    let mut pass = Pass { now, plan: Plan::default() };
    pass.plan.delete = deletions(snapshot.runners);
    if unlimited > limits.max {
        pass.hold(HoldReason::AtMax, limits.until.unwrap_or(now + super::window::LONGEST));
    }
    // Runners of an old template go whatever is wanted, unless the new one fails.
    let keeps_old = verdict != Verdict::Closed;
    let (kept, outdated): (Vec<&Runner>, Vec<&Runner>) =
        spare.into_iter().partition(|runner| runner.template == snapshot.template || keeps_old);
    if kept.iter().any(|runner| runner.template != snapshot.template) {
        pass.hold(HoldReason::KeepsOldTemplate, now + super::breaker::PROVEN);
    }
    let live = counts.busy.saturating_add(count(&kept));
    let scaling = snapshot.scaling;
    if !outdated.is_empty() {
        if live < counts.desired {
            pass.hold(HoldReason::DrainsFirst, now + AFTER_DRAIN);
        }
        let outdated = outdated.into_iter().filter(|runner| retirable(runner));
        pass.plan.retire = outdated.map(|runner| (runner.slot, Why::Stale)).collect();
    } else if live < counts.desired {
        let up = memory.window.least(scaling.up, now).map_or(counts.desired, |least| least.min(counts.desired));
        if up < counts.desired {
            let next = memory.window.next_change(scaling.up, now);
            pass.hold(HoldReason::StabilisingUp, next.unwrap_or(now + AFTER_DRAIN));
        }
        let room = limits.max.saturating_sub(counts.replicas);
        pass.create(snapshot, room, up.saturating_sub(live), verdict);
    }
    if live > counts.desired {
        // A maximum that was lowered waits for nothing.
        let most = memory.window.most(scaling.down, now).map_or(counts.desired, |most| most.min(limits.max));
        let down = most.max(counts.desired);
        if live.min(down) > counts.desired {
            let next = memory.window.next_change(scaling.down, now);
            pass.hold(HoldReason::StabilisingDown, next.unwrap_or(now + AFTER_DRAIN));
        }
        let surplus = live.saturating_sub(down);
        if surplus > count(&kept) {
            pass.hold(HoldReason::SurplusBusy, now + super::window::LONGEST);
        }
        pass.retire_surplus(kept, surplus);
    }
    let Pass { mut plan, .. } = pass;
    plan.wake_at = plan.holds.iter().map(|hold| hold.wake_at).chain(limits.until).min();
    Plan { counts, memory, ..plan }
}

/// Pods of runners that may go and were not told yet.
fn deletions(runners: &[Runner]) -> Vec<Slot> {
    let may_go = |runner: &&Runner| {
        matches!(runner.life, Life::Deregistered { .. }) && runner.pod.is_some() && !runner.deleting()
    };
    runners.iter().filter(may_go).map(|runner| runner.slot).collect()
}

/// One that was only asked for has nothing to take back yet; it goes when its registration is there.
fn retirable(runner: &Runner) -> bool {
    matches!(runner.life, Life::Registered { .. } | Life::Idle { .. })
}

fn count(runners: &[&Runner]) -> u32 {
    u32::try_from(runners.len()).unwrap_or(u32::MAX)
}

struct Pass {
    now: Timestamp,
    plan: Plan,
}

impl Pass {
    fn hold(&mut self, reason: HoldReason, wake_at: Timestamp) {
        // A moment that is over is no wake-up.
        let wake_at = wake_at.max(self.now + AFTER_DRAIN);
        self.plan.holds.push(Hold { reason, wake_at });
    }

    fn create(&mut self, snapshot: &Snapshot<'_>, room: u32, missing: u32, verdict: Verdict) {
        if missing == 0 {
            return;
        }
        if let Some(Blocked { reason, until }) = snapshot.blocked.filter(|blocked| self.now < blocked.until) {
            self.hold(reason, until);
            return;
        }
        let allowed = match verdict {
            Verdict::Closed => missing,
            Verdict::Open(until) => {
                self.hold(HoldReason::CrashLoop, until);
                0
            }
            Verdict::Waiting(again) => {
                self.hold(HoldReason::Canary, again);
                0
            }
            Verdict::Canary => {
                if missing > 1 {
                    self.hold(HoldReason::Canary, self.now + super::breaker::PROVEN);
                }
                1
            }
        };
        let occupied: BTreeSet<Slot> = snapshot
            .runners
            .iter()
            .filter(|runner| runner.life != Life::Gone)
            .map(|runner| runner.slot)
            .chain(snapshot.taken.iter().copied())
            .collect();
        let wanted = usize::try_from(allowed.min(room)).unwrap_or(usize::MAX);
        let names = (0..snapshot.scaling.max).map(Slot);
        self.plan.create = names.filter(|slot| !occupied.contains(slot)).take(wanted).collect();
        if self.plan.create.len() < usize::try_from(allowed).unwrap_or(usize::MAX) {
            self.hold(HoldReason::SlotsTaken, self.now + SLOT_RETRY);
        }
    }

    /// First what costs least: without a node, then without the forge, then the longest idle.
    fn retire_surplus(&mut self, mut spare: Vec<&Runner>, surplus: u32) {
        spare.retain(|runner| retirable(runner));
        spare.sort_by_key(|runner| {
            let scheduled = runner.pod.as_ref().is_some_and(|pod| pod.scheduled);
            let rank = match runner.life {
                Life::Idle { .. } => 2,
                Life::Requested
                | Life::Registered { .. }
                | Life::Busy { .. }
                | Life::Draining { .. }
                | Life::Deregistered { .. }
                | Life::Gone => u8::from(scheduled),
            };
            (rank, runner.since, runner.slot)
        });
        let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
        self.plan.retire.extend(spare.into_iter().take(surplus).map(|runner| (runner.slot, Why::Surplus)));
    }
}

#[cfg(test)]
mod tests;

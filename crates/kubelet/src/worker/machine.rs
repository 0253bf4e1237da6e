//! The life of one Pod as a pure state machine: what happened goes in, what to do comes out. No await, no clock.
//!
//! ```text
//!  Syncing ──stopped │ all ended │ deadline │ failed──► Terminating ──nothing runs──► Terminated ──► Finished
//!   ▲    │                                    stop containers            volumes                       │
//!   └────┘ syncs, resyncs                     stop sandboxes             sandboxes                 removal wanted
//!                                             confirm, final status                                    ▼
//!                                                                                    Removed ◄── Removing
//! ```
//! Stages are never left backwards. Teardown is a list of steps that are each idempotent; a step that fails is tried
//! again until it succeeds, and what succeeded is not repeated, except that finding a container alive at the
//! confirmation goes back to stopping. At most one job runs at a time: syncs and steps alike.
//!
//! `first` begins a life, `syncing` keeps it going, `wishes` end it or change its course, `teardown` brings it to its end.

mod event;
mod first;
mod syncing;
mod teardown;
mod wishes;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::status::FailureOverride;
use tokio::time::Instant;

pub use event::{Action, Event, StepOutcome, SyncOutcome};
pub use first::first_seen;

use super::lifecycle::{Cause, Lifecycle, Mode, SavedLifecycle, Syncing, Terminated, Terminating, Then, Turn};
use syncing::act;
use teardown::retry;

/// The state machine of one Pod.
#[derive(Debug)]
pub struct Machine {
    pod: Arc<Pod>,
    lifecycle: Lifecycle,
    turns: u64,
}

impl Machine {
    /// A machine for a Pod that was last seen so, and what to do first.
    #[must_use]
    pub fn start(pod: Arc<Pod>, saved: SavedLifecycle) -> (Self, Vec<Action>) {
        let turn = Turn::Working { failures: 0 };
        let (lifecycle, actions) = match saved {
            SavedLifecycle::Syncing => (Lifecycle::Syncing(act(0)), vec![Action::Sync(Mode::Act)]),
            SavedLifecycle::Terminating { cause, grace, then } => {
                let step = Terminating::Containers;
                (Lifecycle::Terminating { cause, grace, step, turn, then }, vec![Action::Step(step.job(grace))])
            }
            SavedLifecycle::Terminated { cause, then } => {
                let step = Terminated::Volumes;
                (Lifecycle::Terminated { cause, step, turn, then }, vec![Action::Step(step.job())])
            }
            SavedLifecycle::Finished { cause } => (Lifecycle::Finished { cause }, vec![]),
        };
        (Self { pod, lifecycle, turns: 0 }, actions)
    }

    /// Where the Pod is.
    #[must_use]
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// When [`Event::Timer`] is wanted.
    #[must_use]
    pub fn timer(&self) -> Option<Instant> {
        match &self.lifecycle {
            Lifecycle::Syncing(Syncing::Idle { due, .. }) => Some(*due),
            Lifecycle::Terminating { turn, .. }
            | Lifecycle::Terminated { turn, .. }
            | Lifecycle::Removing { turn, .. } => match turn {
                Turn::Waiting { until, .. } => Some(*until),
                Turn::Working { .. } => None,
            },
            Lifecycle::Syncing(Syncing::Working { .. }) | Lifecycle::Finished { .. } | Lifecycle::Removed => None,
        }
    }

    /// Takes one event and says what to do, in order.
    #[must_use]
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Action> {
        match event {
            Event::Stop(request) => self.stop(request),
            Event::Updated(desired) => self.updated(desired.pod),
            Event::Evict(eviction) => self.evict(eviction),
            Event::Deadline => match self.lifecycle {
                Lifecycle::Syncing(_) => {
                    self.end(Cause::Failed(FailureOverride::deadline_exceeded()), None, Then::Keep)
                }
                Lifecycle::Terminating { .. }
                | Lifecycle::Terminated { .. }
                | Lifecycle::Finished { .. }
                | Lifecycle::Removing { .. }
                | Lifecycle::Removed => vec![],
            },
            Event::Changed => self.changed(now),
            Event::Probed => self.probed(now),
            Event::Returned => self.returned(now),
            Event::Timer => self.timed(now),
            Event::Synced(outcome) => self.synced(outcome, now),
            Event::Stepped(outcome) => self.stepped(outcome, now),
        }
    }

    /// What failed may have failed because the runtime was away: it is tried again now, and its pace begins anew.
    fn returned(&mut self, now: Instant) -> Vec<Action> {
        match &mut self.lifecycle {
            Lifecycle::Syncing(syncing) => match *syncing {
                Syncing::Idle { failures: 1.., .. } => {
                    *syncing = act(0);
                    vec![Action::Sync(Mode::Act)]
                }
                // One that runs may be about to fail.
                Syncing::Working { .. } => self.changed(now),
                Syncing::Idle { failures: 0, .. } => vec![],
            },
            Lifecycle::Terminating { turn, .. }
            | Lifecycle::Terminated { turn, .. }
            | Lifecycle::Removing { turn, .. } => {
                if let Turn::Waiting { until, failures } = turn {
                    (*until, *failures) = (now, 0);
                }
                self.timed(now)
            }
            Lifecycle::Finished { .. } | Lifecycle::Removed => vec![],
        }
    }

    fn timed(&mut self, now: Instant) -> Vec<Action> {
        match &mut self.lifecycle {
            Lifecycle::Syncing(syncing) => match *syncing {
                Syncing::Idle { due, failures, .. } if due <= now => {
                    *syncing = act(failures);
                    vec![Action::Sync(Mode::Act)]
                }
                Syncing::Idle { .. } | Syncing::Working { .. } => vec![],
            },
            Lifecycle::Terminating { grace, step, turn, .. } => retry(turn, step.job(*grace), now),
            Lifecycle::Terminated { step, turn, .. } => retry(turn, step.job(), now),
            Lifecycle::Removing { step, turn, .. } => retry(turn, step.job(), now),
            Lifecycle::Finished { .. } | Lifecycle::Removed => vec![],
        }
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(most)
}

#[cfg(test)]
mod tests;

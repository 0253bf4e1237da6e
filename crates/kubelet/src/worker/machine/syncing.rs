//! A Pod that is kept: when it is synced, and what a sync's end leads to. News begin a sync at once, or once the one that
//! runs has ended; after failures they are only published until the pace allows to act again.

use std::time::Duration;

use minke_core::status::FailureOverride;
use tokio::time::Instant;

use super::{Action, Machine, SyncOutcome, doubled};
use crate::worker::lifecycle::{Cause, Lifecycle, Mode, News, Syncing, Then};
use crate::worker::requeue::{Requeue, requeue_delay, spread};

pub(super) const FIRST_PACE: Duration = Duration::from_millis(250);
const LONGEST_PACE: Duration = Duration::from_secs(10);

pub(super) fn act(failures: u32) -> Syncing {
    Syncing::Working { news: News::None, failures, mode: Mode::Act, due: None }
}

impl Machine {
    pub(super) fn changed(&mut self, now: Instant) -> Vec<Action> {
        let Lifecycle::Syncing(syncing) = &mut self.lifecycle else { return vec![] };
        match syncing {
            Syncing::Working { news, .. } => {
                *news = (*news).max(News::Changed);
                vec![]
            }
            Syncing::Idle { due, failures, paced_until } => {
                let (mode, due) = match *paced_until {
                    Some(until) if now < until => (Mode::Observe, Some(until.min(*due))),
                    Some(_) | None => (Mode::Act, None),
                };
                *syncing = Syncing::Working { news: News::None, failures: *failures, mode, due };
                vec![Action::Sync(mode)]
            }
        }
    }

    /// What probes say is news at once, whatever job may take its time.
    pub(super) fn probed(&mut self, now: Instant) -> Vec<Action> {
        match self.lifecycle {
            Lifecycle::Syncing(Syncing::Idle { .. }) => self.changed(now),
            Lifecycle::Syncing(Syncing::Working { .. }) => {
                let mut actions = self.changed(now);
                actions.push(Action::Refresh);
                actions
            }
            Lifecycle::Terminating { .. } => vec![Action::Refresh],
            Lifecycle::Terminated { .. }
            | Lifecycle::Finished { .. }
            | Lifecycle::Removing { .. }
            | Lifecycle::Removed => vec![],
        }
    }

    pub(super) fn synced(&mut self, outcome: SyncOutcome, now: Instant) -> Vec<Action> {
        let Lifecycle::Syncing(Syncing::Working { news, failures, mode, due }) = self.lifecycle else { return vec![] };
        self.turns += 1;
        let why = match outcome {
            SyncOutcome::Terminal => return self.ended_sync(Cause::Completed),
            SyncOutcome::DeadlineExceeded => {
                return self.ended_sync(Cause::Failed(FailureOverride::deadline_exceeded()));
            }
            SyncOutcome::Settled => Requeue::Success,
            SyncOutcome::NetworkNotReady => Requeue::NetworkNotReady,
            SyncOutcome::BackOff(remaining) => Requeue::BackOff(remaining),
            SyncOutcome::SandboxFailed => Requeue::Sandbox { failures },
            SyncOutcome::Failed => Requeue::Error,
        };
        let next = now + requeue_delay(why, spread(self.pod.metadata.uid.as_deref().unwrap_or_default(), self.turns));
        let idle = match (mode, why) {
            // An observation changes nothing about when to act.
            (Mode::Observe, _) => {
                let due = due.unwrap_or(next);
                Syncing::Idle { due, failures, paced_until: Some(due) }
            }
            (Mode::Act, Requeue::Error | Requeue::Sandbox { .. } | Requeue::NetworkNotReady) => {
                let pace = now + doubled(FIRST_PACE, failures, LONGEST_PACE);
                Syncing::Idle { due: next, failures: failures.saturating_add(1), paced_until: Some(pace) }
            }
            (Mode::Act, Requeue::Success | Requeue::BackOff(_) | Requeue::Transition) => {
                Syncing::Idle { due: next, failures: 0, paced_until: None }
            }
        };
        self.lifecycle = Lifecycle::Syncing(idle);
        match news {
            News::None => vec![],
            News::Changed => self.changed(now),
            News::Updated => {
                self.lifecycle = Lifecycle::Syncing(act(0));
                vec![Action::Sync(Mode::Act)]
            }
        }
    }

    /// A sync ended by itself, so there is nothing to cancel.
    fn ended_sync(&mut self, cause: Cause) -> Vec<Action> {
        let mut actions = self.end(cause, None, Then::Keep);
        actions.retain(|action| *action != Action::Cancel);
        actions
    }
}

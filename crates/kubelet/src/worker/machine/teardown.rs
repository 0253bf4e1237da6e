//! A Pod that ends: each step that is done leads to the next, each that failed is tried again until it succeeds.

use std::time::Duration;

use tokio::time::Instant;

use super::{Action, Machine, StepOutcome, doubled};
use crate::worker::lifecycle::{Lifecycle, Removing, Step, Terminated, Terminating, Then, Turn};

const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

impl Machine {
    pub(super) fn stepped(&mut self, outcome: StepOutcome, now: Instant) -> Vec<Action> {
        let working = Turn::Working { failures: 0 };
        match &mut self.lifecycle {
            Lifecycle::Terminating { turn: Turn::Waiting { .. }, .. }
            | Lifecycle::Terminated { turn: Turn::Waiting { .. }, .. }
            | Lifecycle::Removing { turn: Turn::Waiting { .. }, .. }
            | Lifecycle::Syncing(_)
            | Lifecycle::Finished { .. }
            | Lifecycle::Removed => vec![],
            Lifecycle::Terminating { cause, grace, step, turn, then } => match (outcome, *step) {
                (StepOutcome::Failed, _) => {
                    *turn = turn.failed(now);
                    vec![]
                }
                (StepOutcome::StillRunning, _) => {
                    *step = Terminating::Containers;
                    *turn = turn.failed(now);
                    vec![]
                }
                (StepOutcome::Done, Terminating::Containers) => {
                    (*step, *turn) = (Terminating::Sandboxes, working);
                    vec![Action::Step(step.job(*grace))]
                }
                (StepOutcome::Done, Terminating::Sandboxes) => {
                    (*step, *turn) = (Terminating::Confirm, working);
                    vec![Action::Step(step.job(*grace))]
                }
                (StepOutcome::Done, Terminating::Confirm) => {
                    let (cause, then, step) = (cause.clone(), *then, Terminated::Volumes);
                    self.lifecycle = Lifecycle::Terminated { cause, step, turn: working, then };
                    vec![Action::Save, Action::Publish, Action::Step(step.job())]
                }
            },
            Lifecycle::Terminated { cause, step, turn, then } => match (outcome, *step) {
                (StepOutcome::Failed | StepOutcome::StillRunning, _) => {
                    *turn = turn.failed(now);
                    vec![]
                }
                (StepOutcome::Done, Terminated::Volumes) => {
                    (*step, *turn) = (Terminated::Sandboxes, working);
                    vec![Action::Step(step.job())]
                }
                (StepOutcome::Done, Terminated::Sandboxes) => {
                    let then = *then;
                    self.lifecycle = Lifecycle::Finished { cause: cause.clone() };
                    match then {
                        Then::Keep => vec![Action::Save, Action::Publish],
                        Then::Remove => self.remove(),
                    }
                }
            },
            Lifecycle::Removing { step, turn, .. } => match (outcome, *step) {
                (StepOutcome::Failed | StepOutcome::StillRunning, _) => {
                    *turn = turn.failed(now);
                    vec![]
                }
                (StepOutcome::Done, Removing::Logs) => {
                    (*step, *turn) = (Removing::Checkpoint, working);
                    vec![Action::Step(step.job())]
                }
                (StepOutcome::Done, Removing::Checkpoint) => {
                    self.lifecycle = Lifecycle::Removed;
                    vec![Action::End]
                }
            },
        }
    }
}

impl Turn {
    fn failed(self, now: Instant) -> Self {
        let (Self::Working { failures } | Self::Waiting { failures, .. }) = self;
        let until = now + doubled(FIRST_RETRY, failures, LONGEST_RETRY);
        Self::Waiting { until, failures: failures.saturating_add(1) }
    }
}

/// Tries a step that waits again, if its time has come.
pub(super) fn retry(turn: &mut Turn, job: Step, now: Instant) -> Vec<Action> {
    match *turn {
        Turn::Waiting { until, failures } if until <= now => {
            *turn = Turn::Working { failures };
            vec![Action::Step(job)]
        }
        Turn::Waiting { .. } | Turn::Working { .. } => vec![],
    }
}

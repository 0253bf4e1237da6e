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

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::runtime::PodRuntimeStatus;
use minke_core::status::{FailureOverride, Phase};
use tokio::time::Instant;

use super::grace::effective_grace;
use super::lifecycle::{
    Cause, Lifecycle, Mode, News, Removing, SavedLifecycle, Step, Syncing, Terminated, Terminating, Then, Turn,
};
use super::requeue::{Requeue, requeue_delay, spread};
use crate::{DesiredPod, Eviction, StopRequest};

/// What a sync came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOutcome {
    /// All is as wanted, or on the way there.
    Settled,
    /// Nothing of the Pod is left to do: stop what remains.
    Terminal,
    /// The Pod is past its deadline.
    DeadlineExceeded,
    /// The network is not ready.
    NetworkNotReady,
    /// A container or image is in back-off; the earliest ends in this time.
    BackOff(Duration),
    /// Something failed.
    Failed,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// Done.
    Done,
    /// [`Step::Confirm`] found a container alive.
    StillRunning,
    /// To be tried again.
    Failed,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The runtime changed something.
    Changed,
    /// A probe's verdict changed.
    Probed,
    /// [`Machine::timer`] is past.
    Timer,
    /// `activeDeadlineSeconds` are past.
    Deadline,
    /// Someone wants the Pod stopped, or removed.
    Stop(StopRequest),
    /// The Pod is wanted otherwise than before: the newest wish, which has all those before it in it.
    Updated(DesiredPod),
    /// The machine needs the Pod's place.
    Evict(Eviction),
    /// The sync ended.
    Synced(SyncOutcome),
    /// The step ended.
    Stepped(StepOutcome),
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Drop the job that runs.
    Cancel,
    /// Begin a sync.
    Sync(Mode),
    /// Begin a step.
    Step(Step),
    /// Save the lifecycle; before any job that follows in the list begins.
    Save,
    /// Publish the stage.
    Publish,
    /// Publish the status anew: as it was observed last, with what probes say now.
    Refresh,
    /// The Pod is forgotten: the worker ends.
    End,
}

const FIRST_PACE: Duration = Duration::from_millis(250);
const LONGEST_PACE: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(most)
}

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
            Event::Timer => self.timed(now),
            Event::Synced(outcome) => self.synced(outcome, now),
            Event::Stepped(outcome) => self.stepped(outcome, now),
        }
    }

    fn stop(&mut self, request: StopRequest) -> Vec<Action> {
        match &mut self.lifecycle {
            Lifecycle::Syncing(_) => self.end(Cause::Stopped, request.grace, Then::Keep.and(request)),
            Lifecycle::Terminating { grace, step, turn, then, .. } => {
                let shrunk = effective_grace(&self.pod, Some(*grace), request.grace);
                let changed = shrunk < *grace || then.and(request) != *then;
                *then = then.and(request);
                let mut actions = Vec::new();
                if shrunk < *grace && *step == Terminating::Containers {
                    if matches!(turn, Turn::Working { .. }) {
                        actions.push(Action::Cancel);
                    }
                    *turn = Turn::Working { failures: 0 };
                    actions.extend([Action::Save, Action::Step(step.job(shrunk))]);
                } else if changed {
                    actions.push(Action::Save);
                }
                *grace = shrunk.min(*grace);
                actions
            }
            Lifecycle::Terminated { then, .. } => {
                let before = std::mem::replace(then, then.and(request));
                if *then == before { vec![] } else { vec![Action::Save] }
            }
            Lifecycle::Finished { .. } if request.remove => self.remove(),
            Lifecycle::Finished { .. } | Lifecycle::Removing { .. } | Lifecycle::Removed => vec![],
        }
    }

    /// A sync that runs goes on: what it makes is found by the next one, which follows at once and at its own pace. A
    /// Pod that must stop takes from an update only that it may have less time.
    fn updated(&mut self, pod: Arc<Pod>) -> Vec<Action> {
        match &mut self.lifecycle {
            Lifecycle::Syncing(syncing) => {
                self.pod = pod;
                if let Some(cause) = ends_itself(&self.pod) {
                    return self.end(cause, None, Then::Keep);
                }
                match syncing {
                    Syncing::Working { news, .. } => {
                        *news = News::Updated;
                        vec![]
                    }
                    Syncing::Idle { .. } => {
                        *syncing = act(0);
                        vec![Action::Sync(Mode::Act)]
                    }
                }
            }
            Lifecycle::Terminating { .. } => {
                self.pod = pod;
                self.stop(StopRequest::default())
            }
            Lifecycle::Terminated { .. }
            | Lifecycle::Finished { .. }
            | Lifecycle::Removing { .. }
            | Lifecycle::Removed => vec![],
        }
    }

    /// Like a stop that says how the Pod ends. A Pod that had ended or failed by itself before stays so.
    fn evict(&mut self, eviction: Eviction) -> Vec<Action> {
        let Eviction { reason, message, grace, disrupts } = eviction;
        let failure = FailureOverride { reason, message };
        let evicted = if disrupts { Cause::Evicted(failure) } else { Cause::Failed(failure) };
        match &mut self.lifecycle {
            Lifecycle::Syncing(_) => self.end(evicted, grace, Then::Keep),
            Lifecycle::Terminating { cause, .. } => {
                let changed = *cause == Cause::Stopped;
                if changed {
                    *cause = evicted;
                }
                let mut actions = self.stop(StopRequest { grace, remove: false });
                if changed && !actions.contains(&Action::Save) {
                    actions.push(Action::Save);
                }
                actions
            }
            Lifecycle::Terminated { .. }
            | Lifecycle::Finished { .. }
            | Lifecycle::Removing { .. }
            | Lifecycle::Removed => vec![],
        }
    }

    /// Syncing → Terminating.
    fn end(&mut self, cause: Cause, requested: Option<Duration>, then: Then) -> Vec<Action> {
        let mut actions = Vec::new();
        if matches!(self.lifecycle, Lifecycle::Syncing(Syncing::Working { .. })) {
            actions.push(Action::Cancel);
        }
        let grace = effective_grace(&self.pod, None, requested);
        let (step, turn) = (Terminating::Containers, Turn::Working { failures: 0 });
        self.lifecycle = Lifecycle::Terminating { cause, grace, step, turn, then };
        actions.extend([Action::Save, Action::Publish, Action::Step(step.job(grace))]);
        actions
    }

    fn changed(&mut self, now: Instant) -> Vec<Action> {
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
    fn probed(&mut self, now: Instant) -> Vec<Action> {
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

    fn synced(&mut self, outcome: SyncOutcome, now: Instant) -> Vec<Action> {
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
            SyncOutcome::Failed => Requeue::Error,
        };
        let next = now + requeue_delay(why, spread(self.pod.metadata.uid.as_deref().unwrap_or_default(), self.turns));
        let idle = match (mode, why) {
            // An observation changes nothing about when to act.
            (Mode::Observe, _) => {
                let due = due.unwrap_or(next);
                Syncing::Idle { due, failures, paced_until: Some(due) }
            }
            (Mode::Act, Requeue::Error | Requeue::NetworkNotReady) => {
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

    fn stepped(&mut self, outcome: StepOutcome, now: Instant) -> Vec<Action> {
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

    /// Finished → Removing.
    fn remove(&mut self) -> Vec<Action> {
        let Lifecycle::Finished { cause } = &self.lifecycle else { return vec![] };
        let (step, turn) = (Removing::Logs, Turn::Working { failures: 0 });
        self.lifecycle = Lifecycle::Removing { cause: cause.clone(), step, turn };
        vec![Action::Save, Action::Publish, Action::Step(step.job())]
    }
}

/// Whether a Pod says of itself that it is not to run: it is being deleted, or has ended elsewhere.
fn ends_itself(pod: &Pod) -> Option<Cause> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Cause::Stopped);
    }
    let phase = Phase::parse(pod.status.as_ref().and_then(|s| s.phase.as_deref()));
    phase.is_some_and(Phase::is_terminal).then_some(Cause::Completed)
}

/// How the life of a Pod begins that is seen for the first time. Most begin by being synced. One that is being deleted,
/// or whose status says that it has ended, is never started: what may run of it is stopped, and without anything of
/// that kind it only needs to be cleaned up. `runtime` is `None` where nobody can say what runs.
#[must_use]
pub fn first_seen(pod: &Pod, runtime: Option<&PodRuntimeStatus>) -> SavedLifecycle {
    let Some(cause) = ends_itself(pod) else { return SavedLifecycle::Syncing };
    let quiet = runtime.is_some_and(|r| !r.may_have_running_containers() && !r.has_ready_sandbox());
    if cause == Cause::Completed && quiet {
        return SavedLifecycle::Terminated { cause, then: Then::Keep };
    }
    SavedLifecycle::Terminating { cause, grace: effective_grace(pod, None, None), then: Then::Keep }
}

fn act(failures: u32) -> Syncing {
    Syncing::Working { news: News::None, failures, mode: Mode::Act, due: None }
}

impl Turn {
    fn failed(self, now: Instant) -> Self {
        let (Self::Working { failures } | Self::Waiting { failures, .. }) = self;
        let until = now + doubled(FIRST_RETRY, failures, LONGEST_RETRY);
        Self::Waiting { until, failures: failures.saturating_add(1) }
    }
}

fn retry(turn: &mut Turn, job: Step, now: Instant) -> Vec<Action> {
    match *turn {
        Turn::Waiting { until, failures } if until <= now => {
            *turn = Turn::Working { failures };
            vec![Action::Step(job)]
        }
        Turn::Waiting { .. } | Turn::Working { .. } => vec![],
    }
}

#[cfg(test)]
mod tests;

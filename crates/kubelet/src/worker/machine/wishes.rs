//! What someone wants of a Pod: that it stops, is otherwise, makes room, or is forgotten. The first that ends a Pod says
//! why; those that follow can only make it end sooner.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::status::FailureOverride;

use super::first::ends_itself;
use super::syncing::act;
use super::{Action, Machine};
use crate::worker::grace::effective_grace;
use crate::worker::lifecycle::{Cause, Lifecycle, Mode, News, Removing, Syncing, Terminating, Then, Turn};
use crate::{Eviction, StopRequest};

impl Machine {
    pub(super) fn stop(&mut self, request: StopRequest) -> Vec<Action> {
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
    pub(super) fn updated(&mut self, pod: Arc<Pod>) -> Vec<Action> {
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
    pub(super) fn evict(&mut self, eviction: Eviction) -> Vec<Action> {
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
    pub(super) fn end(&mut self, cause: Cause, requested: Option<Duration>, then: Then) -> Vec<Action> {
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

    /// Finished → Removing.
    pub(super) fn remove(&mut self) -> Vec<Action> {
        let Lifecycle::Finished { cause } = &self.lifecycle else { return vec![] };
        let (step, turn) = (Removing::Logs, Turn::Working { failures: 0 });
        self.lifecycle = Lifecycle::Removing { cause: cause.clone(), step, turn };
        vec![Action::Save, Action::Publish, Action::Step(step.job())]
    }
}

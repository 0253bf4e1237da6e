//! The transition function.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::time::Instant;

use super::desired::differs;
use super::status::{is_terminal, runs_nothing};
use super::{
    Action, Applied, Call, CallResult, Holding, Lane, PodEvent, PodMachine, Sent, Trouble, Wish, Write, WriteResult,
    grace, status_patch, wish_of,
};
use crate::Now;
use crate::queue::{Outcome, Urgency};

/// How long after its grace a Pod may take to be forgotten before the provider is told again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a removed object may stay (finalizers, lost watch) before it is removed again.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(60);
/// How long what fails for a permanent reason is left alone, unless something changes.
const PERMANENT: Duration = Duration::from_secs(300);

impl PodMachine {
    /// Takes an event in; returns what follows.
    #[must_use]
    pub fn step(&mut self, event: PodEvent, now: Now) -> Vec<Action> {
        let mut actions = match event {
            PodEvent::Seen(object) => self.seen(object, now),
            PodEvent::Gone => self.gone(now),
            PodEvent::Status(status) => self.reported(*status, now),
            PodEvent::Forgotten => self.forgotten(now),
            PodEvent::Evicted(grace) => {
                self.evicted = Some(grace);
                vec![Action::Look(Lane::Api, Urgency::News, now.instant)]
            }
            PodEvent::Listed { held, asked } => self.listed(held, asked, now),
            PodEvent::ObjectsChanged(revision) => {
                self.objects = revision;
                vec![Action::Look(Lane::Provider, Urgency::Cure, now.instant)]
            }
            PodEvent::ProviderTurn { clear } => self.provider_turn(clear, now),
            PodEvent::Called(result) => self.called(result, now),
            PodEvent::ApiTurn => self.api_turn(now),
            PodEvent::Wrote(result) => self.wrote(result, now),
        };
        if self.wish == Wish::Gone && !self.is_held() && !self.calling {
            actions.push(Action::Drop);
        }
        actions
    }

    fn seen(&mut self, object: Arc<Pod>, now: Now) -> Vec<Action> {
        let before = std::mem::replace(&mut self.object, object);
        let wish = wish_of(&self.object);
        // A deletion is never taken back, nor is an end.
        if self.wish == Wish::Wanted {
            self.wish = wish;
        }
        let left = |pod: &Pod| (pod.metadata.deletion_timestamp.clone(), pod.metadata.deletion_grace_period_seconds);
        let mut actions = Vec::new();
        let changed = differs(&before, &self.object);
        if let Holding::Held(Applied::Ours { raw, .. }) = &mut self.holding
            && !changed
            && Arc::ptr_eq(raw, &before)
        {
            // The same to the provider: the older one need not be kept.
            raw.clone_from(&self.object);
        }
        if left(&before) != left(&self.object) {
            self.ends_by = grace::heard(self.ends_by, &self.object, now);
        }
        if changed || left(&before) != left(&self.object) {
            if matches!(self.trouble, Some(Trouble::Config { .. })) {
                self.trouble = None;
            }
            actions.push(Action::Look(Lane::Provider, Urgency::Cure, now.instant));
        }
        if before.status != self.object.status || left(&before) != left(&self.object) {
            actions.push(Action::Look(Lane::Api, Urgency::News, now.instant));
        }
        actions
    }

    fn gone(&mut self, now: Now) -> Vec<Action> {
        self.wish = Wish::Gone;
        vec![Action::Look(Lane::Provider, Urgency::Cure, now.instant)]
    }

    fn reported(&mut self, status: PodStatus, now: Now) -> Vec<Action> {
        if self.status.as_ref() == Some(&status) {
            return Vec::new();
        }
        self.status = Some(status);
        vec![Action::Look(Lane::Api, Urgency::News, now.instant)]
    }

    fn forgotten(&mut self, now: Now) -> Vec<Action> {
        let lost = match self.holding {
            Holding::Absent | Holding::Lost => return Vec::new(),
            // The end of this call says what it did.
            Holding::Unknown if self.calling => return Vec::new(),
            Holding::Unknown => Holding::Absent,
            Holding::Held(_) | Holding::Ending { .. } => Holding::Lost,
        };
        self.hold(lost, now);
        self.look_both(Urgency::News, now)
    }

    fn listed(&mut self, held: Option<Arc<Pod>>, asked: Instant, now: Now) -> Vec<Action> {
        match held {
            Some(pod) => {
                let status = pod.status.clone();
                if !self.is_held() && !self.calling && asked > self.changed {
                    self.hold(Holding::Held(Applied::Theirs(pod)), now);
                }
                let mut actions = status.map_or(Vec::new(), |status| self.reported(status, now));
                if self.wish == Wish::Gone {
                    actions.push(Action::Look(Lane::Provider, Urgency::News, now.instant));
                }
                actions
            }
            None if self.calling || asked <= self.changed => Vec::new(),
            None => self.forgotten(now),
        }
    }

    fn provider_turn(&mut self, clear: bool, now: Now) -> Vec<Action> {
        match self.next_call(clear, now) {
            Next::Call(call) => {
                self.calling = true;
                vec![Action::Call(call)]
            }
            Next::Nothing => vec![Action::Finish(Lane::Provider, Outcome::Done)],
            Next::Later(at) => {
                vec![Action::Finish(Lane::Provider, Outcome::Done), Action::Look(Lane::Provider, Urgency::News, at)]
            }
        }
    }

    fn next_call(&self, clear: bool, now: Now) -> Next {
        match self.wish {
            Wish::Leaving | Wish::Gone => match &self.holding {
                Holding::Absent | Holding::Lost => Next::Nothing,
                Holding::Unknown | Holding::Held(_) => Next::Call(Call::Delete(self.grace_left(now))),
                Holding::Ending { until } => {
                    let left = self.grace_left(now);
                    if now.instant + left < *until {
                        Next::Call(Call::Delete(left))
                    } else if now.instant >= *until + PATIENCE {
                        Next::Call(Call::Get)
                    } else {
                        Next::Later(*until + PATIENCE)
                    }
                }
            },
            Wish::Wanted => {
                let over = self.object.status.as_ref().is_some_and(is_terminal);
                let rejected = matches!(self.trouble, Some(Trouble::Rejected { .. }));
                match &self.holding {
                    Holding::Unknown => Next::Call(Call::Get),
                    _held if over || rejected || !clear => Next::Nothing,
                    Holding::Absent => Next::Call(Call::Create(self.object.clone())),
                    Holding::Held(Applied::Ours { raw, objects })
                        if !differs(raw, &self.object) && *objects == self.objects =>
                    {
                        Next::Nothing
                    }
                    Holding::Held(Applied::Ours { .. }) => {
                        Next::Call(Call::Update { pod: self.object.clone(), unless: None })
                    }
                    Holding::Held(Applied::Theirs(pod)) => {
                        Next::Call(Call::Update { pod: self.object.clone(), unless: Some(pod.clone()) })
                    }
                    Holding::Ending { .. } | Holding::Lost => Next::Nothing,
                }
            }
        }
    }

    fn grace_left(&self, now: Now) -> Duration {
        grace::left(self.ends_by, &self.object, now)
    }

    fn called(&mut self, result: CallResult, now: Now) -> Vec<Action> {
        self.calling = false;
        let done = Action::Finish(Lane::Provider, Outcome::Done);
        let again = Action::Look(Lane::Provider, Urgency::News, now.instant);
        let creating = !matches!(self.holding, Holding::Held(_));
        match result {
            CallResult::Applied { pod, called } => {
                self.trouble = None;
                self.hold(Holding::Held(Applied::Ours { raw: pod, objects: self.objects }), now);
                let reason = if creating { "ProviderCreateSuccess" } else { "ProviderUpdateSuccess" };
                let what = if creating { "created" } else { "updated" };
                let told = Action::Tell { warning: false, reason, message: format!("{what} pod in provider") };
                let mut actions = vec![done, again, Action::Look(Lane::Api, Urgency::News, now.instant)];
                actions.extend(called.then_some(told));
                actions
            }
            CallResult::Deleted => {
                self.trouble = None;
                if self.is_held() {
                    self.hold(Holding::Ending { until: now.instant + self.grace_left(now) }, now);
                }
                let message = "deleted pod in provider".to_owned();
                vec![done, again, Action::Tell { warning: false, reason: "ProviderDeleteSuccess", message }]
            }
            CallResult::Got(Some(pod)) => {
                if let Some(status) = pod.status.clone() {
                    self.status = Some(status);
                }
                // A Pod that should have ended by now is told to end once again.
                self.hold(Holding::Held(Applied::Theirs(pod)), now);
                vec![done, again, Action::Look(Lane::Api, Urgency::News, now.instant)]
            }
            CallResult::Got(None) | CallResult::NotFound => {
                let next = match self.holding {
                    Holding::Unknown | Holding::Absent => Holding::Absent,
                    Holding::Held(_) | Holding::Ending { .. } | Holding::Lost => Holding::Lost,
                };
                self.hold(next, now);
                vec![done, again, Action::Look(Lane::Api, Urgency::News, now.instant)]
            }
            CallResult::Failed { trouble, perhaps } => self.call_failed(trouble, perhaps, now),
        }
    }

    fn call_failed(&mut self, trouble: Trouble, perhaps: bool, now: Now) -> Vec<Action> {
        let wanted = self.wish == Wish::Wanted;
        let creating = matches!(self.holding, Holding::Absent);
        if creating && perhaps {
            self.hold(Holding::Unknown, now);
        }
        self.changed = now.instant;
        let (outcome, told) = match &trouble {
            Trouble::Rejected { message, .. } => (Outcome::Done, Some(message.clone())),
            Trouble::Failed { message, permanent } => {
                let at_least = if *permanent && wanted { PERMANENT } else { Duration::ZERO };
                (Outcome::Retry { at_least }, Some(message.clone()))
            }
            // Whoever resolved it has told of it. What is missing wakes the Pod when it comes.
            Trouble::Config { .. } => (Outcome::Done, None),
        };
        let reason = match (wanted, creating) {
            (false, _) => "ProviderDeleteFailed",
            (true, true) => "ProviderCreateFailed",
            (true, false) => "ProviderUpdateFailed",
        };
        if wanted {
            self.trouble = Some(trouble);
        }
        let mut actions = vec![Action::Finish(Lane::Provider, outcome)];
        actions.push(Action::Look(Lane::Api, Urgency::News, now.instant));
        actions.extend(told.map(|message| Action::Tell { warning: true, reason, message }));
        actions
    }

    fn api_turn(&mut self, now: Now) -> Vec<Action> {
        let done = vec![Action::Finish(Lane::Api, Outcome::Done)];
        if self.wish == Wish::Gone {
            return done;
        }
        let published = self.object.status.clone().unwrap_or_default();
        let desired = self.desired_status(&published, now);
        let patch = desired.and_then(|desired| status_patch(&self.key, &published, desired, now.wall));
        if let Some(patch) = patch {
            let text = patch.to_string().into_boxed_str();
            let sent = Sent { patch: text, after: self.object.clone() };
            let known = self.sent.as_ref().is_some_and(|before| {
                before.patch == sent.patch && before.after.status.clone().unwrap_or_default() == published
            });
            if !known {
                self.sent = Some(sent);
                return vec![Action::Write(Write::Patch(patch))];
            }
        }
        match self.wish {
            Wish::Leaving if self.has_ended() => {
                if self.removed {
                    return done;
                }
                self.removed = true;
                vec![Action::Write(Write::Remove)]
            }
            Wish::Wanted => match self.evicted {
                Some(grace) => vec![Action::Write(Write::Evict(grace))],
                None => done,
            },
            Wish::Leaving | Wish::Gone => done,
        }
    }

    /// Whether nothing of it runs here, nor will.
    pub(super) fn has_ended(&self) -> bool {
        match self.holding {
            Holding::Absent | Holding::Lost => !self.calling,
            Holding::Unknown => false,
            Holding::Held(_) | Holding::Ending { .. } => {
                self.status.as_ref().is_some_and(|status| runs_nothing(&self.object, status))
            }
        }
    }

    fn wrote(&mut self, result: WriteResult, now: Now) -> Vec<Action> {
        let done = Action::Finish(Lane::Api, Outcome::Done);
        match result {
            WriteResult::Done(Some(object)) => {
                if self.wish == Wish::Gone {
                    return vec![done];
                }
                if let Some(sent) = &mut self.sent {
                    sent.after = object.clone();
                }
                let mut actions = vec![done, Action::Look(Lane::Api, Urgency::News, now.instant)];
                actions.extend(self.seen(object, now));
                actions
            }
            WriteResult::Done(None) if self.removed => {
                // Finalizers may keep it for ever, and a watch may have lost its end.
                self.removed = false;
                vec![done, Action::Look(Lane::Api, Urgency::News, now.instant + REMOVAL_PATIENCE)]
            }
            WriteResult::Done(None) => {
                self.evicted = None;
                vec![done]
            }
            // The watch tells the rest; if it does not, the next list does.
            WriteResult::Gone => {
                self.removed = false;
                vec![done]
            }
            WriteResult::Failed { at_least } => {
                self.removed = false;
                self.sent = None;
                vec![Action::Finish(Lane::Api, Outcome::Retry { at_least })]
            }
        }
    }

    fn hold(&mut self, holding: Holding, now: Now) {
        self.holding = holding;
        self.changed = now.instant;
    }
}

enum Next {
    Call(Call),
    Nothing,
    Later(Instant),
}

//! The transition function.

use jiff::Timestamp;

use super::facts::{EndClass, PodFacts};
use super::record::Record;
use super::state::{Life, Runner, Why};
use super::timing::Timing;
use crate::ids::{JobId, RunnerId};

/// What the forge said to the removal of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is removed, or was before.
    Gone,
    /// It has a job.
    Busy,
    /// The credential must not do that.
    Forbidden,
    /// The credential's budget is used up until then.
    Limited(Timestamp),
    /// No answer, or none that says anything.
    Failed,
    /// There is no credential to ask with.
    NoCredential,
}

/// Something has happened to a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The forge gave a registration.
    Registered(RunnerId),
    /// The forge gave none.
    NotRegistered,
    /// The Pod could not be made.
    NotCreated,
    /// The Pod was seen.
    Pod(PodFacts),
    /// The Pod is no more.
    PodGone,
    /// The forge lists it as connected.
    Online {
        /// It has a job.
        busy: bool,
    },
    /// A list that the forge began after the registration does not have it.
    Missing,
    /// It was given this job.
    JobStarted(JobId),
    /// This job of it is over.
    JobCompleted(JobId),
    /// It is to go, if it has no job.
    Retire(Why),
    /// The forge's answer.
    Removal(Removal),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make the Pod for this registration.
    CreatePod(RunnerId),
    /// Ask the forge to remove the registration; the answer is an [`Event::Removal`].
    Remove(RunnerId),
    /// The registration has no Pod any more: have it removed, whenever that is possible.
    Forget(RunnerId),
    /// Write the state to the Pod.
    Persist,
    /// Look the runner up at the forge.
    Look,
    /// Delete the Pod without grace: it may go, was told to, and does not.
    ForceDelete,
    /// The forge forbids the removal.
    WarnForbidden,
    /// There is no credential, and the Pod is let go all the same.
    WarnNoCredential,
    /// The forge's word was waited for too long, and the Pod can't run any more.
    WarnUnanswered,
}

/// Moves a runner.
#[must_use]
pub fn step(mut runner: Runner, event: Event, now: Timestamp, timing: &Timing) -> (Runner, Vec<Action>) {
    let before = Record::of(&runner);
    let mut actions = Vec::new();
    Step { runner: &mut runner, actions: &mut actions, now, timing }.take(event);
    let after = Record::of(&runner);
    if runner.pod.is_some() && after.is_some() && after != before {
        actions.push(Action::Persist);
    }
    (runner, actions)
}

struct Step<'a> {
    runner: &'a mut Runner,
    actions: &'a mut Vec<Action>,
    now: Timestamp,
    timing: &'a Timing,
}

impl Step<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Registered(id) => self.registered(id),
            Event::NotRegistered => {
                if self.runner.life == Life::Requested {
                    self.enter(Life::Gone);
                }
            }
            Event::NotCreated => {
                if self.runner.pod.is_none() {
                    self.gone();
                }
            }
            Event::Pod(pod) => {
                self.runner.pod = Some(pod);
                self.settle();
            }
            Event::PodGone => self.gone(),
            Event::Online { busy } => self.online(busy),
            Event::Missing => self.missing(),
            Event::JobStarted(job) => self.job_started(job),
            Event::JobCompleted(job) => self.job_completed(job),
            Event::Retire(why) => match self.runner.life {
                Life::Registered { id } | Life::Idle { id } => self.drain(id, why, self.now),
                Life::Requested
                | Life::Busy { .. }
                | Life::Draining { .. }
                | Life::Deregistered { .. }
                | Life::Gone => {}
            },
            Event::Removal(removal) => self.removal(removal),
            Event::Tick => self.tick(),
        }
    }

    fn enter(&mut self, life: Life) {
        self.runner.life = life;
        self.runner.since = self.now;
        self.runner.looked = self.now;
    }

    fn registered(&mut self, id: RunnerId) {
        match self.runner.life {
            Life::Requested => {
                self.enter(Life::Registered { id });
                self.actions.push(Action::CreatePod(id));
            }
            // An answer that nobody waits for any more.
            Life::Registered { .. }
            | Life::Idle { .. }
            | Life::Busy { .. }
            | Life::Draining { .. }
            | Life::Deregistered { .. }
            | Life::Gone => {
                if self.runner.life.id() != Some(id) {
                    self.actions.push(Action::Forget(id));
                }
            }
        }
    }

    fn gone(&mut self) {
        if let Some(id) = self.runner.life.id() {
            self.actions.push(Action::Forget(id));
        }
        self.enter(Life::Gone);
    }

    /// What the Pod's state means for the runner's.
    fn settle(&mut self) {
        let ended = self.runner.pod.as_ref().and_then(|pod| pod.ended);
        match (self.runner.life, ended) {
            // An ephemeral runner that returns 0 after its job has unregistered itself.
            (Life::Busy { .. } | Life::Draining { why: Why::Done, .. }, Some(ended))
                if ended.class == EndClass::Success =>
            {
                self.enter(Life::Deregistered { why: Why::Done });
            }
            (Life::Busy { id, .. }, Some(_)) => self.drain(id, Why::Done, self.now),
            (Life::Registered { id } | Life::Idle { id }, Some(ended)) => {
                self.drain(id, Why::Ended(ended.class), self.now);
            }
            (Life::Registered { id } | Life::Idle { id } | Life::Busy { id, .. }, None) if self.runner.node_lost() => {
                self.drain(id, Why::NodeLost, self.now);
            }
            // A busy one keeps its Pod's finalizer for as long as it can.
            (Life::Registered { id } | Life::Idle { id }, None) if self.runner.deleting() => {
                self.drain(id, Why::PodDeleted, self.now);
            }
            // One that the forge sees works, whatever another of its containers does.
            (Life::Registered { id }, None) => {
                let hopeless = self.runner.pod.as_ref().and_then(|pod| pod.outlook.hopeless());
                if let Some(cause) = hopeless.map(|fault| fault.cause) {
                    self.drain(id, Why::NeverWorks(cause), self.now);
                }
            }
            (
                Life::Idle { .. }
                | Life::Busy { .. }
                | Life::Requested
                | Life::Draining { .. }
                | Life::Deregistered { .. }
                | Life::Gone,
                _,
            ) => {}
        }
    }

    fn online(&mut self, busy: bool) {
        match self.runner.life {
            Life::Registered { id } | Life::Idle { id } if busy => self.enter(Life::Busy { id, job: None }),
            // A list may be older than the completion that it is about.
            Life::Draining { id, why, .. } if busy && why != Why::Done && !self.finished() => {
                self.enter(Life::Busy { id, job: None });
            }
            Life::Registered { id } => self.enter(Life::Idle { id }),
            Life::Requested
            | Life::Idle { .. }
            | Life::Busy { .. }
            | Life::Draining { .. }
            | Life::Deregistered { .. }
            | Life::Gone => {}
        }
    }

    fn missing(&mut self) {
        match self.runner.life {
            Life::Registered { id } | Life::Idle { id } => self.drain(id, Why::Vanished, self.now),
            Life::Busy { id, .. } => self.drain(id, Why::Done, self.now + self.timing.exit),
            Life::Requested | Life::Draining { .. } | Life::Deregistered { .. } | Life::Gone => {}
        }
    }

    fn job_started(&mut self, started: JobId) {
        match &mut self.runner.life {
            Life::Busy { job, .. } => *job = job.or(Some(started)),
            Life::Registered { id } | Life::Idle { id } => {
                let id = *id;
                self.enter(Life::Busy { id, job: Some(started) });
            }
            Life::Draining { id, why, .. } if *why != Why::Done => {
                let id = *id;
                if !self.finished() {
                    self.enter(Life::Busy { id, job: Some(started) });
                }
            }
            Life::Draining { .. } | Life::Requested | Life::Deregistered { .. } | Life::Gone => {}
        }
    }

    fn job_completed(&mut self, completed: JobId) {
        match self.runner.life {
            Life::Busy { job: Some(job), .. } if job != completed => {}
            Life::Busy { id, .. } | Life::Registered { id } | Life::Idle { id } => {
                self.drain(id, Why::Done, self.now + self.timing.exit);
            }
            Life::Requested | Life::Draining { .. } | Life::Deregistered { .. } | Life::Gone => {}
        }
    }

    /// The Pod can't run a job any more.
    fn finished(&self) -> bool {
        self.runner.ended() || self.runner.node_lost()
    }

    fn drain(&mut self, id: RunnerId, why: Why, due: Timestamp) {
        self.enter(Life::Draining { id, why, tries: 0, due });
        self.settle();
        self.ask();
    }

    /// Asks the forge, if it is time.
    fn ask(&mut self) {
        if let Life::Draining { id, tries, due, .. } = &mut self.runner.life
            && *due <= self.now
        {
            self.actions.push(Action::Remove(*id));
            *tries = tries.saturating_add(1);
            *due = self.now + self.timing.backoff(*tries);
        }
    }

    fn removal(&mut self, removal: Removal) {
        let finished = self.finished();
        let let_go = self.runner.ended() || self.runner.deleting();
        match &mut self.runner.life {
            Life::Draining { id, why, tries, due } => match removal {
                Removal::Gone => {
                    let why = *why;
                    self.deregister(why);
                }
                Removal::Busy if finished => *due = self.now + self.timing.backoff(*tries),
                Removal::Busy => {
                    let id = *id;
                    self.enter(Life::Busy { id, job: None });
                }
                Removal::Forbidden => {
                    *due = self.now + self.timing.backoff(*tries) * 10;
                    self.actions.push(Action::WarnForbidden);
                }
                Removal::Limited(until) => *due = until.max(self.now + self.timing.backoff(1)),
                Removal::Failed => *due = self.now + self.timing.backoff(*tries),
                Removal::NoCredential if let_go => {
                    self.actions.extend([Action::WarnNoCredential, Action::Forget(*id)]);
                    let why = *why;
                    self.deregister(why);
                }
                Removal::NoCredential => {
                    *due = self.now + self.timing.backoff(*tries);
                    self.actions.push(Action::WarnNoCredential);
                }
            },
            // Asked before it turned out to be busy: it has unregistered itself, so its job is over.
            Life::Busy { id, .. } if removal == Removal::Gone => {
                let id = *id;
                self.drain(id, Why::Done, self.now + self.timing.exit);
            }
            Life::Registered { id } | Life::Idle { id } if removal == Removal::Gone => {
                let id = *id;
                self.drain(id, Why::Vanished, self.now);
            }
            Life::Requested
            | Life::Registered { .. }
            | Life::Idle { .. }
            | Life::Busy { .. }
            | Life::Deregistered { .. }
            | Life::Gone => {}
        }
    }

    fn deregister(&mut self, why: Why) {
        // Without a Pod as well: it may be made and not seen yet.
        self.enter(Life::Deregistered { why });
    }

    fn tick(&mut self) {
        if self.runner.deadline(self.timing).is_none_or(|deadline| self.now < deadline) {
            return;
        }
        match self.runner.life {
            Life::Requested => self.enter(Life::Gone),
            Life::Registered { id } => match &self.runner.pod {
                None => self.gone(),
                Some(PodFacts { running_since: None, .. }) => self.drain(id, Why::NeverStarted, self.now),
                Some(PodFacts { running_since: Some(_), .. }) => self.drain(id, Why::NeverOnline, self.now),
            },
            Life::Idle { .. } | Life::Busy { .. } => {
                self.runner.looked = self.now;
                self.actions.push(Action::Look);
            }
            Life::Draining { id, why, .. } => {
                if self.runner.patience(self.timing).is_some_and(|over| over <= self.now) {
                    self.actions.extend([Action::WarnUnanswered, Action::Forget(id)]);
                    self.deregister(why);
                } else {
                    self.ask();
                }
            }
            Life::Deregistered { .. } if self.runner.pod.is_none() => self.gone(),
            Life::Deregistered { .. } => {
                self.runner.looked = self.now;
                if self.runner.deleting() {
                    self.actions.push(Action::ForceDelete);
                }
            }
            Life::Gone => {}
        }
    }
}

#[cfg(test)]
mod tests;

//! The engine.

mod answers;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::inputs::{Command, Input, Seen, Settings, Warning};
use super::orphans::Orphans;
use crate::demand::{Change, Demand};
use crate::ids::{RunnerId, Slot};
use crate::life::{Action, Event, Fault, Life, Record, Removal, Runner, step};
use crate::plan::{Blocked, Counts, Hold, HoldReason, Memory, Plan, Snapshot, Wanted, plan};

/// How often the forge's runners are listed while there are any, and while there are none.
const LIST: SignedDuration = SignedDuration::from_mins(1);
const LIST_EMPTY: SignedDuration = SignedDuration::from_mins(10);
/// No list sooner than this after another.
const LIST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// A list may lack what was registered less than this before.
const LIST_SLACK: SignedDuration = SignedDuration::from_secs(10);
/// When a deletion that shows no effect is told again, and a creation whose answer was lost.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);
const CREATE_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// The first and the longest wait when the forge gives no registrations.
const REFUSED: SignedDuration = SignedDuration::from_secs(5);
const REFUSED_LONGEST: SignedDuration = SignedDuration::from_mins(5);
const QUOTA: SignedDuration = SignedDuration::from_secs(30);

/// A runner and what was told about it.
#[derive(Debug, Clone)]
struct Entry {
    runner: Runner,
    /// The name at the forge that was asked for.
    name: String,
    /// When it got its registration.
    registered: Timestamp,
    /// Its registration, also when that is gone: a Pod that is seen late belongs to it.
    id: Option<RunnerId>,
    create_again: Option<Timestamp>,
    deleted: Option<Timestamp>,
}

/// One set.
#[derive(Debug, Clone)]
pub struct Engine {
    settings: Settings,
    entries: BTreeMap<Slot, Entry>,
    /// Pods whose state can't be read, until they end.
    unreadable: BTreeMap<Slot, String>,
    /// Slots that can't be filled.
    closed: BTreeSet<Slot>,
    demand: Demand,
    memory: Memory,
    orphans: Orphans,
    blocked: Option<Blocked>,
    refusals: u32,
    /// The Pods were listed once; nothing is decided before.
    synced: bool,
    listed: Option<Timestamp>,
    look: bool,
    /// When the last list was begun, if it had nobody of this set whom no Pod belongs to.
    clean: Option<Timestamp>,
    counts: Counts,
    holds: Vec<Hold>,
    plan_wake: Option<Timestamp>,
}

impl Engine {
    /// A set of which nothing is known. It commands nothing before [`Input::Listed`].
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            entries: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            closed: BTreeSet::new(),
            demand: Demand::default(),
            memory: Memory::default(),
            orphans: Orphans::default(),
            blocked: None,
            refusals: 0,
            synced: false,
            listed: None,
            look: false,
            clean: None,
            counts: Counts::default(),
            holds: Vec::new(),
            plan_wake: None,
        }
    }

    /// Takes everything that was heard since the last call, serves what is due, and decides once.
    pub fn handle(&mut self, inputs: impl IntoIterator<Item = Input>, now: Timestamp) -> Vec<Command> {
        let mut commands = Vec::new();
        for input in inputs {
            self.take(input, now, &mut commands);
        }
        if self.synced {
            self.serve_deadlines(now, &mut commands);
            self.decide(now, &mut commands);
            if self.next_list().is_some_and(|next| next <= now) {
                (self.listed, self.look) = (Some(now), false);
                commands.push(Command::ListRunners);
            }
        }
        commands
    }

    /// When [`Engine::handle`] is wanted if nothing is heard before; `None`: the Pods were not listed yet.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        let entries = self.entries.values().flat_map(|entry| {
            let resend = entry.deleted.map(|deleted| deleted + AGAIN);
            [entry.runner.deadline(&self.settings.timing), entry.create_again, resend].into_iter().flatten()
        });
        let others = [self.orphans.wake(), self.demand.deadline(), self.plan_wake, Some(self.next_list()?)];
        entries.chain(others.into_iter().flatten()).min()
    }

    /// The runners, by slot.
    pub fn runners(&self) -> impl Iterator<Item = &Runner> {
        self.entries.values().map(|entry| &entry.runner)
    }

    /// How many do what, as of the last decision.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the last decision did not do, and why.
    #[must_use]
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// What was wrong with the runner of the template that failed last, while they fail in a row.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.memory.breaker.fault()
    }

    /// The registrations without a Pod.
    #[must_use]
    pub fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    /// When the last list was begun, if the forge had no registration of this set that no Pod belongs to.
    #[must_use]
    pub fn clean(&self) -> Option<Timestamp> {
        self.clean
    }

    /// Wants a list soon.
    pub fn look(&mut self) {
        self.look = true;
    }

    /// How many Pods hold a slot and say nothing that can be understood.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.unreadable.len()
    }

    fn take(&mut self, input: Input, now: Timestamp, commands: &mut Vec<Command>) {
        match input {
            Input::Listed(pods) => {
                let slots: BTreeSet<Slot> = pods.iter().map(|pod| pod.slot).collect();
                let gone = |entry: &&Entry| entry.runner.pod.is_some() && !slots.contains(&entry.runner.slot);
                let gone: Vec<Slot> = self.entries.values().filter(gone).map(|entry| entry.runner.slot).collect();
                for slot in gone {
                    self.step(slot, Event::PodGone, now, commands);
                }
                self.unreadable.retain(|slot, _| slots.contains(slot));
                for pod in pods {
                    self.seen(pod, now, commands);
                }
                if !self.synced {
                    // What the one before wanted is not known: who is here was wanted, until what jobs want has been heard.
                    let live = self.runners().filter(|runner| !runner.ended()).count();
                    self.memory.window.push(u32::try_from(live).unwrap_or(u32::MAX), now);
                }
                self.synced = true;
            }
            Input::Pod(pod) => self.seen(pod, now, commands),
            Input::PodGone { slot, uid } => {
                if self.unreadable.get(&slot) == Some(&uid) {
                    self.unreadable.remove(&slot);
                }
                if self.uid(slot) == Some(&uid) {
                    self.step(slot, Event::PodGone, now, commands);
                }
            }
            Input::Registered { slot, name, outcome } => self.registered(slot, &name, outcome, now, commands),
            Input::Created { slot, id, outcome } => self.created(slot, id, outcome, now, commands),
            Input::Removed { id, outcome } => {
                match self.slot_of(id) {
                    Some(slot) => self.step(slot, Event::Removal(outcome), now, commands),
                    None => self.orphans.answered(id, outcome, now, &self.settings.timing),
                }
                if let Removal::Limited(until) = outcome {
                    self.block(HoldReason::RateLimited, until);
                }
            }
            Input::Runners { began, runners } => self.runners_listed(began, &runners, now, commands),
            Input::Job(job) => {
                let change = self.demand.apply(job, now);
                self.job_changed(change, now, commands);
            }
            Input::Elsewhere(job) => self.demand.forget(job),
            Input::Closed(slots) => self.closed = slots,
            Input::Polled(poll) => {
                for change in self.demand.poll(poll, now) {
                    self.job_changed(Some(change), now, commands);
                }
            }
            Input::Settings(settings) => self.settings = *settings,
            Input::Tick => {}
        }
    }

    fn uid(&self, slot: Slot) -> Option<&String> {
        Some(&self.entries.get(&slot)?.runner.pod.as_ref()?.uid)
    }

    fn slot_of(&self, id: RunnerId) -> Option<Slot> {
        let entry = self.entries.values().find(|entry| entry.runner.life.id() == Some(id))?;
        Some(entry.runner.slot)
    }

    /// A Pod was seen: one that is known, one that was commanded, or one that someone else has made.
    fn seen(&mut self, pod: Seen, now: Timestamp, commands: &mut Vec<Command>) {
        let Seen { slot, record, facts } = pod;
        let id = record.as_ref().ok().and_then(Record::id);
        if let Some(entry) = self.entries.get(&slot) {
            let known = match &entry.runner.pod {
                Some(pod) => pod.uid == facts.uid,
                None => id.is_some() && entry.id == id,
            };
            if known {
                self.step(slot, Event::Pod(facts), now, commands);
                return;
            }
            // What was in the slot is not there any more, or never came to be.
            self.step(slot, Event::PodGone, now, commands);
            self.entries.remove(&slot);
        }
        match record {
            Ok(record) => {
                self.unreadable.remove(&slot);
                // A registration that was given up while its Pod was on its way.
                let mut entry = self.entry(record.runner(slot, None), String::new());
                entry.registered = entry.runner.since;
                self.entries.insert(slot, entry);
                self.step(slot, Event::Pod(facts), now, commands);
                if let Some(change) = id.and_then(|id| self.demand.of_runner(id)) {
                    self.job_changed(Some(change), now, commands);
                }
            }
            Err(_) if facts.ended.is_some() => {
                self.unreadable.remove(&slot);
                let ended = Runner::unreadable(slot, facts, now);
                let entry = self.entry(ended, String::new());
                if let (Some(record), Some(pod)) = (Record::of(&entry.runner), &entry.runner.pod) {
                    commands.push(Command::Persist { slot, uid: pod.uid.clone(), record });
                }
                self.entries.insert(slot, entry);
            }
            Err(_) => {
                if self.unreadable.insert(slot, facts.uid).is_none() {
                    commands.push(Command::Warn { slot, warning: Warning::UnreadableState });
                }
            }
        }
    }

    fn entry(&self, runner: Runner, name: String) -> Entry {
        let registered = runner.since;
        let id = runner.life.id();
        Entry { runner, name, registered, id, create_again: None, deleted: None }
    }

    fn job_changed(&mut self, change: Option<Change>, now: Timestamp, commands: &mut Vec<Command>) {
        let (id, event) = match change {
            Some(Change::Started(job, Some(id))) => (id, Event::JobStarted(job)),
            Some(Change::Over(job, Some(id))) => (id, Event::JobCompleted(job)),
            Some(Change::Queued(_) | Change::Started(_, None) | Change::Over(_, None)) | None => return,
        };
        if let Some(slot) = self.slot_of(id) {
            self.step(slot, event, now, commands);
        }
    }

    /// Moves one runner and passes on what it wants.
    fn step(&mut self, slot: Slot, event: Event, now: Timestamp, commands: &mut Vec<Command>) {
        let Some(entry) = self.entries.get_mut(&slot) else { return };
        let before = entry.runner.life;
        let (runner, actions) = step(entry.runner.clone(), event, now, &self.settings.timing);
        entry.runner = runner;
        entry.id = entry.runner.life.id().or(entry.id);
        if before == Life::Requested {
            entry.registered = now;
        }
        for action in actions {
            let warn = |warning| Command::Warn { slot, warning };
            let uid = || entry.runner.pod.as_ref().map(|pod| pod.uid.clone());
            let command = match action {
                Action::CreatePod(id) => {
                    Record::of(&entry.runner).map(|record| Command::CreatePod { slot, id, record })
                }
                Action::Remove(id) => Some(Command::Remove { id }),
                Action::Forget(id) => {
                    self.orphans.add(id, now);
                    None
                }
                Action::Persist => {
                    uid().zip(Record::of(&entry.runner)).map(|(uid, record)| Command::Persist { slot, uid, record })
                }
                Action::Look => {
                    self.look = true;
                    None
                }
                Action::ForceDelete => uid().map(|uid| Command::ForceDelete { slot, uid }),
                Action::WarnForbidden => Some(warn(Warning::RemovalForbidden)),
                Action::WarnNoCredential => Some(warn(Warning::NoCredential)),
                Action::WarnUnanswered => Some(warn(Warning::Unanswered)),
            };
            commands.extend(command);
        }
        if entry.runner.life == Life::Gone {
            self.entries.remove(&slot);
        }
    }

    fn next_list(&self) -> Option<Timestamp> {
        if !self.synced {
            return None;
        }
        let Some(listed) = self.listed else { return Some(Timestamp::MIN) };
        let empty = self.entries.is_empty() && self.orphans.is_clean();
        let pause = if self.look {
            LIST_PAUSE
        } else if empty {
            LIST_EMPTY
        } else {
            LIST
        };
        Some(listed + pause)
    }

    fn serve_deadlines(&mut self, now: Timestamp, commands: &mut Vec<Command>) {
        self.demand.expire(now);
        let timing = self.settings.timing;
        let due = |entry: &&Entry| entry.runner.deadline(&timing).is_some_and(|deadline| deadline <= now);
        let due: Vec<Slot> = self.entries.values().filter(due).map(|entry| entry.runner.slot).collect();
        for slot in due {
            self.step(slot, Event::Tick, now, commands);
        }
        for entry in self.entries.values_mut() {
            if entry.deleted.is_some_and(|deleted| deleted + AGAIN <= now) {
                entry.deleted = None;
            }
        }
        let again = |entry: &&Entry| entry.create_again.is_some_and(|again| again <= now);
        let again: Vec<Slot> = self.entries.values().filter(again).map(|entry| entry.runner.slot).collect();
        for slot in again {
            if !self.has_room(slot, now) {
                self.step(slot, Event::NotCreated, now, commands);
            }
            let Some(entry) = self.entries.get_mut(&slot) else { continue };
            entry.create_again = None;
            let pending = matches!(entry.runner.life, Life::Registered { .. }) && entry.runner.pod.is_none();
            if pending && let Some((id, record)) = entry.runner.life.id().zip(Record::of(&entry.runner)) {
                commands.push(Command::CreatePod { slot, id, record });
            }
        }
        commands.extend(self.orphans.due(now, &timing).into_iter().map(|id| Command::Remove { id }));
    }

    fn decide(&mut self, now: Timestamp, commands: &mut Vec<Command>) {
        let runners: Vec<Runner> = self.entries.values().map(|entry| entry.runner.clone()).collect();
        let taken = self.unreadable.keys().chain(&self.closed).copied().collect();
        let wanted = Wanted { queued: self.demand.queued(), running: self.demand.running() };
        let Settings { template, scaling, .. } = &self.settings;
        let (memory, blocked) = (&self.memory, self.blocked);
        let snapshot = Snapshot { runners: &runners, taken: &taken, template, scaling, memory, blocked };
        let Plan { create, retire, delete, holds, wake_at, counts, memory } = plan(&snapshot, &wanted, now);
        (self.memory, self.counts, self.holds, self.plan_wake) = (memory, counts, holds, wake_at);
        for slot in create {
            let name = format!("{}-{slot}-{:x}", self.settings.set, now.as_millisecond());
            let runner = Runner::requested(slot, self.settings.template.clone(), now);
            self.entries.insert(slot, self.entry(runner, name.clone()));
            commands.push(Command::Register { slot, name });
        }
        for (slot, why) in retire {
            self.step(slot, Event::Retire(why), now, commands);
        }
        for slot in delete {
            let Some(entry) = self.entries.get_mut(&slot).filter(|entry| entry.deleted.is_none()) else { continue };
            if let Some(pod) = &entry.runner.pod {
                entry.deleted = Some(now);
                commands.push(Command::DeletePod { slot, uid: pod.uid.clone() });
            }
        }
    }
}

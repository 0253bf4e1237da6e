//! A cluster, a forge and a network between them and the engine, on one queue of happenings under virtual time.
//!
//! The cluster keeps Pods as an API server does: names are unique, finalizers hold, watches are late but in order for each
//! Pod. The forge gives registrations, assigns queued jobs to connected idle ones, refuses to remove busy ones. Faults are drawn by
//! rates that can be turned off.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use minke_core::judgement::Cause;
use minke_runners::demand::{JobEvent, Poll, Status};
use minke_runners::engine::{Command, Engine, ForgeRunner, Input, NotCreated, Refused, Seen, Settings};
use minke_runners::ids::{JobId, RunnerId, Slot};
use minke_runners::life::{EndClass, Ended, Fault, Outlook, PodFacts, Record, Removal};
use minke_runners::plan::HoldReason;
use minke_runners::simulate::Agenda;

use crate::random::Random;

pub(crate) const START: Timestamp = Timestamp::constant(1_800_000_000, 0);
const SOURCE: &str = "owner/repository";

/// How often what goes wrong, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) call_fails: u64,
    pub(crate) answer_lost: u64,
    pub(crate) event_lost: u64,
    pub(crate) event_doubled: u64,
    pub(crate) event_late: u64,
    pub(crate) pod_fails: u64,
    pub(crate) pod_never_starts: u64,
    pub(crate) pod_hopeless: u64,
    pub(crate) runner_hangs: u64,
}

#[derive(Debug, Clone)]
struct Pod {
    uid: String,
    annotations: BTreeMap<String, String>,
    finalizer: bool,
    facts: PodFacts,
    id: RunnerId,
    /// It was on its way when the maximum was lowered: who starts anew then can't know of it.
    too_late: bool,
}

#[derive(Debug, Clone)]
struct Registration {
    name: String,
    online: bool,
    job: Option<JobId>,
}

#[derive(Debug)]
enum Happening {
    /// A command arrives where it is carried out.
    Arrive {
        command: Command,
        epoch: u64,
        began: Timestamp,
        ceiling: u32,
        number: u64,
    },
    /// Something reaches the engine.
    Deliver {
        input: Input,
        epoch: u64,
    },
    Wake,
    Scheduled(String),
    Started(String),
    Hopeless(String),
    Online(String),
    Stopped(String, EndClass),
    Assign,
    JobEnds(RunnerId, JobId),
    Queue(u64),
    CancelOne,
    DeleteOne,
    LoseNode,
    ForgeGivesUp(RunnerId),
    Crash,
    Restart,
    Poll,
    Change(Box<Settings>),
    NewTemplateFails(bool),
}

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) forge_calls: u64,
    pub(crate) writes: u64,
    pub(crate) pods: u64,
    pub(crate) jobs: u64,
    pub(crate) done: u64,
    pub(crate) most_live: usize,
    /// From queued to its Pod, of the n-th Pod.
    pub(crate) created_after: Vec<SignedDuration>,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) random: Random,
    pub(crate) rates: Rates,
    pub(crate) settings: Settings,
    pub(crate) tally: Tally,
    engine: Option<Engine>,
    epoch: u64,
    agenda: Agenda<Happening>,
    wake: Option<Timestamp>,
    pods: BTreeMap<Slot, Pod>,
    /// When the last news of a slot arrives: the next comes after.
    news: BTreeMap<Slot, Timestamp>,
    /// The newest state that was to be written to a Pod.
    newest_write: BTreeMap<String, u64>,
    forge: BTreeMap<RunnerId, Registration>,
    waiting: BTreeSet<JobId>,
    running: BTreeMap<JobId, RunnerId>,
    next_id: u64,
    next_job: u64,
    failing_template: bool,
    polling: bool,
    /// The maximum before it was changed, and until when writes of that time may still arrive.
    lowered: Option<(u32, Timestamp)>,
    /// Too big to hold everything twice.
    big: bool,
    passes: u64,
}

fn millis(millis: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(millis).unwrap())
}

impl World {
    pub(crate) fn new(seed: u64, settings: Settings, rates: Rates) -> Self {
        let settings_are_big = settings.scaling.max > 100;
        let mut world = Self {
            now: START,
            random: Random::new(seed),
            rates,
            settings,
            tally: Tally::default(),
            engine: None,
            epoch: 0,
            agenda: Agenda::default(),
            wake: None,
            pods: BTreeMap::new(),
            news: BTreeMap::new(),
            newest_write: BTreeMap::new(),
            forge: BTreeMap::new(),
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
            next_id: 1000,
            next_job: 1,
            failing_template: false,
            polling: true,
            lowered: None,
            big: settings_are_big,
            passes: 0,
        };
        world.after(0, Happening::Restart);
        world.after(1, Happening::Poll);
        world
    }

    fn at(&mut self, when: Timestamp, happening: Happening) {
        self.agenda.put(when.max(self.now), happening);
    }

    fn after(&mut self, by: u64, happening: Happening) {
        self.at(self.now + millis(by), happening);
    }

    fn within(&mut self, low: u64, high: u64, happening: Happening) {
        let by = self.random.between(low, high);
        self.after(by, happening);
    }

    // What a script can do.

    pub(crate) fn queue_after(&mut self, by: u64, jobs: u64) {
        self.after(by, Happening::Queue(jobs));
    }

    pub(crate) fn crash_after(&mut self, by: u64) {
        self.after(by, Happening::Crash);
    }

    pub(crate) fn delete_one_after(&mut self, by: u64) {
        self.after(by, Happening::DeleteOne);
    }

    pub(crate) fn lose_node_after(&mut self, by: u64) {
        self.after(by, Happening::LoseNode);
    }

    pub(crate) fn cancel_after(&mut self, by: u64) {
        self.after(by, Happening::CancelOne);
    }

    pub(crate) fn change_after(&mut self, by: u64, settings: Settings) {
        self.after(by, Happening::Change(Box::new(settings)));
    }

    pub(crate) fn fail_template_after(&mut self, by: u64, fails: bool) {
        self.after(by, Happening::NewTemplateFails(fails));
    }

    /// Lets everything happen until `until`.
    pub(crate) fn run_until(&mut self, until: Timestamp) {
        while let Some((when, happening)) = self.agenda.take(until) {
            self.now = when;
            self.happen(happening);
        }
        self.now = until;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { command, epoch, began, ceiling, number } => {
                self.arrive(command, epoch, began, ceiling, number);
            }
            Happening::Deliver { input, epoch } => {
                if epoch == self.epoch {
                    self.tell(vec![input]);
                }
            }
            Happening::Wake => {
                if self.wake.is_some_and(|wake| wake <= self.now) {
                    self.wake = None;
                    self.tell(vec![Input::Tick]);
                }
            }
            Happening::Scheduled(uid) => {
                self.change_pod(&uid, |pod, _| pod.facts.scheduled = true);
                self.within(500, 8000, Happening::Started(uid));
            }
            Happening::Started(uid) => self.started(uid),
            Happening::Hopeless(uid) => self.change_pod(&uid, |pod, _| {
                let fault = Fault { cause: Cause::ImageNotFound, evidence: String::new() };
                pod.facts.outlook = Outlook::Hopeless(fault);
            }),
            Happening::Online(uid) => self.online(&uid),
            Happening::Stopped(uid, class) => self.stopped(&uid, class),
            Happening::Assign => self.assign(),
            Happening::JobEnds(id, job) => self.job_ends(id, job),
            Happening::Queue(jobs) => {
                for _ in 0..jobs {
                    let job = JobId(self.next_job);
                    self.next_job += 1;
                    self.tally.jobs += 1;
                    self.waiting.insert(job);
                    self.webhook(job, Status::Queued);
                }
                self.assign_soon();
            }
            Happening::CancelOne => {
                if let Some(job) = self.waiting.pop_first() {
                    self.tally.done += 1;
                    self.webhook(job, Status::Over { runner: None });
                }
            }
            Happening::DeleteOne => {
                if let Some(uid) = self.any_pod() {
                    self.delete_pod(&uid);
                }
            }
            Happening::LoseNode => self.lose_node(),
            Happening::ForgeGivesUp(id) => {
                if let Some(Registration { job: Some(job), .. }) = self.forge.remove(&id) {
                    self.job_over(job, id);
                }
            }
            Happening::Crash => {
                self.engine = None;
                self.epoch += 1;
                self.wake = None;
                self.within(100, 20_000, Happening::Restart);
            }
            Happening::Restart => self.restart(),
            Happening::Poll => {
                self.poll();
                self.after(120_000, Happening::Poll);
            }
            Happening::Change(settings) => {
                // One change may follow another while what the first maximum allowed is still on its way.
                let still = self.lowered.filter(|(_, until)| self.now < *until).map_or(0, |(max, _)| max);
                let most = still.max(self.settings.scaling.max);
                self.lowered = Some((most, self.now + SignedDuration::from_secs(2)));
                self.settings = *settings.clone();
                self.tell(vec![Input::Settings(settings)]);
            }
            Happening::NewTemplateFails(fails) => self.failing_template = fails,
        }
    }

    // The engine.

    fn restart(&mut self) {
        if self.engine.is_some() {
            return;
        }
        // A watch begins with the list: what was on its way before is not delivered after it.
        self.epoch += 1;
        self.engine = Some(Engine::new(self.settings.clone()));
        self.news.clear();
        let slots: Vec<Slot> = self.pods.keys().copied().collect();
        let listed = slots.into_iter().filter_map(|slot| self.as_seen(slot)).collect();
        self.tell(vec![Input::Listed(listed)]);
        self.poll();
    }

    fn as_seen(&self, slot: Slot) -> Option<Seen> {
        let pod = self.pods.get(&slot)?;
        Some(Seen { slot, record: Record::parse(&pod.annotations), facts: pod.facts.clone() })
    }

    /// Hands inputs to the engine, holds it to its promises, and sends its commands on their way.
    fn tell(&mut self, inputs: Vec<Input>) {
        let Some(engine) = &mut self.engine else { return };
        // There may be two passes in a moment.
        let retired = |engine: &Engine| -> BTreeSet<Slot> {
            engine.runners().filter(|runner| runner.since == self.now && is_retired(runner)).map(|r| r.slot).collect()
        };
        let before = retired(engine);
        let commands = engine.handle(inputs, self.now);
        for runner in engine.runners() {
            let deadline = runner.deadline(&self.settings.timing);
            assert!(deadline.is_some_and(|deadline| deadline > self.now), "past its deadline: {runner:?}");
        }
        // New runners may follow at once those of an old template that go.
        let follows = engine.holds().iter().any(|hold| hold.reason == HoldReason::DrainsFirst);
        // It costs as much as everything else: a third of all passes is enough of so many lives.
        self.passes += 1;
        if !self.big && !follows && self.passes.is_multiple_of(3) {
            let again = engine.clone().handle([Input::Tick], self.now);
            assert_eq!(again, [], "said twice, after {commands:?}");
        }
        for hold in engine.holds() {
            assert!(hold.wake_at > self.now, "{hold:?}");
        }
        let wake = engine.wake();
        assert!(wake.is_some_and(|wake| wake > self.now), "wakes at {wake:?}, now {}", self.now);
        let new: Vec<u32> = commands
            .iter()
            .filter_map(|command| match command {
                Command::Register { slot, .. } => Some(slot.0),
                _ => None,
            })
            .collect();
        let retires = !retired(engine).is_subset(&before);
        assert!(new.is_empty() || !retires, "created and retired in one pass");
        if let Some(wake) = wake
            && self.wake.is_none_or(|set| wake < set)
        {
            self.wake = Some(wake);
            self.at(wake, Happening::Wake);
        }
        for command in commands {
            self.send(command);
        }
    }

    fn send(&mut self, command: Command) {
        if matches!(command, Command::Warn { .. }) {
            return;
        }
        match &command {
            Command::Register { .. } | Command::Remove { .. } | Command::ListRunners => self.tally.forge_calls += 1,
            Command::Warn { .. } => {}
            Command::CreatePod { .. }
            | Command::Persist { .. }
            | Command::DeletePod { .. }
            | Command::ForceDelete { .. } => self.tally.writes += 1,
        }
        let (epoch, began, ceiling, number) =
            (self.epoch, self.now, self.settings.scaling.max, self.agenda.last_number());
        if let Command::Persist { uid, .. } = &command {
            self.newest_write.insert(uid.clone(), number);
        }
        self.within(5, 400, Happening::Arrive { command, epoch, began, ceiling, number });
    }

    fn answer(&mut self, input: Input, epoch: u64) {
        self.within(1, 200, Happening::Deliver { input, epoch });
    }

    fn arrive(&mut self, command: Command, epoch: u64, began: Timestamp, ceiling: u32, number: u64) {
        let fails = self.random.chance(self.rates.call_fails);
        let lost = self.random.chance(self.rates.answer_lost);
        match command {
            Command::Register { slot, name } => {
                let outcome = if fails {
                    let until = self.now + SignedDuration::from_secs(20);
                    Err(if self.random.chance(300) { Refused::Limited(until) } else { Refused::Unavailable })
                } else if self.forge.values().any(|registration| registration.name == name) {
                    Err(Refused::Conflict)
                } else {
                    let id = RunnerId(self.next_id);
                    self.next_id += 1;
                    self.forge.insert(id, Registration { name: name.clone(), online: false, job: None });
                    if lost { Err(Refused::Unavailable) } else { Ok(id) }
                };
                self.answer(Input::Registered { slot, name, outcome }, epoch);
            }
            Command::CreatePod { slot, id, record } => {
                let outcome = self.create(slot, id, &record, ceiling, fails);
                let outcome = if lost { Err(NotCreated::Unknown) } else { outcome };
                self.answer(Input::Created { slot, id, outcome }, epoch);
            }
            Command::Persist { slot, uid, record } => {
                if self.newest_write.get(&uid).is_some_and(|newest| *newest > number) {
                    return;
                }
                if fails {
                    if epoch == self.epoch {
                        let command = Command::Persist { slot, uid, record };
                        self.after(1000, Happening::Arrive { command, epoch, began, ceiling, number });
                    }
                    return;
                }
                self.change_pod(&uid, |pod, _| {
                    pod.annotations = annotations(&record);
                    pod.finalizer &= record.holds_pod();
                });
            }
            Command::DeletePod { uid, .. } => {
                if !fails {
                    self.assert_not_busy(&uid, "deleted");
                    self.delete_pod(&uid);
                }
            }
            Command::ForceDelete { slot, uid } => {
                if !fails && self.pods.get(&slot).is_some_and(|pod| pod.uid == uid) {
                    self.assert_not_busy(&uid, "forced");
                    self.pod_gone(slot);
                }
            }
            Command::Remove { id } => {
                let outcome = if fails {
                    let until = self.now + SignedDuration::from_secs(20);
                    if self.random.chance(200) { Removal::Limited(until) } else { Removal::Failed }
                } else {
                    let removal = match self.forge.get(&id) {
                        Some(Registration { job: Some(_), .. }) => Removal::Busy,
                        Some(Registration { job: None, .. }) | None => {
                            self.forge.remove(&id);
                            Removal::Gone
                        }
                    };
                    if lost { Removal::Failed } else { removal }
                };
                self.answer(Input::Removed { id, outcome }, epoch);
            }
            Command::ListRunners => {
                if !fails {
                    let listed = |(id, registration): (&RunnerId, &Registration)| ForgeRunner {
                        id: *id,
                        name: registration.name.clone(),
                        online: registration.online,
                        busy: registration.job.is_some(),
                    };
                    let runners = self.forge.iter().map(listed).collect();
                    self.answer(Input::Runners { began, runners }, epoch);
                }
            }
            Command::Warn { .. } => {}
        }
    }

    // The cluster.

    fn create(
        &mut self,
        slot: Slot,
        id: RunnerId,
        record: &Record,
        ceiling: u32,
        fails: bool,
    ) -> Result<(), NotCreated> {
        if fails {
            return Err(if self.random.chance(200) { NotCreated::Quota } else { NotCreated::Unknown });
        }
        if self.pods.contains_key(&slot) {
            return Err(NotCreated::Exists);
        }
        let uid = format!("{slot}-{}", self.agenda.last_number());
        let facts = PodFacts {
            uid: uid.clone(),
            scheduled: false,
            running_since: None,
            deleting_since: None,
            ended: None,
            node_lost: false,
            outlook: Outlook::Fine,
        };
        let too_late = ceiling > self.settings.scaling.max;
        let pod = Pod { uid: uid.clone(), annotations: annotations(record), finalizer: true, facts, id, too_late };
        self.pods.insert(slot, pod);
        self.tally.pods += 1;
        self.tally.created_after.push(self.now.duration_since(START));
        let live = self.live();
        self.tally.most_live = self.tally.most_live.max(live);
        let live = live - self.pods.values().filter(|pod| pod.too_late && pod.facts.ended.is_none()).count();
        let before = self.lowered.filter(|(_, until)| self.now < *until).map_or(0, |(max, _)| max);
        // What was allowed when it was commanded, what is allowed now, or what was until a moment ago.
        let ceiling = ceiling.max(self.settings.scaling.max).max(before);
        assert!(live <= ceiling as usize, "{live} Pods where {ceiling} are allowed");
        self.watch(slot);
        if self.random.chance(self.rates.pod_hopeless) {
            self.within(300, 60_000, Happening::Hopeless(uid));
        } else if !self.random.chance(self.rates.pod_never_starts) {
            self.within(50, 4000, Happening::Scheduled(uid));
        }
        Ok(())
    }

    fn change_pod(&mut self, uid: &str, change: impl FnOnce(&mut Pod, Timestamp)) {
        let now = self.now;
        let Some((slot, pod)) = self.pods.iter_mut().find(|(_, pod)| pod.uid == uid) else { return };
        let slot = *slot;
        change(pod, now);
        let gone = pod.facts.deleting_since.is_some() && !pod.finalizer && pod.facts.ended.is_some();
        if gone {
            self.pod_gone(slot);
        } else {
            self.watch(slot);
        }
    }

    fn pod_gone(&mut self, slot: Slot) {
        let Some(pod) = self.pods.remove(&slot) else { return };
        if pod.facts.ended.is_none() {
            self.lose_runner(pod.id);
        }
        let when = self.news_time(slot);
        let epoch = self.epoch;
        self.at(when, Happening::Deliver { input: Input::PodGone { slot, uid: pod.uid }, epoch });
    }

    fn watch(&mut self, slot: Slot) {
        let when = self.news_time(slot);
        let epoch = self.epoch;
        if let Some(seen) = self.as_seen(slot) {
            self.at(when, Happening::Deliver { input: Input::Pod(seen), epoch });
        }
    }

    fn news_time(&mut self, slot: Slot) -> Timestamp {
        let late = if self.random.chance(self.rates.event_late) { 20_000 } else { 100 };
        let when = self.now + millis(self.random.between(1, late));
        let when = self.news.get(&slot).map_or(when, |last| when.max(*last));
        self.news.insert(slot, when);
        when
    }

    fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.values().find(|pod| pod.uid == uid)
    }

    fn any_pod(&mut self) -> Option<String> {
        let count = self.pods.len() as u64;
        let index = (count > 0).then(|| self.random.below(count))?;
        self.pods.values().nth(usize::try_from(index).unwrap()).map(|pod| pod.uid.clone())
    }

    fn delete_pod(&mut self, uid: &str) {
        let Some(pod) = self.pod(uid).filter(|pod| pod.facts.deleting_since.is_none()) else { return };
        let on_node = pod.facts.scheduled;
        self.change_pod(uid, |pod, now| pod.facts.deleting_since = Some(now));
        let grace = if on_node { 30_000 } else { 1 };
        self.within(1, grace, Happening::Stopped(uid.to_owned(), EndClass::Runner));
    }

    fn lose_node(&mut self) {
        let Some(uid) = self.any_pod() else { return };
        let Some(id) = self.pod(&uid).map(|pod| pod.id) else { return };
        self.lose_runner(id);
        self.change_pod(&uid, |pod, now| {
            pod.facts.node_lost = true;
            pod.facts.deleting_since.get_or_insert(now);
        });
    }

    fn started(&mut self, uid: String) {
        if self.pod(&uid).is_none_or(|pod| pod.facts.ended.is_some() || pod.facts.node_lost) {
            return;
        }
        self.change_pod(&uid, |pod, now| pod.facts.running_since = Some(now));
        if self.failing_template || self.random.chance(self.rates.pod_fails) {
            let evicted = self.random.chance(300) && !self.failing_template;
            let class = if evicted { EndClass::Infrastructure } else { EndClass::Runner };
            self.within(100, 5000, Happening::Stopped(uid, class));
        } else if !self.random.chance(self.rates.runner_hangs) {
            self.within(200, 5000, Happening::Online(uid));
        }
    }

    fn stopped(&mut self, uid: &str, class: EndClass) {
        let Some(pod) = self.pod(uid).filter(|pod| pod.facts.ended.is_none() && !pod.facts.node_lost) else { return };
        let id = pod.id;
        if class != EndClass::Success {
            self.lose_runner(id);
        }
        self.change_pod(uid, |pod, now| pod.facts.ended = Some(Ended { class, at: now }));
    }

    fn assert_not_busy(&self, uid: &str, what: &str) {
        let Some(pod) = self.pod(uid).filter(|pod| pod.facts.ended.is_none() && !pod.facts.node_lost) else { return };
        let job = self.forge.get(&pod.id).and_then(|registration| registration.job);
        assert_eq!(job, None, "busy runner {} was {what}", pod.id);
    }

    // The forge.

    fn online(&mut self, uid: &str) {
        let Some(pod) = self.pod(uid).filter(|pod| pod.facts.ended.is_none() && !pod.facts.node_lost) else { return };
        let id = pod.id;
        match self.forge.get_mut(&id) {
            Some(registration) => {
                registration.online = true;
                self.assign_soon();
            }
            // Its registration was taken away: it can't connect.
            None => self.within(100, 2000, Happening::Stopped(uid.to_owned(), EndClass::Runner)),
        }
    }

    fn assign_soon(&mut self) {
        self.within(10, 3000, Happening::Assign);
    }

    fn assign(&mut self) {
        let idle = self.forge.iter().find(|(_, runner)| runner.online && runner.job.is_none()).map(|(id, _)| *id);
        let (Some(id), Some(job)) = (idle, self.waiting.first().copied()) else { return };
        self.waiting.remove(&job);
        self.running.insert(job, id);
        if let Some(runner) = self.forge.get_mut(&id) {
            runner.job = Some(job);
        }
        self.webhook(job, Status::Running { runner: Some(id) });
        self.within(2000, 200_000, Happening::JobEnds(id, job));
        self.after(5, Happening::Assign);
    }

    fn job_ends(&mut self, id: RunnerId, job: JobId) {
        if self.running.get(&job) != Some(&id) || !self.forge.contains_key(&id) {
            return;
        }
        let Some(uid) = self.pods.values().find(|pod| pod.id == id).map(|pod| pod.uid.clone()) else { return };
        // An ephemeral runner takes itself off.
        self.forge.remove(&id);
        self.job_over(job, id);
        self.within(100, 4000, Happening::Stopped(uid, EndClass::Success));
    }

    fn job_over(&mut self, job: JobId, id: RunnerId) {
        if self.running.remove(&job).is_some() {
            self.tally.done += 1;
            self.webhook(job, Status::Over { runner: Some(id) });
        }
    }

    /// The runner is no more; the forge notices when it does.
    fn lose_runner(&mut self, id: RunnerId) {
        let Some(registration) = self.forge.get_mut(&id) else { return };
        registration.online = false;
        if registration.job.is_some() {
            self.within(5000, 300_000, Happening::ForgeGivesUp(id));
        }
    }

    fn webhook(&mut self, job: JobId, status: Status) {
        let event = || Input::Job(JobEvent { id: job, source: SOURCE.to_owned(), status });
        let copies = if self.random.chance(self.rates.event_lost) {
            0
        } else {
            1 + u64::from(self.random.chance(self.rates.event_doubled))
        };
        for _ in 0..copies {
            let latest = if self.random.chance(self.rates.event_late) { 90_000 } else { 2000 };
            let epoch = self.epoch;
            self.within(50, latest, Happening::Deliver { input: event(), epoch });
        }
    }

    pub(crate) fn never_poll(&mut self) {
        self.polling = false;
    }

    fn poll(&mut self) {
        if !self.polling || self.random.chance(self.rates.call_fails) {
            return;
        }
        let event = |id: JobId, status| JobEvent { id, source: SOURCE.to_owned(), status };
        let waiting = self.waiting.iter().map(|job| event(*job, Status::Queued));
        let running = self.running.iter().map(|(job, id)| event(*job, Status::Running { runner: Some(*id) }));
        let poll = Poll { source: SOURCE.to_owned(), began: self.now, jobs: waiting.chain(running).collect() };
        let epoch = self.epoch;
        self.within(50, 1000, Happening::Deliver { input: Input::Polled(poll), epoch });
    }

    // What can be asked at the end.

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it runs")
    }

    pub(crate) fn live(&self) -> usize {
        self.pods.values().filter(|pod| pod.facts.ended.is_none()).count()
    }

    pub(crate) fn all_pods(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn registrations(&self) -> usize {
        self.forge.len()
    }

    pub(crate) fn unfinished_jobs(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Every job has run, exactly the wanted runners are left, and neither side has leftovers.
    pub(crate) fn is_done(&self, wanted: usize) -> bool {
        let counts = self.engine.as_ref().map(Engine::counts).unwrap_or_default();
        self.unfinished_jobs() == 0
            && (self.live(), self.all_pods(), self.registrations()) == (wanted, wanted, wanted)
            && (counts.idle as usize, counts.stale) == (wanted, 0)
    }

    pub(crate) fn describe(&self) -> String {
        let runners: Vec<_> = self.engine.iter().flat_map(Engine::runners).collect();
        let holds = self.engine.as_ref().map(Engine::holds);
        format!("{}: runners {runners:#?}, holds {holds:?}, pods {:#?}, forge {:?}", self.now, self.pods, self.forge)
    }
}

fn is_retired(runner: &minke_runners::life::Runner) -> bool {
    use minke_runners::life::{Life, Why};
    matches!(runner.life, Life::Draining { why: Why::Surplus | Why::Stale, .. })
}

fn annotations(record: &Record) -> BTreeMap<String, String> {
    let written = record.annotations().into_iter();
    written.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

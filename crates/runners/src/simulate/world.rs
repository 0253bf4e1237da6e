//! A cluster and a forge in which nothing goes wrong, in virtual time.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::agenda::Agenda;
use super::outcome::{Outcome, Point};
use super::trace::{Takes, Trace, Variant};
use crate::demand::{JobEvent, Status};
use crate::engine::{Command, Engine, ForgeRunner, Input, Seen, Settings};
use crate::ids::{JobId, RunnerId, Slot};
use crate::life::{EndClass, Ended, Outlook, PodFacts, Record, Removal, Timing};

const SET: &str = "simulated";
/// After the last job the run goes on for so long at most: a maximum that is too low takes its time.
const PATIENCE: SignedDuration = SignedDuration::from_hours(14 * 24);

#[derive(Debug)]
enum Happening {
    Tell(Input),
    Queue(JobId),
    Scheduled(Slot, String),
    Runs(Slot, String),
    Online(Slot, String),
    JobOver(Slot, String, JobId),
    Gone(Slot, String),
    Wake,
}

#[derive(Debug)]
struct Pod {
    facts: PodFacts,
    record: Record,
    id: RunnerId,
    online: bool,
    job: Option<JobId>,
    made: Timestamp,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    queued: Timestamp,
    takes: SignedDuration,
}

struct World<'a> {
    now: Timestamp,
    takes: &'a Takes,
    engine: Engine,
    agenda: Agenda<Happening>,
    wake: Option<Timestamp>,
    pods: BTreeMap<Slot, Pod>,
    names: BTreeMap<RunnerId, String>,
    jobs: BTreeMap<JobId, Job>,
    waiting: VecDeque<JobId>,
    unfinished: u64,
    next_id: u64,
    outcome: Outcome,
}

fn seconds(seconds: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Runs a trace with these limits.
#[must_use]
pub fn simulate(trace: &Trace, variant: &Variant) -> Outcome {
    let mut queued: Vec<(Timestamp, SignedDuration)> = Vec::new();
    for job in &trace.jobs {
        queued.extend((0..job.count).map(|_| (job.queued, seconds(job.seconds))));
    }
    queued.sort();
    let start = queued.first().map_or(Timestamp::UNIX_EPOCH, |(at, _)| *at - SignedDuration::from_mins(10));
    let end = queued.last().map_or(start, |(at, _)| *at) + PATIENCE;
    let settings = Settings {
        set: SET.to_owned(),
        template: String::new(),
        scaling: variant.scaling.clone(),
        timing: Timing::default(),
    };
    let mut world = World {
        now: start,
        takes: &trace.takes,
        engine: Engine::new(settings),
        agenda: Agenda::default(),
        wake: None,
        pods: BTreeMap::new(),
        names: BTreeMap::new(),
        jobs: BTreeMap::new(),
        waiting: VecDeque::new(),
        unfinished: queued.len() as u64,
        next_id: 0,
        outcome: Outcome {
            waits: Vec::new(),
            pod_hours: 0.0,
            job_hours: 0.0,
            peak: 0,
            pods: 0,
            unfinished: 0,
            points: Vec::new(),
        },
    };
    world.at(start, Happening::Tell(Input::Listed(Vec::new())));
    for (number, (at, takes)) in queued.into_iter().enumerate() {
        let id = JobId(number as u64 + 1);
        world.jobs.insert(id, Job { queued: at, takes });
        world.at(at, Happening::Queue(id));
    }
    world.run(end)
}

impl World<'_> {
    fn at(&mut self, when: Timestamp, happening: Happening) {
        self.agenda.put(when.max(self.now), happening);
    }

    fn after(&mut self, by: f64, happening: Happening) {
        self.at(self.now + seconds(by), happening);
    }

    /// Until all jobs have run and what came for them has gone again.
    fn run(mut self, end: Timestamp) -> Outcome {
        while let Some(when) = self.agenda.next() {
            if when > end || (self.unfinished == 0 && self.waiting.is_empty() && self.is_calm(when)) {
                break;
            }
            self.now = when;
            // All of one moment is one pass.
            let mut inputs = Vec::new();
            while let Some((_, happening)) = self.agenda.take(when) {
                self.happen(happening, &mut inputs);
            }
            self.assign();
            self.tell(inputs);
            self.note();
        }
        let now = self.now;
        for pod in self.pods.values() {
            self.outcome.pod_hours += hours(now.duration_since(pod.made));
        }
        self.outcome.unfinished = self.unfinished;
        self.outcome.waits.sort_by(f64::total_cmp);
        self.outcome
    }

    /// Nothing but the minimum is left, or an hour has gone by: the limits may say that more stay.
    fn is_calm(&self, when: Timestamp) -> bool {
        let last = self.jobs.values().map(|job| job.queued).max().unwrap_or(self.now);
        self.pods.is_empty() || when.duration_since(last) > SignedDuration::from_hours(1)
    }

    fn note(&mut self) {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let busy = self.pods.values().filter(|pod| pod.job.is_some()).count();
        let (queued, pods) = (count(self.waiting.len()), count(self.pods.len()));
        let point = Point { at: self.now, queued, busy: count(busy), pods };
        self.outcome.peak = self.outcome.peak.max(pods);
        let same = |last: &Point| (last.queued, last.busy, last.pods) == (point.queued, point.busy, point.pods);
        if !self.outcome.points.last().is_some_and(same) {
            self.outcome.points.push(point);
        }
    }

    fn pod(&mut self, slot: Slot, uid: &str) -> Option<&mut Pod> {
        self.pods.get_mut(&slot).filter(|pod| pod.facts.uid == uid)
    }

    fn seen(&self, slot: Slot) -> Option<Input> {
        let pod = self.pods.get(&slot)?;
        Some(Input::Pod(Seen { slot, record: Ok(pod.record.clone()), facts: pod.facts.clone() }))
    }

    fn happen(&mut self, happening: Happening, inputs: &mut Vec<Input>) {
        let takes = *self.takes;
        match happening {
            Happening::Tell(input) => inputs.push(input),
            Happening::Queue(id) => {
                self.waiting.push_back(id);
                self.after(takes.webhook, Happening::Tell(news(id, Status::Queued)));
            }
            Happening::Scheduled(slot, uid) => {
                if let Some(pod) = self.pod(slot, &uid) {
                    pod.facts.scheduled = true;
                    inputs.extend(self.seen(slot));
                    self.after(takes.start, Happening::Runs(slot, uid));
                }
            }
            Happening::Runs(slot, uid) => {
                let now = self.now;
                if let Some(pod) = self.pod(slot, &uid) {
                    pod.facts.running_since = Some(now);
                    inputs.extend(self.seen(slot));
                    self.after(takes.online, Happening::Online(slot, uid));
                }
            }
            Happening::Online(slot, uid) => {
                if let Some(pod) = self.pod(slot, &uid) {
                    pod.online = true;
                }
            }
            Happening::JobOver(slot, uid, job) => {
                let now = self.now;
                if let Some(pod) = self.pod(slot, &uid) {
                    (pod.job, pod.online) = (None, false);
                    pod.facts.ended = Some(Ended { class: EndClass::Success, at: now });
                    let id = pod.id;
                    self.names.remove(&id);
                    inputs.extend(self.seen(slot));
                    self.unfinished -= 1;
                    self.after(takes.webhook, Happening::Tell(news(job, Status::Over { runner: Some(id) })));
                }
            }
            Happening::Gone(slot, uid) => {
                if self.pod(slot, &uid).is_some()
                    && let Some(pod) = self.pods.remove(&slot)
                {
                    self.outcome.pod_hours += hours(self.now.duration_since(pod.made));
                    inputs.push(Input::PodGone { slot, uid });
                }
            }
            Happening::Wake => {
                self.wake = None;
                inputs.push(Input::Tick);
            }
        }
    }

    /// The oldest jobs to those who wait for one.
    fn assign(&mut self) {
        let free: Vec<Slot> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.online && pod.job.is_none() && pod.facts.deleting_since.is_none())
            .filter(|(_, pod)| self.names.contains_key(&pod.id))
            .map(|(slot, _)| *slot)
            .collect();
        for slot in free {
            let Some(id) = self.waiting.pop_front() else { break };
            let (Some(job), Some(pod)) = (self.jobs.get(&id).copied(), self.pods.get_mut(&slot)) else { continue };
            pod.job = Some(id);
            let (uid, runner) = (pod.facts.uid.clone(), pod.id);
            self.outcome.waits.push(self.now.duration_since(job.queued).as_secs_f64());
            self.outcome.job_hours += hours(job.takes);
            self.at(self.now + job.takes, Happening::JobOver(slot, uid, id));
            // Its news are on their way; the forge would tell a removal that it is busy meanwhile.
            let status = Status::Running { runner: Some(runner) };
            self.after(self.takes.webhook, Happening::Tell(news(id, status)));
        }
    }

    fn tell(&mut self, inputs: Vec<Input>) {
        if inputs.is_empty() {
            return;
        }
        for command in self.engine.handle(inputs, self.now) {
            self.perform(command);
        }
        if let Some(wake) = self.engine.wake()
            && self.wake.is_none_or(|known| wake < known)
        {
            self.wake = Some(wake);
            self.at(wake, Happening::Wake);
        }
    }

    fn perform(&mut self, command: Command) {
        let takes = *self.takes;
        match command {
            Command::Register { slot, name } => {
                self.next_id += 1;
                let id = RunnerId(self.next_id);
                self.names.insert(id, name.clone());
                self.after(takes.registration, Happening::Tell(Input::Registered { slot, name, outcome: Ok(id) }));
            }
            Command::CreatePod { slot, id, record } => {
                let uid = id.to_string();
                let facts = PodFacts {
                    uid: uid.clone(),
                    scheduled: false,
                    running_since: None,
                    deleting_since: None,
                    ended: None,
                    node_lost: false,
                    outlook: Outlook::Fine,
                };
                self.outcome.pods += 1;
                self.pods.insert(slot, Pod { facts, record, id, online: false, job: None, made: self.now });
                self.after(0.0, Happening::Tell(Input::Created { slot, id, outcome: Ok(()) }));
                if let Some(seen) = self.seen(slot) {
                    self.after(0.0, Happening::Tell(seen));
                }
                self.after(takes.scheduling, Happening::Scheduled(slot, uid));
            }
            Command::Persist { slot, uid, record } => {
                if let Some(pod) = self.pod(slot, &uid) {
                    pod.record = record;
                }
            }
            Command::Remove { id } => {
                let busy = self.pods.values().any(|pod| pod.id == id && pod.job.is_some());
                let outcome = if busy { Removal::Busy } else { Removal::Gone };
                if !busy {
                    self.names.remove(&id);
                }
                self.after(takes.registration, Happening::Tell(Input::Removed { id, outcome }));
            }
            Command::DeletePod { slot, uid } | Command::ForceDelete { slot, uid } => {
                let now = self.now;
                if let Some(pod) = self.pod(slot, &uid) {
                    pod.facts.deleting_since.get_or_insert(now);
                    self.after(takes.end, Happening::Gone(slot, uid));
                }
            }
            Command::ListRunners => {
                let listed = |(id, name): (&RunnerId, &String)| {
                    let pod = self.pods.values().find(|pod| pod.id == *id);
                    let (online, busy) = pod.map_or((false, false), |pod| (pod.online, pod.job.is_some()));
                    ForgeRunner { id: *id, name: name.clone(), online, busy }
                };
                let runners = self.names.iter().map(listed).collect();
                let input = Input::Runners { began: self.now, runners };
                self.after(takes.registration, Happening::Tell(input));
            }
            Command::Warn { .. } => {}
        }
    }
}

fn hours(duration: SignedDuration) -> f64 {
    duration.as_secs_f64() / 3600.0
}

fn news(id: JobId, status: Status) -> Input {
    Input::Job(JobEvent { id, source: "trace".to_owned(), status })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::WhatIf;

    fn trace(text: &str) -> Trace {
        Trace::parse(text.as_bytes()).unwrap()
    }

    fn outcomes(trace: &Trace, what_if: &WhatIf) -> Vec<Outcome> {
        trace.variants(what_if).unwrap().iter().map(|variant| simulate(trace, variant)).collect()
    }

    #[test]
    fn a_job_waits_for_all_the_steps_of_its_runner() {
        let trace = trace(r#"{"jobs": [{"queued": "2026-01-05T08:00:00Z", "seconds": 60}], "max": 5}"#);
        let outcome = &outcomes(&trace, &WhatIf::default())[0];
        assert_eq!((outcome.waits.len(), outcome.pods, outcome.unfinished), (1, 1, 0));
        // webhook 1, registration 0.3, scheduling 0.5, start 8, online 4.
        assert!((outcome.waits[0] - 13.8).abs() < 0.2, "{:?}", outcome.waits);
        assert!(outcome.pod_hours > outcome.job_hours && outcome.pod_hours < 2.0 * outcome.job_hours);
    }

    #[test]
    fn idle_runners_cost_and_save_waiting_and_a_maximum_makes_queues() {
        let trace = trace(
            r#"{"jobs": [{"queued": "2026-01-05T08:00:00Z", "seconds": 300, "count": 20},
                {"queued": "2026-01-05T08:20:00Z", "seconds": 30, "count": 5}], "max": 30, "runnerHour": 0.1}"#,
        );
        let what_if = WhatIf { max: vec![5], ..WhatIf::default() };
        let narrow = &outcomes(&trace, &what_if)[1];
        let what_if = WhatIf { min_idle: vec![5], ..WhatIf::default() };
        let both = outcomes(&trace, &what_if);
        let (plain, idle) = (&both[0], &both[1]);
        for outcome in [plain, idle, narrow] {
            assert_eq!((outcome.waits.len(), outcome.unfinished), (25, 0));
        }
        assert!(idle.percentile(10.0) < 1.0 && plain.percentile(10.0) > 10.0, "{:?}", idle.waits);
        assert!(idle.pod_hours > plain.pod_hours);
        assert!(narrow.percentile(100.0) > 800.0 && narrow.peak == 5, "{:?}", narrow.waits);
        assert_eq!(simulate(&trace, &trace.variants(&what_if).unwrap()[1]), both[1], "the same again");
    }
}

//! What the forge knows. Pure; time is given.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::demand::{JobEvent, Labels, Status};
use crate::engine::ForgeRunner;
use crate::forge::ListedJob;
use crate::ids::{JobId, RunnerId};
use crate::webhook::JobNews;

/// The group of all runners that name no other.
const DEFAULT_GROUP: u64 = 1;

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The repository, `owner/name`.
    pub repository: String,
    /// What it asks for.
    pub labels: Vec<String>,
    /// Where it is.
    pub state: JobState,
    /// When it was queued.
    pub queued: Timestamp,
    /// When it got a runner.
    pub started: Option<Timestamp>,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits.
    Queued,
    /// This runner has it.
    Running(RunnerId),
    /// It is over; this runner had it.
    Over(Option<RunnerId>),
}

#[derive(Debug, Clone)]
struct Registration {
    name: String,
    group: u64,
    labels: Labels,
    configuration: String,
    /// The configuration was used: it is good once.
    used: bool,
    online: bool,
    job: Option<JobId>,
}

/// Something that a webhook tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// `queued`, `in_progress`, `completed`.
    pub action: &'static str,
    /// About which job.
    pub job: Job,
}

/// Why a registration is not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRemoved {
    /// There is none.
    Unknown,
    /// It has a job.
    Busy,
}

/// The forge.
#[derive(Debug, Default)]
pub struct State {
    registrations: BTreeMap<RunnerId, Registration>,
    jobs: BTreeMap<JobId, Job>,
    news: Vec<News>,
    next_runner: u64,
    next_job: u64,
    /// Groups that are open to these repositories alone, in lower case.
    groups: BTreeMap<u64, BTreeSet<String>>,
}

impl News {
    /// The delivery's body.
    #[must_use]
    pub fn body(&self) -> Value {
        let runner = match self.job.state {
            JobState::Queued | JobState::Over(None) => Value::Null,
            JobState::Running(id) | JobState::Over(Some(id)) => json!(id),
        };
        let (owner, _) = self.job.repository.split_once('/').unwrap_or_default();
        json!({
            "action": self.action,
            "workflow_job": {
                "id": self.job.id, "run_id": self.job.id, "labels": self.job.labels, "runner_id": runner,
                "status": if self.action == "in_progress" { "in_progress" } else { self.action },
                "conclusion": if self.action == "completed" { json!("success") } else { Value::Null },
            },
            "repository": {"full_name": self.job.repository, "owner": {"login": owner}},
        })
    }

    /// What a receiver makes of it.
    #[must_use]
    pub fn read(&self) -> JobNews {
        let status = status(self.job.state);
        let event = JobEvent { id: self.job.id, source: self.job.repository.clone(), status };
        JobNews { event, labels: self.job.labels.clone() }
    }
}

fn status(state: JobState) -> Status {
    match state {
        JobState::Queued => Status::Queued,
        JobState::Running(id) => Status::Running { runner: Some(id) },
        JobState::Over(runner) => Status::Over { runner },
    }
}

impl State {
    // What a controller asks.

    /// A registration in the default group; `None`: there is one of this name.
    pub fn register(&mut self, name: &str, labels: &[String]) -> Option<(RunnerId, String)> {
        self.register_in(DEFAULT_GROUP, name, labels)
    }

    /// A registration in a group; `None`: there is one of this name.
    pub fn register_in(&mut self, group: u64, name: &str, labels: &[String]) -> Option<(RunnerId, String)> {
        if self.registrations.values().any(|registration| registration.name == name) {
            return None;
        }
        self.next_runner += 1;
        let id = RunnerId(self.next_runner);
        let configuration = format!("jit-{id}-{name}");
        let labels = labels.iter().collect();
        let registration = Registration {
            name: name.to_owned(),
            group,
            labels,
            configuration: configuration.clone(),
            used: false,
            online: false,
            job: None,
        };
        self.registrations.insert(id, registration);
        Some((id, configuration))
    }

    /// All registrations.
    #[must_use]
    pub fn runners(&self) -> Vec<ForgeRunner> {
        let runner = |(id, known): (&RunnerId, &Registration)| ForgeRunner {
            id: *id,
            name: known.name.clone(),
            online: known.online,
            busy: known.job.is_some(),
        };
        self.registrations.iter().map(runner).collect()
    }

    /// Removes a registration that has no job.
    ///
    /// # Errors
    ///
    /// It has one, or is none.
    pub fn remove(&mut self, id: RunnerId) -> Result<(), NotRemoved> {
        match self.registrations.get(&id) {
            None => Err(NotRemoved::Unknown),
            Some(Registration { job: Some(_), .. }) => Err(NotRemoved::Busy),
            Some(Registration { job: None, .. }) => {
                self.registrations.remove(&id);
                Ok(())
            }
        }
    }

    /// The jobs of a repository that are not over.
    #[must_use]
    pub fn listed(&self, repository: &str) -> Vec<ListedJob> {
        let own = self.jobs.values().filter(|job| job.repository.eq_ignore_ascii_case(repository));
        let live = own.filter(|job| !matches!(job.state, JobState::Over(_)));
        live.map(|job| ListedJob { id: job.id, status: status(job.state), labels: job.labels.clone() }).collect()
    }

    /// The repositories, in lower case, that a group is open to alone; `None`: to all.
    #[must_use]
    pub fn selected(&self, group: u64) -> Option<&BTreeSet<String>> {
        self.groups.get(&group)
    }

    // What people do.

    /// Opens a group to these repositories alone.
    pub fn restrict(&mut self, group: u64, repositories: &[&str]) {
        self.groups.insert(group, repositories.iter().map(|name| name.to_lowercase()).collect());
    }

    /// Queues a job.
    pub fn queue(&mut self, repository: &str, labels: &[&str], now: Timestamp) -> JobId {
        self.next_job += 1;
        let id = JobId(self.next_job);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let repository = repository.to_owned();
        let job = Job { id, repository, labels, state: JobState::Queued, queued: now, started: None };
        self.jobs.insert(id, job);
        self.tell("queued", id);
        id
    }

    /// Cancels a job; one that runs ends with its runner's knowledge only.
    pub fn cancel(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id).filter(|job| job.state == JobState::Queued) {
            job.state = JobState::Over(None);
            self.tell("completed", id);
        }
    }

    // What runners do.

    /// A runner starts with its configuration; `None`: it is none, was used before, or its registration is gone.
    pub fn connect(&mut self, configuration: &str) -> Option<RunnerId> {
        let own = |known: &&mut Registration| known.configuration == configuration && !known.used;
        let (id, known) = self.registrations.iter_mut().find(|(_, known)| own(known))?;
        (known.used, known.online) = (true, true);
        Some(*id)
    }

    /// Whether it is still registered.
    #[must_use]
    pub fn knows(&self, id: RunnerId) -> bool {
        self.registrations.contains_key(&id)
    }

    /// The job of a connected runner: the one that it has, or the oldest queued one that its labels serve.
    pub fn take_job(&mut self, id: RunnerId, now: Timestamp) -> Option<Job> {
        let known = self.registrations.get_mut(&id).filter(|known| known.online)?;
        if let Some(job) = known.job {
            return self.jobs.get(&job).cloned();
        }
        let selected = self.groups.get(&known.group);
        let fits = |job: &&mut Job| {
            let asked: Labels = job.labels.iter().collect();
            job.state == JobState::Queued
                && known.labels.serve(&asked)
                && selected.is_none_or(|open| open.contains(&job.repository.to_lowercase()))
        };
        let job = self.jobs.values_mut().find(fits)?;
        (job.state, job.started) = (JobState::Running(id), Some(now));
        known.job = Some(job.id);
        let job = job.clone();
        self.tell("in_progress", job.id);
        Some(job)
    }

    /// A runner has finished its job, and is gone: it is ephemeral.
    pub fn finish(&mut self, id: RunnerId) {
        if let Some(Registration { job: Some(job), .. }) = self.registrations.get(&id).cloned() {
            self.registrations.remove(&id);
            self.over(job, Some(id));
        }
    }

    /// A runner is lost: it keeps its registration and its job until the forge [gives up](Self::give_up).
    pub fn lose(&mut self, id: RunnerId) {
        if let Some(known) = self.registrations.get_mut(&id) {
            known.online = false;
        }
    }

    /// The forge gives up waiting for a lost runner's job.
    pub fn give_up(&mut self, id: RunnerId) {
        if let Some(Registration { job: Some(job), online: false, .. }) = self.registrations.get(&id).cloned() {
            self.registrations.remove(&id);
            self.over(job, Some(id));
        }
    }

    // What tests and the demo look at.

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// What webhooks tell, since this was last asked.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    fn over(&mut self, id: JobId, runner: Option<RunnerId>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.state = JobState::Over(runner);
            self.tell("completed", id);
        }
    }

    fn tell(&mut self, action: &'static str, id: JobId) {
        if let Some(job) = self.jobs.get(&id) {
            self.news.push(News { action, job: job.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn linux() -> Vec<String> {
        vec!["linux".to_owned()]
    }

    #[test]
    fn a_runner_registers_takes_one_job_and_is_gone() {
        let mut state = State::default();
        let (id, configuration) = state.register("r", &linux()).unwrap();
        assert_eq!(state.register("r", &linux()), None, "409");
        let job = state.queue("o/r", &["self-hosted", "Linux"], NOW);
        state.queue("o/r", &["gpu"], NOW);
        assert_eq!(state.connect("x"), None);
        assert_eq!(state.connect(&configuration), Some(id));
        assert_eq!(state.connect(&configuration), None, "a configuration is good for one start");
        assert_eq!(state.take_job(id, NOW).map(|job| job.id), Some(job));
        assert_eq!(state.remove(id), Err(NotRemoved::Busy));
        state.finish(id);
        assert_eq!(state.remove(id), Err(NotRemoved::Unknown));
        let actions: Vec<_> = state.take_news().iter().map(|news| (news.action, news.job.id.0)).collect();
        assert_eq!(actions, [("queued", 1), ("queued", 2), ("in_progress", 1), ("completed", 1)]);
        assert_eq!(state.listed("O/R").len(), 1);
    }

    #[test]
    fn a_runner_of_a_restricted_group_gets_no_other_repositorys_job() {
        let mut state = State::default();
        state.restrict(2, &["Octo/Lib"]);
        let (id, configuration) = state.register_in(2, "r", &linux()).unwrap();
        state.connect(&configuration);
        state.queue("octo/app", &["linux"], NOW);
        assert_eq!(state.take_job(id, NOW), None);
        let own = state.queue("octo/lib", &["linux"], NOW);
        assert_eq!(state.take_job(id, NOW).map(|job| job.id), Some(own));
    }

    #[test]
    fn a_lost_runner_is_busy_until_the_forge_gives_up() {
        let mut state = State::default();
        let (id, configuration) = state.register("r", &linux()).unwrap();
        state.queue("o/r", &["linux"], NOW);
        state.connect(&configuration);
        state.take_job(id, NOW);
        state.lose(id);
        assert_eq!(state.remove(id), Err(NotRemoved::Busy));
        state.give_up(id);
        assert!(!state.knows(id) && state.listed("o/r").is_empty());
    }

    #[test]
    fn what_is_told_is_what_a_receiver_reads() {
        let mut state = State::default();
        let (id, configuration) = state.register("r", &linux()).unwrap();
        state.queue("o/r", &["linux"], NOW);
        state.connect(&configuration);
        state.take_job(id, NOW);
        state.finish(id);
        for news in state.take_news() {
            let body = news.body().to_string();
            let read = crate::webhook::payload::parse("workflow_job", body.as_bytes());
            assert_eq!(read, Ok(crate::webhook::Delivery::Job(news.read())), "{body}");
        }
    }
}

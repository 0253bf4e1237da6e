//! The jobs that are known, and what is known of each.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::ids::{JobId, RunnerId};

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It waits for a runner.
    Queued,
    /// It has one.
    Running {
        /// Which, if that was told.
        runner: Option<RunnerId>,
    },
    /// It has ended, or was cancelled.
    Over {
        /// Which runner had it, if that was told.
        runner: Option<RunnerId>,
    },
}

/// Someone says what a job does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEvent {
    /// The job.
    pub id: JobId,
    /// Where it is from (a repository): what a poll is about.
    pub source: String,
    /// What it does.
    pub status: Status,
}

/// All jobs of a source that are queued or running, as the forge listed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// The source.
    pub source: String,
    /// When the first page was asked for.
    pub began: Timestamp,
    /// Them.
    pub jobs: Vec<JobEvent>,
}

/// How long what is known of a job is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Queued. The forge gives up after a day.
    pub queued: SignedDuration,
    /// Running. The forge gives up after five days.
    pub running: SignedDuration,
    /// Over: late events of it change nothing for so long.
    pub over: SignedDuration,
    /// What was told less than this before a poll may be missing in it.
    pub slack: SignedDuration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        let hours = SignedDuration::from_hours;
        Self { queued: hours(24), running: hours(5 * 24 + 1), over: hours(6), slack: SignedDuration::from_secs(30) }
    }
}

/// What an event changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There is a job more that wants a runner.
    Queued(JobId),
    /// A job has a runner.
    Started(JobId, Option<RunnerId>),
    /// A job is over.
    Over(JobId, Option<RunnerId>),
}

#[derive(Debug, Clone)]
struct Job {
    status: Status,
    /// Since when.
    since: Timestamp,
    /// When someone last said that it is so.
    seen: Timestamp,
    source: String,
}

/// The jobs that one set of runners is for.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    jobs: BTreeMap<JobId, Job>,
    lifetimes: Lifetimes,
    /// Nothing expires before; `None`: nothing does.
    next: Option<Timestamp>,
}

impl Demand {
    /// None yet.
    #[must_use]
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self { lifetimes, ..Self::default() }
    }

    /// Takes one event. `None`: it says nothing new.
    pub fn apply(&mut self, event: JobEvent, now: Timestamp) -> Option<Change> {
        match self.jobs.entry(event.id) {
            Entry::Vacant(entry) => {
                let job = Job { status: event.status, since: now, seen: now, source: event.source };
                expires_too(&mut self.next, &job, &self.lifetimes);
                entry.insert(job);
                Some(change(event.id, event.status))
            }
            Entry::Occupied(mut entry) => {
                let job = entry.get_mut();
                job.seen = now;
                let status = merge(job.status, event.status)?;
                if rank(status) != rank(job.status) {
                    job.since = now;
                }
                job.status = status;
                expires_too(&mut self.next, job, &self.lifetimes);
                Some(change(event.id, status))
            }
        }
    }

    /// Takes what the forge lists: what was not known comes in, and what it does not list any more is over.
    pub fn poll(&mut self, poll: Poll, now: Timestamp) -> Vec<Change> {
        let listed: BTreeSet<JobId> = poll.jobs.iter().map(|job| job.id).collect();
        let mut changes: Vec<Change> = poll.jobs.into_iter().filter_map(|job| self.apply(job, now)).collect();
        let settled = poll.began - self.lifetimes.slack;
        for (id, job) in &mut self.jobs {
            if job.source != poll.source || job.seen >= settled || listed.contains(id) {
                continue;
            }
            let runner = match job.status {
                Status::Queued => None,
                Status::Running { runner } => runner,
                Status::Over { .. } => continue,
            };
            job.status = Status::Over { runner };
            job.since = now;
            expires_too(&mut self.next, job, &self.lifetimes);
            changes.push(Change::Over(*id, runner));
        }
        changes
    }

    /// Drops what is too old to be true. Jobs that were queued or running end without a word to their runners: only the
    /// forge's word moves those.
    pub fn expire(&mut self, now: Timestamp) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let lifetimes = self.lifetimes;
        self.jobs.retain(|_, job| now < job.expires(&lifetimes));
        self.next = self.jobs.values().map(|job| job.expires(&lifetimes)).min();
    }

    /// The job is somebody else's.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Until when nothing expires.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.next
    }

    /// How many jobs wait.
    #[must_use]
    pub fn queued(&self) -> u32 {
        let queued = self.jobs.values().filter(|job| job.status == Status::Queued).count();
        u32::try_from(queued).unwrap_or(u32::MAX)
    }

    /// The runners that have a job.
    #[must_use]
    pub fn running(&self) -> BTreeSet<RunnerId> {
        let runner = |job: &Job| match job.status {
            Status::Running { runner } => runner,
            Status::Queued | Status::Over { .. } => None,
        };
        self.jobs.values().filter_map(runner).collect()
    }

    /// The job that a runner has or had, for who comes to know that runner later than its job.
    #[must_use]
    pub fn of_runner(&self, id: RunnerId) -> Option<Change> {
        self.jobs.iter().rev().find_map(|(job, known)| match known.status {
            Status::Running { runner } | Status::Over { runner } if runner == Some(id) => {
                Some(change(*job, known.status))
            }
            Status::Queued | Status::Running { .. } | Status::Over { .. } => None,
        })
    }
}

/// A job that has changed may be the first to expire now. One that expires later than before does no harm: then there is
/// one look too many.
fn expires_too(next: &mut Option<Timestamp>, job: &Job, lifetimes: &Lifetimes) {
    *next = next.iter().copied().chain([job.expires(lifetimes)]).min();
}

impl Job {
    fn expires(&self, lifetimes: &Lifetimes) -> Timestamp {
        match self.status {
            Status::Queued => self.since + lifetimes.queued,
            Status::Running { .. } => self.since + lifetimes.running,
            Status::Over { .. } => self.since + lifetimes.over,
        }
    }
}

fn change(id: JobId, status: Status) -> Change {
    match status {
        Status::Queued => Change::Queued(id),
        Status::Running { runner } => Change::Started(id, runner),
        Status::Over { runner } => Change::Over(id, runner),
    }
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Queued => 0,
        Status::Running { .. } => 1,
        Status::Over { .. } => 2,
    }
}

/// What is known after both were said, in whichever order; `None`: what was known before.
fn merge(known: Status, said: Status) -> Option<Status> {
    match (known, said) {
        (Status::Queued, Status::Running { .. } | Status::Over { .. }) => Some(said),
        (Status::Running { runner: None }, Status::Running { runner: Some(_) }) => Some(said),
        (Status::Running { runner }, Status::Over { runner: told }) => Some(Status::Over { runner: told.or(runner) }),
        // Who had it is told by the event that came too late.
        (Status::Over { runner: None }, Status::Running { runner: Some(_) } | Status::Over { runner: Some(_) }) => {
            let (Status::Running { runner } | Status::Over { runner }) = said else { return None };
            Some(Status::Over { runner })
        }
        (Status::Queued | Status::Running { .. } | Status::Over { .. }, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
    const RUNNER: Option<RunnerId> = Some(RunnerId(5));

    fn event(id: u64, status: Status) -> JobEvent {
        JobEvent { id: JobId(id), source: "o/r".to_owned(), status }
    }

    fn at(seconds: i64) -> Timestamp {
        NOW + SignedDuration::from_secs(seconds)
    }

    fn running() -> Status {
        Status::Running { runner: RUNNER }
    }

    fn over() -> Status {
        Status::Over { runner: RUNNER }
    }

    #[test]
    fn each_step_changes_something_once() {
        let mut demand = Demand::default();
        for (status, expected) in [
            (Status::Queued, Some(Change::Queued(JobId(1)))),
            (Status::Queued, None),
            (running(), Some(Change::Started(JobId(1), RUNNER))),
            (running(), None),
            (Status::Queued, None),
            (over(), Some(Change::Over(JobId(1), RUNNER))),
            (running(), None),
            (Status::Queued, None),
        ] {
            assert_eq!(demand.apply(event(1, status), NOW), expected, "{status:?}");
        }
        assert_eq!((demand.queued(), demand.running().len()), (0, 0));
    }

    #[test]
    fn one_jobs_end_takes_nobody_elses_place() {
        let mut demand = Demand::default();
        for id in 1..=5 {
            demand.apply(event(id, Status::Queued), NOW);
        }
        for id in [6, 7, 3] {
            demand.apply(event(id, Status::Over { runner: None }), NOW);
        }
        assert_eq!(demand.queued(), 4, "+5 and −3 are no net, each is a job");
    }

    #[test]
    fn a_poll_makes_up_for_what_was_lost() {
        let mut demand = Demand::default();
        demand.apply(event(1, Status::Queued), at(0));
        demand.apply(event(2, running()), at(0));
        demand.apply(event(3, Status::Queued), at(95));
        let poll = Poll { source: "o/r".to_owned(), began: at(100), jobs: vec![event(4, Status::Queued)] };
        let changes = demand.poll(poll, at(101));
        assert_eq!(
            changes,
            [Change::Queued(JobId(4)), Change::Over(JobId(1), None), Change::Over(JobId(2), RUNNER)],
            "the third was told just before, and the list may not have it yet"
        );
        assert_eq!(demand.queued(), 2);
    }

    #[test]
    fn a_poll_is_about_its_own_source() {
        let mut demand = Demand::default();
        demand.apply(event(1, Status::Queued), at(0));
        let changes = demand.poll(Poll { source: "o/other".to_owned(), began: at(100), jobs: vec![] }, at(100));
        assert_eq!((changes, demand.queued()), (vec![], 1));
    }

    #[test]
    fn nothing_stays_for_ever() {
        let mut demand = Demand::default();
        demand.apply(event(1, Status::Queued), NOW);
        demand.apply(event(2, running()), NOW);
        demand.apply(event(3, over()), NOW);
        let mut ends = Vec::new();
        while let Some(deadline) = demand.deadline() {
            ends.push(deadline.duration_since(NOW).as_hours());
            demand.expire(deadline);
        }
        assert_eq!(ends, [6, 24, 121]);
    }

    #[test]
    fn a_completion_that_names_nobody_is_completed_by_the_start_that_comes_late() {
        let mut demand = Demand::default();
        demand.apply(event(1, Status::Over { runner: None }), NOW);
        assert_eq!(demand.apply(event(1, running()), NOW), Some(Change::Over(JobId(1), RUNNER)));
        assert_eq!(demand.of_runner(RunnerId(5)), Some(Change::Over(JobId(1), RUNNER)));
    }

    proptest! {
        /// A model: the furthest that anyone said of a job is what it does; order and repetition don't matter.
        #[test]
        fn order_and_repetition_do_not_matter(said in prop::collection::vec((0_u64..4, 0_u8..3), 0..40), seed: u64) {
            let statuses = [Status::Queued, running(), over()];
            let run = |events: &[(u64, u8)]| {
                let mut demand = Demand::default();
                for (id, status) in events {
                    demand.apply(event(*id, statuses[usize::from(*status)]), NOW);
                }
                (demand.queued(), demand.jobs.iter().map(|(id, job)| (*id, job.status)).collect::<Vec<_>>())
            };
            let mut shuffled = said.clone();
            shuffled.extend(said.iter().take(5).copied());
            let length = shuffled.len().max(1);
            for index in 0..shuffled.len() {
                shuffled.swap(index, (seed as usize).wrapping_mul(index + 7) % length);
            }
            let (queued, jobs) = run(&said);
            let mut furthest = BTreeMap::new();
            for (id, status) in &said {
                let best = furthest.entry(*id).or_insert(*status);
                *best = (*best).max(*status);
            }
            prop_assert_eq!(queued as usize, furthest.values().filter(|status| **status == 0).count());
            prop_assert_eq!(jobs, run(&shuffled).1);
        }
    }
}

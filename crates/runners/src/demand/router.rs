//! Which set a job is for, over all sets: jobs are kept here by their identity, so that a set that comes later, or changes
//! its labels, gets those that wait for it.
//!
//! A queued job is one set's. Who runs a job is told to all sets that the job's repository could use: the forge gives a job to
//! any runner whose labels fit, and that runner is busy, whichever set made it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::access::Access;
use super::book::{JobEvent, Lifetimes, Poll, Status};
use super::labels::{Labels, SetLabels, route};
use crate::forge::ListedJob;
use crate::ids::JobId;
use crate::set::GitHubScope;

/// A repository of which nothing was heard for so long is not asked about any more.
const QUIET: SignedDuration = SignedDuration::from_hours(1);

/// A set of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Whose jobs a set's runners may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Those of one repository, `owner/name`.
    Repository(String),
    /// Those of an organization's repositories.
    Organization(String),
    /// Those of an enterprise: of which repositories these are, a delivery does not say.
    Enterprise,
}

impl Reach {
    /// The reach of a scope; `None`: it names none.
    #[must_use]
    pub fn of(github: &GitHubScope) -> Option<Self> {
        match (&github.repository, &github.organization, &github.enterprise) {
            (Some(repository), None, None) => Some(Self::Repository(repository.to_lowercase())),
            (None, Some(organization), None) => Some(Self::Organization(organization.to_lowercase())),
            (None, None, Some(_)) => Some(Self::Enterprise),
            _ => None,
        }
    }

    /// Whether a job of this repository, in lower case, is within it.
    #[must_use]
    pub fn covers(&self, repository: &str) -> bool {
        match self {
            Self::Repository(own) => own == repository,
            Self::Organization(own) => repository.split_once('/').is_some_and(|(owner, _)| own == owner),
            Self::Enterprise => true,
        }
    }
}

/// What a set serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serves {
    /// Whose jobs.
    pub reach: Reach,
    /// Which of them.
    pub labels: Labels,
    /// And of which repositories within its reach: its runner group may be open to some alone.
    pub access: Access,
}

impl Serves {
    /// Whether its runners may get jobs of this repository, in lower case.
    fn is_open_to(&self, repository: &str) -> bool {
        self.reach.covers(repository) && self.access.allows(repository)
    }
}

/// Something that a set is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A job is its own, or one of its runners may have it.
    Job(JobEvent),
    /// A queued job is another set's now.
    Elsewhere(JobId),
    /// What the forge lists of a repository.
    Polled(Poll),
}

#[derive(Debug, Clone)]
struct Known {
    event: JobEvent,
    labels: Vec<String>,
    /// When it was first heard of, and when it got where it is.
    first: Timestamp,
    since: Timestamp,
    set: Option<SetKey>,
}

/// All jobs and all sets.
#[derive(Debug, Clone, Default)]
pub struct Router {
    sets: BTreeMap<SetKey, Serves>,
    jobs: BTreeMap<JobId, Known>,
    /// When a repository was last heard of.
    heard: BTreeMap<String, Timestamp>,
    foreign: u64,
    waits: Vec<SignedDuration>,
}

impl Router {
    /// A set is there, or has changed.
    pub fn set(&mut self, key: &SetKey, serves: Serves) -> Vec<(SetKey, Told)> {
        if self.sets.get(key) == Some(&serves) {
            return Vec::new();
        }
        let fresh = self.sets.insert(key.clone(), serves).is_none();
        let mut told = self.reroute();
        if fresh {
            let reach = &self.sets[key].reach;
            let running = self.jobs.values().filter(|known| {
                matches!(known.event.status, Status::Running { .. }) && reach.covers(&known.event.source)
            });
            told.extend(running.map(|known| (key.clone(), Told::Job(known.event.clone()))));
        }
        told
    }

    /// A set's runner group is open to other repositories than before.
    pub fn access(&mut self, key: &SetKey, access: Access) -> Vec<(SetKey, Told)> {
        match self.sets.get_mut(key) {
            Some(set) => set.access = access,
            None => return Vec::new(),
        }
        self.reroute()
    }

    /// A set is no more.
    pub fn set_gone(&mut self, key: &SetKey) -> Vec<(SetKey, Told)> {
        self.sets.remove(key);
        self.reroute()
    }

    /// Someone says what a job does.
    pub fn heard(&mut self, event: &JobEvent, labels: &[String], now: Timestamp) -> Vec<(SetKey, Told)> {
        // The forge's names have no case.
        let event = JobEvent { id: event.id, source: event.source.to_lowercase(), status: event.status };
        if !self.sets.values().any(|set| set.reach.covers(&event.source)) {
            self.foreign = self.foreign.saturating_add(1);
        }
        self.heard.insert(event.source.clone(), now);
        self.apply(event, labels, now)
    }

    /// All jobs of a repository that are queued or running, as the forge listed them from `began` on.
    pub fn polled(
        &mut self,
        source: &str,
        began: Timestamp,
        jobs: &[ListedJob],
        now: Timestamp,
    ) -> Vec<(SetKey, Told)> {
        let source = source.to_lowercase();
        let source = source.as_str();
        for job in jobs {
            let event = JobEvent { id: job.id, source: source.to_owned(), status: job.status };
            // What it means for each set is in that set's poll.
            self.apply(event, &job.labels, now);
        }
        let listed: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
        let settled = began - Lifetimes::default().slack;
        for (id, known) in &mut self.jobs {
            let over = known.event.source == source && known.since < settled && !listed.contains(id);
            if let (true, Status::Queued | Status::Running { .. }) = (over, known.event.status) {
                (known.event.status, known.since) = (Status::Over { runner: None }, now);
            }
        }
        if jobs.iter().any(|job| self.jobs.contains_key(&job.id)) {
            self.heard.insert(source.to_owned(), now);
        }
        let mut told = Vec::new();
        for (key, _) in self.sets.iter().filter(|(_, set)| set.reach.covers(source)) {
            let concerns = |job: &&ListedJob| match job.status {
                Status::Queued => self.jobs.get(&job.id).is_some_and(|known| known.set.as_ref() == Some(key)),
                Status::Running { .. } | Status::Over { .. } => true,
            };
            let event = |job: &ListedJob| JobEvent { id: job.id, source: source.to_owned(), status: job.status };
            let jobs = jobs.iter().filter(concerns).map(event).collect();
            told.push((key.clone(), Told::Polled(Poll { source: source.to_owned(), began, jobs })));
        }
        told
    }

    /// The repositories that are to be asked about, each with a set whose credential may ask.
    #[must_use]
    pub fn sources(&self, now: Timestamp) -> BTreeMap<String, SetKey> {
        let mut sources = BTreeMap::new();
        for (key, set) in &self.sets {
            if let Reach::Repository(repository) = &set.reach {
                sources.entry(repository.clone()).or_insert_with(|| key.clone());
            }
        }
        let live = self.jobs.values().filter(|known| !matches!(known.event.status, Status::Over { .. }));
        let quiet = self.heard.iter().filter(|(_, heard)| now.duration_since(**heard) < QUIET);
        let named = live.map(|known| known.event.source.as_str()).chain(quiet.map(|(source, _)| source.as_str()));
        for source in named {
            if sources.contains_key(source) {
                continue;
            }
            let set = self.sets.iter().find(|(_, set)| set.reach.covers(source));
            sources.extend(set.map(|(key, _)| (source.to_owned(), key.clone())));
        }
        sources
    }

    /// Drops what is too old to be true.
    pub fn expire(&mut self, now: Timestamp) {
        let lifetimes = Lifetimes::default();
        self.jobs.retain(|_, known| {
            let life = match known.event.status {
                Status::Queued => lifetimes.queued,
                Status::Running { .. } => lifetimes.running,
                Status::Over { .. } => lifetimes.over,
            };
            now.duration_since(known.since) < life
        });
        self.heard.retain(|_, heard| now.duration_since(*heard) < QUIET);
    }

    /// Deliveries about repositories of no set.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Jobs that no set serves: nobody will run them.
    #[must_use]
    pub fn unserved(&self) -> usize {
        let waits = |known: &&Known| known.event.status == Status::Queued && known.set.is_none();
        self.jobs.values().filter(waits).count()
    }

    /// How long jobs have waited that have begun since this was last asked.
    pub fn take_waits(&mut self) -> Vec<SignedDuration> {
        std::mem::take(&mut self.waits)
    }

    fn apply(&mut self, event: JobEvent, labels: &[String], now: Timestamp) -> Vec<(SetKey, Told)> {
        let before = self.jobs.get(&event.id).map(|known| known.event.status);
        let further = before.is_none_or(|before| rank(before) <= rank(event.status));
        if !further {
            return Vec::new();
        }
        let known = self.jobs.entry(event.id).or_insert_with(|| Known {
            event: event.clone(),
            labels: labels.to_vec(),
            first: now,
            since: now,
            set: None,
        });
        if before.is_some_and(|before| rank(before) != rank(event.status)) {
            known.since = now;
        }
        if let (Some(Status::Queued), Status::Running { .. }) = (before, event.status) {
            self.waits.push(now.duration_since(known.first));
        }
        known.event.status = event.status;
        match event.status {
            Status::Queued => {
                if known.set.is_none() {
                    known.set = choose(&self.sets, &known.event.source, &known.labels);
                }
                known.set.clone().map(|set| (set, Told::Job(event))).into_iter().collect()
            }
            Status::Running { .. } | Status::Over { .. } => {
                let own = known.set.clone();
                let covered = self.sets.iter().filter(|(_, set)| set.reach.covers(&event.source));
                let keys: BTreeSet<&SetKey> = covered.map(|(key, _)| key).chain(own.as_ref()).collect();
                keys.into_iter().map(|key| (key.clone(), Told::Job(event.clone()))).collect()
            }
        }
    }

    /// Gives queued jobs to those who serve them now.
    fn reroute(&mut self) -> Vec<(SetKey, Told)> {
        let mut told = Vec::new();
        for known in self.jobs.values_mut().filter(|known| known.event.status == Status::Queued) {
            let best = choose(&self.sets, &known.event.source, &known.labels);
            // Who may serve it keeps it: runners may be on their way.
            let keeps = known.set.as_ref().is_some_and(|own| serves(self.sets.get(own), known));
            if keeps || best == known.set {
                continue;
            }
            if let Some(old) = known.set.take() {
                told.push((old, Told::Elsewhere(known.event.id)));
            }
            told.extend(best.clone().map(|best| (best, Told::Job(known.event.clone()))));
            known.set = best;
        }
        told
    }
}

fn serves(set: Option<&Serves>, known: &Known) -> bool {
    let asked: Labels = known.labels.iter().collect();
    set.is_some_and(|set| set.is_open_to(&known.event.source) && set.labels.serve(&asked))
}

fn choose(sets: &BTreeMap<SetKey, Serves>, source: &str, labels: &[String]) -> Option<SetKey> {
    let fit: Vec<(&SetKey, SetLabels)> = sets
        .iter()
        .filter(|(_, set)| set.is_open_to(source))
        .map(|(key, set)| (key, SetLabels { name: key.to_string(), labels: set.labels.clone() }))
        .collect();
    let names: Vec<SetLabels> = fit.iter().map(|(_, set)| set.clone()).collect();
    let chosen = route(labels, &names)?;
    fit.iter().find(|(_, set)| set.name == chosen).map(|(key, _)| (*key).clone())
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Queued => 0,
        Status::Running { .. } => 1,
        Status::Over { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RunnerId;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn key(name: &str) -> SetKey {
        SetKey { namespace: "ci".to_owned(), name: name.to_owned() }
    }

    fn serves(organization: &str, labels: &[&str]) -> Serves {
        let reach = Reach::Organization(organization.to_owned());
        Serves { reach, labels: labels.iter().collect(), access: Access::All }
    }

    fn event(id: u64, status: Status) -> JobEvent {
        JobEvent { id: JobId(id), source: "octo/app".to_owned(), status }
    }

    fn labels(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    fn router() -> Router {
        let mut router = Router::default();
        router.set(&key("small"), serves("octo", &["linux"]));
        router.set(&key("gpu"), serves("octo", &["linux", "gpu"]));
        router.set(&key("other"), serves("elsewhere", &["linux"]));
        router
    }

    fn told(told: &[(SetKey, Told)]) -> Vec<String> {
        told.iter().map(|(key, _)| key.name.clone()).collect()
    }

    /// ARC 2798: a job that two pools could serve is counted in one, and its end takes nothing from the other.
    #[test]
    fn an_ambiguous_job_is_queued_in_one_set_and_its_runner_is_told_to_all() {
        let mut router = router();
        assert_eq!(told(&router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW)), ["small"]);
        let shouted = JobEvent { source: "Octo/App".to_owned(), ..event(2, Status::Queued) };
        assert_eq!(told(&router.heard(&shouted, &labels(&["gpu"]), NOW)), ["gpu"], "names have no case");
        let running = Status::Running { runner: Some(RunnerId(7)) };
        assert_eq!(told(&router.heard(&event(1, running), &labels(&["linux"]), NOW)), ["gpu", "small"]);
        assert_eq!(router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW), [], "late news");
    }

    #[test]
    fn a_webhook_of_a_foreign_repository_is_counted_and_changes_nothing() {
        let mut router = router();
        let foreign = JobEvent { source: "evil/app".to_owned(), ..event(1, Status::Queued) };
        assert_eq!(router.heard(&foreign, &labels(&["linux"]), NOW), []);
        assert_eq!((router.foreign(), router.unserved()), (1, 1));
        assert!(!router.sources(NOW).contains_key("evil/app"), "and nobody asks about it");
    }

    #[test]
    fn a_set_that_comes_later_gets_what_waits_for_it() {
        let mut router = Router::default();
        assert_eq!(router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW), []);
        let running = Status::Running { runner: Some(RunnerId(7)) };
        router.heard(&event(2, running), &labels(&["linux"]), NOW);
        let given = router.set(&key("small"), serves("octo", &["linux"]));
        assert_eq!(
            given,
            [(key("small"), Told::Job(event(1, Status::Queued))), (key("small"), Told::Job(event(2, running)))]
        );
        assert_eq!(router.set(&key("small"), serves("octo", &["linux"])), [], "nothing has changed");
        let moved = router.set(&key("small"), serves("octo", &["windows"]));
        assert_eq!(moved, [(key("small"), Told::Elsewhere(JobId(1)))]);
        let back = router.set(&key("next"), serves("octo", &["linux"]));
        assert_eq!(told(&back), ["next", "next"], "the one that waits, and the one that runs");
    }

    #[test]
    fn a_gone_sets_jobs_go_to_who_may_serve_them() {
        let mut router = router();
        router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW);
        let moved = router.set_gone(&key("small"));
        assert_eq!(
            moved,
            [(key("small"), Told::Elsewhere(JobId(1))), (key("gpu"), Told::Job(event(1, Status::Queued)))]
        );
    }

    /// Upstream's webhook server asks for the groups that a repository may use, and passes the others over.
    #[test]
    fn jobs_of_repositories_that_a_group_is_closed_to_want_none_of_its_runners() {
        let mut router = router();
        let closed = Access::only(["octo/lib"]);
        assert_eq!(router.access(&key("small"), closed.clone()), []);
        let given = router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW);
        assert_eq!(told(&given), ["gpu"], "it has more labels, and may");
        let lib = JobEvent { source: "Octo/Lib".to_owned(), ..event(2, Status::Queued) };
        assert_eq!(told(&router.heard(&lib, &labels(&["linux"]), NOW)), ["small"]);
        assert_eq!(router.access(&key("gpu"), closed), [(key("gpu"), Told::Elsewhere(JobId(1)))]);
        assert_eq!((router.unserved(), router.foreign()), (1, 0), "nobody's, and known to be");
        let running = Status::Running { runner: Some(RunnerId(7)) };
        assert_eq!(
            told(&router.heard(&event(1, running), &[], NOW)),
            ["gpu", "small"],
            "who runs it is told all the same"
        );
        router.heard(&event(3, Status::Queued), &labels(&["linux"]), NOW);
        let opened = router.access(&key("small"), Access::only(["octo/lib", "octo/app"]));
        assert_eq!(opened, [(key("small"), Told::Job(event(3, Status::Queued)))], "it was opened");
    }

    #[test]
    fn a_poll_tells_each_set_its_queue_and_all_that_runs() {
        let mut router = router();
        let at = |seconds| NOW + SignedDuration::from_secs(seconds);
        router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW);
        let job = |id, status, names: &[&str]| ListedJob { id: JobId(id), status, labels: labels(names) };
        let listed =
            [job(2, Status::Queued, &["gpu"]), job(3, Status::Running { runner: Some(RunnerId(4)) }, &["linux"])];
        let polls = router.polled("Octo/App", at(100), &listed, at(101));
        let ids = |name: &str| -> Vec<u64> {
            let mine = polls.iter().filter(|(to, _)| to.name == name);
            mine.flat_map(|(_, told)| match told {
                Told::Polled(poll) => poll.jobs.iter().map(|job| job.id.0).collect::<Vec<_>>(),
                Told::Job(_) | Told::Elsewhere(_) => panic!("{told:?}"),
            })
            .collect()
        };
        assert_eq!((ids("small"), ids("gpu"), ids("other")), (vec![3], vec![2, 3], vec![]));
        assert_eq!(router.unserved(), 0);
        assert_eq!(router.sources(at(102)).into_iter().collect::<Vec<_>>(), [("octo/app".to_owned(), key("gpu"))]);
        assert!(router.sources(at(3 * 3600)).contains_key("octo/app"), "as long as something runs");
        router.polled("octo/app", at(4000), &[], at(4001));
        assert_eq!(router.sources(at(9000)), BTreeMap::new());
    }

    #[test]
    fn how_long_a_job_waits_is_from_its_queueing() {
        let mut router = router();
        router.heard(&event(1, Status::Queued), &labels(&["linux"]), NOW);
        let later = NOW + SignedDuration::from_secs(12);
        router.heard(&event(1, Status::Running { runner: None }), &labels(&["linux"]), later);
        assert_eq!(router.take_waits(), [SignedDuration::from_secs(12)]);
        router.expire(later + SignedDuration::from_hours(6 * 24));
        assert!(router.jobs.is_empty());
    }
}

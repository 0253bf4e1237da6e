//! A runner's state as annotations of its Pod: what a controller that starts afresh knows.
//!
//! Each state is written once, when it is entered. What is not worth a write is left out: that a job is over is told by the
//! forge again, and when the forge is asked next does not matter after a restart.

use std::collections::BTreeMap;

use jiff::Timestamp;
use minke_core::judgement::Cause;

use super::facts::{EndClass, PodFacts};
use super::state::{Life, Runner, Why};
use crate::ids::{JobId, RunnerId, Slot};

/// The state's word.
pub const ANNOTATION_STATE: &str = "runners.minke.dev/state";
/// Since when.
pub const ANNOTATION_SINCE: &str = "runners.minke.dev/since";
/// The forge's number of the runner.
pub const ANNOTATION_ID: &str = "runners.minke.dev/id";
/// The forge's number of its job.
pub const ANNOTATION_JOB: &str = "runners.minke.dev/job";
/// Why it goes.
pub const ANNOTATION_WHY: &str = "runners.minke.dev/why";
/// Why it will never work: the identifier of a cause.
pub const ANNOTATION_CAUSE: &str = "runners.minke.dev/cause";
/// The hash of its template.
pub const ANNOTATION_TEMPLATE: &str = "runners.minke.dev/template";

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    life: Life,
    since: Timestamp,
    template: String,
}

/// Annotations that say nothing that can be understood: someone has changed them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// It is missing.
    #[error("annotation {0} is missing")]
    Missing(&'static str),
    /// It has no such value.
    #[error("annotation {0} can't be understood: {1:?}")]
    Unknown(&'static str, String),
}

impl Record {
    /// The record of a runner, if it has one: `None` for what is not worth a write.
    #[must_use]
    pub fn of(runner: &Runner) -> Option<Self> {
        let life = match runner.life {
            Life::Requested | Life::Gone | Life::Draining { why: Why::Done, .. } => return None,
            // When it is asked again is nobody's business.
            Life::Draining { id, why, .. } => Life::Draining { id, why, tries: 0, due: runner.since },
            life @ (Life::Registered { .. } | Life::Idle { .. } | Life::Busy { .. } | Life::Deregistered { .. }) => {
                life
            }
        };
        Some(Self { life, since: runner.since, template: runner.template.clone() })
    }

    /// The registration that it is about.
    #[must_use]
    pub fn id(&self) -> Option<RunnerId> {
        self.life.id()
    }

    /// The state's word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.life.word()
    }

    /// Whether the Pod keeps its finalizer: it may be deleted only when this is over.
    #[must_use]
    pub fn holds_pod(&self) -> bool {
        !matches!(self.life, Life::Deregistered { .. })
    }

    /// As annotations; those that are not there are removed.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<&'static str, Option<String>> {
        let (job, why) = match self.life {
            Life::Busy { job, .. } => (job, None),
            Life::Draining { why, .. } | Life::Deregistered { why } => (None, Some(why)),
            Life::Requested | Life::Registered { .. } | Life::Idle { .. } | Life::Gone => (None, None),
        };
        BTreeMap::from([
            (ANNOTATION_STATE, Some(self.life.word().to_owned())),
            (ANNOTATION_SINCE, Some(self.since.to_string())),
            (ANNOTATION_ID, self.life.id().map(|id| id.to_string())),
            (ANNOTATION_JOB, job.map(|job| job.to_string())),
            (ANNOTATION_WHY, why.map(|why| why.word().to_owned())),
            (ANNOTATION_CAUSE, why.and_then(Why::cause).map(|cause| cause.as_str().to_owned())),
            (ANNOTATION_TEMPLATE, Some(self.template.clone())),
        ])
    }

    /// What annotations say.
    ///
    /// # Errors
    ///
    /// They were changed by someone else.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Result<Self, BadRecord> {
        let get = |key: &'static str| annotations.get(key).map(String::as_str).ok_or(BadRecord::Missing(key));
        let number = |key: &'static str| {
            let text = get(key)?;
            text.parse::<u64>().map_err(|_| BadRecord::Unknown(key, text.to_owned()))
        };
        let why = || {
            let text = get(ANNOTATION_WHY)?;
            if text != Why::NEVER_WORKS {
                return Why::parse(text).ok_or_else(|| BadRecord::Unknown(ANNOTATION_WHY, text.to_owned()));
            }
            let cause = get(ANNOTATION_CAUSE)?;
            let known = Cause::parse(cause).map(Why::NeverWorks);
            known.ok_or_else(|| BadRecord::Unknown(ANNOTATION_CAUSE, cause.to_owned()))
        };
        let since = get(ANNOTATION_SINCE)?;
        let since = since.parse().map_err(|_| BadRecord::Unknown(ANNOTATION_SINCE, since.to_owned()))?;
        let id = || number(ANNOTATION_ID).map(RunnerId);
        let life = match get(ANNOTATION_STATE)? {
            "Registered" => Life::Registered { id: id()? },
            "Idle" => Life::Idle { id: id()? },
            "Busy" => {
                let job = annotations.contains_key(ANNOTATION_JOB).then(|| number(ANNOTATION_JOB)).transpose()?;
                Life::Busy { id: id()?, job: job.map(JobId) }
            }
            "Draining" => Life::Draining { id: id()?, why: why()?, tries: 0, due: since },
            "Deregistered" => Life::Deregistered { why: why()? },
            other => return Err(BadRecord::Unknown(ANNOTATION_STATE, other.to_owned())),
        };
        Ok(Self { life, since, template: get(ANNOTATION_TEMPLATE)?.to_owned() })
    }

    /// The runner that this was written for.
    #[must_use]
    pub fn runner(self, slot: Slot, pod: Option<PodFacts>) -> Runner {
        Runner { slot, template: self.template, life: self.life, since: self.since, looked: self.since, pod }
    }
}

impl Why {
    const NEVER_WORKS: &str = "NeverWorks";
    /// All but those with a cause.
    const ALL: [Self; 12] = [
        Self::Done,
        Self::Surplus,
        Self::Stale,
        Self::NeverStarted,
        Self::NeverOnline,
        Self::Vanished,
        Self::PodDeleted,
        Self::NodeLost,
        Self::Ended(EndClass::Success),
        Self::Ended(EndClass::Runner),
        Self::Ended(EndClass::Infrastructure),
        Self::Unreadable,
    ];

    /// The word for it, as annotations and events have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Surplus => "Surplus",
            Self::Stale => "StaleTemplate",
            Self::NeverWorks(_) => Self::NEVER_WORKS,
            Self::NeverStarted => "NeverStarted",
            Self::NeverOnline => "NeverOnline",
            Self::Vanished => "RegistrationVanished",
            Self::PodDeleted => "PodDeleted",
            Self::NodeLost => "NodeLost",
            Self::Ended(EndClass::Success) => "EndedWithoutJob",
            Self::Ended(EndClass::Runner) => "RunnerFailed",
            Self::Ended(EndClass::Infrastructure) => "Evicted",
            Self::Unreadable => "UnreadableState",
        }
    }

    /// The judgement's cause, if it is for one.
    fn cause(self) -> Option<Cause> {
        match self {
            Self::NeverWorks(cause) => Some(cause),
            Self::Done
            | Self::Surplus
            | Self::Stale
            | Self::NeverStarted
            | Self::NeverOnline
            | Self::Vanished
            | Self::PodDeleted
            | Self::NodeLost
            | Self::Ended(_)
            | Self::Unreadable => None,
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn lives() -> Vec<Life> {
        let id = RunnerId(7);
        let mut lives = vec![
            Life::Registered { id },
            Life::Idle { id },
            Life::Busy { id, job: None },
            Life::Busy { id, job: Some(JobId(9)) },
        ];
        let whys = || Why::ALL.into_iter().chain(Cause::ALL.iter().map(|cause| Why::NeverWorks(*cause)));
        lives.extend(whys().map(|why| Life::Deregistered { why }));
        let draining = |why| Life::Draining { id, why, tries: 0, due: SINCE };
        lives.extend(whys().filter(|why| *why != Why::Done).map(draining));
        lives
    }

    fn record(life: Life) -> Record {
        Record { life, since: SINCE, template: "abc".to_owned() }
    }

    fn written(record: &Record) -> BTreeMap<String, String> {
        record.annotations().into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for life in lives() {
            let record = record(life);
            assert_eq!(Record::parse(&written(&record)), Ok(record.clone()));
            let runner = record.clone().runner(Slot(1), None);
            assert_eq!(Record::of(&runner), Some(record));
        }
    }

    #[test]
    fn only_what_is_off_the_forge_lets_its_pod_go() {
        for life in lives() {
            assert_eq!(record(life).holds_pod(), !matches!(life, Life::Deregistered { .. }), "{life:?}");
        }
    }

    #[test]
    fn changed_annotations_are_told_and_never_guessed() {
        let good = written(&record(Life::Busy { id: RunnerId(7), job: Some(JobId(9)) }));
        for (key, value) in
            [(ANNOTATION_STATE, "Sleeping"), (ANNOTATION_SINCE, "noon"), (ANNOTATION_ID, "-1"), (ANNOTATION_JOB, "x")]
        {
            let mut bad = good.clone();
            bad.insert(key.to_owned(), value.to_owned());
            assert_eq!(Record::parse(&bad), Err(BadRecord::Unknown(key, value.to_owned())));
        }
        let mut doomed = written(&record(Life::Deregistered { why: Why::NeverWorks(Cause::ImageNotFound) }));
        doomed.insert(ANNOTATION_CAUSE.to_owned(), "Gremlins".to_owned());
        assert_eq!(Record::parse(&doomed), Err(BadRecord::Unknown(ANNOTATION_CAUSE, "Gremlins".to_owned())));
        doomed.remove(ANNOTATION_CAUSE);
        assert_eq!(Record::parse(&doomed), Err(BadRecord::Missing(ANNOTATION_CAUSE)));
        for key in [ANNOTATION_STATE, ANNOTATION_SINCE, ANNOTATION_ID, ANNOTATION_TEMPLATE] {
            let mut bad = good.clone();
            bad.remove(key);
            assert_eq!(Record::parse(&bad), Err(BadRecord::Missing(key)));
        }
    }
}

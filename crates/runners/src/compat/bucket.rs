//! Which bucket a Pod is in. The first rule that matches decides.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long a Pod may be Ready without its runner being known to the forge.
pub const REGISTRATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// A Pod's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the words of the API")]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// What the legacy engine looks at in a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerPod {
    /// Its phase.
    pub phase: Phase,
    /// It has a deletion time.
    pub deleting: bool,
    /// It has any container status at all: it has been on a node.
    pub has_container_statuses: bool,
    /// The container `runner` has ended.
    pub runner_terminated: bool,
    /// The forge's number of the runner is known.
    pub has_runner_id: bool,
    /// Since when it is Ready.
    pub ready_since: Option<Timestamp>,
    /// It is marked as taken off the forge.
    pub unregistered: bool,
}

/// What a Pod counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// Its runner has ended, or it goes without ever having been on a node.
    Completed,
    /// It is Ready and never came to the forge: replaced, counted nowhere.
    RegistrationTimeout,
    /// It runs, be it deleted, unready or asked to go.
    Running,
    /// It is deleted and does not run.
    Terminating,
    /// It may yet run.
    Pending,
}

impl RunnerPod {
    /// The bucket at `now`.
    #[must_use]
    pub fn bucket(&self, now: Timestamp) -> Bucket {
        let running = self.phase == Phase::Running;
        let ended = matches!(self.phase, Phase::Succeeded | Phase::Failed) || running && self.runner_terminated;
        if ended || self.deleting && !self.has_container_statuses {
            return Bucket::Completed;
        }
        if running {
            let overdue = self.ready_since.is_some_and(|since| now.duration_since(since) > REGISTRATION_TIMEOUT);
            return if !self.has_runner_id && overdue { Bucket::RegistrationTimeout } else { Bucket::Running };
        }
        if self.deleting { Bucket::Terminating } else { Bucket::Pending }
    }

    /// Whether its owner may go as far as this Pod is concerned.
    #[must_use]
    pub fn safe_to_delete(&self) -> bool {
        self.unregistered || self.deleting
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    pub(crate) fn pod(phase: Phase) -> RunnerPod {
        RunnerPod {
            phase,
            deleting: false,
            has_container_statuses: true,
            runner_terminated: false,
            has_runner_id: false,
            ready_since: None,
            unregistered: false,
        }
    }

    fn ready_for(minutes: i64, seconds: i64) -> RunnerPod {
        let since = NOW - SignedDuration::from_secs(minutes * 60 + seconds);
        RunnerPod { ready_since: Some(since), ..pod(Phase::Running) }
    }

    #[test]
    fn row_1_what_has_ended_is_completed() {
        assert_eq!(pod(Phase::Succeeded).bucket(NOW), Bucket::Completed);
        assert_eq!(pod(Phase::Failed).bucket(NOW), Bucket::Completed);
        let terminated = RunnerPod { runner_terminated: true, ..pod(Phase::Running) };
        assert_eq!(terminated.bucket(NOW), Bucket::Completed);
        let never_placed = RunnerPod { deleting: true, has_container_statuses: false, ..pod(Phase::Pending) };
        assert_eq!(never_placed.bucket(NOW), Bucket::Completed);
    }

    #[test]
    fn row_2a_ready_for_more_than_ten_minutes_without_an_id_is_a_registration_timeout() {
        assert_eq!(ready_for(10, 1).bucket(NOW), Bucket::RegistrationTimeout);
        assert_eq!(ready_for(10, 0).bucket(NOW), Bucket::Running);
        let known = RunnerPod { has_runner_id: true, ..ready_for(60, 0) };
        assert_eq!(known.bucket(NOW), Bucket::Running);
    }

    #[test]
    fn row_2a_a_pod_that_is_never_ready_never_times_out() {
        assert_eq!(pod(Phase::Running).bucket(NOW), Bucket::Running);
    }

    #[test]
    fn row_2b_a_running_pod_counts_even_while_it_is_deleted() {
        let deleted = RunnerPod { deleting: true, ..pod(Phase::Running) };
        assert_eq!(deleted.bucket(NOW), Bucket::Running);
    }

    #[test]
    fn row_3_deleted_and_not_running_is_terminating() {
        let deleted = RunnerPod { deleting: true, ..pod(Phase::Pending) };
        assert_eq!(deleted.bucket(NOW), Bucket::Terminating);
    }

    #[test]
    fn row_4_everything_else_is_pending() {
        assert_eq!(pod(Phase::Pending).bucket(NOW), Bucket::Pending);
        assert_eq!(pod(Phase::Unknown).bucket(NOW), Bucket::Pending);
        let terminated_but_pending = RunnerPod { runner_terminated: true, ..pod(Phase::Pending) };
        assert_eq!(terminated_but_pending.bucket(NOW), Bucket::Pending);
    }
}

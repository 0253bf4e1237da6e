//! When a watch is over: a pure function over the newest report of each Pod.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use minke_core::judgement::{Category, Cause, Failure, Verdict};
use minke_watch::{Report, Whereabouts};

use crate::exit::Exit;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Wanted {
    /// Everything runs and is ready, or has completed
    Ready,
    /// Everything has ended, with success
    Completed,
    /// The Pods are gone
    Deleted,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Completed => "completed",
            Self::Deleted => "deleted",
        })
    }
}

/// Where a watch stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// Not over.
    Waiting,
    /// All Pods are as wanted.
    Reached,
    /// This Pod never will be.
    Failed(Box<Report>, Box<Failure>),
}

/// What one Pod means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open,
    Met,
    /// Not counted any more: it went away, and nobody asked for it by name.
    Dropped,
}

/// The newest of each Pod.
#[derive(Debug)]
pub(super) struct Board {
    wanted: Wanted,
    by_labels: bool,
    /// By namespace, name, and, for Pods found by labels, uid; with what was said of each last.
    pods: BTreeMap<(String, String, String), (Standing, Option<String>)>,
}

/// The exit code for a cause: by category, and what a node refused by itself.
pub(super) fn exit_of(cause: Cause) -> Exit {
    if matches!(cause, Cause::OutOfResource | Cause::AdmissionRejected | Cause::AdmissionForbidden) {
        return Exit::Rejected;
    }
    match cause.category() {
        Category::Program => Exit::ContainerFailed,
        Category::Infrastructure => Exit::System,
        Category::Configuration => Exit::Configuration,
        Category::External => Exit::External,
        Category::Cancelled => Exit::Cancelled,
    }
}

impl Board {
    /// A watch of these Pods, or of whatever has the labels.
    pub(super) fn new(wanted: Wanted, targets: Vec<(String, String)>, by_labels: bool) -> Self {
        let open = |(namespace, name)| ((namespace, name, String::new()), (Standing::Open, None));
        Self { wanted, by_labels, pods: targets.into_iter().map(open).collect() }
    }

    /// Takes a report, and says where the watch stands.
    pub(super) fn take(&mut self, report: Report) -> State {
        let uid = if self.by_labels { report.uid.clone().unwrap_or_default() } else { String::new() };
        if self.by_labels && uid.is_empty() {
            return State::Waiting;
        }
        let key = (report.name.0.clone(), report.name.1.clone(), uid);
        let standing = match (self.wanted, &report.verdict) {
            (Wanted::Deleted, _) => match report.whereabouts {
                Whereabouts::Gone | Whereabouts::Missing => Standing::Met,
                Whereabouts::Unseen | Whereabouts::Present => Standing::Open,
            },
            (Wanted::Ready | Wanted::Completed, Some(Verdict::Succeeded)) => Standing::Met,
            (Wanted::Ready, Some(Verdict::Healthy(healthy))) if healthy.ready => Standing::Met,
            (Wanted::Ready | Wanted::Completed, Some(Verdict::Failed(failure))) => {
                let cancelled = failure.cause.category() == Category::Cancelled;
                if !(self.by_labels && cancelled) {
                    let failure = Box::new(failure.clone());
                    return State::Failed(Box::new(report), failure);
                }
                Standing::Dropped
            }
            (
                Wanted::Ready | Wanted::Completed,
                Some(Verdict::Healthy(_) | Verdict::Waiting { .. } | Verdict::Doomed { .. }) | None,
            ) => Standing::Open,
        };
        self.pods.insert(key, (standing, super::tell::words(&report)));
        let mut counted =
            self.pods.values().map(|(standing, _)| *standing).filter(|s| *s != Standing::Dropped).peekable();
        let some = counted.peek().is_some();
        if some && counted.all(|standing| standing == Standing::Met) { State::Reached } else { State::Waiting }
    }

    /// The Pods that are not as wanted, each with what holds it up.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let open = self.pods.iter().filter(|(_, (standing, _))| *standing == Standing::Open);
        let told = |((namespace, name, _), (_, words)): (&(String, String, String), &(Standing, Option<String>))| {
            let words = words.as_ref().map(|words| format!(" ({words})")).unwrap_or_default();
            format!("{namespace}/{name}{words}")
        };
        let told: Vec<String> = open.map(told).collect();
        if told.is_empty() { vec!["there is no such pod".to_owned()] } else { told }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use minke_core::judgement::{Evidence, Healthy};
    use minke_watch::Observer;

    use super::*;

    fn report(name: &str, uid: &str, verdict: Option<Verdict>) -> Report {
        Report {
            attempt: 1,
            name: ("ns".to_owned(), name.to_owned()),
            uid: Some(uid.to_owned()),
            verdict,
            pod: None,
            whereabouts: Whereabouts::Present,
            observer: Observer::Current,
            moment: Duration::ZERO,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn ready() -> Option<Verdict> {
        Some(Verdict::Healthy(Healthy { ready: true, notes: Vec::new() }))
    }

    fn failed(cause: Cause) -> Option<Verdict> {
        let evidence = Evidence::default();
        Some(Verdict::Failed(Failure { cause, evidence, later: Vec::new(), since: Duration::ZERO }))
    }

    fn named(wanted: Wanted, names: &[&str]) -> Board {
        Board::new(wanted, names.iter().map(|name| ("ns".to_owned(), (*name).to_owned())).collect(), false)
    }

    #[test]
    fn all_pods_must_be_ready() {
        let mut board = named(Wanted::Ready, &["a", "b"]);
        assert_eq!(board.take(report("a", "1", ready())), State::Waiting);
        assert_eq!(board.unfinished(), ["ns/b"]);
        board.take(Report { whereabouts: Whereabouts::Missing, ..report("b", "2", None) });
        assert_eq!(board.unfinished(), ["ns/b (there is no such pod yet)"]);
        assert_eq!(board.take(report("b", "2", Some(Verdict::Succeeded))), State::Reached);
    }

    #[test]
    fn a_pod_that_is_not_ready_any_more_counts_again() {
        let mut board = named(Wanted::Ready, &["a", "b"]);
        board.take(report("a", "1", ready()));
        board.take(report("a", "1", None));
        assert_eq!(board.take(report("b", "2", ready())), State::Waiting);
    }

    #[test]
    fn the_first_failure_ends_it() {
        let mut board = named(Wanted::Completed, &["a", "b"]);
        assert!(matches!(board.take(report("a", "1", failed(Cause::OomKilled))), State::Failed(..)));
        assert_eq!(named(Wanted::Completed, &["a"]).take(report("a", "1", ready())), State::Waiting);
    }

    #[test]
    fn deleted_means_gone_and_not_going() {
        let mut board = named(Wanted::Deleted, &["a"]);
        assert_eq!(board.take(report("a", "1", failed(Cause::Deleted))), State::Waiting);
        assert_eq!(
            board.take(Report { whereabouts: Whereabouts::Gone, ..report("a", "1", failed(Cause::Deleted)) }),
            State::Reached
        );
        let mut board = named(Wanted::Deleted, &["a"]);
        assert_eq!(board.take(Report { whereabouts: Whereabouts::Missing, ..report("a", "1", None) }), State::Reached);
    }

    #[test]
    fn pods_found_by_labels_may_go_and_none_is_not_all() {
        let mut board = Board::new(Wanted::Ready, Vec::new(), true);
        assert_eq!(board.take(Report { uid: None, ..report("", "", None) }), State::Waiting);
        assert_eq!(board.take(report("a", "1", failed(Cause::Deleted))), State::Waiting);
        assert_eq!(board.take(report("b", "2", ready())), State::Reached);
        assert!(matches!(board.take(report("c", "3", failed(Cause::CrashLoop))), State::Failed(..)));
    }

    #[test]
    fn exit_codes_are_those_of_the_categories() {
        for (cause, code) in [
            (Cause::ContainerFailed, 1),
            (Cause::OutOfResource, 4),
            (Cause::ApiEvicted, 5),
            (Cause::ImageNotFound, 6),
            (Cause::RegistryUnavailable, 7),
            (Cause::Deleted, 8),
        ] {
            assert_eq!(exit_of(cause).code(), code, "{cause}");
        }
    }
}

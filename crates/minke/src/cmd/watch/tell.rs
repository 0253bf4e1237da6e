//! Reports as people and programs read them.

use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use minke_core::judgement::{Stage, Verdict};
use minke_watch::{Observer, Report, Whereabouts};
use serde::Serialize;

use crate::output::blame::Blame;

/// `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One line a change
    Text,
    /// One JSON object a line, a change each
    Json,
}

/// A report as one JSON object. Fields may be added, never renamed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line<'a> {
    /// When.
    time: Timestamp,
    /// Since the command began.
    elapsed_ms: u64,
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    /// `Missing`, `Healthy`, `Waiting`, `Doomed`, `Failed`, `Succeeded`, `Unknown`.
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<Stage>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    cause: Option<Blame>,
    /// Until the patience ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// What was seen after the first root cause; or ends of containers that fail nobody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<Blame>,
    gone: bool,
    observer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    observer_message: Option<&'a str>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How well the cluster is seen, in a word and in words.
fn observer(report: &Report) -> (&'static str, Option<&str>) {
    match &report.observer {
        Observer::Starting => ("Starting", None),
        Observer::Current => ("Current", None),
        Observer::Stale => ("Stale", None),
        Observer::Polling(why) => ("Polling", Some(why)),
        Observer::Blind(why) => ("Blind", Some(why)),
    }
}

impl<'a> Line<'a> {
    /// The object of a report.
    pub(super) fn of(report: &'a Report, elapsed: Duration) -> Self {
        let (observer, observer_message) = observer(report);
        let status = report.pod.as_ref().and_then(|pod| pod.status.as_ref());
        let node = report.pod.as_ref().and_then(|pod| pod.spec.as_ref()?.node_name.as_deref());
        let mut line = Self {
            time: report.at,
            elapsed_ms: millis(elapsed),
            namespace: &report.name.0,
            name: &report.name.1,
            uid: report.uid.as_deref(),
            phase: status.and_then(|status| status.phase.as_deref()),
            node,
            verdict: "Unknown",
            ready: None,
            stage: None,
            cause: None,
            remaining_ms: None,
            also: Vec::new(),
            gone: report.whereabouts == Whereabouts::Gone,
            observer,
            observer_message,
        };
        let remaining = |until: &Option<Duration>| until.map(|until| millis(until.saturating_sub(report.moment)));
        match &report.verdict {
            None if report.whereabouts == Whereabouts::Missing => line.verdict = "Missing",
            None => {}
            Some(Verdict::Healthy(healthy)) => {
                line.verdict = "Healthy";
                line.ready = Some(healthy.ready);
                line.also = healthy.notes.iter().map(Blame::of).collect();
            }
            Some(Verdict::Waiting { stage, why, until }) => {
                line.verdict = "Waiting";
                line.stage = Some(*stage);
                line.cause = why.as_ref().map(Blame::of);
                line.remaining_ms = remaining(until);
            }
            Some(Verdict::Doomed { why, until }) => {
                line.verdict = "Doomed";
                line.cause = Some(Blame::of(why));
                line.remaining_ms = remaining(until);
            }
            Some(Verdict::Failed(failure)) => {
                line.verdict = "Failed";
                line.cause = Some(Blame::new(failure.cause, &failure.evidence));
                line.also = failure.later.iter().map(Blame::of).collect();
            }
            Some(Verdict::Succeeded) => line.verdict = "Succeeded",
        }
        line
    }
}

/// A report in words, without its Pod and time; `None`: nothing that people wait for.
pub(super) fn words(report: &Report) -> Option<String> {
    let unseen = match &report.observer {
        Observer::Stale => " (the cluster does not answer)",
        Observer::Starting | Observer::Current | Observer::Polling(_) | Observer::Blind(_) => "",
    };
    let text = match &report.verdict {
        None if report.whereabouts == Whereabouts::Missing => "there is no such pod yet".to_owned(),
        None if unseen.is_empty() => return None,
        None => "waiting".to_owned(),
        Some(Verdict::Healthy(healthy)) => {
            let notes = healthy.notes.iter().map(|note| format!("; {note}")).collect::<String>();
            format!("ready{notes}")
        }
        Some(Verdict::Waiting { stage, why: None, .. }) => stage.to_string(),
        Some(Verdict::Waiting { stage, why: Some(why), .. }) => format!("{stage}: {why}"),
        // What settles is told a moment later, as what it is.
        Some(Verdict::Doomed { why, until }) if why.evidence.container.is_some() && until.is_some() => return None,
        Some(Verdict::Doomed { why, .. }) => format!("its end is near: {why}"),
        Some(Verdict::Failed(failure)) => format!("failed: {failure}"),
        Some(Verdict::Succeeded) => "completed".to_owned(),
    };
    let gone = if report.whereabouts == Whereabouts::Gone { " (gone)" } else { "" };
    Some(format!("{text}{gone}{unseen}"))
}

#[cfg(test)]
mod tests {
    use minke_core::judgement::{Budget, Cause, Evidence, Failure, Finding, Severity};
    use serde_json::json;

    use super::*;

    fn report(verdict: Option<Verdict>) -> Report {
        Report {
            attempt: 1,
            name: ("ns".to_owned(), "web".to_owned()),
            uid: Some("u1".to_owned()),
            verdict,
            pod: None,
            whereabouts: Whereabouts::Present,
            observer: Observer::Current,
            moment: Duration::from_secs(2),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn evidence() -> Evidence {
        Evidence {
            container: Some("app".to_owned()),
            exit_code: Some(3),
            message: "boom".to_owned(),
            ..Evidence::default()
        }
    }

    #[test]
    fn the_json_of_a_failure_is_as_documented() {
        let cause = Cause::ContainerFailed;
        let failure = Failure { cause, evidence: evidence(), later: Vec::new(), since: Duration::ZERO };
        let failed = report(Some(Verdict::Failed(failure)));
        let value = serde_json::to_value(Line::of(&failed, Duration::from_millis(1500))).unwrap();
        assert_eq!(
            value,
            json!({"time": "1970-01-01T00:00:00Z", "elapsedMs": 1500, "namespace": "ns", "name": "web", "uid": "u1",
                   "verdict": "Failed", "cause": "ContainerFailed", "category": "program",
                   "message": "container app: exit code 3: boom", "remedy": cause.remedy(),
                   "evidence": {"container": "app", "exitCode": 3, "message": "boom"},
                   "gone": false, "observer": "Current"})
        );
    }

    #[test]
    fn the_json_of_waiting_has_what_remains() {
        let why = Finding {
            cause: Cause::ImagePullFailed,
            severity: Severity::Transient(Budget::Pull),
            evidence: evidence(),
        };
        let waiting = Verdict::Waiting { stage: Stage::Creating, why: Some(why), until: Some(Duration::from_secs(62)) };
        let waiting = report(Some(waiting));
        let value = serde_json::to_value(Line::of(&waiting, Duration::ZERO)).unwrap();
        assert_eq!((&value["remainingMs"], &value["stage"]), (&json!(60_000), &json!("creating")));
    }

    #[test]
    fn words_for_people() {
        let say = |verdict| words(&report(Some(verdict)));
        assert_eq!(say(Verdict::Succeeded).unwrap(), "completed");
        let creating = Verdict::Waiting { stage: Stage::Creating, why: None, until: None };
        assert_eq!(say(creating).unwrap(), "containers are being created");
        assert_eq!(words(&report(None)), None);
        assert_eq!(
            words(&Report { whereabouts: Whereabouts::Missing, ..report(None) }).unwrap(),
            "there is no such pod yet"
        );
        let stale = Report { observer: Observer::Stale, ..report(Some(Verdict::Succeeded)) };
        assert_eq!(words(&stale).unwrap(), "completed (the cluster does not answer)");
    }
}

//! What a delivery says.

use serde::Deserialize;

use crate::demand::{JobEvent, Status};
use crate::ids::{JobId, RunnerId};

/// A job of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobNews {
    /// What it does; its source is the repository, `owner/name`.
    pub event: JobEvent,
    /// What it asks for.
    pub labels: Vec<String>,
}

/// A delivery that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The forge tries whether anyone listens.
    Ping,
    /// News of a job.
    Job(JobNews),
    /// Nothing that matters here.
    Ignored,
}

/// A delivery that is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPayload {
    /// It is no JSON, or lacks what it must have. What stands in it is not shown.
    #[error("the payload can't be understood: {0}")]
    Malformed(String),
}

#[derive(Deserialize)]
struct Payload {
    action: String,
    workflow_job: Job,
    repository: Repository,
}

#[derive(Deserialize)]
struct Job {
    id: u64,
    #[serde(default)]
    labels: Vec<String>,
    runner_id: Option<u64>,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

/// Reads a delivery of the kind that `X-GitHub-Event` names.
///
/// # Errors
///
/// It can't be understood.
pub fn parse(kind: &str, body: &[u8]) -> Result<Delivery, BadPayload> {
    match kind {
        "ping" => return Ok(Delivery::Ping),
        "workflow_job" => {}
        _ => return Ok(Delivery::Ignored),
    }
    let payload: Payload = serde_json::from_slice(body).map_err(|error| {
        BadPayload::Malformed(format!(
            "{:?} error in line {}, column {}",
            error.classify(),
            error.line(),
            error.column()
        ))
    })?;
    let Job { id, labels, runner_id } = payload.workflow_job;
    let runner = runner_id.filter(|id| *id != 0).map(RunnerId);
    let status = match payload.action.as_str() {
        "queued" => Status::Queued,
        "in_progress" => Status::Running { runner },
        "completed" => Status::Over { runner },
        // Waiting for an approval, and what may come.
        _ => return Ok(Delivery::Ignored),
    };
    let event = JobEvent { id: JobId(id), source: payload.repository.full_name, status };
    Ok(Delivery::Job(JobNews { event, labels }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    pub(in crate::webhook) fn delivery(action: &str, runner: Option<u64>) -> Vec<u8> {
        let job = json!({"id": 9, "run_id": 5, "labels": ["linux"], "runner_id": runner, "conclusion": null});
        json!({"action": action, "workflow_job": job, "repository": {"full_name": "o/r"}}).to_string().into_bytes()
    }

    fn status(action: &str, runner: Option<u64>) -> Option<Status> {
        match parse("workflow_job", &delivery(action, runner)).unwrap() {
            Delivery::Job(news) => Some(news.event.status),
            Delivery::Ping | Delivery::Ignored => None,
        }
    }

    #[test]
    fn jobs_are_queued_in_progress_and_completed() {
        let runner = Some(RunnerId(7));
        assert_eq!(status("queued", None), Some(Status::Queued));
        assert_eq!(status("in_progress", Some(7)), Some(Status::Running { runner }));
        assert_eq!(status("completed", Some(7)), Some(Status::Over { runner }));
        assert_eq!(status("completed", Some(0)), Some(Status::Over { runner: None }), "cancelled before its start");
        assert_eq!(status("waiting", None), None);
    }

    #[test]
    fn other_kinds_are_ignored_and_a_ping_is_one() {
        assert_eq!(parse("push", b"{}"), Ok(Delivery::Ignored));
        assert_eq!(parse("ping", b"{}"), Ok(Delivery::Ping));
    }

    #[test]
    fn what_is_wrong_is_told_and_not_shown() {
        for body in [&b"hunter2"[..], b"{\"action\":\"hunter2\"}", b"", b"[]"] {
            let error = parse("workflow_job", body).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_body_breaks_it(kind in "workflow_job|ping|push", body: Vec<u8>) {
            let _ = parse(&kind, &body);
        }
    }
}

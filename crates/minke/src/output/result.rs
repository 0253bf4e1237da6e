//! Pods as the commands show them: the structure behind `-o json` and `-o yaml`, and the source of tables.
//!
//! Field names are part of the interface: fields may be added, never renamed.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use minke_core::defaults::{CONFIG_SOURCE, MANIFEST};
use minke_core::identity::PodKey;
use minke_kubelet::{PodReport, PodStage, PodTimings};
use serde::Serialize;

use crate::exit::Exit;
use crate::goal::{self, Goal, Standing, Tracked, Until};
use crate::output::blame::Blame;

/// What `minke run` came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    /// What was waited for.
    pub(crate) until: Until,
    /// How it ended.
    pub(crate) outcome: Exit,
    /// The process's exit code.
    pub(crate) exit_code: u8,
    /// What kept the goal from being reached, one line a Pod.
    pub(crate) failures: Vec<String>,
    /// From the start of the command, in milliseconds.
    pub(crate) duration_ms: u64,
    /// All Pods asked for, in the manifests' order.
    pub(crate) pods: Vec<PodResult>,
}

/// One Pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodResult {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// Uid.
    pub(crate) uid: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`; `Queued`, `Unknown` and `Removed` are Minke's own.
    pub(crate) phase: String,
    /// Why it is in this phase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Its first address.
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub(crate) pod_ip: Option<String>,
    /// Where its worker is: `Syncing`, `Terminating`, `Terminated`, `Finished`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<PodStage>,
    /// Where a static Pod comes from: `file` or `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// The path or address of its manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<String>,
    /// What is wrong with it, the root alone, named as `minke watch` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<Blame>,
    /// Its containers in the spec's order, init containers first.
    pub(crate) containers: Vec<ContainerResult>,
    /// When its steps happened.
    pub(crate) timings: TimingsResult,
}

/// When a Pod's steps happened, and how long the steps of its containers took.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimingsResult {
    /// Taken on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admitted_at: Option<Timestamp>,
    /// First sandbox ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox_at: Option<Timestamp>,
    /// First time all containers ran, or it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) running_at: Option<Timestamp>,
    /// Nothing ran any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Timestamp>,
    /// From taken on to running, in milliseconds; absent if the clock went back in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) startup_ms: Option<u64>,
    /// The newest start of each container.
    pub(crate) containers: Vec<ContainerTimingsResult>,
}

/// How long the steps of a container's newest start took, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerTimingsResult {
    /// Its name.
    pub(crate) name: String,
    /// Image pull; absent when the image was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_ms: Option<u64>,
    /// Create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) create_ms: Option<u64>,
    /// Start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_ms: Option<u64>,
}

impl From<&PodTimings> for TimingsResult {
    fn from(timings: &PodTimings) -> Self {
        let startup = timings.admitted_at.zip(timings.running_at).map(|(from, to)| to.duration_since(from));
        let container = |c: &minke_kubelet::ContainerTimings| ContainerTimingsResult {
            name: c.name.clone(),
            pull_ms: c.pull_ms,
            create_ms: c.create_ms,
            start_ms: c.start_ms,
        };
        Self {
            admitted_at: timings.admitted_at,
            sandbox_at: timings.sandbox_at,
            running_at: timings.running_at,
            finished_at: timings.finished_at,
            startup_ms: startup.and_then(|d| u64::try_from(d.as_millis()).ok()),
            containers: timings.containers.iter().map(container).collect(),
        }
    }
}

/// Which part a container plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContainerKind {
    /// Runs before the others.
    Init,
    /// An init container that goes on beside the others.
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerResult {
    /// Name.
    pub(crate) name: String,
    /// Its part.
    pub(crate) kind: ContainerKind,
    /// Image as the manifest names it.
    pub(crate) image: String,
    /// `Waiting`, `Running` or `Terminated`.
    pub(crate) state: String,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// The same for people; the termination message where there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Of its end, or of its last one while it waits to be restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    /// How often it was restarted.
    pub(crate) restarts: i32,
    /// Of the attempt that the state is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<Timestamp>,
    /// Its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Timestamp>,
}

impl PodResult {
    /// Of a Pod that the agent reports.
    pub(crate) fn of_report(key: &PodKey, report: &PodReport) -> Self {
        let mut result = Self::without_status(key, &report.pod, "Pending");
        if let Some(status) = &report.pod.status {
            result.phase = status.phase.clone().unwrap_or_else(|| "Pending".to_owned());
            result.reason = status.reason.clone().unwrap_or_default();
            result.message = status.message.clone().unwrap_or_default();
            result.pod_ip = status.pod_ip.clone().filter(|ip| !ip.is_empty());
        }
        result.stage = Some(report.stage);
        result.why = goal::of_report(report).first().map(Blame::of);
        result.timings = TimingsResult::from(&report.timings);
        result
    }

    /// Of a Pod that this command asked for.
    pub(crate) fn of_tracked(tracked: &Tracked) -> Self {
        let key = &tracked.key;
        let result = match &tracked.standing {
            Standing::Reported(report) => Self::of_report(key, report),
            Standing::Queued => Self::without_status(key, &tracked.pod, "Queued"),
            Standing::Offered | Standing::Applied => Self::without_status(key, &tracked.pod, "Pending"),
            Standing::Gone => Self::without_status(key, &tracked.pod, "Removed"),
            Standing::Rejected { reason, message } => {
                let mut result = Self::without_status(key, &tracked.pod, "Failed");
                result.reason.clone_from(reason);
                result.message.clone_from(message);
                result
            }
        };
        Self { why: goal::of_tracked(tracked).first().map(Blame::of), ..result }
    }

    fn without_status(key: &PodKey, pod: &Pod, phase: &str) -> Self {
        Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: key.uid.to_string(),
            phase: phase.to_owned(),
            reason: String::new(),
            message: String::new(),
            pod_ip: None,
            stage: None,
            source: annotation(pod, CONFIG_SOURCE),
            manifest: annotation(pod, MANIFEST),
            why: None,
            containers: containers(pod),
            timings: TimingsResult::default(),
        }
    }
}

fn annotation(pod: &Pod, name: &str) -> Option<String> {
    pod.metadata.annotations.as_ref()?.get(name).cloned()
}

fn containers(pod: &Pod) -> Vec<ContainerResult> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let status = pod.status.as_ref();
    let find = |statuses: Option<&Vec<ContainerStatus>>, name: &str| {
        statuses.into_iter().flatten().find(|s| s.name == name).cloned()
    };
    let init = spec.init_containers.iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let kind = if sidecar { ContainerKind::Sidecar } else { ContainerKind::Init };
        let found = find(status.and_then(|s| s.init_container_statuses.as_ref()), &container.name);
        ContainerResult::of(&container.name, container.image.as_deref(), kind, found)
    });
    let main = spec.containers.iter().map(|container| {
        let found = find(status.and_then(|s| s.container_statuses.as_ref()), &container.name);
        ContainerResult::of(&container.name, container.image.as_deref(), ContainerKind::Main, found)
    });
    init.chain(main).collect()
}

impl ContainerResult {
    fn of(name: &str, image: Option<&str>, kind: ContainerKind, status: Option<ContainerStatus>) -> Self {
        let mut result = Self {
            name: name.to_owned(),
            kind,
            image: image.unwrap_or_default().to_owned(),
            state: "Waiting".to_owned(),
            reason: String::new(),
            message: String::new(),
            exit_code: None,
            restarts: 0,
            started_at: None,
            finished_at: None,
        };
        let Some(status) = status else { return result };
        result.restarts = status.restart_count;
        let last = status.last_state.and_then(|s| s.terminated);
        match status.state.unwrap_or_default() {
            ContainerState { running: Some(running), .. } => {
                result.state = "Running".to_owned();
                result.started_at = running.started_at.map(|t| t.0);
            }
            ContainerState { terminated: Some(ended), .. } => {
                result.state = "Terminated".to_owned();
                result.reason = ended.reason.unwrap_or_default();
                result.message = ended.message.unwrap_or_default();
                result.exit_code = Some(ended.exit_code);
                result.started_at = ended.started_at.map(|t| t.0);
                result.finished_at = ended.finished_at.map(|t| t.0);
            }
            ContainerState { waiting, .. } => {
                let waiting = waiting.unwrap_or_default();
                result.reason = waiting.reason.unwrap_or_default();
                result.message = waiting.message.unwrap_or_default();
                result.exit_code = last.map(|l| l.exit_code);
            }
        }
        result
    }
}

/// Puts the result of a run together.
pub(crate) fn run_result(until: Until, exit: Exit, goal: &Goal, duration_ms: u64, pods: &[Tracked]) -> RunResult {
    let failures = match goal {
        Goal::Failed(blocked) => blocked.iter().map(ToString::to_string).collect(),
        Goal::Reached | Goal::Waiting => Vec::new(),
    };
    RunResult {
        until,
        outcome: exit,
        exit_code: exit.code(),
        failures,
        duration_ms,
        pods: pods.iter().map(PodResult::of_tracked).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minke_core::identity::PodUid;
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_stand_in_the_specs_order_with_their_part() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "u1"},
            "spec": {"containers": [{"name": "main", "image": "m"}], "initContainers": [
                {"name": "first", "image": "f"}, {"name": "side", "image": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.2", "containerStatuses": [{"name": "main", "image": "m",
                "imageID": "", "ready": false, "restartCount": 4,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
                "lastState": {"terminated": {"exitCode": 7}}}]},
        }))
        .unwrap();
        let key = PodKey::new("default", "web", PodUid::new("u1").unwrap());
        let report = PodReport { pod: Arc::new(pod), stage: PodStage::Syncing, timings: PodTimings::default() };
        let value = serde_json::to_value(PodResult::of_report(&key, &report)).unwrap();
        assert_eq!(value["podIP"], "10.0.0.2");
        let kinds: Vec<_> = value["containers"].as_array().unwrap().iter().map(|c| c["kind"].clone()).collect();
        assert_eq!(kinds, ["init", "sidecar", "main"]);
        let main = &value["containers"][2];
        assert_eq!((&main["state"], &main["reason"]), (&json!("Waiting"), &json!("CrashLoopBackOff")));
        assert_eq!((&main["exitCode"], &main["restarts"]), (&json!(7), &json!(4)));
        let why = &value["why"];
        assert_eq!((&why["cause"], &why["category"]), (&json!("CrashLoop"), &json!("program")));
        assert_eq!((&why["evidence"]["container"], &why["evidence"]["exitCode"]), (&json!("main"), &json!(7)));
        assert!(why["remedy"].is_string() && why["message"].as_str().unwrap().contains("back-off 20s"), "{why}");
    }
}

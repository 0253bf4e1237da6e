//! What the tests build sights from.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};

use crate::judgement::{Cause, Failure, Finding, History, Now, Policy, Presence, Sight, Verdict, judge};

pub(super) const IMAGE: &str = "registry.example/app:1";

/// A wall-clock time of the tests' world, as the API writes it.
pub(super) fn at(seconds: i64) -> String {
    time(seconds).to_string()
}

pub(super) fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

/// A Pod with the containers `app` and `helper`, init container `setup` and sidecar `proxy`, that is never restarted.
pub(super) fn pod(status: &Value) -> Pod {
    pod_with(&json!({}), status)
}

/// The same with fields of the spec replaced.
pub(super) fn pod_with(spec: &Value, status: &Value) -> Pod {
    let mut value = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "n1",
            "initContainers": [
                {"name": "setup", "image": "registry.example/setup:1"},
                {"name": "proxy", "image": "registry.example/proxy:1", "restartPolicy": "Always"},
            ],
            "containers": [
                {"name": "app", "image": IMAGE, "resources": {"limits": {"memory": "64Mi"}}},
                {"name": "helper", "image": "registry.example/helper:1"},
            ],
        },
        "status": status,
    });
    for (key, field) in spec.as_object().unwrap() {
        value["spec"][key] = field.clone();
    }
    serde_json::from_value(value).unwrap()
}

/// The status of a container that waits, runs or has ended.
pub(super) fn container(name: &str, state: &Value) -> Value {
    let ready = state.get("running").is_some();
    json!({"name": name, "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": state})
}

pub(super) fn waits(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

pub(super) fn runs() -> Value {
    json!({"running": {"startedAt": at(1)}})
}

pub(super) fn ended(code: i32, reason: &str, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": at(10)}})
}

/// Pending, with `app` waiting for this reason.
pub(super) fn app_waits(reason: &str, message: &str) -> Pod {
    pod(&json!({"phase": "Pending", "containerStatuses": [container("app", &waits(reason, message))]}))
}

/// Running, with `app` in this state while `helper` runs.
pub(super) fn app_is(state: &Value) -> Pod {
    let statuses = [container("app", state), container("helper", &runs())];
    pod(&json!({"phase": "Running", "containerStatuses": statuses}))
}

/// Failed, with a reason and message of its own.
pub(super) fn failed(reason: &str, message: &str) -> Pod {
    pod(&json!({"phase": "Failed", "reason": reason, "message": message}))
}

/// With this condition.
pub(super) fn with_condition(mut pod: Pod, kind: &str, status: &str, reason: &str, message: &str, since: i64) -> Pod {
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": message,
                           "lastTransitionTime": at(since)});
    let list = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    list.retain(|c| c.type_ != kind);
    list.push(serde_json::from_value(condition).unwrap());
    pod
}

/// Being deleted since then, with this much grace.
pub(super) fn deleting(mut pod: Pod, since: i64, grace: i64) -> Pod {
    pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(since + grace))).unwrap());
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

pub(super) fn event(reason: &str, message: &str, seconds: i64) -> Event {
    serde_json::from_value(json!({"metadata": {}, "involvedObject": {"uid": "u1"}, "reason": reason,
                                  "message": message, "lastTimestamp": at(seconds)}))
    .unwrap()
}

pub(super) fn node(ready: &str, taints: &[&str]) -> Node {
    let taints: Vec<Value> = taints.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
    serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "NodeStatusUnknown",
                                   "message": "Kubelet stopped posting node status."}]}}))
    .unwrap()
}

/// A judge with a memory and a clock.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) policy: Policy,
    pub(super) history: History,
    pub(super) moment: Duration,
    pub(super) node: Option<Node>,
    pub(super) events: Vec<Event>,
    pub(super) own_deletion: bool,
}

impl Judge {
    pub(super) fn see(&mut self, pod: &Pod) -> Verdict {
        self.see_as(pod, Presence::Here)
    }

    pub(super) fn see_as(&mut self, pod: &Pod, presence: Presence) -> Verdict {
        let sight = Sight {
            pod,
            node: self.node.as_ref(),
            events: &self.events,
            presence,
            own_deletion: self.own_deletion,
            as_of: None,
        };
        let wall = time(20).checked_add(SignedDuration::try_from(self.moment).unwrap()).unwrap();
        let judged = judge(&sight, &self.policy, self.history.clone(), Now { moment: self.moment, wall });
        self.history = judged.history;
        judged.verdict
    }

    pub(super) fn after(&mut self, millis: u64) -> &mut Self {
        self.moment += Duration::from_millis(millis);
        self
    }

    /// The failure that this sight settles to, without any patience needed.
    pub(super) fn at_once(&mut self, pod: &Pod) -> Failure {
        let first = self.see(pod);
        assert!(matches!(first, Verdict::Doomed { .. }), "{first:?}");
        match self.after(200).see(pod) {
            Verdict::Failed(failure) => failure,
            other => panic!("not failed, but {other:?}"),
        }
    }

    /// What the sight is waited for, and for how long; and the failure after that.
    pub(super) fn in_time(&mut self, pod: &Pod) -> (Duration, Failure) {
        let begun = self.moment;
        let Verdict::Waiting { why: Some(_), until: Some(until), .. } = self.see(pod) else {
            panic!("not waiting: {:?}", self.see(pod));
        };
        self.moment = until - Duration::from_millis(1);
        assert!(matches!(self.see(pod), Verdict::Waiting { .. }));
        self.after(1);
        (until - begun, self.at_once(pod))
    }

    pub(super) fn waits_for(&mut self, pod: &Pod) -> Finding {
        match self.see(pod) {
            Verdict::Waiting { why: Some(why), .. } => why,
            other => panic!("not waiting for anything, but {other:?}"),
        }
    }
}

/// The cause of a sight that nothing heals.
pub(super) fn cause(pod: &Pod) -> Cause {
    Judge::default().at_once(pod).cause
}

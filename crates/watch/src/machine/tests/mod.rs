//! Each defect that watchers are known for, as a test that would catch it: here the bed that they lie in.

mod access;
mod evidence;
mod link;
mod stale;
mod subscribers;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::{Cause, Now, Verdict};
use serde_json::{Value, json};

use super::*;

pub(super) fn now(moment: Duration) -> Now {
    let wall = Timestamp::from_second(1_790_000_000).unwrap();
    Now { moment, wall: wall.checked_add(SignedDuration::try_from(moment).unwrap()).unwrap() }
}

pub(super) fn pod(name: &str, uid: &str, version: u64, status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string(),
                     "managedFields": [{"manager": "m"}]},
        "spec": {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "app", "image": "i:1"}]},
        "status": status,
    }))
    .unwrap()
}

pub(super) fn state(phase: &str, state: &Value) -> Value {
    let ready = state.get("running").is_some();
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
           "containerStatuses": [{"name": "app", "image": "i:1", "imageID": "", "ready": ready, "restartCount": 0, "state": state}]})
}

pub(super) fn running() -> Value {
    state("Running", &json!({"running": {}}))
}

pub(super) fn waits(reason: &str, message: &str) -> Value {
    state("Pending", &json!({"waiting": {"reason": reason, "message": message}}))
}

fn broken() -> Value {
    waits("InvalidImageName", "bad")
}

/// A machine with a clock, a memory of its actions, and the newest report of each subscriber.
struct Bed {
    machine: Machine,
    at: Duration,
    actions: Vec<Action>,
    reports: BTreeMap<SubscriberId, Report>,
}

impl Bed {
    fn new(scope: Scope) -> Self {
        let settings = Settings { events_every: None, ..Settings::default() };
        let mut bed = Self {
            machine: Machine::new(scope, settings),
            at: Duration::ZERO,
            actions: Vec::new(),
            reports: BTreeMap::new(),
        };
        bed.take(Input::Tick);
        bed
    }

    /// One that watches a namespace in which there are these Pods.
    fn watching(pods: Vec<Pod>) -> Self {
        Self::new(Scope::namespace("ns")).opened(pods)
    }

    fn opened(mut self, pods: Vec<Pod>) -> Self {
        self.take(Input::Probed(Access::Watch));
        let ask = self.ask();
        self.take(Input::Listed { ask, pods, version: "100".to_owned() });
        self
    }

    fn take(&mut self, input: Input) {
        for action in self.machine.handle(input, now(self.at)) {
            if let Action::Publish { id, report } = action {
                self.reports.insert(id, *report);
            } else {
                self.actions.push(action);
            }
        }
    }

    /// Lets time pass, waking the machine whenever it wants.
    fn pass(&mut self, millis: u64) {
        let end = self.at + Duration::from_millis(millis);
        while let Some(wake) = self.machine.next_wake().filter(|wake| *wake <= end) {
            self.at = self.at.max(wake);
            self.take(Input::Tick);
        }
        self.at = end;
        self.take(Input::Tick);
    }

    fn subscribe(&mut self, id: SubscriberId, target: Target, attempt: u32) {
        self.take(Input::Subscribe { id, target, attempt });
    }

    fn named(&mut self, id: SubscriberId, name: &str) {
        self.subscribe(id, Target::named("ns", name), 1);
    }

    fn ask(&self) -> u64 {
        self.actions.iter().rev().find_map(|a| if let Action::List { ask } = a { Some(*ask) } else { None }).unwrap()
    }

    fn stream(&self) -> (u64, String) {
        let watch = |a: &Action| {
            if let Action::Watch { stream, version } = a { Some((*stream, version.clone())) } else { None }
        };
        self.actions.iter().rev().find_map(watch).unwrap()
    }

    fn see(&mut self, pod: Pod) {
        let stream = self.stream().0;
        self.take(Input::Seen { stream, pod: Box::new(pod) });
    }

    fn leave(&mut self, pod: Pod) {
        let stream = self.stream().0;
        self.take(Input::Gone { stream, pod: Box::new(pod) });
    }

    /// Answers the newest question for a Pod by name.
    fn answer(&mut self, pod: Option<Pod>) {
        let newest = self.actions.iter().rev().find(|a| matches!(a, Action::Get { .. })).cloned();
        let Some(Action::Get { ask, namespace, name }) = newest else {
            panic!("nothing was asked: {:?}", self.actions)
        };
        self.take(Input::Got { ask, namespace, name, pod: pod.map(Box::new) });
    }

    /// Nothing comes back for the Pod `a`.
    fn no_answer(&mut self, fault: ApiFault) {
        let (namespace, name) = ("ns".to_owned(), "a".to_owned());
        self.take(Input::GetFailed { ask: 0, namespace, name, fault });
    }

    fn relist(&mut self, pods: Vec<Pod>, version: &str) {
        let (stream, _) = self.stream();
        self.take(Input::WatchFailed { stream, fault: ApiFault::Expired });
        let ask = self.ask();
        self.take(Input::Listed { ask, pods, version: version.to_owned() });
    }

    fn cause(&mut self, id: SubscriberId) -> Option<Cause> {
        self.pass(300);
        match &self.reports.get(&id)?.verdict {
            Some(Verdict::Failed(failure)) => Some(failure.cause),
            _ => None,
        }
    }

    fn count(&self, of: fn(&Action) -> bool) -> usize {
        self.actions.iter().filter(|action| of(action)).count()
    }
}

//! The Node object's machine against a small model of an API.

mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use minke_core::provider::{NodeDescription, Readiness, Shortages};
use minke_core::resources::Amount;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::machine::{NodeCall, NodeEvent, NodeMachine};
use super::*;
use crate::Now;

const SECOND: Duration = Duration::from_secs(1);

/// As much of a strategic merge patch as nodes need: maps by key, conditions by type, addresses that replace, lists whole.
fn merge(into: &mut Value, patch: &Value, path: &str) {
    let Value::Object(changes) = patch else { return };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, change) in changes {
        let here = format!("{path}/{key}");
        match (here.as_str(), change) {
            (_, Value::Null) => drop(into.as_object_mut().unwrap().remove(key)),
            ("/status/conditions", Value::Array(wanted)) => {
                let mut all = into[key].as_array().cloned().unwrap_or_default();
                for condition in wanted {
                    all.retain(|c| c["type"] != condition["type"]);
                    all.push(condition.clone());
                }
                into[key] = json!(all);
            }
            ("/status/addresses", Value::Array(wanted)) => {
                assert_eq!(wanted[0], json!({"$patch": "replace"}));
                into[key] = json!(wanted[1..]);
            }
            (_, Value::Object(_)) => {
                let mut inner = into[key].take();
                merge(&mut inner, change, &here);
                into[key] = inner;
            }
            _ => into[key] = change.clone(),
        }
    }
}

/// The objects of one node in an API.
#[derive(Debug, Default)]
struct Objects {
    node: Option<Node>,
    lease: Option<Lease>,
    version: u64,
    uids: u64,
    calls: Vec<&'static str>,
}

impl Objects {
    fn answer(&mut self, call: NodeCall) -> NodeEvent {
        match call {
            NodeCall::Get => {
                self.calls.push("get");
                NodeEvent::Fetched(self.node.clone().map(Box::new))
            }
            NodeCall::Create(node) => {
                self.calls.push("create");
                if self.node.is_some() {
                    return NodeEvent::Changed;
                }
                let mut node = *node;
                self.uids += 1;
                node.metadata.uid = Some(format!("uid-{}", self.uids));
                // As servers that keep the status apart.
                node.status = None;
                self.node = Some(node.clone());
                NodeEvent::Wrote(Box::new(node))
            }
            NodeCall::Patch(patch) => {
                self.calls.push("patch");
                let Some(node) = &self.node else { return NodeEvent::Changed };
                if patch["metadata"]["uid"] != json!(node.metadata.uid) {
                    return NodeEvent::Changed;
                }
                assert_eq!(patch.get("spec"), None, "the spec is the cluster's");
                let mut value = serde_json::to_value(node).unwrap();
                merge(&mut value, &patch, "");
                let node: Node = serde_json::from_value(value).unwrap();
                self.node = Some(node.clone());
                NodeEvent::Wrote(Box::new(node))
            }
        }
    }

    fn condition(&self, kind: &str) -> Option<NodeCondition> {
        let conditions = self.node.as_ref()?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|c| c.type_ == kind).cloned()
    }

    fn ready(&self) -> String {
        self.condition("Ready").map(|c| format!("{} {}", c.status, c.reason.unwrap_or_default())).unwrap_or_default()
    }

    fn edit(&mut self, edit: impl FnOnce(&mut Node)) {
        edit(self.node.as_mut().unwrap());
    }
}

fn description() -> NodeDescription {
    let amount = |text: &str| Amount::parse(text).unwrap();
    NodeDescription {
        capacity: [("cpu".to_owned(), amount("4")), ("memory".to_owned(), amount("8Gi"))].into(),
        allocatable: [("cpu".to_owned(), amount("3")), ("memory".to_owned(), amount("7Gi"))].into(),
        labels: [("kubernetes.io/os".to_owned(), "linux".to_owned())].into(),
        hostname: "box".to_owned(),
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        ..NodeDescription::default()
    }
}

fn config() -> NodeConfig {
    NodeConfig {
        labels: [("rack".to_owned(), "7".to_owned())].into(),
        taints: vec![Taint { key: "k".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }],
        port: Some(10250),
        ..NodeConfig::new("n", "agent")
    }
}

/// A machine, its API, and the time.
struct Bed {
    machine: NodeMachine,
    objects: Objects,
    start: Instant,
    elapsed: Duration,
}

impl Bed {
    fn new(config: NodeConfig) -> Self {
        let machine = NodeMachine::new(Arc::new(config));
        Self { machine, objects: Objects::default(), start: Instant::now(), elapsed: Duration::ZERO }
    }

    fn now(&self) -> Now {
        let millis = i64::try_from(self.elapsed.as_millis()).unwrap();
        Now {
            instant: self.start + self.elapsed,
            wall: Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap(),
        }
    }

    /// An event and all that follows from it.
    fn event(&mut self, event: NodeEvent) {
        let mut next = Some(event);
        for _ in 0..50 {
            let Some(event) = next.take() else { return };
            let now = self.now();
            next = self.machine.step(event, now).map(|call| self.objects.answer(call));
        }
        panic!("it calls without end: {:?}", self.objects.calls);
    }

    fn described(&mut self, description: NodeDescription) {
        self.event(NodeEvent::Described(Described::Now(Box::new(description))));
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.elapsed += SECOND;
            if self.machine.due().is_some_and(|due| due <= self.now().instant) {
                self.event(NodeEvent::Due);
            }
        }
    }

    fn calls(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.objects.calls)
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_registered_with_all_that_is_known_of_it() {
    let mut bed = Bed::new(config());
    assert_eq!(bed.machine.due(), None, "nothing is said before anything is known");
    bed.described(description());
    assert_eq!(bed.calls(), ["get", "create", "patch"]);
    let node = serde_json::to_value(bed.objects.node.as_ref().unwrap()).unwrap();
    assert_eq!(node["metadata"]["labels"], json!({"kubernetes.io/os": "linux", "rack": "7"}));
    assert_eq!(node["spec"]["taints"][0]["key"], "k");
    assert_eq!(node["status"]["capacity"], json!({"cpu": "4", "memory": "8Gi"}));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "3", "memory": "7Gi"}));
    assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
    let addresses = json!([
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": "InternalIP", "address": "2001:db8::1"},
        {"type": "Hostname", "address": "box"},
    ]);
    assert_eq!(node["status"]["addresses"], addresses);
    assert_eq!(bed.objects.ready(), "True KubeletReady");
    assert_eq!(bed.machine.uid(), Some("uid-1"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_is_adopted() {
    let mut bed = Bed::new(config());
    let node = json!({
        "metadata": {"name": "n", "uid": "old", "labels": {"theirs": "x", "rack": "1"}, "annotations": {"a": "b"}},
        "spec": {"taints": [{"key": "other", "effect": "NoExecute"}]},
    });
    bed.objects.node = Some(serde_json::from_value(node).unwrap());
    bed.described(description());
    assert_eq!(bed.calls(), ["get", "patch"]);
    let node = serde_json::to_value(bed.objects.node.as_ref().unwrap()).unwrap();
    assert_eq!(node["metadata"]["labels"], json!({"theirs": "x", "rack": "7", "kubernetes.io/os": "linux"}));
    assert_eq!(node["metadata"]["annotations"]["a"], "b");
    assert_eq!(node["spec"]["taints"][0]["key"], "other", "taints of an object that exists are the cluster's");
}

#[tokio::test(start_paused = true)]
async fn it_is_read_every_ten_seconds_and_written_every_five_minutes_if_nothing_changes() {
    let mut bed = Bed::new(config());
    bed.described(description());
    bed.calls();
    let first = bed.objects.condition("Ready").unwrap();
    for _ in 0..29 {
        bed.pass(10);
        bed.described(description());
    }
    assert_eq!(bed.calls(), vec!["get"; 29]);
    bed.pass(10);
    assert_eq!(bed.calls(), ["get", "patch"]);
    let last = bed.objects.condition("Ready").unwrap();
    assert_eq!(last.last_transition_time, first.last_transition_time);
    assert!(last.last_heartbeat_time > first.last_heartbeat_time);
}

#[tokio::test(start_paused = true)]
async fn pressure_is_told_at_once() {
    let mut bed = Bed::new(config());
    bed.described(description());
    bed.calls();
    bed.pass(3);
    bed.described(NodeDescription { shortages: Shortages { disk: true, ..Shortages::default() }, ..description() });
    assert_eq!(bed.calls(), ["get", "patch"]);
    let disk = bed.objects.condition("DiskPressure").unwrap();
    assert_eq!((disk.status.as_str(), disk.reason.as_deref()), ("True", Some("KubeletHasDiskPressure")));
    assert_eq!(disk.last_transition_time.unwrap().0, bed.now().wall);
}

#[tokio::test(start_paused = true)]
async fn s16_conditions_of_others_stay_and_ours_are_repaired() {
    let mut bed = Bed::new(config());
    bed.described(description());
    bed.objects.edit(|node| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions.push(NodeCondition {
            type_: "Theirs".to_owned(),
            status: "True".to_owned(),
            ..NodeCondition::default()
        });
        // The node lifecycle controller, while the agent could not be heard.
        let ready = conditions.iter_mut().find(|c| c.type_ == "Ready").unwrap();
        (ready.status, ready.reason) = ("Unknown".to_owned(), Some("NodeStatusUnknown".to_owned()));
        node.metadata.labels.as_mut().unwrap().insert("theirs".to_owned(), "x".to_owned());
        node.metadata.labels.as_mut().unwrap().remove("rack");
        let capacity = node.status.as_mut().unwrap().capacity.as_mut().unwrap();
        capacity.insert(
            "example.com/theirs".to_owned(),
            k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".to_owned()),
        );
    });
    bed.pass(10);
    assert_eq!(bed.objects.ready(), "True KubeletReady");
    assert!(bed.objects.condition("Theirs").is_some());
    let node = bed.objects.node.as_ref().unwrap();
    let labels = node.metadata.labels.as_ref().unwrap();
    assert_eq!((labels["theirs"].as_str(), labels["rack"].as_str()), ("x", "7"));
    let capacity = node.status.as_ref().unwrap().capacity.as_ref().unwrap();
    assert!(capacity.contains_key("example.com/theirs"));
}

/// Annotations from before the agent and from beside it, through a restart.
#[tokio::test(start_paused = true)]
async fn s16_annotations_of_others_stay() {
    let mut bed = Bed::new(config());
    let note = |bed: &mut Bed, key: &str| {
        bed.objects.edit(|node| {
            node.metadata.annotations.get_or_insert_default().insert(key.to_owned(), "theirs".to_owned());
        });
    };
    bed.described(description());
    note(&mut bed, "before");
    let objects = std::mem::take(&mut bed.objects);
    let mut again = Bed::new(NodeConfig { labels: BTreeMap::new(), ..config() });
    again.objects = objects;
    again.described(description());
    note(&mut again, "beside");
    again.pass(600);
    let annotations = again.objects.node.as_ref().unwrap().metadata.annotations.clone().unwrap();
    for key in ["before", "beside"] {
        assert_eq!(annotations.get(key).map(String::as_str), Some("theirs"), "{annotations:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s21_what_the_server_said_last_does_not_become_what_is_wanted() {
    let mut bed = Bed::new(config());
    bed.described(description());
    bed.pass(10);
    let mut more = description();
    more.capacity.insert("example.com/gpu".to_owned(), Amount::from_units(2));
    let described = bed.machine.step(NodeEvent::Described(Described::Now(Box::new(more))), bed.now());
    let read = described.or_else(|| {
        bed.elapsed += 10 * SECOND;
        bed.machine.step(NodeEvent::Due, bed.now())
    });
    assert_eq!(read, Some(NodeCall::Get));
    let seen = bed.objects.node.clone().map(Box::new);
    let patch = bed.machine.step(NodeEvent::Fetched(seen), bed.now()).unwrap();
    drop(bed.objects.answer(patch));
    // The answer to the patch has what somebody else wrote meanwhile.
    bed.objects.edit(|node| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        let ready = conditions.iter_mut().find(|c| c.type_ == "Ready").unwrap();
        (ready.status, ready.reason) = ("Unknown".to_owned(), Some("NodeStatusUnknown".to_owned()));
    });
    bed.event(NodeEvent::Wrote(Box::new(bed.objects.node.clone().unwrap())));
    assert_eq!(bed.objects.ready(), "Unknown NodeStatusUnknown");
    bed.pass(10);
    assert_eq!(bed.objects.ready(), "True KubeletReady");
}

#[tokio::test(start_paused = true)]
async fn s16_what_was_ours_and_is_not_wanted_any_more_goes_also_after_a_restart() {
    let mut bed = Bed::new(config());
    let gpu = |mut d: NodeDescription| {
        d.capacity.insert("example.com/gpu".to_owned(), Amount::from_units(2));
        d
    };
    bed.described(gpu(description()));
    bed.objects.edit(|node| drop(node.metadata.labels.as_mut().unwrap().insert("theirs".to_owned(), "x".to_owned())));
    bed.described(description());
    let has_gpu = |bed: &Bed| {
        bed.objects
            .node
            .as_ref()
            .unwrap()
            .status
            .as_ref()
            .unwrap()
            .capacity
            .as_ref()
            .unwrap()
            .contains_key("example.com/gpu")
    };
    assert!(!has_gpu(&bed));
    let objects = std::mem::take(&mut bed.objects);
    let mut again = Bed::new(NodeConfig { labels: BTreeMap::new(), ..config() });
    again.objects = objects;
    again.described(description());
    let labels = again.objects.node.as_ref().unwrap().metadata.labels.clone().unwrap();
    assert!(!labels.contains_key("rack") && labels.contains_key("theirs"), "{labels:?}");
}

#[tokio::test(start_paused = true)]
async fn r15_a_node_that_is_deleted_is_made_again_with_its_taints() {
    let mut bed = Bed::new(config());
    bed.described(description());
    bed.calls();
    bed.objects.node = None;
    bed.pass(10);
    assert_eq!(bed.calls(), ["get", "create", "patch"]);
    assert_eq!(bed.machine.uid(), Some("uid-2"));
    assert_eq!(bed.objects.ready(), "True KubeletReady");
    assert!(bed.objects.node.as_ref().unwrap().spec.as_ref().unwrap().taints.is_some());
}

#[tokio::test(start_paused = true)]
async fn r14_a_provider_that_is_silent_from_the_start_makes_a_node_that_is_not_ready() {
    let mut bed = Bed::new(config());
    bed.event(NodeEvent::Described(Described::Silent { before: None, why: "down".to_owned() }));
    assert_eq!(bed.objects.ready(), "False KubeletNotReady");
    bed.pass(5);
    bed.described(description());
    assert_eq!(bed.objects.ready(), "True KubeletReady");
    let status = bed.objects.node.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(status.capacity.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_says_so_before_it_does() {
    let mut bed = Bed::new(config());
    bed.described(description());
    assert!(!bed.machine.says_that_it_goes_down());
    bed.event(NodeEvent::GoingDown(true));
    assert_eq!(bed.objects.ready(), "False NodeShutdown");
    assert!(bed.machine.says_that_it_goes_down());
    bed.event(NodeEvent::GoingDown(false));
    assert_eq!(bed.objects.ready(), "True KubeletReady");
}

proptest! {
    /// Whatever happens to the object, the API and the machine: once things are quiet, the object says what is so, what others
    /// added is there, and the machine rests.
    #[test]
    fn in_the_end_the_object_says_what_is_so(
        steps in prop::collection::vec((0_u8..8, 0_u64..30), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).build().unwrap();
        let _guard = runtime.enter();
        let mut bed = Bed::new(config());
        let mut wanted = description();
        let mut theirs = false;
        for (what, seconds) in steps {
            match what {
                0 => {
                    wanted.shortages.memory = !wanted.shortages.memory;
                    bed.described(wanted.clone());
                }
                1 => {
                    wanted.readiness = Readiness::NotReady(vec!["x".to_owned()]);
                    bed.described(wanted.clone());
                }
                2 => {
                    wanted.readiness = Readiness::Ready;
                    bed.described(wanted.clone());
                }
                3 => {
                    bed.objects.node = None;
                    theirs = false;
                }
                4 => if let Some(node) = &mut bed.objects.node {
                    node.metadata.labels.get_or_insert_default().insert("theirs".to_owned(), "x".to_owned());
                    node.metadata.labels.get_or_insert_default().remove("rack");
                    theirs = true;
                },
                5 => if let Some(status) = bed.objects.node.as_mut().and_then(|n| n.status.as_mut()) {
                    status.conditions = None;
                    status.capacity = None;
                },
                6 => {
                    // A call that fails: the machine asks, and gets no answer.
                    let now = bed.now();
                    if bed.machine.due().is_some_and(|due| due <= now.instant)
                        && bed.machine.step(NodeEvent::Due, now).is_some()
                    {
                        bed.machine.step(NodeEvent::Failed { at_least: Duration::ZERO }, now);
                    }
                }
                _ => bed.event(NodeEvent::GoingDown(false)),
            }
            bed.pass(seconds);
        }
        bed.described(wanted.clone());
        bed.pass(30);
        let ready = if wanted.readiness == Readiness::Ready { "True KubeletReady" } else { "False KubeletNotReady" };
        prop_assert_eq!(bed.objects.ready(), ready);
        let memory = bed.objects.condition("MemoryPressure").unwrap().status;
        prop_assert_eq!(memory == "True", wanted.shortages.memory);
        let node = bed.objects.node.as_ref().unwrap();
        let labels = node.metadata.labels.as_ref().unwrap();
        prop_assert_eq!(labels.get("rack").map(String::as_str), Some("7"));
        prop_assert_eq!(labels.contains_key("theirs"), theirs);
        bed.calls();
        bed.pass(100);
        let written = bed.calls().into_iter().filter(|call| *call != "get").count();
        prop_assert!(written <= 1, "a quiet node is written now and then: {}", written);
    }
}

//! One step each: what is decided, and in which words.

use std::time::Duration;

use serde_json::{Value, json};

use super::{node_facts, node_object, pod_facts, pod_object};
use crate::scheduler::{Action, Event, Scheduler};

const NOW: Duration = Duration::from_secs(1000);

fn at(seconds: u64) -> Duration {
    NOW + Duration::from_secs(seconds)
}

fn nodes(nodes: &[Value]) -> Event {
    Event::Nodes(nodes.iter().map(node_facts).collect())
}

fn pods(pods: &[Value]) -> Event {
    Event::Pods(pods.iter().map(pod_facts).collect())
}

fn pod(pod: &Value) -> Event {
    Event::Pod(Box::new(pod_facts(pod)))
}

/// What is said of the last Pod, and where those before it are: on their nodes.
fn said(all_nodes: &[Value], all_pods: &[Value]) -> String {
    let actions = Scheduler::default().step(vec![nodes(all_nodes), pods(all_pods)], NOW);
    let reports: Vec<String> = actions
        .iter()
        .map(|action| match action {
            Action::Bind { pod, node } => format!("bind {} {node}", pod.name),
            Action::Report { report, .. } => format!("{}: {}", report.reason, report.message),
            Action::Tell { note, .. } => note.message.clone(),
            Action::Preempt { victim, .. } => format!("preempt {}", victim.name),
        })
        .collect();
    // What the condition says is what is told.
    if let [report, told, ..] = reports.as_slice()
        && let Some(report) = report.strip_prefix("Unschedulable: ")
    {
        assert_eq!(report, told);
        return [&reports[1..]].concat().join("; ");
    }
    reports.join("; ")
}

fn with(mut object: Value, at: &str, value: Value) -> Value {
    let (parent, field) = at.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn small() -> Value {
    node_object("n1", "1", "1Gi", 2)
}

#[test]
fn a_pod_goes_to_the_one_ready_node() {
    assert_eq!(said(&[small()], &[pod_object("a", 500)]), "bind a n1");
}

#[test]
fn without_nodes_upstreams_sentence() {
    assert_eq!(said(&[], &[pod_object("a", 1)]), "no nodes available to schedule pods");
}

#[test]
fn other_schedulers_pods_and_those_that_ended_or_are_deleted_are_left_alone() {
    for (field, value) in [
        ("/spec/schedulerName", json!("other")),
        ("/status/phase", json!("Succeeded")),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
    ] {
        assert_eq!(said(&[small()], &[with(pod_object("a", 1), field, value)]), "", "{field}");
    }
    assert_eq!(
        said(&[small()], &[with(pod_object("a", 1), "/spec/schedulerName", json!("default-scheduler"))]),
        "bind a n1"
    );
}

const HOPELESS: &str = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
const NO_VICTIMS: &str = " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";

fn one(reason: &str, suffix: &str) -> String {
    format!("0/1 nodes are available: 1 {reason}.{suffix}")
}

#[test]
fn labels_taints_and_cordons_are_said_as_upstream_says_them() {
    let a = || pod_object("a", 1);
    let cordoned = with(small(), "/spec/unschedulable", json!(true));
    assert_eq!(said(std::slice::from_ref(&cordoned), &[a()]), one("node(s) were unschedulable", HOPELESS));
    let tolerant = with(
        a(),
        "/spec/tolerations",
        json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]),
    );
    assert_eq!(said(&[cordoned], &[tolerant]), "bind a n1");
    for effect in ["NoSchedule", "NoExecute"] {
        let tainted = with(small(), "/spec/taints", json!([{"key": "gpu", "value": "yes", "effect": effect}]));
        assert_eq!(
            said(std::slice::from_ref(&tainted), &[a()]),
            one("node(s) had untolerated taint {gpu: yes}", HOPELESS)
        );
        let tolerant = with(a(), "/spec/tolerations", json!([{"key": "gpu", "operator": "Exists"}]));
        assert_eq!(said(&[tainted], &[tolerant]), "bind a n1");
    }
    let avoided = with(small(), "/spec/taints", json!([{"key": "gpu", "effect": "PreferNoSchedule"}]));
    assert_eq!(said(&[avoided], &[a()]), "bind a n1");
    let picky = with(a(), "/spec/nodeSelector", json!({"disk": "ssd"}));
    assert_eq!(said(&[small()], &[picky]), one("node(s) didn't match Pod's node affinity/selector", HOPELESS));
}

#[test]
fn conditions_of_a_node_are_taints() {
    for (kind, status, key) in [
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
        ("NetworkUnavailable", "True", "network-unavailable"),
    ] {
        let mut conditions = vec![json!({"type": kind, "status": status})];
        if kind != "Ready" {
            conditions.push(json!({"type": "Ready", "status": "True"}));
        }
        let node = with(small(), "/status/conditions", json!(conditions));
        let reason = format!("node(s) had untolerated taint {{node.kubernetes.io/{key}: }}");
        assert_eq!(said(&[node], &[pod_object("a", 1)]), one(&reason, HOPELESS));
    }
    let silent = with(small(), "/status/conditions", json!([]));
    let reason = "node(s) had untolerated taint {node.kubernetes.io/not-ready: }";
    assert_eq!(said(&[silent], &[pod_object("a", 1)]), one(reason, HOPELESS));
}

fn bound(name: &str, cpu: i64) -> Value {
    with(pod_object(name, cpu), "/spec/nodeName", json!("n1"))
}

#[test]
fn resources_counts_and_ports_are_said_as_upstream_says_them() {
    assert_eq!(said(&[small()], &[bound("b", 600), pod_object("a", 500)]), one("Insufficient cpu", NO_VICTIMS));
    // More than the empty node has: nobody's going would help.
    assert_eq!(said(&[small()], &[pod_object("a", 1001)]), one("Insufficient cpu", HOPELESS));
    assert_eq!(said(&[small()], &[bound("b", 0), bound("c", 0), pod_object("a", 0)]), one("Too many pods", NO_VICTIMS));
    let device = with(pod_object("a", 1), "/spec/containers/0/resources/requests", json!({"example.com/gpu": "1"}));
    assert_eq!(said(&[small()], &[device]), one("Insufficient example.com/gpu", HOPELESS));
    let both = with(pod_object("a", 1), "/spec/containers/0/resources/requests", json!({"cpu": "1", "memory": "1Gi"}));
    let full = with(bound("b", 1), "/spec/containers/0/resources/requests", json!({"cpu": "1m", "memory": "1"}));
    assert_eq!(
        said(&[small()], &[full, both]),
        format!("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.{NO_VICTIMS}")
    );
    let port = |pod: Value| with(pod, "/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 80}]));
    assert_eq!(
        said(&[small()], &[port(bound("b", 1)), port(pod_object("a", 1))]),
        one("node(s) didn't have free ports for the requested pod ports", NO_VICTIMS)
    );
    // Who has ended uses nothing.
    let done = with(port(bound("b", 900)), "/status/phase", json!("Failed"));
    assert_eq!(said(&[small()], &[done, port(pod_object("a", 900))]), "bind a n1");
}

#[test]
fn init_containers_sidecars_and_overhead_count() {
    let mut pod = pod_object("a", 100);
    pod["spec"]["initContainers"] = json!([{"name": "i", "image": "i", "resources": {"requests": {"cpu": "900m"}}}]);
    assert_eq!(said(&[small()], &[pod.clone()]), "bind a n1");
    pod["spec"]["overhead"] = json!({"cpu": "101m"});
    assert_eq!(said(&[small()], &[pod.clone()]), one("Insufficient cpu", HOPELESS));
    let mut sidecar = pod_object("a", 200);
    sidecar["spec"]["initContainers"] = json!([
        {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "801m"}}},
    ]);
    assert_eq!(said(&[small()], &[sidecar]), one("Insufficient cpu", HOPELESS));
}

#[test]
fn several_nodes_are_counted_by_reason() {
    let cordoned = with(node_object("n2", "1", "1Gi", 2), "/spec/unschedulable", json!(true));
    let all = [small(), cordoned, node_object("n3", "1", "1Gi", 2)];
    assert_eq!(
        said(&all, &[pod_object("a", 2000)]),
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/3 nodes are available: \
         3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn among_nodes_the_preferred_one_then_the_emptiest_then_the_first_by_name() {
    let big = node_object("n2", "8", "8Gi", 10);
    let ssd = with(node_object("n3", "1", "1Gi", 10), "/metadata/labels", json!({"disk": "ssd"}));
    assert_eq!(said(&[small(), big.clone(), ssd.clone()], &[pod_object("a", 500)]), "bind a n2");
    assert_eq!(said(&[node_object("n0", "1", "1Gi", 2), small()], &[pod_object("a", 500)]), "bind a n0");
    let prefers = json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefers}});
    assert_eq!(said(&[small(), big, ssd], &[with(pod_object("a", 500), "/spec/affinity", affinity)]), "bind a n3");
}

#[test]
fn gates_hold_a_pod_until_they_are_gone() {
    let mut scheduler = Scheduler::default();
    let gated = with(pod_object("a", 1), "/spec/schedulingGates", json!([{"name": "g"}]));
    let actions = scheduler.step(vec![nodes(&[small()]), pods(&[gated])], NOW);
    let [Action::Report { report, .. }] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(
        (report.reason.as_str(), report.message.as_str()),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    );
    let actions = scheduler.step(vec![pod(&pod_object("a", 1))], at(1));
    assert!(matches!(actions.as_slice(), [Action::Bind { .. }]), "{actions:?}");
}

#[test]
fn the_more_important_pod_gets_the_room() {
    let high = with(pod_object("z", 800), "/spec/priority", json!(10));
    let mut scheduler = Scheduler::default();
    let actions = scheduler.step(vec![nodes(&[small()]), pods(&[pod_object("a", 800), high])], NOW);
    assert!(matches!(&actions[0], Action::Bind { pod, .. } if pod.name == "z"), "{actions:?}");
    assert!(!actions[1..].iter().any(|action| matches!(action, Action::Bind { .. })), "{actions:?}");
}

#[test]
fn a_failed_pod_is_tried_again_when_something_helps_and_told_once() {
    let mut scheduler = Scheduler::default();
    let first = scheduler.step(vec![nodes(&[small()]), pods(&[bound("b", 600), pod_object("a", 500)])], NOW);
    assert_eq!(first.len(), 2, "a condition and an event: {first:?}");
    let mut told = pod_object("a", 500);
    let Action::Report { report, .. } = &first[0] else { panic!("{first:?}") };
    told["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": report.reason, "message": report.message}]);
    assert_eq!(scheduler.step(vec![pod(&told)], at(1)), [], "its own news are no reason");
    assert_eq!(scheduler.step(vec![Event::PodGone("uid-c".to_owned())], at(2)), []);
    let smaller = bound("b", 550);
    assert_eq!(scheduler.step(vec![pod(&smaller)], at(3)), [], "tried again, and nothing new to say");
    let actions = scheduler.step(vec![Event::PodGone("uid-b".to_owned())], at(10));
    assert!(matches!(actions.as_slice(), [Action::Bind { .. }]), "{actions:?}");
}

#[test]
fn room_of_a_pod_that_is_being_bound_is_taken_and_given_back_when_binding_fails() {
    let mut scheduler = Scheduler::default();
    let actions = scheduler.step(vec![nodes(&[small()]), pods(&[pod_object("a", 600), pod_object("b", 600)])], NOW);
    let binds = actions.iter().filter(|action| matches!(action, Action::Bind { .. })).count();
    assert_eq!(binds, 1, "{actions:?}");
    let Some(Action::Bind { pod: first, .. }) = actions.first() else { panic!("{actions:?}") };
    let actions = scheduler.step(vec![Event::BindFailed(first.uid.clone())], at(1));
    let [Action::Bind { pod: second, .. }] = actions.as_slice() else { panic!("{actions:?}") };
    assert_ne!(first.uid, second.uid, "the first one backs off");
    let actions = scheduler.step(vec![Event::BindFailed(first.uid.clone())], at(1));
    assert_eq!(actions, [], "what failed once has not failed again");
}

fn important(cpu: i64) -> Value {
    with(with(pod_object("vip", cpu), "/spec/priority", json!(100)), "/spec/priorityClassName", json!("high"))
}

#[test]
fn the_least_important_pods_make_room_and_no_more_than_needed() {
    let node = node_object("n1", "1", "1Gi", 10);
    let of = |name: &str, cpu: i64, priority: i64| with(bound(name, cpu), "/spec/priority", json!(priority));
    let all = [of("low", 300, 1), of("mid", 300, 5), of("top", 300, 200), important(400)];
    let mut scheduler = Scheduler::default();
    let actions = scheduler.step(vec![nodes(std::slice::from_ref(&node)), pods(&all)], NOW);
    let victims: Vec<&str> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Preempt { victim, node, .. } => {
                assert_eq!(node, "n1");
                Some(victim.name.as_str())
            }
            Action::Bind { .. } | Action::Report { .. } | Action::Tell { .. } => None,
        })
        .collect();
    assert_eq!(victims, ["low"]);
    let Action::Report { nominated, report, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(nominated.as_deref(), Some("n1"));
    assert_eq!(report.message, "0/1 nodes are available: 1 Insufficient cpu.", "who makes room is not refused");
    // While the victim ends nobody else goes, and a lesser Pod does not get the room.
    let ending = with(of("low", 300, 1), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let lesser = pod_object("lesser", 200);
    let actions = scheduler.step(vec![pod(&ending), pod(&lesser), pod(&of("mid", 299, 5))], at(5));
    assert!(!actions.iter().any(|a| matches!(a, Action::Preempt { .. } | Action::Bind { .. })), "{actions:?}");
    let waits = actions.iter().find_map(|action| match action {
        Action::Report { pod, report, nominated } if pod.name == "vip" => Some((report.message.as_str(), nominated)),
        Action::Report { .. } | Action::Tell { .. } | Action::Bind { .. } | Action::Preempt { .. } => None,
    });
    let expected = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a terminating pod on the \
                    nominated node.";
    assert_eq!(waits, Some((expected, &Some("n1".to_owned()))));
    let actions = scheduler.step(vec![Event::PodGone("uid-low".to_owned())], at(20));
    let binds: Vec<&Action> = actions.iter().filter(|action| matches!(action, Action::Bind { .. })).collect();
    let [Action::Bind { pod, .. }] = binds.as_slice() else { panic!("{actions:?}") };
    assert_eq!(pod.name, "vip");
}

#[test]
fn who_may_not_preempt_says_so_and_equals_are_safe() {
    let full = bound("b", 900);
    let never = with(important(500), "/spec/preemptionPolicy", json!("Never"));
    assert_eq!(
        said(&[small()], &[full.clone(), never]),
        one("Insufficient cpu", " preemption: not eligible due to preemptionPolicy=Never.")
    );
    let equal = with(full, "/spec/priority", json!(100));
    assert_eq!(said(&[small()], &[equal, important(500)]), one("Insufficient cpu", NO_VICTIMS));
}

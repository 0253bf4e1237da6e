//! Pod conditions.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use serde_json::json;

use super::bed::*;
use crate::runtime::SandboxState;

fn find(status: &PodStatus, kind: &str) -> PodCondition {
    status.conditions.iter().flatten().find(|c| c.type_ == kind).unwrap().clone()
}

/// `status/reason`, without the reason when there is none.
fn condition(status: &PodStatus, kind: &str) -> String {
    let found = find(status, kind);
    match found.reason {
        Some(reason) => format!("{}/{reason}", found.status),
        None => found.status,
    }
}

#[test]
fn a_pod_on_its_way() {
    let spec = json!({"initContainers": named(&["i"]), "containers": named(&["a"])});
    let mut bed = Bed::new(pod(&spec));
    let status = bed.step();
    assert_eq!(condition(&status, "PodScheduled"), "True");
    assert_eq!(condition(&status, "PodReadyToStartContainers"), "False");
    assert_eq!(condition(&status, "Initialized"), "False/ContainersNotInitialized");
    assert_eq!(find(&status, "Initialized").message.unwrap(), "containers with incomplete status: [i]");
    assert_eq!(condition(&status, "Ready"), "False/ContainersNotReady");
    assert_eq!(find(&status, "Ready").message.unwrap(), "containers with unready status: [a]");

    bed.runtime.sandboxes.push(sandbox(0, SandboxState::Ready, &["10.0.0.2"]));
    bed.add("i", exited(0));
    let status = bed.step();
    assert_eq!(condition(&status, "PodReadyToStartContainers"), "True");
    assert_eq!(condition(&status, "Initialized"), "True");

    bed.add("a", running());
    let status = bed.step();
    assert_eq!(condition(&status, "ContainersReady"), "True");
    assert_eq!(condition(&status, "Ready"), "True");
}

#[test]
fn transition_times_change_only_with_the_condition() {
    let mut bed = Bed::new(two("Always")).with("a", running()).with("b", running());
    let first = find(&bed.step(), "Ready").last_transition_time;
    bed.now = at(200);
    assert_eq!(find(&bed.step(), "Ready").last_transition_time, first);
    bed.set("a", exited(1));
    bed.now = at(300);
    assert_eq!(find(&bed.step(), "Ready").last_transition_time.unwrap().0, at(300));
}

#[test]
fn a_terminal_pod_is_not_ready() {
    let done = Bed::new(two("Never")).with("a", exited(0)).with("b", exited(0)).compute();
    let failed = Bed::new(two("Never")).with("a", exited(0)).with("b", exited(1)).compute();
    for kind in ["Ready", "ContainersReady"] {
        assert_eq!(condition(&done, kind), "False/PodCompleted");
        assert_eq!(condition(&failed, kind), "False/PodFailed");
    }
    assert_eq!(condition(&done, "Initialized"), "True/PodCompleted");
}

#[test]
fn initialized_stays_once_a_regular_container_ran() {
    let spec = json!({"initContainers": named(&["i"]), "containers": named(&["a"])});
    let bed = Bed::new(pod(&spec)).with("a", running()).with("i", running());
    assert_eq!(condition(&bed.compute(), "Initialized"), "True");
}

#[test]
fn sidecars_count_for_readiness() {
    let spec = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": named(&["a"])});
    let bed = Bed::new(pod(&spec)).with("a", running()).with("s", exited(1));
    let status = bed.compute();
    assert_eq!(condition(&status, "ContainersReady"), "False/ContainersNotReady");
    assert_eq!(find(&status, "ContainersReady").message.unwrap(), "containers with unready status: [s]");
}

#[test]
fn a_sandbox_is_usable_when_it_is_the_only_ready_one_and_has_an_address() {
    let with = |host: bool, sandboxes: &[(u32, SandboxState, &[&str])]| {
        let mut bed = Bed::new(pod(&json!({"hostNetwork": host, "containers": named(&["a"])})));
        bed.runtime.sandboxes = sandboxes.iter().map(|(n, state, ips)| sandbox(*n, *state, ips)).collect();
        condition(&bed.compute(), "PodReadyToStartContainers")
    };
    let ip: &[&str] = &["10.0.0.2"];
    assert_eq!(with(false, &[(0, SandboxState::Ready, ip)]), "True");
    assert_eq!(with(false, &[(0, SandboxState::Ready, &[])]), "False");
    assert_eq!(with(true, &[(0, SandboxState::Ready, &[])]), "True");
    assert_eq!(with(false, &[(1, SandboxState::Ready, ip), (0, SandboxState::Ready, ip)]), "False");
    assert_eq!(with(false, &[(1, SandboxState::NotReady, &[]), (0, SandboxState::Ready, ip)]), "False");
    assert_eq!(with(false, &[(1, SandboxState::Ready, ip), (0, SandboxState::NotReady, &[])]), "True");
}

#[test]
fn readiness_gates_and_conditions_of_others() {
    let spec = json!({"readinessGates": [{"conditionType": "example.com/ok"}], "containers": named(&["a"])});
    let mut bed = Bed::new(pod(&spec)).with("a", running());
    let status = bed.step();
    assert_eq!(condition(&status, "ContainersReady"), "True");
    assert_eq!(condition(&status, "Ready"), "False/ReadinessGatesNotReady");
    let gate = |value: &str| PodCondition {
        type_: "example.com/ok".to_owned(),
        status: value.to_owned(),
        ..PodCondition::default()
    };
    for (value, ready) in [("False", "False/ReadinessGatesNotReady"), ("True", "True")] {
        let conditions = bed.previous.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions.retain(|c| c.type_ != "example.com/ok");
        conditions.push(gate(value));
        let status = bed.step();
        assert_eq!(condition(&status, "Ready"), ready);
        assert_eq!(condition(&status, "example.com/ok"), value, "kept");
    }
}

//! Every row of the phase table.

use serde_json::{Value, json};

use super::bed::*;
use crate::runtime::{ContainerState, ExitCode};
use crate::status::FailureOverride;

fn with_init(policy: &str, init: &Value) -> k8s_openapi::api::core::v1::Pod {
    pod(&json!({"restartPolicy": policy, "initContainers": init, "containers": named(&["a"])}))
}

fn sidecar() -> Value {
    json!([{"name": "s", "restartPolicy": "Always"}])
}

#[test]
fn row_1_an_init_container_failed_for_good() {
    let bed = || Bed::new(with_init("Never", &named(&["i"])));
    assert_eq!(bed().with("i", exited(1)).phase(), "Failed");
    assert_eq!(bed().with("i", ended(ExitCode::Lost)).phase(), "Failed");
    for policy in ["Always", "OnFailure"] {
        let bed = Bed::new(with_init(policy, &named(&["i"]))).with("i", exited(1));
        assert_eq!(bed.phase(), "Pending", "{policy}");
    }
    let own = json!([{"name": "i", "restartPolicy": "Never"}]);
    assert_eq!(Bed::new(with_init("Always", &own)).with("i", exited(1)).phase(), "Failed");
}

#[test]
fn row_2_an_init_container_is_not_finished() {
    let bed = || Bed::new(with_init("Always", &named(&["i", "j"])));
    assert_eq!(bed().phase(), "Pending");
    assert_eq!(bed().with("i", running()).phase(), "Pending");
    assert_eq!(bed().with("i", ContainerState::Created).phase(), "Pending");
    assert_eq!(bed().with("i", exited(0)).phase(), "Pending");
    assert_eq!(bed().with("i", exited(0)).with("j", exited(0)).with("a", running()).phase(), "Running");
}

#[test]
fn row_3_a_sidecar_has_not_started() {
    let bed = || Bed::new(with_init("Always", &sidecar()));
    assert_eq!(bed().phase(), "Pending");
    assert_eq!(bed().with("s", running()).phase(), "Pending", "the regular container is missing");
    let mut unstarted = bed().with("s", running());
    let probe = crate::status::ProbeResults { started: Some(false), ..Default::default() };
    unstarted.probes.insert("s".to_owned(), probe);
    assert_eq!(unstarted.phase(), "Pending");
    assert_eq!(bed().with("s", running()).with("a", running()).phase(), "Running");
    // Once initialised, a sidecar that starts again does not throw the Pod back.
    assert_eq!(bed().with("s", exited(1)).with("a", running()).phase(), "Running");
}

#[test]
fn row_4_a_container_waits_that_never_ended() {
    let bed = Bed::new(two("Always")).with("a", running());
    assert_eq!(bed.phase(), "Pending");
    assert_eq!(Bed::new(two("Always")).with("a", running()).with("b", ContainerState::Created).phase(), "Pending");
}

#[test]
fn row_5_something_runs() {
    assert_eq!(Bed::new(two("Never")).with("a", running()).with("b", running()).phase(), "Running");
    assert_eq!(Bed::new(two("Never")).with("a", running()).with("b", exited(1)).phase(), "Running");
}

#[test]
fn row_6a_a_pod_that_is_stopped_for_good() {
    let with = |policy: &str, codes: [i32; 2]| {
        let mut bed = Bed::new(two(policy)).with("a", exited(codes[0])).with("b", exited(codes[1]));
        bed.is_terminal = true;
        bed
    };
    for policy in ["Always", "OnFailure", "Never"] {
        assert_eq!(with(policy, [0, 0]).phase(), "Succeeded", "{policy}");
        assert_eq!(with(policy, [0, 1]).phase(), "Failed", "{policy}");
    }
    let mut kept = with("Always", [0, 0]);
    kept.is_static = true;
    assert_eq!(kept.phase(), "Running", "static pods are never ended by being stopped");
}

#[test]
fn row_6b_something_will_be_started_again() {
    assert_eq!(Bed::new(two("Always")).with("a", exited(0)).with("b", exited(1)).phase(), "Running");
    let own = json!({"restartPolicy": "Never", "containers": [{"name": "a", "restartPolicy": "Always"}]});
    assert_eq!(Bed::new(pod(&own)).with("a", exited(0)).phase(), "Running");
    let rule = json!({"restartPolicy": "Never", "containers": [{"name": "a", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}]});
    assert_eq!(Bed::new(pod(&rule)).with("a", exited(42)).phase(), "Running");
    assert_eq!(Bed::new(pod(&rule)).with("a", exited(1)).phase(), "Failed");
}

#[test]
fn row_6c_all_ended_with_success() {
    for policy in ["OnFailure", "Never"] {
        assert_eq!(Bed::new(two(policy)).with("a", exited(0)).with("b", exited(0)).phase(), "Succeeded", "{policy}");
    }
}

#[test]
fn row_6d_never_with_a_failure() {
    assert_eq!(Bed::new(two("Never")).with("a", exited(0)).with("b", exited(3)).phase(), "Failed");
    let lost = Bed::new(two("Never")).with("a", exited(0)).with("b", ended(ExitCode::Lost));
    assert_eq!(lost.phase(), "Failed", "a lost exit code is never success");
}

#[test]
fn row_6e_on_failure_with_a_failure() {
    assert_eq!(Bed::new(two("OnFailure")).with("a", exited(0)).with("b", exited(3)).phase(), "Running");
}

#[test]
fn row_7_everything_else() {
    assert_eq!(Bed::new(two("Always")).phase(), "Pending");
    assert_eq!(Bed::new(two("Never")).with("a", exited(0)).phase(), "Pending");
    assert_eq!(Bed::new(k8s_openapi::api::core::v1::Pod::default()).phase(), "Pending");
}

#[test]
fn waiting_to_be_started_again_counts_as_stopped() {
    let mut bed = Bed::new(two("Always")).with("a", exited(1)).with("b", exited(1));
    bed.waits("a", "CrashLoopBackOff");
    bed.waits("b", "CrashLoopBackOff");
    assert_eq!(bed.phase(), "Running");
}

#[test]
fn what_sidecars_end_with_says_nothing() {
    let mut bed = Bed::new(with_init("Never", &sidecar())).with("s", exited(143)).with("a", exited(0));
    assert_eq!(bed.phase(), "Succeeded");
    bed.is_terminal = true;
    assert_eq!(bed.phase(), "Succeeded");
}

#[test]
fn a_terminal_phase_is_never_left() {
    let mut bed = Bed::new(two("Never")).with("a", exited(0)).with("b", exited(1));
    bed.failure = Some(FailureOverride::deadline_exceeded());
    assert_eq!(bed.step().reason.as_deref(), Some("DeadlineExceeded"));
    bed.failure = None;
    bed.add("a", running());
    let status = bed.step();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
}

#[test]
fn a_failure_from_outside_overrides_all_but_success() {
    let failure = FailureOverride { reason: "Evicted".to_owned(), message: "no room".to_owned() };
    let mut bed = Bed::new(two("Always")).with("a", running()).with("b", running());
    bed.failure = Some(failure.clone());
    let status = bed.compute();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!((status.reason.as_deref(), status.message.as_deref()), (Some("Evicted"), Some("no room")));
    let mut done = Bed::new(two("Never")).with("a", exited(0)).with("b", exited(0));
    done.failure = Some(failure);
    assert_eq!(done.phase(), "Succeeded");
}

//! Whether a container is started again.

use serde_json::{Value, json};

use super::bed::*;
use crate::runtime::{ContainerState, ExitCode};
use crate::status::{FatalProbe, ProbeResults, RestartPolicy, api_exit_code, may_restart, should_start};

fn restarts(policy: &str, container: &Value, code: i32) -> bool {
    let pod = pod(&json!({"restartPolicy": policy, "containers": [container]}));
    may_restart(&pod, &pod.spec.as_ref().unwrap().containers[0], code)
}

#[test]
fn by_the_policy_of_the_pod() {
    let c = json!({"name": "c"});
    for (policy, code, expected) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ] {
        assert_eq!(restarts(policy, &c, code), expected, "{policy} {code}");
    }
}

#[test]
fn by_the_policy_and_rules_of_the_container() {
    assert!(restarts("Never", &json!({"name": "c", "restartPolicy": "Always"}), 0));
    assert!(!restarts("Always", &json!({"name": "c", "restartPolicy": "Never"}), 1));
    let rule = |operator: &str| {
        json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": operator, "values": [42, 43]}}]})
    };
    assert!(restarts("Never", &rule("In"), 42));
    assert!(!restarts("Never", &rule("In"), 1));
    assert!(restarts("Never", &rule("NotIn"), 1));
    assert!(!restarts("Never", &rule("NotIn"), 43));
}

#[test]
fn init_containers_of_always_pods_are_not_repeated_after_success() {
    let pod = pod(&json!({"restartPolicy": "Always", "containers": [], "initContainers": [
        {"name": "i"}, {"name": "s", "restartPolicy": "Always"}]}));
    let init = pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap();
    assert!(!may_restart(&pod, &init[0], 0));
    assert!(may_restart(&pod, &init[0], 1));
    assert!(may_restart(&pod, &init[1], 0));
    assert_eq!(RestartPolicy::of_init(&pod, &init[0]), RestartPolicy::OnFailure);
}

#[test]
fn by_what_the_container_does() {
    let pod = two("Never");
    let c = &pod.spec.as_ref().unwrap().containers[0];
    let start = |state: ContainerState| should_start(&pod, c, Some(&container("a", 0, state)), None);
    assert!(should_start(&pod, c, None, None));
    assert!(start(ContainerState::Unknown));
    assert!(!start(ContainerState::Created), "it belongs to the action in flight");
    assert!(!start(running()));
    assert!(!start(exited(0)));
    let mut deleted = pod.clone();
    deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    assert!(!should_start(&deleted, c, None, None));
}

#[test]
fn what_a_probe_had_killed_is_started_again_even_if_it_returned_0() {
    let condemned = ProbeResults { condemned: Some(FatalProbe::Liveness), ..ProbeResults::default() };
    for (policy, code, expected) in
        [("Always", 0, true), ("OnFailure", 0, true), ("OnFailure", 1, true), ("Never", 0, false), ("Never", 1, false)]
    {
        let mut bed = Bed::new(two(policy));
        let c = bed.pod.spec.as_ref().unwrap().containers[0].clone();
        let newest = container("a", 0, exited(code));
        assert_eq!(should_start(&bed.pod, &c, Some(&newest), Some(&condemned)), expected, "{policy} {code}");
        bed.add("a", exited(code));
        bed.add("b", exited(0));
        bed.probes.insert("a".to_owned(), condemned);
        let ended = if code == 0 { "Succeeded" } else { "Failed" };
        assert_eq!(bed.phase(), if expected { "Running" } else { ended }, "{policy} {code}");
        bed.waits("a", "CrashLoopBackOff");
        let waits = of(&bed.compute(), "a").state.unwrap().waiting.is_some();
        assert_eq!(waits, expected, "{policy} {code}");
        bed.is_terminal = true;
        assert_eq!(bed.phase(), ended, "{policy} {code}: once the pod is stopped for good, it has ended");
    }
}

#[test]
fn a_lost_code_counts_as_a_failure() {
    assert_eq!(api_exit_code(ExitCode::Lost), 137);
    assert_eq!(api_exit_code(ExitCode::Known(0)), 0);
}

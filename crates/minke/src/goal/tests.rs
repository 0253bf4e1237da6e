#![expect(clippy::needless_pass_by_value, reason = "json! literals read best as arguments")]

use minke_core::identity::PodUid;
use minke_core::judgement::Cause;
use minke_kubelet::{PodStage, PodTimings};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn tracked_with(spec: Value, stage: PodStage, status: Value) -> Tracked {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1"},
        "spec": spec,
        "status": status,
    }))
    .unwrap();
    let pod = Arc::new(pod);
    let key = PodKey::new("default", "web", PodUid::new("u-1").unwrap());
    let standing = Standing::Reported(PodReport { pod: pod.clone(), stage, timings: PodTimings::default() });
    Tracked { standing, ..Tracked::queued(key, pod) }
}

fn spec(restart: &str, names: &[&str]) -> Value {
    let containers: Vec<_> = names.iter().map(|n| json!({"name": n, "image": "i"})).collect();
    json!({"restartPolicy": restart, "containers": containers})
}

fn status(phase: &str, states: &[(&str, Value)]) -> Value {
    let statuses: Vec<_> = states
        .iter()
        .map(|(name, state)| {
            json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state})
        })
        .collect();
    json!({"phase": phase, "containerStatuses": statuses})
}

fn running() -> Value {
    json!({"running": {}})
}

fn exited(code: i32) -> Value {
    json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": "why"}})
}

/// What `evaluate` says of a single Pod, as the exit code; `None` while waiting.
fn code(spec: Value, stage: PodStage, status: Value, until: Until) -> Option<u8> {
    evaluate(&[tracked_with(spec, stage, status)], until).exit().map(Exit::code)
}

#[test]
fn until_running_table() {
    use PodStage::{Finished, Syncing, Terminated, Terminating};
    let one = ["a"];
    let two = ["a", "b"];
    #[rustfmt::skip]
    let table = [
        ("all run",                      spec("Always", &two), Syncing, status("Running", &[("a", running()), ("b", running())]), Some(0)),
        ("one does not run yet",         spec("Always", &two), Syncing, status("Pending", &[("a", running()), ("b", waiting("ContainerCreating"))]), None),
        ("one has no status yet",        spec("Always", &two), Syncing, status("Running", &[("a", running())]), None),
        ("no status at all",             spec("Always", &one), Syncing, json!({}), None),
        ("completed 0, Never",           spec("Never", &two), Syncing, status("Running", &[("a", running()), ("b", exited(0))]), Some(0)),
        ("completed 0, OnFailure",       spec("OnFailure", &two), Syncing, status("Running", &[("a", running()), ("b", exited(0))]), Some(0)),
        ("completed 0, Always",          spec("Always", &two), Syncing, status("Running", &[("a", running()), ("b", exited(0))]), None),
        ("exited 3, OnFailure",          spec("OnFailure", &two), Syncing, status("Running", &[("a", running()), ("b", exited(3))]), None),
        ("crash loop waits",             spec("Always", &one), Syncing, status("Running", &[("a", waiting("CrashLoopBackOff"))]), None),
        ("succeeded",                    spec("Never", &one), Finished, status("Succeeded", &[("a", exited(0))]), Some(0)),
        ("failed",                       spec("Never", &one), Finished, status("Failed", &[("a", exited(3))]), Some(1)),
        ("failed while others stop",     spec("Never", &two), Terminating, status("Failed", &[("a", exited(3)), ("b", running())]), Some(1)),
        ("stopped by someone",           spec("Always", &one), Terminated, status("Running", &[("a", exited(0))]), Some(1)),
        ("runs but is being stopped",    spec("Always", &one), Terminating, status("Running", &[("a", running())]), None),
        ("image refused",                spec("Always", &one), Syncing, status("Pending", &[("a", waiting("ErrImagePull"))]), Some(5)),
        ("image back-off",               spec("Always", &one), Syncing, status("Pending", &[("a", waiting("ImagePullBackOff"))]), Some(5)),
        ("image must not be pulled",     spec("Always", &one), Syncing, status("Pending", &[("a", waiting("ErrImageNeverPull"))]), Some(5)),
        ("image name",                   spec("Always", &one), Syncing, status("Pending", &[("a", waiting("InvalidImageName"))]), Some(5)),
        ("registry away",                spec("Always", &one), Syncing, status("Pending", &[("a", waiting("RegistryUnavailable"))]), None),
        ("config",                       spec("Always", &one), Syncing, status("Pending", &[("a", waiting("CreateContainerConfigError"))]), Some(5)),
        ("create",                       spec("Always", &one), Syncing, status("Pending", &[("a", waiting("CreateContainerError"))]), Some(5)),
        ("runtime away",                 spec("Always", &one), Syncing, status("Pending", &[("a", json!({"waiting": {"reason": "CreateContainerError", "message": "create container: the runtime does not answer: connection reset"}}))]), None),
        ("registry away, backing off",   spec("Always", &one), Syncing, status("Pending", &[("a", json!({"waiting": {"reason": "ImagePullBackOff", "message": "RegistryUnavailable: x"}}))]), None),
        ("one failed for good",          spec("Never", &two), Syncing, status("Running", &[("a", exited(3)), ("b", running())]), Some(1)),
        ("evicted",                      spec("Never", &one), Finished, json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}), Some(5)),
        ("past its deadline",            spec("Never", &one), Finished, json!({"phase": "Failed", "reason": "DeadlineExceeded"}), Some(1)),
        ("start",                        spec("Always", &one), Syncing, status("Pending", &[("a", waiting("RunContainerError"))]), Some(1)),
    ];
    for (name, spec, stage, status, expected) in table {
        assert_eq!(code(spec, stage, status, Until::Running), expected, "{name}");
    }
}

#[test]
fn until_completed_table() {
    use PodStage::{Finished, Syncing, Terminating};
    let two = ["a", "b"];
    #[rustfmt::skip]
    let table = [
        ("runs",                   Syncing, status("Running", &[("a", running()), ("b", running())]), None),
        ("half done",              Syncing, status("Running", &[("a", running()), ("b", exited(0))]), None),
        ("done",                   Finished, status("Succeeded", &[("a", exited(0)), ("b", exited(0))]), Some(0)),
        ("done, not cleaned up",   Terminating, status("Succeeded", &[("a", exited(0)), ("b", exited(0))]), None),
        ("failed",                 Finished, status("Failed", &[("a", exited(0)), ("b", exited(9))]), Some(1)),
        ("image never comes",      Syncing, status("Pending", &[("a", waiting("ErrImageNeverPull"))]), Some(5)),
    ];
    for (name, stage, status, expected) in table {
        assert_eq!(code(spec("Never", &two), stage, status, Until::Completed), expected, "{name}");
    }
}

#[test]
fn a_pod_that_was_up_once_has_been_up() {
    let crashed = status("Running", &[("a", waiting("CrashLoopBackOff"))]);
    let mut tracked = tracked_with(spec("Always", &["a"]), PodStage::Syncing, crashed);
    assert_eq!(evaluate(std::slice::from_ref(&tracked), Until::Running), Goal::Waiting);
    let Standing::Reported(report) = &mut tracked.standing else { panic!() };
    report.timings.running_at = Some(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(evaluate(std::slice::from_ref(&tracked), Until::Running), Goal::Reached);
    assert_eq!(evaluate(&[tracked], Until::Completed), Goal::Waiting);
}

#[test]
fn a_sidecar_must_run_and_an_init_container_need_not() {
    let spec = json!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "i"}], "initContainers": [
        {"name": "init", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}]});
    let with = |side: Value| {
        let mut status = status("Running", &[("a", running())]);
        let entry = |name: &str, state: Value| {
            let ready = state.get("waiting").is_none();
            json!({"name": name, "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": state})
        };
        status["initContainerStatuses"] = json!([entry("init", exited(0)), entry("side", side)]);
        status
    };
    assert_eq!(code(spec.clone(), PodStage::Syncing, with(running()), Until::Running), Some(0));
    assert_eq!(code(spec.clone(), PodStage::Syncing, with(exited(1)), Until::Running), None);
    assert_eq!(code(spec, PodStage::Syncing, with(waiting("ErrImagePull")), Until::Running), Some(5));
}

#[test]
fn a_command_that_is_not_there_fails_even_behind_the_back_off() {
    let mut status = status("Running", &[("a", waiting("CrashLoopBackOff"))]);
    status["containerStatuses"][0]["lastState"] = json!({"terminated": {
        "exitCode": 128, "reason": "StartError", "message": "exec: \"nope\": executable file not found in $PATH"}});
    let goal = evaluate(&[tracked_with(spec("Always", &["a"]), PodStage::Syncing, status)], Until::Running);
    let Goal::Failed(blocked) = &goal else { panic!("{goal:?}") };
    assert_eq!(goal.exit(), Some(Exit::ContainerFailed));
    assert_eq!(blocked[0].why.cause, Cause::CommandNotFound);
    assert!(blocked[0].why.to_string().contains("executable file not found"), "{}", blocked[0].why);
}

#[test]
fn a_failed_pod_says_which_container_and_how() {
    let status = status("Failed", &[("a", exited(0)), ("b", exited(42))]);
    let goal = evaluate(&[tracked_with(spec("Never", &["a", "b"]), PodStage::Finished, status)], Until::Running);
    let Goal::Failed(blocked) = goal else { panic!("{goal:?}") };
    assert_eq!(blocked[0].why.to_string(), "ContainerFailed: container b (image i): exit code 42: Error");
    assert_eq!(blocked[0].pod, "default/web");
}

#[test]
fn standings_without_a_report() {
    let mut tracked = tracked_with(spec("Always", &["a"]), PodStage::Syncing, json!({}));
    for (standing, expected) in [
        (Standing::Queued, None),
        (Standing::Offered, None),
        (Standing::Applied, None),
        (Standing::Rejected { reason: "NodePorts".to_owned(), message: "port 80".to_owned() }, Some(4)),
        (Standing::Gone, Some(5)),
    ] {
        tracked.standing = standing;
        assert_eq!(evaluate(std::slice::from_ref(&tracked), Until::Running).exit().map(Exit::code), expected);
    }
}

#[test]
fn trouble_that_repeats_is_the_systems_fault() {
    let mut tracked = tracked_with(spec("Always", &["a"]), PodStage::Syncing, status("Pending", &[]));
    tracked.trouble = Trouble { count: 2, message: "no cgroup".to_owned() };
    assert_eq!(evaluate(std::slice::from_ref(&tracked), Until::Running), Goal::Waiting);
    tracked.trouble.count = 3;
    assert_eq!(evaluate(&[tracked], Until::Running).exit(), Some(Exit::System));
}

#[test]
fn trouble_that_events_explain_is_named() {
    let mut tracked = tracked_with(spec("Always", &["a"]), PodStage::Syncing, status("Pending", &[]));
    tracked.trouble.count = 3;
    tracked.heard("FailedCreatePodSandBox", "plugin said no");
    let goal = evaluate(std::slice::from_ref(&tracked), Until::Running);
    let Goal::Failed(blocked) = &goal else { panic!("{goal:?}") };
    assert_eq!((goal.exit(), blocked[0].why.cause), (Some(Exit::System), Cause::SandboxFailed));
    // What can't heal is told at once.
    tracked.trouble = Trouble::default();
    tracked.heard("FailedMount", "hostPath type check failed: /x is not a directory");
    let goal = evaluate(&[tracked], Until::Running);
    let Goal::Failed(blocked) = &goal else { panic!("{goal:?}") };
    assert_eq!((goal.exit(), blocked[0].why.cause), (Some(Exit::System), Cause::VolumeMissing));
}

#[test]
fn a_refusal_has_a_cause_whatever_its_reason() {
    let mut tracked = tracked_with(spec("Always", &["a"]), PodStage::Syncing, json!({}));
    for (reason, cause) in [
        ("OutOfmemory", Cause::OutOfResource),
        ("NodePorts", Cause::AdmissionRejected),
        ("SysctlForbidden", Cause::AdmissionForbidden),
        ("BrandNew", Cause::AdmissionRejected),
    ] {
        tracked.standing = Standing::Rejected { reason: reason.to_owned(), message: "no".to_owned() };
        let goal = evaluate(std::slice::from_ref(&tracked), Until::Running);
        let Goal::Failed(blocked) = &goal else { panic!("{goal:?}") };
        assert_eq!((goal.exit(), blocked[0].why.cause), (Some(Exit::Rejected), cause), "{reason}");
    }
}

#[test]
fn completed_tells_failures_only_when_all_have_ended() {
    let failed = tracked_with(spec("Never", &["a"]), PodStage::Finished, status("Failed", &[("a", exited(1))]));
    let runs = tracked_with(spec("Never", &["a"]), PodStage::Syncing, status("Running", &[("a", running())]));
    assert_eq!(evaluate(&[failed.clone(), runs.clone()], Until::Completed), Goal::Waiting);
    assert!(matches!(evaluate(&[failed, runs], Until::Running), Goal::Failed(_)));
}

#[test]
fn the_gravest_cause_decides_the_code() {
    let why = || diagnosis::plain(Cause::PodFailed, "", "");
    let blocked = |fault| Blocked { pod: "p".to_owned(), fault, why: why() };
    let exit = |faults: &[Fault]| Goal::Failed(faults.iter().map(|f| blocked(*f)).collect()).exit();
    assert_eq!(exit(&[Fault::Container, Fault::Rejected]), Some(Exit::Rejected));
    assert_eq!(exit(&[Fault::System, Fault::Rejected]), Some(Exit::System));
    assert_eq!(exit(&[Fault::Container]), Some(Exit::ContainerFailed));
}

#[test]
fn nothing_asked_is_reached() {
    assert_eq!(evaluate(&[], Until::Running), Goal::Reached);
    assert_eq!(evaluate(&[], Until::Completed), Goal::Reached);
}

#[test]
fn pods_that_restart_always_never_complete_unless_they_have_a_deadline() {
    let pod = |spec: Value| tracked_with(spec, PodStage::Syncing, json!({})).pod;
    let mut deadline = spec("Always", &["a"]);
    deadline["activeDeadlineSeconds"] = json!(5);
    let pods = [pod(spec("Always", &["a"])), pod(spec("Never", &["a"])), pod(deadline)];
    assert_eq!(never_completing(&pods), ["default/web"]);
}

fn any_state() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(running()),
        (0..3).prop_map(exited),
        prop_oneof![Just("ContainerCreating"), Just("CrashLoopBackOff"), Just("ErrImagePull")].prop_map(waiting),
    ]
}

proptest! {
    /// Whatever the statuses are: with `running`, reached means that nothing waits and nothing ended badly.
    #[test]
    fn reached_is_never_claimed_too_early(states in prop::collection::vec(any_state(), 1..4), never in any::<bool>()) {
        let names = ["a", "b", "c"];
        let states: Vec<_> = names.iter().copied().zip(states).collect();
        let used: Vec<_> = states.iter().map(|(n, _)| *n).collect();
        let policy = if never { "Never" } else { "Always" };
        let up = |state: &Value| state.get("running").is_some()
            || (never && state.pointer("/terminated/exitCode") == Some(&json!(0)));
        let expected = states.iter().all(|(_, state)| up(state));
        let pod = tracked_with(spec(policy, &used), PodStage::Syncing, status("Running", &states));
        prop_assert_eq!(evaluate(&[pod], Until::Running) == Goal::Reached, expected);
    }
}

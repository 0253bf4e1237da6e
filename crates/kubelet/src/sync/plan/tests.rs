//! Rows of the action computation, and a property: whatever the runtime shows, no plan makes a second live instance.

use k8s_openapi::api::core::v1::{ContainerState as ApiState, ContainerStateTerminated};
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{Exit, ExitCode, ImageId, NamespaceOptions, SandboxInfo, SandboxStatus};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pod(policy: &str, inits: &[(&str, bool)], containers: &[&str]) -> Pod {
    let inits: Vec<_> = inits
        .iter()
        .map(
            |(name, sidecar)| {
                if *sidecar { json!({"name": name, "restartPolicy": "Always"}) } else { json!({"name": name}) }
            },
        )
        .collect();
    let containers: Vec<_> = containers.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"restartPolicy": policy, "initContainers": inits, "containers": containers},
    }))
    .unwrap()
}

fn sandbox(attempt: u32, state: SandboxState) -> SandboxStatus {
    let uid = PodUid::new("u").unwrap();
    let id = SandboxId(format!("s{attempt}"));
    let info = SandboxInfo { id, pod: PodKey::new("default", "p", uid), attempt, state, created_at: at(0) };
    SandboxStatus {
        info,
        ips: vec!["10.0.0.1".parse().unwrap()],
        namespaces: NamespaceOptions::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

fn container(name: &str, attempt: u32, sandbox: u32, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: ContainerId(format!("{name}-{attempt}")),
        sandbox: SandboxId(format!("s{sandbox}")),
        pod: PodUid::new("u").unwrap(),
        name: name.to_owned(),
        attempt,
        created_at: at(i64::from(attempt)),
        state,
        image_name: String::new(),
        image: ImageId(String::new()),
        log_path: "/log".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        uid: None,
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started_at: at(1) }
}

fn exited(code: i32) -> ContainerState {
    let exit = Exit { code: ExitCode::Known(code), reason: String::new(), message: String::new(), finished_at: at(9) };
    ContainerState::Exited { started_at: Some(at(1)), exit }
}

fn runtime(sandboxes: Vec<SandboxStatus>, containers: Vec<ContainerStatus>) -> PodRuntimeStatus {
    let ips = vec!["10.0.0.1".parse().unwrap()];
    PodRuntimeStatus { uid: PodUid::new("u").unwrap(), sandboxes, containers, ips }
}

fn planned(pod: &Pod, runtime: &PodRuntimeStatus) -> Plan {
    planned_with(pod, runtime, None, &BTreeMap::new())
}

fn planned_with(
    pod: &Pod,
    runtime: &PodRuntimeStatus,
    previous: Option<&PodStatus>,
    hashes: &BTreeMap<String, String>,
) -> Plan {
    plan(&PlanInput { pod, runtime, previous, probes: &BTreeMap::new(), hashes })
}

/// A plan in words: `stop a`, `sandbox 1`, `start a#0`, `resume a`.
fn words(plan: &Plan) -> Vec<String> {
    let Plan::Steps(steps) = plan else { return vec!["end".to_owned()] };
    let mut words: Vec<String> = steps.stop.iter().map(|s| format!("stop {}", s.name)).collect();
    if let SandboxStep::Create { attempt, .. } = &steps.sandbox {
        words.push(format!("sandbox {attempt}"));
    }
    words.extend(steps.start.iter().map(|start| match &start.how {
        How::Create { attempt, .. } => format!("start {}#{attempt}", start.name),
        How::Resume(_) => format!("resume {}", start.name),
    }));
    words
}

fn ready() -> Vec<SandboxStatus> {
    vec![sandbox(0, SandboxState::Ready)]
}

#[test]
fn a_new_pod_gets_a_sandbox_and_all_its_containers() {
    let plan = planned(&pod("Always", &[], &["a", "b"]), &runtime(vec![], vec![]));
    assert_eq!(words(&plan), ["sandbox 0", "start a#0", "start b#0"]);
}

#[test]
fn with_init_containers_only_the_first_is_started() {
    let plan = planned(&pod("Always", &[("i", false), ("j", false)], &["a"]), &runtime(vec![], vec![]));
    assert_eq!(words(&plan), ["sandbox 0", "start i#0"]);
}

#[test]
fn when_a_new_sandbox_is_needed() {
    let pod = pod("Always", &[], &["a"]);
    let mut no_ip = ready();
    no_ip[0].ips.clear();
    let mut host = ready();
    host[0].namespaces.network = NamespaceMode::Node;
    let two = vec![sandbox(1, SandboxState::Ready), sandbox(0, SandboxState::Ready)];
    for (name, sandboxes, next) in [
        ("none", vec![], 0),
        ("newest not ready", vec![sandbox(3, SandboxState::NotReady)], 4),
        ("more than one ready", two, 2),
        ("another network", host, 1),
        ("no address", no_ip, 1),
    ] {
        let plan = planned(&pod, &runtime(sandboxes, vec![]));
        assert_eq!(words(&plan), [format!("sandbox {next}"), "start a#0".to_owned()], "{name}");
    }
    assert_eq!(words(&planned(&pod, &runtime(ready(), vec![]))), ["start a#0"], "kept");
}

#[test]
fn a_dead_sandbox_stops_what_runs_and_starts_initialisation_over() {
    let dead = vec![sandbox(0, SandboxState::NotReady)];
    let containers = vec![container("a", 0, 0, running()), container("i", 0, 0, exited(0))];
    let plan = planned(&pod("Always", &[("i", false)], &["a"]), &runtime(dead, containers));
    assert_eq!(words(&plan), ["stop a", "sandbox 1", "start i#1"]);
    let Plan::Steps(Steps { sandbox: SandboxStep::Create { purge, replaces, .. }, .. }) = plan else { panic!() };
    assert_eq!((purge, replaces), (vec![ContainerId("i-0".into())], vec![SandboxId("s0".into())]));
}

#[test]
fn a_dead_sandbox_of_policy_never_ends_the_pod() {
    let dead = || vec![sandbox(0, SandboxState::NotReady)];
    let ran = runtime(dead(), vec![container("a", 0, 0, exited(1))]);
    assert_eq!(planned(&pod("Never", &[], &["a"]), &ran), Plan::End);
    let nothing_ran = runtime(dead(), vec![]);
    assert_eq!(words(&planned(&pod("Never", &[], &["a"]), &nothing_ran)), ["sandbox 1", "start a#0"]);
}

#[test]
fn restart_by_policy_and_exit_code() {
    for (policy, code, expected) in [
        ("Always", 0, vec!["start a#1"]),
        ("Always", 1, vec!["start a#1"]),
        ("OnFailure", 0, vec!["end"]),
        ("OnFailure", 1, vec!["start a#1"]),
        ("Never", 0, vec!["end"]),
        ("Never", 1, vec!["end"]),
    ] {
        let plan = planned(&pod(policy, &[], &["a"]), &runtime(ready(), vec![container("a", 0, 0, exited(code))]));
        assert_eq!(words(&plan), expected, "{policy} {code}");
    }
}

#[test]
fn a_lost_exit_code_counts_as_a_failure() {
    let exit = Exit { code: ExitCode::Lost, reason: String::new(), message: String::new(), finished_at: at(9) };
    let lost = ContainerState::Exited { started_at: None, exit };
    let runtime = runtime(ready(), vec![container("a", 0, 0, lost)]);
    assert_eq!(words(&planned(&pod("OnFailure", &[], &["a"]), &runtime)), ["start a#1"]);
}

#[test]
fn created_between_two_syncs_is_resumed_and_never_made_twice() {
    let runtime = runtime(ready(), vec![container("a", 0, 0, ContainerState::Created)]);
    for policy in ["Always", "OnFailure", "Never"] {
        assert_eq!(words(&planned(&pod(policy, &[], &["a"]), &runtime)), ["resume a"]);
        assert_eq!(words(&planned(&pod(policy, &[("a", false)], &["m"]), &runtime)), ["resume a"]);
        assert_eq!(words(&planned(&pod(policy, &[("a", true)], &["m"]), &runtime)), ["resume a"]);
    }
}

#[test]
fn a_sandbox_without_containers_does_not_start_them_twice() {
    let pod = pod("Always", &[], &["a"]);
    let running = runtime(ready(), vec![container("a", 0, 0, running())]);
    let Plan::Steps(steps) = planned(&pod, &running) else { panic!() };
    assert!(steps.is_empty());
}

#[test]
fn an_unknown_container_is_stopped_and_nothing_else() {
    let runtime = runtime(ready(), vec![container("a", 0, 0, ContainerState::Unknown)]);
    for policy in ["Always", "Never"] {
        assert_eq!(words(&planned(&pod(policy, &[], &["a"]), &runtime)), ["stop a"]);
    }
}

#[test]
fn a_changed_definition_replaces_the_container() {
    let mut running = container("a", 0, 0, running());
    running.annotations.insert(labels::HASH.to_owned(), "old".to_owned());
    let hashes = BTreeMap::from([("a".to_owned(), "new".to_owned())]);
    let runtime = runtime(ready(), vec![running]);
    assert_eq!(words(&planned_with(&pod("Always", &[], &["a"]), &runtime, None, &hashes)), ["stop a"]);
}

#[test]
fn init_containers_one_after_the_other() {
    let pod = pod("Always", &[("i", false), ("j", false)], &["a"]);
    let i = |state| container("i", 0, 0, state);
    let j = |state| container("j", 0, 0, state);
    for (name, containers, expected) in [
        ("the first runs", vec![i(running())], vec![]),
        ("the first is done", vec![i(exited(0))], vec!["start j#0"]),
        ("the first failed", vec![i(exited(2))], vec!["start i#1"]),
        ("both are done", vec![j(exited(0)), i(exited(0))], vec!["start a#0"]),
        ("history of the first is gone", vec![j(exited(0))], vec!["start a#0"]),
        ("the second's state is unknown", vec![j(ContainerState::Unknown)], vec!["stop j"]),
    ] {
        assert_eq!(words(&planned(&pod, &runtime(ready(), containers))), expected, "{name}");
    }
}

#[test]
fn a_failed_init_container_of_policy_never_ends_the_pod() {
    let runtime = runtime(ready(), vec![container("i", 0, 0, exited(2))]);
    assert_eq!(planned(&pod("Never", &[("i", false)], &["a"]), &runtime), Plan::End);
}

#[test]
fn init_containers_are_not_run_again_once_a_regular_one_exists() {
    let runtime = runtime(ready(), vec![container("a", 0, 0, exited(1))]);
    assert_eq!(words(&planned(&pod("Always", &[("i", false)], &["a"]), &runtime)), ["start a#1"]);
}

#[test]
fn sidecars_are_kept_alive_and_do_not_keep_the_pod() {
    let pod = pod("Never", &[("s", true), ("i", false)], &["a"]);
    let s = |state| container("s", 0, 0, state);
    for (name, containers, expected) in [
        ("started: the next one", vec![s(running())], vec!["start i#0"]),
        ("ended before the next: again, and wait", vec![s(exited(0))], vec!["start s#1"]),
        ("ended during the next: again", vec![container("i", 0, 0, running()), s(exited(1))], vec!["start s#1"]),
        ("ended while the work goes on: again", vec![container("a", 0, 0, running()), s(exited(1))], vec!["start s#1"]),
        ("the work is done", vec![container("a", 0, 0, exited(0)), s(running())], vec!["end"]),
    ] {
        assert_eq!(words(&planned(&pod, &runtime(ready(), containers))), expected, "{name}");
    }
}

#[test]
fn a_sidecar_with_a_startup_probe_is_waited_for() {
    let (pod, runtime) =
        (pod("Always", &[("s", true)], &["a"]), runtime(ready(), vec![container("s", 0, 0, running())]));
    for (started, expected) in [(false, vec![]), (true, vec!["start a#0"])] {
        let probes = BTreeMap::from([("s".to_owned(), ProbeResults { started: Some(started), ..Default::default() })]);
        let input =
            PlanInput { pod: &pod, runtime: &runtime, previous: None, probes: &probes, hashes: &BTreeMap::new() };
        assert_eq!(words(&plan(&input)), expected);
    }
}

#[test]
fn what_the_runtime_forgot_the_status_remembers() {
    let previous = |code: i32, count: i32| {
        let terminated = ContainerStateTerminated { exit_code: code, ..ContainerStateTerminated::default() };
        let state = Some(ApiState { terminated: Some(terminated), ..ApiState::default() });
        let status = ApiStatus { name: "a".to_owned(), state, restart_count: count, ..ApiStatus::default() };
        PodStatus { container_statuses: Some(vec![status]), ..PodStatus::default() }
    };
    let nothing = runtime(vec![], vec![]);
    let none = BTreeMap::new();
    let plan = |policy, code| planned_with(&pod(policy, &[], &["a"]), &nothing, Some(&previous(code, 4)), &none);
    assert_eq!(words(&plan("Always", 1)), ["sandbox 0", "start a#5"], "restart counts go on");
    assert_eq!(plan("OnFailure", 0), Plan::End, "what succeeded is not done again");
    assert_eq!(plan("Never", 1), Plan::End);
}

fn state() -> impl Strategy<Value = ContainerState> {
    prop_oneof![
        Just(ContainerState::Created),
        Just(running()),
        Just(ContainerState::Unknown),
        (0..3_i32).prop_map(exited),
    ]
}

proptest! {
    #[test]
    fn no_plan_makes_a_second_live_instance(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        sandboxes in prop::collection::vec(any::<bool>(), 0..3),
        instances in prop::collection::vec((0_usize..4, 0_u32..3, 0_u32..3, state()), 0..8),
    ) {
        let pod = pod(policy, &[("i", false), ("s", true)], &["a", "b"]);
        let names = ["i", "s", "a", "b"];
        let count = u32::try_from(sandboxes.len()).unwrap();
        let all = sandboxes.iter().zip(0..).map(|(ready, n)| {
            sandbox(n, if *ready { SandboxState::Ready } else { SandboxState::NotReady })
        });
        let mut sandboxes: Vec<_> = all.collect();
        sandboxes.reverse();
        let mut containers: Vec<ContainerStatus> = Vec::new();
        for (name, attempt, sandbox, state) in instances {
            let twin = |c: &ContainerStatus| c.name == names[name] && c.attempt == attempt;
            if sandbox < count && !containers.iter().any(twin) {
                containers.push(container(names[name], attempt, sandbox, state));
            }
        }
        containers.sort_by_key(|c| std::cmp::Reverse(c.attempt));
        let status = runtime(sandboxes, containers);
        let Plan::Steps(steps) = planned(&pod, &status) else { return Ok(()) };
        for start in &steps.start {
            let How::Create { attempt, .. } = &start.how else { continue };
            // Only the newest instance of a name is ever left alive by this kubelet.
            let newest = status.newest(&start.name);
            let live = newest.filter(|c| !matches!(c.state, ContainerState::Exited { .. }));
            let stopped = live.is_none_or(|c| steps.stop.iter().any(|s| s.id == c.id));
            prop_assert!(stopped, "{} would live twice: {:?}", start.name, words(&Plan::Steps(steps.clone())));
            prop_assert!(status.instances(&start.name).all(|c| c.attempt < *attempt), "attempts grow");
        }
        let mut started: Vec<&str> = steps.start.iter().map(|s| s.name.as_str()).collect();
        started.sort_unstable();
        started.dedup();
        prop_assert_eq!(started.len(), steps.start.len(), "each container once");
    }
}

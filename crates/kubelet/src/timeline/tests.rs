use std::time::Duration;

use minke_core::runtime::{ContainerId, ContainerState, ContainerStatus, Exit, ExitCode, ImageId, SandboxId};
use serde_json::json;

use super::*;

fn pod(name: &str) -> (PodKey, Pod) {
    let key = PodKey::new("default", name, PodUid::new(format!("uid-{name}")).unwrap());
    let spec = json!({
        "initContainers": [{"name": "init"}, {"name": "proxy", "restartPolicy": "Always"}],
        "containers": [{"name": "main"}],
    });
    (key, serde_json::from_value(json!({"spec": spec})).unwrap())
}

fn begun() -> (Timeline, PodKey) {
    let timeline = Timeline::default();
    let (key, pod) = pod("p");
    timeline.begin(&key, &pod, Transition::Admitted);
    (timeline, key)
}

fn wall() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn before(seconds: i64) -> Timestamp {
    wall() - SignedDuration::from_secs(seconds)
}

fn seen(key: &PodKey, attempt: u32, state: ContainerState) -> PodRuntimeStatus {
    let container = ContainerStatus {
        id: ContainerId(format!("c{attempt}")),
        sandbox: SandboxId("s".to_owned()),
        pod: key.uid.clone(),
        name: "main".to_owned(),
        attempt,
        created_at: before(100),
        state,
        image_name: String::new(),
        image: ImageId(String::new()),
        log_path: "/log".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        uid: None,
    };
    PodRuntimeStatus { containers: vec![container], ..PodRuntimeStatus::empty(key.uid.clone()) }
}

fn exited(started: i64, finished: i64, code: ExitCode) -> ContainerState {
    let exit = Exit { code, reason: "Error".to_owned(), message: String::new(), finished_at: before(finished) };
    ContainerState::Exited { started_at: Some(before(started)), exit }
}

fn lines(timeline: &Timeline) -> Vec<String> {
    let all = timeline.snapshot(None, wall());
    let line = |e: &Entry| {
        let name = e.container.as_deref().unwrap_or("-");
        format!("{} {name}#{} {}", e.at / 1000, e.attempt, serde_json::to_value(&e.transition).unwrap()["what"])
    };
    all.pods.iter().flat_map(|p| &p.entries).map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn transitions_carry_monotonic_time_and_their_attempt() {
    let (timeline, key) = begun();
    tokio::time::advance(Duration::from_millis(5)).await;
    timeline.record(&key.uid, Some(("main", 3)), Transition::Began { step: Step::Create });
    tokio::time::advance(Duration::from_millis(7)).await;
    timeline.record(&key.uid, Some(("main", 3)), Transition::Done { step: Step::Create });
    assert_eq!(lines(&timeline), ["0 -#0 \"admitted\"", "5 main#3 \"began\"", "12 main#3 \"done\""]);
    assert_eq!(timeline.attempt(&key.uid, "main"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_process_is_told_once_and_at_the_runtime_s_time() {
    let (timeline, key) = begun();
    tokio::time::advance(Duration::from_secs(10)).await;
    let running = seen(&key, 0, ContainerState::Running { started_at: before(4) });
    timeline.observe(&running, wall());
    timeline.observe(&running, wall());
    tokio::time::advance(Duration::from_secs(1)).await;
    timeline.observe(&seen(&key, 0, exited(4, 2, ExitCode::Lost)), wall());
    assert_eq!(lines(&timeline), ["0 -#0 \"admitted\"", "6000 main#0 \"running\"", "9000 main#0 \"exited\""]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_never_seen_running_has_both_its_ends() {
    let (timeline, key) = begun();
    tokio::time::advance(Duration::from_secs(10)).await;
    timeline.observe(&seen(&key, 2, exited(3, 1, ExitCode::Known(7))), wall());
    assert_eq!(lines(&timeline)[1..], ["7000 main#2 \"running\"", "9000 main#2 \"exited\""]);
}

#[tokio::test(start_paused = true)]
async fn what_ran_before_this_agent_lies_before_its_zero() {
    let (timeline, key) = begun();
    timeline.observe(&seen(&key, 0, ContainerState::Running { started_at: before(60) }), wall());
    assert_eq!(lines(&timeline), ["-60000 main#0 \"running\"", "0 -#0 \"admitted\""]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumped_moves_nothing_into_the_future_nor_before_its_own_start() {
    let (timeline, key) = begun();
    tokio::time::advance(Duration::from_secs(10)).await;
    timeline.record(&key.uid, Some(("main", 0)), Transition::Done { step: Step::Start });
    tokio::time::advance(Duration::from_secs(1)).await;
    timeline.observe(&seen(&key, 0, exited(3600, -50, ExitCode::Known(0))), wall());
    assert_eq!(lines(&timeline)[2..], ["10000 main#0 \"running\"", "11000 main#0 \"exited\""]);
}

#[tokio::test(start_paused = true)]
async fn readiness_and_phase_are_told_when_they_change() {
    let (timeline, key) = begun();
    let status = |ready: bool| -> PodStatus {
        serde_json::from_value(json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [
                {"name": "main", "ready": ready, "restartCount": 1, "image": "i", "imageID": "i"}
            ],
        }))
        .unwrap()
    };
    for ready in [false, true, true, false] {
        timeline.status(&key.uid, &status(ready));
    }
    let told =
        ["0 -#0 \"phase\"", "0 main#1 \"ready\"", "0 -#0 \"ready\"", "0 main#1 \"notReady\"", "0 -#0 \"notReady\""];
    assert_eq!(lines(&timeline)[1..], told);
}

#[tokio::test(start_paused = true)]
async fn one_back_off_is_one_entry_however_often_it_is_looked_at() {
    let (timeline, key) = begun();
    for _ in 0..3 {
        timeline.record(&key.uid, Some(("main", 1)), Transition::BackOff { for_us: 10 });
    }
    assert_eq!(lines(&timeline).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn forgotten_pods_are_kept_for_a_while_and_a_new_life_replaces_the_old() {
    let timeline = Timeline::default();
    for i in 0..GONE + 5 {
        let (key, object) = pod(&format!("p{i}"));
        timeline.begin(&key, &object, Transition::Admitted);
        timeline.gone(&key.uid);
        timeline.record(&key.uid, None, Transition::Terminated);
    }
    let all = timeline.snapshot(None, wall());
    assert_eq!(all.pods.len(), GONE);
    assert_eq!(&*all.pods[0].pod.name, "p5", "the oldest went first");
    assert_eq!(all.pods[0].entries.len(), 2, "nothing is recorded of a pod that is gone");
    let (key, object) = pod("p7");
    timeline.begin(&key, &object, Transition::Admitted);
    let again = timeline.snapshot(Some(std::slice::from_ref(&key.uid)), wall());
    assert_eq!(again.pods.len(), 1);
    assert_eq!(again.pods[0].entries.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lanes_are_the_spec_s_containers_and_others_are_not_recorded() {
    let (timeline, key) = begun();
    timeline.record(&key.uid, Some(("stranger", 0)), Transition::Running);
    let all = timeline.snapshot(None, wall());
    let kinds: Vec<_> = all.pods[0].lanes.iter().map(|l| (&*l.name, l.kind)).collect();
    assert_eq!(kinds, [("init", LaneKind::Init), ("proxy", LaneKind::Sidecar), ("main", LaneKind::Main)]);
    assert_eq!(all.pods[0].entries.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeline_survives_json() {
    let (timeline, key) = begun();
    timeline.record(&key.uid, Some(("main", 0)), Transition::Failed { step: Step::Pull, reason: "no".to_owned() });
    timeline.record(&key.uid, Some(("main", 0)), Transition::Exited { code: None, reason: "Error".to_owned() });
    let all = timeline.snapshot(None, wall());
    let text = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Timelines>(&text).unwrap(), all);
}

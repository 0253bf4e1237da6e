//! Probes through the whole core: what they say reaches the status, and what they condemn is killed and restarted. On
//! the scripted runtime under paused time; commands answer as each test says.

#![cfg(test)]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minke_core::fake::{FakeExec, Fault, FaultAction, Life, Op};
use minke_kubelet::timeline::Transition;
use minke_kubelet::{Kubelet, PodReport, PodStage, StopRequest};
use serde_json::{Value, json};
use support::{Bed, events, phase, pod, uid, until, until_phase, until_stage};
use tokio::time::{Instant, sleep};

/// What commands answer, by their first word; 0 where nothing is said.
#[derive(Debug, Clone, Default)]
struct Answers(Arc<Mutex<BTreeMap<String, FakeExec>>>);

impl Answers {
    fn on(bed: &Bed) -> Self {
        let answers = Self::default();
        let own = answers.clone();
        bed.runtime
            .exec_hook(move |_, _, _, command| own.0.lock().unwrap().get(&command[0]).cloned().unwrap_or_default());
        answers
    }

    fn say(&self, command: &str, exec: FakeExec) {
        self.0.lock().unwrap().insert(command.to_owned(), exec);
    }

    fn code(&self, command: &str, code: i32) {
        self.say(command, FakeExec::code(code));
    }
}

/// A probe that runs this command every `period` seconds and believes every answer.
fn probe(command: &str, period: u32) -> Value {
    json!({"exec": {"command": [command]}, "periodSeconds": period, "failureThreshold": 1, "timeoutSeconds": 1})
}

fn container(report: &PodReport, name: &str) -> k8s_openapi::api::core::v1::ContainerStatus {
    let status = report.pod.status.as_ref().unwrap();
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.find(|c| c.name == name).unwrap().clone()
}

fn ready(report: &PodReport, name: &str) -> bool {
    container(report, name).ready
}

fn condition(report: &PodReport, kind: &str) -> String {
    let conditions = report.pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    conditions.iter().find(|c| c.type_ == kind).unwrap().status.clone()
}

async fn restarts(kubelet: &Kubelet, count: i32) -> PodReport {
    until(kubelet, &uid("a"), "a restart", |r| container(r, "main").restart_count >= count).await
}

#[tokio::test(start_paused = true)]
async fn readiness_goes_up_and_down_and_is_published_at_once() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    answers.code("ready", 1);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![pod("a", json!({"containers": [{"name": "main", "readinessProbe": probe("ready", 1)}]}))]).await;
    let report = until_phase(&kubelet, &uid("a"), "Running").await;
    assert!(!ready(&report, "main"), "not before it said so");
    for (code, expected) in [(0, true), (1, false), (0, true)] {
        answers.code("ready", code);
        let begin = Instant::now();
        let report = until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main") == expected).await;
        assert!(begin.elapsed() <= Duration::from_secs(1), "{:?}", begin.elapsed());
        let text = if expected { "True" } else { "False" };
        assert_eq!((condition(&report, "Ready"), condition(&report, "ContainersReady")), (text.into(), text.into()));
    }
    assert_eq!(bed.runtime.count(Op::StartContainer), 1, "readiness kills nobody");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_answers_is_ready_as_soon_as_it_runs() {
    let bed = Bed::new();
    Answers::on(&bed);
    let kubelet = bed.kubelet().await;
    let begin = Instant::now();
    kubelet
        .apply(vec![pod("a", json!({"containers": [{"name": "main", "readinessProbe": probe("ready", 10)}]}))])
        .await;
    until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main")).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_failed_liveness_probe_kills_and_restarts_in_upstreams_words() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    answers.say("live", FakeExec { stdout: "no pulse".to_owned(), ..FakeExec::code(1) });
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let mut live = probe("live", 2);
    live["failureThreshold"] = json!(3);
    live["terminationGracePeriodSeconds"] = json!(7);
    kubelet.apply(vec![pod("a", json!({"containers": [{"name": "main", "livenessProbe": live}]}))]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let begin = Instant::now();
    let report = restarts(&kubelet, 1).await;
    assert_eq!(begin.elapsed().as_secs(), 4, "the third failure, two periods after the first");
    let told = events(&mut progress);
    assert_eq!(told.iter().filter(|e| *e == "Unhealthy: Liveness probe failed: no pulse").count(), 3, "{told:?}");
    assert!(told.contains(&"Killing: Container main failed liveness probe, will be restarted".to_owned()), "{told:?}");
    assert_eq!(container(&report, "main").restart_count, 1);
    let stops: Vec<_> = bed.runtime.calls().into_iter().filter(|c| c.op == Op::StopContainer).collect();
    assert_eq!(stops[0].number, 7_000, "the probe's own grace");
    answers.code("live", 0);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(bed.runtime.count(Op::StartContainer), 2, "it lives now");
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_restart_policy_decides_about_what_a_probe_had_killed() {
    for (policy, code, restarted) in [
        ("Always", 0, true),
        ("OnFailure", 0, true),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 143, false),
    ] {
        let bed = Bed::new();
        let answers = Answers::on(&bed);
        answers.code("live", 1);
        bed.runtime.script("main", vec![Life::forever().stopping_after(Duration::from_millis(300), code)]);
        let kubelet = bed.kubelet().await;
        let mut progress = kubelet.progress();
        let spec =
            json!({"restartPolicy": policy, "containers": [{"name": "main", "livenessProbe": probe("live", 1)}]});
        kubelet.apply(vec![pod("a", spec)]).await;
        if restarted {
            let report = restarts(&kubelet, 1).await;
            assert_eq!((phase(&report), report.stage), ("Running", PodStage::Syncing), "{policy} {code}");
        } else {
            let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
            assert_eq!(phase(&report), if code == 0 { "Succeeded" } else { "Failed" });
            assert_eq!(bed.runtime.count(Op::StartContainer), 1);
            let told = events(&mut progress);
            assert!(told.contains(&"Killing: Container main failed liveness probe".to_owned()), "{told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_probe_had_killed_is_restarted_although_the_agent_died_meanwhile() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    answers.code("live", 1);
    bed.runtime.script("main", vec![Life::forever().stopping_after(Duration::from_secs(5), 0)]);
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let spec =
        json!({"restartPolicy": "OnFailure", "containers": [{"name": "main", "livenessProbe": probe("live", 1)}]});
    kubelet.apply(vec![pod("a", spec)]).await;
    while !events(&mut progress).iter().any(|e| e.starts_with("Killing")) {
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(1)).await;
    kubelet.shutdown().await;
    sleep(Duration::from_secs(60)).await;
    answers.code("live", 0);
    let kubelet = bed.kubelet().await;
    let report = restarts(&kubelet, 1).await;
    assert_eq!(phase(&report), "Running", "its 0 was no success");
}

#[tokio::test(start_paused = true)]
async fn liveness_and_readiness_wait_for_the_startup_probe() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    answers.code("start", 1);
    answers.code("live", 1);
    let kubelet = bed.kubelet().await;
    let mut start = probe("start", 1);
    start["failureThreshold"] = json!(100);
    let containers = json!([{"name": "main", "startupProbe": start, "livenessProbe": probe("live", 1),
        "readinessProbe": probe("ready", 1)}]);
    kubelet.apply(vec![pod("a", json!({"containers": containers}))]).await;
    let report = until_phase(&kubelet, &uid("a"), "Running").await;
    assert_eq!((container(&report, "main").started, ready(&report, "main")), (Some(false), false));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(bed.runtime.count(Op::StartContainer), 1, "not asked whether it lives before it has started");
    answers.code("live", 0);
    answers.code("start", 0);
    let begin = Instant::now();
    let report = until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main")).await;
    assert_eq!(container(&report, "main").started, Some(true));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    answers.code("start", 1);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(bed.runtime.count(Op::StartContainer), 1, "once it has started nobody asks again");
}

#[tokio::test(start_paused = true)]
async fn a_failed_startup_probe_kills_and_restarts() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    // A command that takes too long has failed.
    answers.say("start", FakeExec::lasting(Duration::from_secs(100)));
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    kubelet.apply(vec![pod("a", json!({"containers": [{"name": "main", "startupProbe": probe("start", 1)}]}))]).await;
    restarts(&kubelet, 1).await;
    let told = events(&mut progress);
    assert!(told.contains(&"Unhealthy: Startup probe failed: command \"start\" timed out".to_owned()), "{told:?}");
    assert!(told.contains(&"Killing: Container main failed startup probe, will be restarted".to_owned()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn probes_that_can_not_be_asked_change_nothing() {
    let bed = Bed::new();
    Answers::on(&bed);
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let containers = json!([{"name": "main", "livenessProbe": probe("live", 1), "readinessProbe": probe("ready", 1)}]);
    kubelet.apply(vec![pod("a", json!({"containers": containers}))]).await;
    until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main")).await;
    bed.runtime.clear_calls();
    bed.runtime.fault(Fault::fail(Op::ExecSync));
    sleep(Duration::from_secs(10)).await;
    let asked = bed.runtime.count(Op::ExecSync);
    assert!((54..=60).contains(&asked), "each of two probes was tried three times in each of ten periods: {asked}");
    let report = kubelet.report(&uid("a")).unwrap();
    assert!(ready(&report, "main") && container(&report, "main").restart_count == 0);
    let told = events(&mut progress);
    let words = "Unhealthy: Liveness probe errored and resulted in unknown state: ";
    assert!(told.iter().any(|e| e.starts_with(words)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_in_the_runtime_holds_up_only_itself() {
    let bed = Bed::new();
    Answers::on(&bed);
    let kubelet = bed.kubelet().await;
    bed.runtime.fault(Fault::on(Op::ExecSync, FaultAction::Hang).of_pod(&uid("a")));
    let containers = json!([{"name": "main", "readinessProbe": probe("ready", 1)}]);
    kubelet.apply(vec![pod("a", json!({"containers": containers})), pod("b", json!({"containers": containers}))]).await;
    until(&kubelet, &uid("b"), "readiness", |r| ready(r, "main")).await;
    sleep(Duration::from_secs(30)).await;
    assert!(!ready(&kubelet.report(&uid("a")).unwrap(), "main"));
    kubelet.stop(&uid("a"), StopRequest::default()).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_with_a_startup_probe_gates_the_next_init_container() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    answers.code("start", 1);
    bed.runtime.script("init", vec![Life::exits(Duration::from_secs(1), 0)]);
    let kubelet = bed.kubelet().await;
    let mut start = probe("start", 1);
    start["failureThreshold"] = json!(1000);
    let spec = json!({
        "initContainers": [{"name": "side", "restartPolicy": "Always", "startupProbe": start}, {"name": "init"}],
        "containers": [{"name": "main"}],
    });
    kubelet.apply(vec![pod("a", spec)]).await;
    sleep(Duration::from_secs(20)).await;
    let started = || -> Vec<String> {
        bed.runtime.calls().into_iter().filter(|c| c.op == Op::StartContainer).map(|c| c.name).collect()
    };
    assert_eq!(started(), ["side"]);
    answers.code("start", 0);
    until_phase(&kubelet, &uid("a"), "Running").await;
    assert_eq!(started(), ["side", "init", "main"]);
}

#[tokio::test(start_paused = true)]
async fn a_sidecars_startup_result_survives_the_agent() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    bed.runtime.script("init", vec![Life::exits(Duration::from_secs(30), 0)]);
    let kubelet = bed.kubelet().await;
    let spec = json!({
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "startupProbe": probe("start", 1)}, {"name": "init"}],
        "containers": [{"name": "main"}],
    });
    kubelet.apply(vec![pod("a", spec)]).await;
    until(&kubelet, &uid("a"), "init runs", |r| container(r, "init").state.is_some_and(|s| s.running.is_some())).await;
    kubelet.shutdown().await;
    // From now on it would fail, and nobody has a reason to ask.
    answers.code("start", 1);
    let kubelet = bed.kubelet().await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let report = kubelet.report(&uid("a")).unwrap();
    assert_eq!((container(&report, "side").restart_count, container(&report, "side").started), (0, Some(true)));
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_agent_does_not_make_what_is_ready_unready() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    let kubelet = bed.kubelet().await;
    let mut readiness = probe("ready", 10);
    readiness["failureThreshold"] = json!(2);
    let containers = json!([{"name": "main", "readinessProbe": readiness}]);
    kubelet.apply(vec![pod("a", json!({"containers": containers}))]).await;
    until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main")).await;
    sleep(Duration::from_secs(5)).await;
    kubelet.shutdown().await;
    answers.code("ready", 1);
    let kubelet = bed.kubelet().await;
    let begin = Instant::now();
    let mut changes = kubelet.subscribe();
    loop {
        if let minke_kubelet::PodChange::Updated(report) = changes.next().await
            && !ready(&report, "main")
        {
            break;
        }
    }
    let failed = begin.elapsed().as_secs();
    assert!((10..=20).contains(&failed), "not before two failures of its own: {failed} s");
}

#[tokio::test(start_paused = true)]
async fn readiness_goes_on_while_the_pod_ends_and_liveness_stops() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    bed.runtime.script("main", vec![Life::forever().stopping_after(Duration::from_secs(20), 0)]);
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let containers = json!([{"name": "main", "livenessProbe": probe("live", 1), "readinessProbe": probe("ready", 1)}]);
    kubelet.apply(vec![pod("a", json!({"containers": containers}))]).await;
    until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main")).await;
    kubelet.stop(&uid("a"), StopRequest::default()).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Terminating).await;
    sleep(Duration::from_secs(1)).await;
    events(&mut progress);
    answers.code("live", 1);
    answers.code("ready", 1);
    let report = until(&kubelet, &uid("a"), "unreadiness", |r| !ready(r, "main")).await;
    assert_eq!(report.stage, PodStage::Terminating);
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    let told = events(&mut progress);
    assert!(told.iter().any(|e| e.starts_with("Unhealthy: Readiness")), "{told:?}");
    assert!(!told.iter().any(|e| e.starts_with("Unhealthy: Liveness")), "{told:?}");
    let timelines = kubelet.timelines(None);
    let stops = timelines.pods[0].entries.iter().filter(|e| matches!(e.transition, Transition::Terminating { .. }));
    assert_eq!(stops.count(), 1, "news of probes is no new stage");
    bed.runtime.clear_calls();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.runtime.count(Op::ExecSync), 0, "what has ended is not asked");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_stopped_before_it_started_does_not_become_ready() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    answers.code("start", 1);
    bed.runtime.script("main", vec![Life::forever().stopping_after(Duration::from_secs(5), 0)]);
    let kubelet = bed.kubelet().await;
    let mut start = probe("start", 1);
    start["failureThreshold"] = json!(100);
    kubelet.apply(vec![pod("a", json!({"containers": [{"name": "main", "startupProbe": start}]}))]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let mut changes = kubelet.subscribe();
    kubelet.stop(&uid("a"), StopRequest::default()).unwrap();
    loop {
        let minke_kubelet::PodChange::Updated(report) = changes.next().await else { panic!("it is kept") };
        assert!(!ready(&report, "main"));
        if report.stage == PodStage::Finished {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_is_news_while_another_container_is_being_started() {
    let bed = Bed::new();
    let answers = Answers::on(&bed);
    bed.runtime.script("other", vec![Life::exits(Duration::from_secs(3), 1), Life::forever()]);
    let kubelet = bed.kubelet().await;
    let containers = json!([{"name": "main", "readinessProbe": probe("ready", 1)}, {"name": "other"}]);
    kubelet.apply(vec![pod("a", json!({"containers": containers}))]).await;
    until(&kubelet, &uid("a"), "readiness", |r| ready(r, "main")).await;
    let slow = FaultAction::Delay(Duration::from_secs(60));
    bed.runtime.fault(Fault::on(Op::CreateContainer, slow).named("other"));
    sleep(Duration::from_secs(10)).await;
    answers.code("ready", 1);
    let begin = Instant::now();
    until(&kubelet, &uid("a"), "unreadiness", |r| !ready(r, "main")).await;
    assert!(begin.elapsed() <= Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(bed.runtime.count(Op::StartContainer), 2, "the sync that creates is still on its way");
}

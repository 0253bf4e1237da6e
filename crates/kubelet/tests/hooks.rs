//! Lifecycle hooks through the whole core, on the scripted runtime under paused time.

#![cfg(test)]

mod support;

use std::time::Duration;

use minke_core::fake::{FakeExec, Op};
use minke_kubelet::{Kubelet, PodStage, StopRequest};
use serde_json::{Value, json};
use support::{Bed, events, pod, uid, until, until_phase, until_stage};
use tokio::time::Instant;

/// Runs a Pod with these hooks to its end; returns the events and how long the end took.
async fn lived(bed: &Bed, lifecycle: Value) -> (Vec<String>, Duration) {
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    kubelet.apply(vec![pod("a", json!({"containers": [{"name": "main", "lifecycle": lifecycle}]}))]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let begin = Instant::now();
    end(&kubelet).await;
    let took = begin.elapsed();
    (events(&mut progress), took)
}

async fn end(kubelet: &Kubelet) {
    kubelet.stop(&uid("a"), StopRequest::default()).unwrap();
    until_stage(kubelet, &uid("a"), PodStage::Finished).await;
}

fn order(bed: &Bed) -> Vec<Op> {
    let calls = bed.runtime.writes().into_iter().map(|c| c.op);
    calls.filter(|op| matches!(op, Op::StartContainer | Op::ExecSync | Op::StopContainer)).collect()
}

fn stop_grace(bed: &Bed) -> u64 {
    bed.runtime.writes().into_iter().find(|c| c.op == Op::StopContainer).unwrap().number
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_the_signal_is_taken_from_the_grace() {
    let bed = Bed::new();
    let (_, took) = lived(&bed, json!({"preStop": {"sleep": {"seconds": 5}}})).await;
    assert_eq!((took.as_secs(), stop_grace(&bed)), (5, 25_000));
}

#[tokio::test(start_paused = true)]
async fn commands_run_after_the_start_and_before_the_signal() {
    let bed = Bed::new();
    bed.runtime.exec_hook(|_, _, _, command| match command[0].as_str() {
        "goodbye" => FakeExec::lasting(Duration::from_millis(3_700)),
        _ => FakeExec::lasting(Duration::from_secs(1)),
    });
    let hooks = json!({"postStart": {"exec": {"command": ["hello"]}}, "preStop": {"exec": {"command": ["goodbye"]}}});
    let (told, took) = lived(&bed, hooks).await;
    assert_eq!(order(&bed), [Op::StartContainer, Op::ExecSync, Op::ExecSync, Op::StopContainer]);
    assert_eq!((took.as_millis() / 100, stop_grace(&bed)), (37, 27_000), "whole seconds are subtracted");
    assert!(!told.iter().any(|e| e.starts_with("Failed")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_post_start_hook_kills_the_container_which_is_started_again() {
    let bed = Bed::new();
    let mut fails = 2;
    bed.runtime.exec_hook(move |_, _, _, _| {
        fails -= i32::from(fails > 0);
        FakeExec { stdout: "secret".to_owned(), ..FakeExec::code(i32::from(fails > 0)) }
    });
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let lifecycle = json!({"postStart": {"exec": {"command": ["sh", "-c", "x"]}}});
    kubelet.apply(vec![pod("a", json!({"containers": [{"name": "main", "lifecycle": lifecycle}]}))]).await;
    let report = until(&kubelet, &uid("a"), "the second try", |r| {
        let statuses = r.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        statuses.is_some_and(|s| s[0].ready)
    })
    .await;
    assert_eq!(order(&bed)[..4], [Op::StartContainer, Op::ExecSync, Op::StopContainer, Op::StartContainer]);
    assert_eq!(report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count, 1);
    let told = events(&mut progress);
    let words = "FailedPostStartHook: PostStartHook failed: command \"sh -c x\" exited with 1";
    assert!(told.contains(&words.to_owned()), "{told:?}");
    assert!(told.contains(&"Killing: FailedPostStartHook".to_owned()), "{told:?}");
    assert!(!told.iter().any(|e| e.contains("secret")), "what a hook writes is its own");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pre_stop_hook_is_only_told_of() {
    let bed = Bed::new();
    bed.runtime.exec_hook(|_, _, _, _| FakeExec::code(3));
    let (told, _) = lived(&bed, json!({"preStop": {"exec": {"command": ["x"]}}})).await;
    let words = "FailedPreStopHook: PreStopHook failed: command \"x\" exited with 3";
    assert!(told.contains(&words.to_owned()), "{told:?}");
    assert_eq!(stop_grace(&bed), 30_000);
}

#[tokio::test(start_paused = true)]
async fn a_pre_stop_hook_that_never_ends_leaves_the_least_grace() {
    let bed = Bed::new();
    bed.runtime.exec_hook(|_, _, _, _| FakeExec::lasting(Duration::from_secs(10_000)));
    let (told, took) = lived(&bed, json!({"preStop": {"exec": {"command": ["x"]}}})).await;
    assert!(told.iter().any(|e| e.starts_with("FailedPreStopHook")), "{told:?}");
    assert_eq!((took.as_secs(), stop_grace(&bed)), (30, 2_000));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_a_probe_condemned_gets_its_pre_stop_hook() {
    let bed = Bed::new();
    bed.runtime.exec_hook(|_, _, attempt, command| match command[0].as_str() {
        "live" => FakeExec::code(i32::from(attempt == 0)),
        _ => FakeExec::lasting(Duration::from_secs(2)),
    });
    let kubelet = bed.kubelet().await;
    let containers = json!([{
        "name": "main", "lifecycle": {"preStop": {"exec": {"command": ["goodbye"]}}},
        "livenessProbe": {"exec": {"command": ["live"]}, "periodSeconds": 1, "failureThreshold": 1,
            "terminationGracePeriodSeconds": 9},
    }]);
    kubelet.apply(vec![pod("a", json!({"containers": containers}))]).await;
    until(&kubelet, &uid("a"), "a restart", |r| {
        let statuses = r.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        statuses.is_some_and(|s| s[0].restart_count == 1)
    })
    .await;
    assert_eq!(stop_grace(&bed), 7_000);
}

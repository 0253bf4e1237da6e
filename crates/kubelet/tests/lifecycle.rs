//! The life of Pods through the whole core, on the scripted runtime under paused time.

#![cfg(test)]

mod support;

use std::time::Duration;

use minke_core::fake::{Delivery, Ending, EventPlan, Fault, FaultAction, FaultError, Life, Op};
use minke_core::runtime::ContainerState;
use minke_kubelet::{Admission, PodChange, PodStage, Progress, StopRequest};
use serde_json::json;
use support::{Bed, events, phase, pod, simple, uid, until, until_gone, until_phase, until_stage};
use tokio::time::{Instant, sleep};

fn stop(seconds: Option<u64>, remove: bool) -> StopRequest {
    StopRequest { grace: seconds.map(Duration::from_secs), remove }
}

fn ops(bed: &Bed) -> Vec<String> {
    bed.runtime.writes().iter().map(|c| format!("{:?} {}", c.op, c.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_started_in_upstreams_order() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let desired = pod("a", json!({"restartPolicy": "Always", "containers": [{"name": "one"}, {"name": "two"}]}));
    assert_eq!(kubelet.apply(vec![desired]).await, [Admission::Accepted]);
    let report = until_phase(&kubelet, &uid("a"), "Running").await;
    let calls: Vec<_> = ops(&bed)
        .into_iter()
        .filter(|c| !c.starts_with("PullImage"))
        .map(|c| c.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(calls, ["RunSandbox", "CreateContainer", "StartContainer", "CreateContainer", "StartContainer"]);
    assert_eq!(report.stage, PodStage::Syncing);
    assert!(report.timings.admitted_at.is_some() && report.timings.sandbox_at.is_some());
    assert!(report.timings.running_at.is_some() && report.timings.finished_at.is_none());
    let names: Vec<_> = report.timings.containers.iter().map(|t| (t.name.as_str(), t.start_ms.is_some())).collect();
    assert_eq!(names, [("one", true), ("two", true)]);
    assert!(!kubelet.is_idle());
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_sidecars_stay() {
    let bed = Bed::new();
    for name in ["first", "third"] {
        bed.runtime.script(name, vec![Life::exits(Duration::from_secs(1), 0)]);
    }
    let kubelet = bed.kubelet().await;
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "first"}, {"name": "side", "restartPolicy": "Always"}, {"name": "third"}],
        "containers": [{"name": "main"}],
    });
    bed.runtime.script("main", vec![Life::exits(Duration::from_secs(5), 0)]);
    kubelet.apply(vec![pod("a", spec)]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let started: Vec<_> =
        bed.runtime.writes().into_iter().filter(|c| c.op == Op::StartContainer).map(|c| c.name).collect();
    assert_eq!(started, ["first", "side", "third", "main"]);
    let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(phase(&report), "Succeeded", "the sidecar is stopped when the work is done");
    assert_eq!(bed.runtime.running(&uid("a")), 0);
    assert!(kubelet.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_with_its_exit_code() {
    for (code, policy, expected) in [(0, "Never", "Succeeded"), (3, "Never", "Failed"), (0, "OnFailure", "Succeeded")] {
        let bed = Bed::new();
        bed.runtime.script("main", vec![Life::exits(Duration::from_secs(2), code)]);
        let kubelet = bed.kubelet().await;
        kubelet.apply(vec![simple("a", policy)]).await;
        let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
        assert_eq!(phase(&report), expected);
        let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
        let terminated = status.state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!((terminated.exit_code, status.restart_count), (code, 0));
        assert!(bed.runtime.sandboxes(&uid("a")).is_empty(), "nothing is left in the runtime");
        assert!(report.timings.finished_at.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_backs_off_as_upstream() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_secs(1), 1)]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    let report = until(&kubelet, &uid("a"), "four restarts", |r| {
        let statuses = r.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        statuses.is_some_and(|s| s[0].restart_count >= 4)
    })
    .await;
    assert_eq!(phase(&report), "Running");
    let starts: Vec<_> = bed.runtime.timed_calls().into_iter().filter(|(_, c)| c.op == Op::StartContainer).collect();
    let gaps: Vec<i64> = starts.windows(2).map(|w| w[1].0.duration_since(w[0].0).as_secs()).collect();
    // One second of life, then: at once, 10 s, 20 s, 40 s; waits are stretched by at most a half.
    for (gap, (least, most)) in gaps.iter().zip([(1, 2), (11, 17), (21, 32), (41, 62)]) {
        assert!((least..=most).contains(gap), "{gaps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn back_off_is_shown_as_the_waiting_reason() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_millis(10), 1)]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    let report = until(&kubelet, &uid("a"), "CrashLoopBackOff", |r| {
        let statuses = r.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        let waiting = statuses.and_then(|s| s.first()?.state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|w| w.reason.as_deref() == Some("CrashLoopBackOff"))
    })
    .await;
    let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_is_told_at_once_and_tried_again() {
    let bed = Bed::new();
    bed.runtime.fault(Fault::fail(Op::PullImage).times(1));
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let begin = Instant::now();
    kubelet.apply(vec![simple("a", "Always")]).await;
    let waits = |r: &minke_kubelet::PodReport| {
        let statuses = r.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        statuses.and_then(|s| s.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone())
    };
    until(&kubelet, &uid("a"), "a pull error", |r| {
        waits(r).is_some_and(|w| w == "RegistryUnavailable" || w == "ErrImagePull")
    })
    .await;
    assert!(begin.elapsed() < Duration::from_secs(1));
    until_phase(&kubelet, &uid("a"), "Running").await;
    let mut reasons = Vec::new();
    while let Ok(event) = progress.try_recv() {
        if let Progress::Event { reason, .. } = event {
            reasons.push(reason);
        }
    }
    for reason in ["Pulling", "Failed", "Pulled", "Created", "Started"] {
        assert!(reasons.iter().any(|r| r == reason), "{reason} in {reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_exit_is_published_at_once_by_events_and_within_a_second_without() {
    for (events, bound) in [(true, Duration::from_millis(100)), (false, Duration::from_millis(1100))] {
        let bed = Bed::new();
        bed.runtime.support_events(events);
        let kubelet = bed.kubelet().await;
        kubelet.apply(vec![simple("a", "Never")]).await;
        until_phase(&kubelet, &uid("a"), "Running").await;
        sleep(Duration::from_millis(300)).await;
        let (id, _) = bed.runtime.newest(&uid("a"), "main").unwrap();
        let begin = Instant::now();
        bed.runtime.end(&id, &Ending::code(7));
        until_phase(&kubelet, &uid("a"), "Failed").await;
        assert!(begin.elapsed() <= bound, "{:?} with events: {events}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_gives_the_grace_and_then_kills() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop()]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let begin = Instant::now();
    kubelet.stop(&uid("a"), stop(Some(7), false)).unwrap();
    let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert!((7..8).contains(&begin.elapsed().as_secs()));
    assert_eq!(phase(&report), "Failed");
    let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 137);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_with_a_shorter_grace_overtakes_the_first() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop()]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.stop(&uid("a"), stop(Some(300), false)).unwrap();
    sleep(Duration::from_secs(3)).await;
    let begin = Instant::now();
    kubelet.stop(&uid("a"), stop(Some(0), false)).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "grace 0 kills at once");
}

#[tokio::test(start_paused = true)]
async fn sidecars_stop_last_and_in_reverse() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().stopping_after(Duration::from_secs(3), 0)]);
    let kubelet = bed.kubelet().await;
    let sidecar = |name: &str| json!({"name": name, "restartPolicy": "Always"});
    let spec = json!({
        "restartPolicy": "Always",
        "initContainers": [sidecar("side1"), sidecar("side2")],
        "containers": [{"name": "main"}],
    });
    kubelet.apply(vec![pod("a", spec)]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.stop(&uid("a"), stop(None, false)).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    let stops: Vec<_> =
        bed.runtime.writes().into_iter().filter(|c| c.op == Op::StopContainer).map(|c| c.name).collect();
    assert_eq!(stops, ["main", "side2", "side1"]);
}

#[tokio::test(start_paused = true)]
async fn the_active_deadline_fails_a_pod() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let spec = json!({"restartPolicy": "Always", "activeDeadlineSeconds": 20, "containers": [{"name": "main"}]});
    kubelet.apply(vec![pod("a", spec)]).await;
    let begin = Instant::now();
    let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert!((18..=25).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(phase(&report), "Failed");
    assert_eq!(report.pod.status.as_ref().unwrap().reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test(start_paused = true)]
async fn applying_again() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let desired = simple("a", "Always");
    assert_eq!(kubelet.apply(vec![desired.clone()]).await, [Admission::Accepted]);
    until_phase(&kubelet, &uid("a"), "Running").await;
    assert_eq!(kubelet.apply(vec![desired.clone()]).await, [Admission::Unchanged]);
    let mut twin = (*desired.pod).clone();
    twin.metadata.uid = Some("other".to_owned());
    let twin = minke_kubelet::DesiredPod { pod: twin.into(), objects: desired.objects.clone() };
    let answer = kubelet.apply(vec![twin.clone()]).await;
    assert!(matches!(&answer[0], Admission::Rejected { reason, .. } if reason == "AlreadyExists"), "{answer:?}");
    kubelet.stop(&uid("a"), stop(Some(0), false)).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(kubelet.apply(vec![desired.clone()]).await, [Admission::Accepted], "a finished pod runs afresh");
    let report = until_phase(&kubelet, &uid("a"), "Running").await;
    let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.restart_count, 0);
    kubelet.stop(&uid("a"), stop(Some(0), false)).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(kubelet.apply(vec![twin]).await, [Admission::Accepted], "its name is free again");
    assert!(kubelet.report(&uid("a")).is_none(), "a name is one pod's at a time");
}

#[tokio::test(start_paused = true)]
async fn a_pod_applied_while_it_ends_runs_afresh() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    bed.runtime.script("main", vec![Life::exits(Duration::from_secs(2), 0), Life::exits(Duration::from_secs(2), 0)]);
    let desired = simple("a", "Never");
    for run in 1..=2 {
        // The moment that the first run counts as succeeded, long before it is cleaned up.
        assert_eq!(kubelet.apply(vec![desired.clone()]).await, [Admission::Accepted], "run {run}");
        until_phase(&kubelet, &uid("a"), "Succeeded").await;
        let starts = bed.runtime.writes().into_iter().filter(|c| c.op == Op::StartContainer).count();
        assert_eq!(starts, run);
    }
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(kubelet.apply(vec![desired.clone()]).await, [Admission::Accepted]);
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.stop(&uid("a"), stop(Some(5), false)).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Terminating).await;
    assert_eq!(kubelet.apply(vec![desired]).await, [Admission::Accepted], "a pod that is stopped is not left alone");
    until_phase(&kubelet, &uid("a"), "Running").await;
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_leaves_nothing() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let mut changes = kubelet.subscribe();
    kubelet.stop(&uid("a"), stop(None, true)).unwrap();
    until_gone(&kubelet, &uid("a")).await;
    while changes.next().await != PodChange::Removed(uid("a")) {}
    assert!(bed.checkpoints.uids().is_empty());
    assert!(bed.runtime.sandboxes(&uid("a")).is_empty());
    assert!(kubelet.stop(&uid("a"), stop(None, false)).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_new_agent_adopts_what_runs_and_restarts_nothing() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_secs(1), 1), Life::forever()]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until(&kubelet, &uid("a"), "a restart", |r| {
        r.pod
            .status
            .as_ref()
            .and_then(|s| s.container_statuses.as_ref())
            .is_some_and(|s| s[0].restart_count == 1 && s[0].ready)
    })
    .await;
    let (id, _) = bed.runtime.newest(&uid("a"), "main").unwrap();
    let start_time = kubelet.report(&uid("a")).unwrap().pod.status.as_ref().unwrap().start_time.clone();
    kubelet.shutdown().await;
    bed.runtime.clear_calls();
    sleep(Duration::from_secs(5)).await;
    let kubelet = bed.kubelet().await;
    let report = until_phase(&kubelet, &uid("a"), "Running").await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(bed.runtime.newest(&uid("a"), "main").unwrap().0, id);
    assert_eq!(bed.runtime.writes(), []);
    let status = report.pod.status.as_ref().unwrap();
    assert_eq!(status.container_statuses.as_ref().unwrap()[0].restart_count, 1);
    assert_eq!(status.start_time, start_time);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ended_while_no_agent_ran_keeps_its_exit_code() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Never")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.shutdown().await;
    let (id, _) = bed.runtime.newest(&uid("a"), "main").unwrap();
    bed.runtime.end(&id, &Ending::code(42));
    let kubelet = bed.kubelet().await;
    let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 42);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_policy_never_is_not_run_again_after_the_machine_lost_it() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Never")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    sleep(Duration::from_secs(1)).await;
    kubelet.shutdown().await;
    // The machine went down: the runtime knows nothing any more.
    let after = Bed { checkpoints: bed.checkpoints.clone(), ..Bed::new() };
    let kubelet = after.kubelet().await;
    let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(phase(&report), "Failed");
    let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let terminated = status.state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((terminated.exit_code, terminated.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
    assert_eq!(after.runtime.count(Op::CreateContainer), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_finished_by_the_next_agent() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop()]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.stop(&uid("a"), stop(Some(60), true)).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Terminating).await;
    sleep(Duration::from_secs(1)).await;
    kubelet.shutdown().await;
    let kubelet = bed.kubelet().await;
    until_gone(&kubelet, &uid("a")).await;
    assert!(bed.checkpoints.uids().is_empty());
    assert_eq!(bed.runtime.running(&uid("a")), 0);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_ended_only_when_they_are_ours() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.shutdown().await;
    // The checkpoint is gone, as if the disk had lost it.
    let lost = Bed { checkpoints: Default::default(), runtime: bed.runtime.clone(), host: bed.host.clone() };
    let _kubelet = lost.kubelet().await;
    tokio::time::timeout(Duration::from_secs(30), async {
        while !bed.runtime.sandboxes(&uid("a")).is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("our orphan is ended");
}

#[tokio::test(start_paused = true)]
async fn created_between_two_syncs_does_not_create_twice() {
    let bed = Bed::new();
    // The agent dies between create and start.
    bed.runtime.fault(Fault::on(Op::StartContainer, FaultAction::Hang).nth(1));
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.runtime.newest(&uid("a"), "main").unwrap().1, ContainerState::Created);
    kubelet.shutdown().await;
    let kubelet = bed.kubelet().await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    assert_eq!(bed.runtime.count(Op::CreateContainer), 1);
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_before_its_start_is_made_again_without_a_word_of_failure() {
    let bed = Bed::new();
    bed.runtime.fault(Fault::on(Op::StartContainer, FaultAction::Fail(FaultError::NotFound)).nth(1));
    let kubelet = bed.kubelet().await;
    let mut progress = kubelet.progress();
    let begun = Instant::now();
    kubelet.apply(vec![simple("a", "Always")]).await;
    let report = until_phase(&kubelet, &uid("a"), "Running").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "sooner than after an error: {:?}", begun.elapsed());
    assert_eq!(report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count, 0);
    let said = events(&mut progress);
    assert!(!said.iter().any(|event| event.contains("Failed")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_sandbox_is_replaced_with_the_next_attempt() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let (first, _) = bed.runtime.sandboxes(&uid("a")).remove(0);
    bed.runtime.kill_sandbox(&first);
    let report = until(&kubelet, &uid("a"), "a restart", |r| {
        r.pod
            .status
            .as_ref()
            .and_then(|s| s.container_statuses.as_ref())
            .is_some_and(|s| s[0].restart_count == 1 && s[0].ready)
    })
    .await;
    let status = &report.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let last = status.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (137, Some("ContainerStatusUnknown")), "never success");
    assert_ne!(bed.runtime.sandboxes(&uid("a"))[0].0, first);
}

#[tokio::test(start_paused = true)]
async fn lost_events_are_found_by_the_relist() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Never")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    // The looks that follow our own start are over.
    sleep(Duration::from_millis(100)).await;
    bed.runtime.event_plan(EventPlan::new(|_| Delivery::Lose));
    let (id, _) = bed.runtime.newest(&uid("a"), "main").unwrap();
    bed.runtime.end(&id, &Ending::code(0));
    until_phase(&kubelet, &uid("a"), "Succeeded").await;
    // An event may be a second late before it counts as missed.
    sleep(Duration::from_secs(3)).await;
    assert!(kubelet.pleg_stats().events_missed > 0, "and counted: {:?}", kubelet.pleg_stats());
}

#[tokio::test(start_paused = true)]
async fn one_pod_that_hangs_does_not_stall_the_others() {
    let bed = Bed::new();
    bed.runtime.fault(Fault::on(Op::RunSandbox, FaultAction::Hang).of_pod(&uid("bad")));
    bed.runtime.fault(Fault::on(Op::SandboxStatus, FaultAction::Hang).of_pod(&uid("bad")));
    let kubelet = bed.kubelet().await;
    let names: Vec<String> = (0..20).map(|i| format!("good{i}")).collect();
    let mut pods = vec![simple("bad", "Always")];
    pods.extend(names.iter().map(|n| simple(n, "Always")));
    kubelet.apply(pods).await;
    let begin = Instant::now();
    for name in &names {
        until_phase(&kubelet, &uid(name), "Running").await;
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn delete_is_quick_once_the_container_ends() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().stopping_after(Duration::from_secs(2), 0)]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let begin = Instant::now();
    kubelet.stop(&uid("a"), stop(None, true)).unwrap();
    until_gone(&kubelet, &uid("a")).await;
    assert!(begin.elapsed() < Duration::from_secs(2) + Duration::from_millis(100), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_call_see_each_other() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let first = simple("a", "Always");
    let mut twin = (*first.pod).clone();
    twin.metadata.uid = Some("other".to_owned());
    let twin = minke_kubelet::DesiredPod { pod: twin.into(), objects: first.objects.clone() };
    let answers = kubelet.apply(vec![first.clone(), first, twin, simple("b", "Always")]).await;
    assert!(matches!(&answers[2], Admission::Rejected { reason, .. } if reason == "AlreadyExists"), "{answers:?}");
    assert_eq!(
        [&answers[0], &answers[1], &answers[3]],
        [&Admission::Accepted, &Admission::Unchanged, &Admission::Accepted]
    );
    until_phase(&kubelet, &uid("a"), "Running").await;
    until_phase(&kubelet, &uid("b"), "Running").await;
}

//! What others may ask of workers, through the whole core, on the scripted runtime under paused time: stops that are
//! waited for, evictions, updates, Pods that are taken on in every state.

#![cfg(test)]

mod support;

use std::time::Duration;

use minke_core::fake::{FakeExec, Fault, FaultAction, Life, Op};
use minke_core::runtime::{ContainerState, ExecRequest};
use minke_kubelet::{
    Admission, DesiredPod, Eviction, ExecError, KillError, PodStage, Progress, StopRequest, UnknownPod,
};
use serde_json::{Value, json};
use support::{Bed, phase, pod, simple, uid, until, until_gone, until_phase, until_stage};
use tokio::time::Instant;

fn eviction(grace: Option<u64>) -> Eviction {
    let (reason, message) = ("Evicted".to_owned(), "The node was low on resource: memory.".to_owned());
    Eviction { reason, message, grace: grace.map(Duration::from_secs), disrupts: true }
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_fails_with_its_reason_and_says_that_it_was_disrupted() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop()]);
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.evict(&uid("a"), eviction(Some(5))).unwrap();
    let ending = until_stage(&kubelet, &uid("a"), PodStage::Terminating).await;
    assert_eq!(phase(&ending), "Running", "nothing is said while a container runs");
    assert!(kubelet.ask(&uid("a")).content_should_be_removed());
    let ended = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    let status = ended.pod.status.clone().unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    assert_eq!(status.message.as_deref(), Some("The node was low on resource: memory."));
    let disrupted: Vec<_> =
        status.conditions.iter().flatten().filter(|c| c.type_ == "DisruptionTarget").cloned().collect();
    assert_eq!(disrupted.len(), 1);
    assert_eq!(disrupted[0].reason.as_deref(), Some("TerminationByKubelet"));
    assert!(disrupted[0].last_transition_time.is_some());

    // The next agent knows it as well.
    kubelet.shutdown().await;
    let kubelet = bed.kubelet().await;
    assert_eq!(kubelet.report(&uid("a")).unwrap().pod.status, ended.pod.status);
    assert!(kubelet.ask(&uid("a")).should_be_finished());
}

#[tokio::test(start_paused = true)]
async fn test_kill_pod_now_func() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop()]);
    let kubelet = bed.kubelet().await;
    let unknown = kubelet.evict_now(&uid("a"), eviction(None)).await;
    assert_eq!(unknown, Err(KillError::Unknown(UnknownPod(uid("a")))));

    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let begun = Instant::now();
    kubelet.evict_now(&uid("a"), eviction(Some(3))).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(3));
    assert_eq!(bed.runtime.running(&uid("a")), 0, "it returns when nothing runs");
    kubelet.stop_now(&uid("a"), StopRequest::default()).await.unwrap();

    // A runtime that can't stop anything.
    kubelet.apply(vec![simple("b", "Always")]).await;
    until_phase(&kubelet, &uid("b"), "Running").await;
    bed.runtime.fault(Fault::on(Op::StopContainer, FaultAction::Hang).times(1));
    let mut events = kubelet.progress();
    let begun = Instant::now();
    let killed = kubelet.evict_now(&uid("b"), eviction(Some(8))).await;
    let bound = Duration::from_secs(12);
    assert_eq!(killed, Err(KillError::ExceededGracePeriod { pod: uid("b"), bound }));
    assert_eq!(begun.elapsed().as_secs(), 12);
    let mut told = false;
    while let Ok(event) = events.try_recv() {
        told |= matches!(event, Progress::Event { reason, .. } if reason == "ExceededGracePeriod");
    }
    assert!(told);
    let ended = until_stage(&kubelet, &uid("b"), PodStage::Finished).await;
    assert_eq!(phase(&ended), "Failed", "it terminates later all the same");
}

/// The same Pod with something else in its object.
fn with(desired: &DesiredPod, change: impl FnOnce(&mut Value)) -> DesiredPod {
    let mut value = serde_json::to_value(&*desired.pod).unwrap();
    change(&mut value);
    DesiredPod { pod: std::sync::Arc::new(serde_json::from_value(value).unwrap()), ..desired.clone() }
}

fn running(bed: &Bed, name: &str) -> Option<String> {
    let (id, state) = bed.runtime.newest(&uid("a"), name)?;
    matches!(state, ContainerState::Running { .. }).then_some(id.0)
}

#[tokio::test(start_paused = true)]
async fn an_update_restarts_the_container_that_changed_and_no_other() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let first = pod("a", json!({"restartPolicy": "Always", "containers": [{"name": "one"}, {"name": "two"}]}));
    kubelet.apply(vec![first.clone()]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let before = (running(&bed, "one").unwrap(), running(&bed, "two").unwrap());
    assert_eq!(kubelet.apply(vec![first.clone()]).await, [Admission::Unchanged]);

    // Of several, the last counts.
    for version in 2..5 {
        let next = with(&first, |pod| {
            pod["spec"]["containers"][0]["image"] = json!(format!("image:{version}"));
            pod["metadata"]["labels"] = json!({"version": version.to_string()});
        });
        assert_eq!(kubelet.apply(vec![next]).await, [Admission::Updated]);
    }
    let report = until(&kubelet, &uid("a"), "the new image runs", |r| {
        let statuses = r.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        statuses.clone().count() == 2
            && statuses.clone().all(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
            && statuses.clone().any(|c| c.name == "one" && c.image == "image:4")
    })
    .await;
    assert_eq!(report.pod.metadata.labels.as_ref().unwrap()["version"], "4");
    assert_ne!(running(&bed, "one").unwrap(), before.0);
    assert_eq!(running(&bed, "two").unwrap(), before.1);
    assert_eq!(bed.runtime.violations(), [""; 0]);

    // The next agent wants the same.
    kubelet.shutdown().await;
    let ids = (running(&bed, "one"), running(&bed, "two"));
    let kubelet = bed.kubelet().await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!((running(&bed, "one"), running(&bed, "two")), ids);
}

#[tokio::test(start_paused = true)]
async fn a_container_is_renamed() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let first = pod("a", json!({"hostNetwork": true, "containers": [{"name": "old"}, {"name": "other"}]}));
    kubelet.apply(vec![first.clone()]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let other = running(&bed, "other").unwrap();
    kubelet.apply(vec![with(&first, |pod| pod["spec"]["containers"][0]["name"] = json!("new"))]).await;
    let names = |r: &minke_kubelet::PodReport| -> Vec<String> {
        let statuses = r.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        statuses.filter(|c| c.state.as_ref().is_some_and(|s| s.running.is_some())).map(|c| c.name.clone()).collect()
    };
    let report = until(&kubelet, &uid("a"), "the renamed one runs", |r| names(r) == ["new", "other"]).await;
    assert_eq!(report.timings.containers.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["new", "other"]);
    assert_eq!(running(&bed, "old"), None, "the spec has it no more");
    assert_eq!(running(&bed, "other").unwrap(), other);
    assert_eq!(bed.runtime.running(&uid("a")), 2);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_configuration_reaches_the_volumes_of_a_running_pod() {
    use std::sync::atomic::Ordering::Relaxed;
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let first = simple("a", "Always");
    kubelet.apply(vec![first.clone()]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (before, id) = (bed.host.set_up.load(Relaxed), running(&bed, "main"));
    let mut objects = minke_core::objects::ObjectSet::default();
    objects.insert_config_map(serde_json::from_value(json!({"metadata": {"name": "c"}, "data": {"k": "v"}})).unwrap());
    let next = DesiredPod { objects: std::sync::Arc::new(objects), ..first };
    assert_eq!(kubelet.apply(vec![next]).await, [Admission::Updated]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bed.host.set_up.load(Relaxed), before + 1);
    assert_eq!(running(&bed, "main"), id, "and restarts nothing");
}

fn with_config(desired: &DesiredPod, value: &str) -> DesiredPod {
    let mut objects = minke_core::objects::ObjectSet::default();
    let config = json!({"metadata": {"name": "c"}, "data": {"k": value}});
    objects.insert_config_map(serde_json::from_value(config).unwrap());
    DesiredPod { objects: std::sync::Arc::new(objects), ..desired.clone() }
}

#[tokio::test(start_paused = true)]
async fn volumes_that_could_not_be_updated_are_tried_again_also_by_the_next_agent() {
    use std::sync::atomic::Ordering::Relaxed;
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let first = simple("a", "Always");
    kubelet.apply(vec![first.clone()]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    tokio::time::sleep(Duration::from_secs(5)).await;

    bed.host.failing.store(1, Relaxed);
    let second = with_config(&first, "second");
    kubelet.apply(vec![second.clone()]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*bed.host.objects.lock().unwrap(), second.objects);

    bed.host.failing.store(usize::MAX, Relaxed);
    let third = with_config(&first, "third");
    kubelet.apply(vec![third.clone()]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    kubelet.shutdown().await;
    bed.host.failing.store(0, Relaxed);
    let _kubelet = bed.kubelet().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*bed.host.objects.lock().unwrap(), third.objects);
}

#[tokio::test(start_paused = true)]
async fn the_newest_of_two_quick_updates_reaches_the_volumes() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let first = simple("a", "Always");
    kubelet.apply(vec![first.clone()]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The sync of the second update waits for what the one before it did to be seen; there the third one meets it.
    bed.runtime.fault(Fault::on(Op::ListSandboxes, FaultAction::Delay(Duration::from_secs(3))));
    let updates = ["one", "two", "three"].map(|value| with_config(&first, value));
    for update in &updates {
        kubelet.apply(vec![update.clone()]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(*bed.host.objects.lock().unwrap(), updates[2].objects);
}

#[tokio::test(start_paused = true)]
async fn update_pod_of_a_pod_that_has_ended_elsewhere_starts_nothing() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let ended = with(&simple("a", "Always"), |pod| {
        pod["status"] = json!({"phase": "Failed", "reason": "Evicted", "message": "long ago"});
    });
    assert_eq!(kubelet.apply(vec![ended]).await, [Admission::Accepted]);
    let report = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    let status = report.pod.status.clone().unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    let deleted = with(&simple("b", "Always"), |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(1);
    });
    kubelet.apply(vec![deleted]).await;
    until_stage(&kubelet, &uid("b"), PodStage::Finished).await;
    assert!(bed.runtime.writes().iter().all(|c| c.op != Op::RunSandbox && c.op != Op::CreateContainer));
}

#[tokio::test(start_paused = true)]
async fn update_pod_of_a_pod_that_has_ended_elsewhere_stops_what_runs() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.shutdown().await;
    // The memory is lost, and what runs is not ours to end as an orphan before it is known again.
    use minke_kubelet::checkpoint::Checkpoints;
    bed.checkpoints.remove(&uid("a")).await.unwrap();
    let kubelet = bed.kubelet().await;
    let ended = with(&simple("a", "Always"), |pod| pod["status"] = json!({"phase": "Succeeded"}));
    kubelet.apply(vec![ended]).await;
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(bed.runtime.running(&uid("a")), 0);
    assert_eq!(phase(&kubelet.report(&uid("a")).unwrap()), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_fixed_uid_that_is_wanted_again_while_it_ends_never_is_refused() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop(), Life::forever()]);
    let kubelet = bed.kubelet().await;
    let desired = pod("a", json!({"terminationGracePeriodSeconds": 100, "containers": [{"name": "main"}]}));
    kubelet.apply(vec![desired.clone()]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.stop(&uid("a"), StopRequest::default()).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Terminating).await;
    let begun = Instant::now();
    let (again, other) = tokio::join!(kubelet.apply(vec![desired]), async {
        let answer = kubelet.apply(vec![simple("b", "Always")]).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "others do not wait for its grace");
        answer
    });
    assert_eq!((again, other), (vec![Admission::Accepted], vec![Admission::Accepted]));
    assert!(begun.elapsed() >= Duration::from_secs(100), "the new run begins when the old one is gone");
    until_phase(&kubelet, &uid("a"), "Running").await;
    kubelet.stop(&uid("a"), StopRequest { grace: None, remove: true }).unwrap();
    until_gone(&kubelet, &uid("a")).await;
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_in_the_container_of_that_name_while_it_runs() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let request = ExecRequest { command: vec!["true".to_owned()], stdin: false, tty: None };
    let error = kubelet.exec(&uid("a"), "main", &request).await.unwrap_err();
    assert!(matches!(&error, ExecError::UnknownPod(unknown) if *unknown == uid("a")), "{error}");
    bed.runtime.exec_hook(|_, name, attempt, _| FakeExec::code(if name == "main" && attempt == 1 { 7 } else { 1 }));
    bed.runtime.script("main", vec![Life::exits(Duration::from_secs(1), 3), Life::exits(Duration::from_secs(900), 0)]);
    kubelet.apply(vec![simple("a", "Always")]).await;
    // The second attempt: the first one's container is still there, dead.
    until(&kubelet, &uid("a"), "a restart", |r| {
        let status = r.pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()?.first().cloned());
        status.is_some_and(|s| s.restart_count == 1 && s.state.is_some_and(|s| s.running.is_some()))
    })
    .await;
    let session = kubelet.exec(&uid("a"), "main", &request).await.unwrap();
    assert_eq!(session.control.wait().await.unwrap(), 7);
    let error = kubelet.exec(&uid("a"), "other", &request).await.unwrap_err();
    assert_eq!(error.to_string(), "container not found (\"other\")");
}

/// `TestUpdatePodForRuntimePod`, `TestUpdatePodForTerminatedRuntimePod`, `TestSyncKnownPods`: Pods that only the runtime
/// knows are ended with a grace of a second, each by itself, and one that is wanted meanwhile waits for that.
#[tokio::test(start_paused = true)]
async fn orphans_end_each_by_itself_and_may_be_wanted_again() {
    use minke_kubelet::checkpoint::Checkpoints;
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::forever().ignoring_stop(), Life::forever()]);
    let kubelet = bed.kubelet().await;
    for name in ["a", "b"] {
        kubelet.apply(vec![simple(name, "Always")]).await;
        until_phase(&kubelet, &uid(name), "Running").await;
    }
    assert!(!kubelet.ask(&uid("c")).could_have_running_containers(), "the runtime was listed");
    kubelet.shutdown().await;
    for name in ["a", "b"] {
        bed.checkpoints.remove(&uid(name)).await.unwrap();
    }
    bed.runtime.fault(Fault::on(Op::StopContainer, FaultAction::Hang).of_pod(&uid("b")));
    let kubelet = bed.kubelet().await;
    assert!(kubelet.ask(&uid("c")).could_have_running_containers(), "who knows");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let begun = Instant::now();
    assert_eq!(kubelet.apply(vec![simple("a", "Always")]).await, [Admission::Accepted]);
    until_phase(&kubelet, &uid("a"), "Running").await;
    assert!(begun.elapsed() < Duration::from_secs(20), "an orphan that hangs keeps no other");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.runtime.running(&uid("a")), 1, "what is wanted is no orphan");
    assert_eq!(phase(&kubelet.report(&uid("a")).unwrap()), "Running");
    bed.runtime.heal();
    let gone = async {
        while bed.runtime.running(&uid("b")) > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), gone).await.expect("the orphan ends when it can");
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

/// `TestUpdatePodParallel`: many Pods, each wanted otherwise again and again. Workers skip what is out of date, and never
/// the last.
#[tokio::test(start_paused = true)]
async fn test_update_pod_parallel() {
    const PODS: usize = 20;
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let version = |n: usize, version: usize| {
        let container = json!({"name": "main", "image": format!("image:{version}")});
        pod(&n.to_string(), json!({"restartPolicy": "Always", "containers": [container]}))
    };
    for v in 0..PODS {
        let answers = kubelet.apply((v..PODS).map(|n| version(n, v)).collect()).await;
        let expected = |answer| matches!((v, answer), (0, &Admission::Accepted) | (1.., &Admission::Updated));
        assert!(answers.iter().all(expected), "{answers:?}");
    }
    for n in 0..PODS {
        let uid = uid(&n.to_string());
        let report = until(&kubelet, &uid, "the last version runs", |r| {
            let statuses = r.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
            statuses
                .clone()
                .any(|c| c.image == format!("image:{n}") && c.state.as_ref().is_some_and(|s| s.running.is_some()))
        })
        .await;
        assert_eq!(report.pod.spec.as_ref().unwrap().containers[0].image, Some(format!("image:{n}")));
        let made = bed.runtime.count_of(&uid, Op::CreateContainer);
        assert!((1..=n + 1).contains(&made), "pod {n}: {made} containers for {} versions", n + 1);
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    for n in 0..PODS {
        assert_eq!(bed.runtime.running(&uid(&n.to_string())), 1);
    }
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

/// `Test_removeTerminatedWorker`: a Pod that nobody wants any more is forgotten once its worker has brought it to its
/// end, wherever it is, and the worker goes on by itself.
#[tokio::test(start_paused = true)]
async fn test_remove_terminated_worker() {
    let remove = StopRequest { grace: None, remove: true };
    for stage in ["finished", "not started", "started", "terminating", "terminated"] {
        let bed = Bed::new();
        bed.runtime.script("main", vec![Life::forever().ignoring_stop()]);
        let kubelet = bed.kubelet().await;
        kubelet.apply(vec![simple("a", "Always")]).await;
        if stage != "not started" {
            until_phase(&kubelet, &uid("a"), "Running").await;
        }
        let begun = Instant::now();
        match stage {
            "finished" => {
                kubelet.stop(&uid("a"), StopRequest { grace: Some(Duration::ZERO), remove: false }).unwrap();
                until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
                tokio::time::sleep(Duration::from_secs(300)).await;
                assert!(kubelet.report(&uid("a")).is_some(), "it is kept for as long as it is wanted");
            }
            "terminating" => {
                kubelet.stop(&uid("a"), StopRequest { grace: Some(Duration::from_secs(7)), remove: false }).unwrap();
                until_stage(&kubelet, &uid("a"), PodStage::Terminating).await;
            }
            "terminated" => {
                // Its sandbox can't be removed for a while.
                bed.runtime.fault(Fault::fail(Op::RemoveSandbox).times(5));
                kubelet.stop(&uid("a"), StopRequest { grace: Some(Duration::ZERO), remove: false }).unwrap();
                until_stage(&kubelet, &uid("a"), PodStage::Terminated).await;
            }
            _ => {}
        }
        kubelet.stop(&uid("a"), remove).unwrap();
        if stage != "finished" {
            tokio::task::yield_now().await;
            assert!(kubelet.report(&uid("a")).is_some(), "{stage}: not before its worker is done");
        }
        until_gone(&kubelet, &uid("a")).await;
        let took = begun.elapsed().as_secs();
        match stage {
            "started" => assert_eq!(took, 30, "it got its own grace"),
            "terminating" => assert_eq!(took, 7, "what it had been given before"),
            "not started" => assert_eq!(bed.runtime.count(Op::StartContainer), 0, "nothing is started for its end"),
            _ => {}
        }
        assert!(bed.runtime.sandboxes(&uid("a")).is_empty(), "{stage}");
        assert!(bed.checkpoints.uids().is_empty(), "{stage}");
        assert_eq!(bed.runtime.violations(), [""; 0], "{stage}");
    }
}

/// A disk write each minute and Pod would wake the disk of an idle machine.
#[tokio::test(start_paused = true)]
async fn a_pod_of_which_nothing_is_new_is_not_written_again() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 5});
    let containers = json!([{"name": "main", "readinessProbe": probe, "livenessProbe": probe}]);
    kubelet.apply(vec![pod("a", json!({"restartPolicy": "Always", "containers": containers}))]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (writes, report) = (bed.checkpoints.writes(), kubelet.report(&uid("a")).unwrap());
    assert!(writes > 0);
    assert_eq!(bed.checkpoints.state(&uid("a")).unwrap().status, report.pod.status.clone().unwrap());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(bed.checkpoints.writes(), writes, "forty syncs later");
    // What a probe condemns is kept at once: the next agent has to know it.
    bed.runtime.fault(Fault::on(Op::StopContainer, FaultAction::Hang).times(1));
    bed.runtime.exec_hook(|_, _, _, _| FakeExec::code(1));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(bed.checkpoints.state(&uid("a")).unwrap().condemned.len(), 1);
}

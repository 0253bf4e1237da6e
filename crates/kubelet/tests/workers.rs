//! What others may ask of workers, through the whole core, on the scripted runtime under paused time: stops that are
//! waited for, evictions, updates, Pods that are taken on in every state.

#![cfg(test)]

mod support;

use std::time::Duration;

use minke_core::fake::{Fault, FaultAction, Life, Op};
use minke_kubelet::{Eviction, KillError, PodStage, Progress, StopRequest, UnknownPod};
use support::{Bed, phase, simple, uid, until_phase, until_stage};
use tokio::time::Instant;

fn eviction(grace: Option<u64>) -> Eviction {
    let (reason, message) = ("Evicted".to_owned(), "The node was low on resource: memory.".to_owned());
    Eviction { reason, message, grace: grace.map(Duration::from_secs) }
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

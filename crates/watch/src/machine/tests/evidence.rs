//! What is read beside the Pod before it is judged, and how often.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::Cause;
use serde_json::json;

use super::{Bed, pod, running, state, waits};
use crate::machine::{ApiFault, Input};

#[test]
fn an_end_has_its_events_read_although_they_were_read_a_moment_before() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &waits("ContainerCreating", ""))]);
    bed.machine.settings.events_every = Some(Duration::from_secs(3));
    bed.named(1, "a");
    bed.pass(1100);
    assert_eq!(bed.machine.counters().events, 1);
    bed.pass(400);
    bed.see(pod("a", "u1", 101, &state("Failed", &json!({"terminated": {"exitCode": 137, "reason": "Error"}}))));
    bed.pass(50);
    assert_eq!(bed.machine.counters().events, 2);
    let event = json!({"metadata": {}, "involvedObject": {}, "reason": "Killing", "message": "Container app failed liveness probe"});
    bed.take(Input::Events { uid: "u1".into(), events: vec![serde_json::from_value(event).unwrap()] });
    assert_eq!(bed.cause(1), Some(Cause::LivenessFailed));
}

#[test]
fn a_budget_that_ends_out_of_sight_is_confirmed_by_a_look() {
    let away = || waits("ErrImagePull", "dial tcp: x");
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &away())]);
    bed.named(1, "a");
    bed.pass(100);
    // The cluster is away when the budget ends, and the Pod heals meanwhile.
    let (stream, _) = bed.stream();
    bed.take(Input::WatchFailed { stream, fault: ApiFault::Unreachable("no route".into()) });
    bed.pass(70_000);
    assert_eq!(bed.cause(1), None, "nobody knows whether it lasts");
    bed.answer(Some(pod("a", "u1", 60, &running())));
    assert_eq!(bed.cause(1), None);
    // One that did not heal has used up its time.
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &away())]);
    bed.named(1, "a");
    bed.pass(61_000);
    bed.answer(Some(pod("a", "u1", 50, &away())));
    assert_eq!(bed.cause(1), Some(Cause::RegistryUnavailable));
}

#[test]
fn a_waiting_pod_has_its_events_read_and_all_pods_together_not_too_often() {
    let pods: Vec<Pod> =
        (0..100).map(|i| pod(&format!("p{i}"), &format!("u{i}"), 50, &waits("ContainerCreating", ""))).collect();
    let mut bed = Bed::watching(pods);
    bed.machine.settings.events_every = Some(Duration::from_secs(3));
    for id in 0..100 {
        bed.named(id, &format!("p{id}"));
    }
    bed.pass(900);
    assert_eq!(bed.machine.counters().events, 0);
    bed.pass(10_000);
    let events = bed.machine.counters().events;
    assert!((20..=60).contains(&events), "{events}");
    let event =
        json!({"metadata": {}, "involvedObject": {}, "reason": "FailedMount", "message": "configmap \"x\" not found"});
    bed.take(Input::Events { uid: "u7".into(), events: vec![serde_json::from_value(event).unwrap()] });
    assert_eq!(bed.cause(7), Some(Cause::VolumeMissing));
}

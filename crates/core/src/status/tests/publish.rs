//! What may be said of a Pod.

use serde_json::json;

use super::bed::*;
use crate::status::{FailureOverride, disrupted, finalize, publishable};

#[test]
fn a_terminal_phase_is_held_back_while_something_may_run() {
    let mut bed = Bed::new(two("Always")).with("a", running()).with("b", running());
    let before = bed.step();
    bed.failure = Some(FailureOverride::deadline_exceeded());
    let computed = bed.compute();
    assert_eq!(computed.phase.as_deref(), Some("Failed"));
    let said = publishable(&bed.pod, computed.clone(), Some(&before), true);
    assert_eq!((said.phase.as_deref(), said.reason.as_deref()), (Some("Running"), None));
    let said = publishable(&bed.pod, computed, Some(&before), false);
    assert_eq!((said.phase.as_deref(), said.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
}

#[test]
fn nothing_said_before_is_pending() {
    let mut bed = Bed::new(two("Always")).with("a", running());
    bed.failure = Some(FailureOverride::deadline_exceeded());
    let said = publishable(&bed.pod, bed.compute(), None, true);
    assert_eq!(said.phase.as_deref(), Some("Pending"));
}

#[test]
fn a_terminal_phase_is_not_taken_back() {
    let bed = Bed::new(two("Never")).with("a", exited(0)).with("b", exited(0));
    let done = bed.compute();
    let later = Bed::new(two("Never")).with("a", running()).with("b", running()).compute();
    let said = publishable(&bed.pod, later, Some(&done), true);
    assert_eq!(said.phase.as_deref(), Some("Succeeded"));
    let ready = said.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodCompleted")));
}

#[test]
fn a_container_that_ended_for_good_does_not_wait_or_run_again() {
    for (policy, code, kept) in
        [("Never", 1, true), ("Never", 0, true), ("OnFailure", 0, true), ("OnFailure", 1, false), ("Always", 0, false)]
    {
        let before = Bed::new(two(policy)).with("a", exited(code)).compute();
        let now = Bed::new(two(policy)).with("a", running()).compute();
        let said = publishable(&two(policy), now, Some(&before), true);
        let expected = if kept {
            format!("terminated:{code}:{}", if code == 0 { "Completed" } else { "Error" })
        } else {
            "running".to_owned()
        };
        assert_eq!(state(&said, "a"), expected, "{policy} {code}");
    }
}

#[test]
fn a_success_that_a_probe_had_forced_is_followed_by_the_next_instance() {
    for (policy, expected) in [("OnFailure", "running"), ("Never", "terminated:0:Completed")] {
        let before = Bed::new(two(policy)).with("a", exited(0)).compute();
        let now = Bed::new(two(policy)).with("a", exited(0)).with("a", running()).compute();
        assert_eq!(state(&publishable(&two(policy), now, Some(&before), true), "a"), expected, "{policy}");
    }
}

#[test]
fn sidecars_may_come_back() {
    let spec = json!({"restartPolicy": "Never", "initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": named(&["a"])});
    let before = Bed::new(pod(&spec)).with("s", exited(1)).compute();
    let now = Bed::new(pod(&spec)).with("s", running()).compute();
    assert_eq!(state(&publishable(&pod(&spec), now, Some(&before), true), "s"), "running");
}

#[test]
fn closing_the_books_of_a_pod() {
    let bed = Bed::new(two("Always")).with("a", exited(0)).with("b", running());
    let closed = finalize(&bed.pod, &bed.compute(), false);
    assert_eq!(state(&closed, "a"), "terminated:0:Completed");
    assert_eq!(state(&closed, "b"), "terminated:137:ContainerStatusUnknown");
    assert_eq!(closed.phase.as_deref(), Some("Failed"));
    let b = of(&closed, "b");
    assert_eq!((b.ready, b.started), (false, Some(false)));
    let ready = closed.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
    assert_eq!(finalize(&bed.pod, &closed, false), closed, "idempotent");
}

#[test]
fn closing_the_books_before_initialisation_ends() {
    let spec = json!({"initContainers": named(&["i", "j", "k"]), "containers": named(&["a"])});
    let bed = Bed::new(pod(&spec)).with("i", exited(0)).with("j", running());
    let closed = finalize(&bed.pod, &bed.compute(), false);
    assert_eq!(state(&closed, "i"), "terminated:0:Completed");
    assert_eq!(state(&closed, "j"), "terminated:137:ContainerStatusUnknown");
    assert_eq!(state(&closed, "k"), "waiting:PodInitializing", "it never had a turn");
    assert_eq!(state(&closed, "a"), "waiting:PodInitializing");
}

#[test]
fn static_pods_keep_their_phase() {
    let bed = Bed::new(two("Always")).with("a", running()).with("b", running());
    assert_eq!(finalize(&bed.pod, &bed.compute(), true).phase.as_deref(), Some("Running"));
}

#[test]
fn a_disruption_is_told_once_and_kept() {
    let mut bed = Bed::new(two("Always")).with("a", exited(137)).with("b", exited(137));
    bed.failure = Some(FailureOverride { reason: "Evicted".to_owned(), message: "no room".to_owned() });
    bed.is_terminal = true;
    let mut last = finalize(&bed.pod, &bed.compute(), false);
    let kind = |c: &&k8s_openapi::api::core::v1::PodCondition| c.type_ == "DisruptionTarget";
    disrupted(&mut last, "no room", at(50));
    let told = last.conditions.iter().flatten().find(kind).cloned().unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_deref()), ("True", Some("TerminationByKubelet")));
    assert_eq!((told.message.as_deref(), told.last_transition_time.clone().unwrap().0), (Some("no room"), at(50)));
    disrupted(&mut last, "again", at(60));
    assert_eq!(last.conditions.iter().flatten().filter(kind).count(), 1);
    bed.previous = Some(last);
    let later = bed.compute();
    assert_eq!(later.conditions.iter().flatten().find(kind), Some(&told), "the time does not move");
}

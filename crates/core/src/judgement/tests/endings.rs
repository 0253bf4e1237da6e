//! Which of several causes is the root, what settles, and what is sealed.

use serde_json::json;

use super::bed::*;
use crate::judgement::{Cause, Presence, Verdict};

fn marked(pod: k8s_openapi::api::core::v1::Pod, since: i64) -> k8s_openapi::api::core::v1::Pod {
    with_condition(pod, "DisruptionTarget", "True", "EvictionByEvictionAPI", "drained", since)
}

#[test]
fn an_eviction_is_not_its_exit_code() {
    // 137 comes first, the mark some milliseconds later.
    let mut judge = Judge::default();
    assert!(
        matches!(judge.see(&app_is(&ended(137, "Error", ""))), Verdict::Doomed { why, .. } if why.cause == Cause::ContainerFailed)
    );
    let evicted = deleting(marked(app_is(&ended(137, "Error", "")), 9), 9, 30);
    judge.after(100).see(&evicted);
    let Verdict::Failed(failure) = judge.after(100).see(&evicted) else { panic!() };
    assert_eq!(failure.cause, Cause::ApiEvicted);
    assert!(failure.later.iter().any(|f| f.cause == Cause::ContainerFailed && f.evidence.exit_code == Some(137)));
}

/// Only an event says that a probe has killed it, and may come late. Without one it was killed by somebody unknown.
#[test]
fn what_a_probe_has_killed_is_its_failure_however_late_that_is_told() {
    let probed = |code| {
        let mut pod = app_is(&ended(code, "Error", ""));
        let app = &mut pod.spec.as_mut().unwrap().containers[0];
        app.liveness_probe = Some(k8s_openapi::api::core::v1::Probe::default());
        pod
    };
    let mut judge = Judge::default();
    judge.see(&probed(137));
    assert!(matches!(judge.after(9_000).see(&probed(137)), Verdict::Doomed { .. }), "it may still be told");
    judge.events = vec![event("Killing", "Container app failed liveness probe", 11)];
    let Verdict::Failed(failure) = judge.after(1).see(&probed(137)) else { panic!() };
    assert_eq!(failure.cause, Cause::LivenessFailed);
    let mut judge = Judge::default();
    judge.see(&probed(143));
    let Verdict::Failed(failure) = judge.after(10_000).see(&probed(143)) else { panic!() };
    assert_eq!(failure.cause, Cause::ContainerFailed, "nobody tells");
    assert_eq!(cause(&probed(1)), Cause::ContainerFailed, "a program's own end needs no explanation");
    assert_eq!(cause(&app_is(&ended(137, "Error", ""))), Cause::ContainerFailed, "nor what has no probes");
}

#[test]
fn a_mark_that_was_foretold_is_the_root_of_what_follows() {
    let mut judge = Judge::default();
    assert!(matches!(judge.see(&marked(app_is(&runs()), 8)), Verdict::Doomed { .. }));
    assert_eq!(judge.at_once(&marked(app_is(&ended(143, "Error", "")), 8)).cause, Cause::ApiEvicted);
}

#[test]
fn disruption_target_set_and_cleared_is_taken_back() {
    let mut judge = Judge::default();
    assert!(matches!(judge.see(&marked(app_is(&runs()), 20)), Verdict::Doomed { until: Some(_), .. }));
    let cleared = with_condition(app_is(&runs()), "DisruptionTarget", "False", "", "", 140);
    assert!(!matches!(judge.after(120_000).see(&cleared), Verdict::Doomed { .. } | Verdict::Failed(_)));
}

#[test]
fn a_mark_without_a_deletion_never_fails_a_pod_that_works() {
    let mut judge = Judge::default();
    judge.see(&marked(app_is(&runs()), 20));
    assert!(matches!(judge.after(3_600_000).see(&marked(app_is(&runs()), 20)), Verdict::Doomed { until: None, .. }));
}

#[test]
fn what_failed_before_the_deletion_is_the_root() {
    let failed_first = deleting(app_is(&ended(1, "Error", "boom")), 15, 30);
    assert_eq!(cause(&failed_first), Cause::ContainerFailed);
    let killed_by_it = deleting(app_is(&ended(143, "Error", "")), 9, 30);
    assert_eq!(cause(&killed_by_it), Cause::Deleted);
    // Whole seconds can't tell: the deletion is the likelier root.
    let same_second = deleting(app_is(&ended(143, "Error", "")), 10, 30);
    assert_eq!(cause(&same_second), Cause::Deleted);
}

#[test]
fn out_of_memory_before_exit_codes() {
    let statuses = [container("app", &ended(1, "Error", "")), container("helper", &ended(137, "OOMKilled", ""))];
    let failure = Judge::default().at_once(&pod(&json!({"phase": "Failed", "containerStatuses": statuses})));
    assert_eq!((failure.cause, failure.evidence.container.as_deref()), (Cause::OomKilled, Some("helper")));
    let later: Vec<Cause> = failure.later.iter().map(|f| f.cause).collect();
    assert_eq!(later, [Cause::PodFailed, Cause::ContainerFailed]);
}

#[test]
fn an_eviction_with_exit_code_0_is_no_success() {
    let statuses = [container("app", &ended(0, "Completed", "")), container("helper", &ended(0, "Completed", ""))];
    let succeeded = pod(&json!({"phase": "Succeeded", "containerStatuses": statuses}));
    assert_eq!(cause(&marked(succeeded.clone(), 9)), Cause::ApiEvicted);
    assert_eq!(cause(&deleting(succeeded.clone(), 9, 30)), Cause::Deleted);
    // Done before anybody came.
    assert_eq!(Judge::default().see(&deleting(succeeded.clone(), 11, 30)), Verdict::Succeeded);
    assert_eq!(Judge::default().see(&succeeded), Verdict::Succeeded);
}

#[test]
fn completed_and_then_gone_is_completed() {
    let statuses = [container("app", &ended(0, "Completed", "")), container("helper", &ended(0, "Completed", ""))];
    let succeeded = pod(&json!({"phase": "Succeeded", "containerStatuses": statuses}));
    let mut judge = Judge::default();
    assert_eq!(judge.see(&succeeded), Verdict::Succeeded);
    assert_eq!(judge.after(1).see_as(&deleting(succeeded, 9, 30), Presence::Gone), Verdict::Succeeded);
}

#[test]
fn the_first_root_cause_sticks_and_later_evidence_is_added() {
    let mut judge = Judge::default();
    judge.at_once(&app_waits("ErrImagePull", "manifest unknown"));
    let Verdict::Failed(failure) = judge.after(1000).see(&deleting(app_is(&runs()), 60, 30)) else { panic!() };
    assert_eq!((failure.cause, failure.later[0].cause), (Cause::ImageNotFound, Cause::Deleted));
    let Verdict::Failed(again) = judge.after(1000).see(&deleting(app_is(&runs()), 60, 30)) else { panic!() };
    assert_eq!(again.later.len(), 1);
}

#[test]
fn what_heals_while_it_settles_was_nothing() {
    let mut judge = Judge::default();
    assert!(matches!(judge.see(&app_waits("ErrImagePull", "manifest unknown")), Verdict::Doomed { .. }));
    assert!(!matches!(judge.after(100).see(&app_is(&runs())), Verdict::Doomed { .. } | Verdict::Failed(_)));
    assert!(matches!(judge.after(50).see(&app_waits("ErrImagePull", "manifest unknown")), Verdict::Doomed { .. }));
}

#[test]
fn a_new_history_knows_nothing_of_the_attempt_before() {
    let mut judge = Judge::default();
    judge.at_once(&app_waits("ErrImagePull", "manifest unknown"));
    let mut next = Judge::default();
    assert!(!matches!(next.see(&app_is(&runs())), Verdict::Failed(_) | Verdict::Doomed { .. }));
}

#[test]
fn a_ready_pod_is_healthy() {
    let status = json!({"phase": "Running",
        "initContainerStatuses": [container("setup", &ended(0, "Completed", "")), container("proxy", &runs())],
        "containerStatuses": [container("app", &runs()), container("helper", &runs())]});
    let ready = with_condition(pod(&status), "Ready", "True", "", "", 5);
    assert!(matches!(Judge::default().see(&ready), Verdict::Healthy(h) if h.ready && h.notes.is_empty()));
    assert!(matches!(Judge::default().see(&pod(&status)), Verdict::Waiting { why: None, .. }));
}

#[test]
fn an_eviction_that_is_marked_with_its_end_is_not_the_exit_code_of_its_kill() {
    // As the embedded node was seen to tell it: the kill, and a second later the mark and the reason.
    let killed = |reason: &str, code| {
        let mut pod = failed("Evicted", "The node was low on resource: memory. ");
        let status = app_is(&ended(code, reason, "")).status.and_then(|s| s.container_statuses);
        pod.status.as_mut().unwrap().container_statuses = status;
        with_condition(pod, "DisruptionTarget", "True", "TerminationByKubelet", "", 15)
    };
    assert_eq!(Judge::default().at_once(&killed("Error", 137)).cause, Cause::Evicted);
    // What it did by itself before stays its own doing.
    assert_eq!(Judge::default().at_once(&killed("Error", 3)).cause, Cause::ContainerFailed);
    assert_eq!(Judge::default().at_once(&killed("OOMKilled", 137)).cause, Cause::OomKilled);
}

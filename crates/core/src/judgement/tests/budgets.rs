//! Patience: how budgets run, end, and are given back.

use std::time::Duration;

use serde_json::json;

use super::bed::*;
use crate::judgement::{Budget, Budgets, Cause, History, Limit, Now, Policy, Sight, Verdict, judge};

fn network() -> k8s_openapi::api::core::v1::Pod {
    app_waits("ErrImagePull", "dial tcp: i/o timeout")
}

#[test]
fn zero_fails_fast() {
    let mut judge = Judge::default();
    judge.policy.budgets = Budgets::default().with(Budget::Pull, Limit::After(Duration::ZERO));
    assert_eq!(judge.at_once(&network()).cause, Cause::RegistryUnavailable);
    let mut judge = Judge::default();
    judge.policy.budgets = Budgets::default().fail_fast();
    assert_eq!(judge.at_once(&app_waits("BrandNew", "")).cause, Cause::UnknownWaiting);
}

#[test]
fn without_a_limit_it_waits_for_ever() {
    let mut judge = Judge::default();
    judge.policy.budgets = Budgets::default().with(Budget::Pull, Limit::Never);
    assert!(matches!(judge.after(u64::from(u32::MAX)).see(&network()), Verdict::Waiting { until: None, .. }));
}

#[test]
fn pull_errors_that_alternate_share_one_budget() {
    let mut judge = Judge::default();
    for _ in 0..5 {
        judge.waits_for(&network());
        judge.after(5000).waits_for(&app_waits("ImagePullBackOff", "Back-off"));
        judge.after(5000).see(&app_waits("ContainerCreating", ""));
    }
    judge.after(10_000);
    assert_eq!(judge.at_once(&network()).cause, Cause::RegistryUnavailable);
}

#[test]
fn progress_gives_the_budget_back() {
    let mut judge = Judge::default();
    judge.waits_for(&network());
    judge.after(59_000).see(&app_is(&runs()));
    judge.after(1000);
    let (budget, _) = judge.in_time(&network());
    assert_eq!(budget, Duration::from_secs(60));
}

#[test]
fn a_pod_that_waited_before_anybody_looked_has_used_that_up() {
    let pod = pod_with(&json!({"nodeName": ""}), &json!({"phase": "Pending"}));
    let pod = with_condition(pod, "PodScheduled", "False", "Unschedulable", "0/1", -180);
    let (budget, failure) = Judge::default().in_time(&pod);
    assert_eq!((budget.as_secs(), failure.cause), (100, Cause::Unschedulable));
}

#[test]
fn a_budget_that_ends_out_of_sight_fails_nobody() {
    let pod = network();
    let look = |history, as_of, second| {
        let now = Now { moment: Duration::from_secs(second), wall: time(0) };
        judge(&Sight { as_of, ..Sight::of(&pod) }, &Policy::default(), history, now)
    };
    let mut judged = look(History::default(), None, 0);
    for (as_of, second) in [(Some(0), 30), (Some(30), 90), (Some(59), 3600)] {
        judged = look(judged.history, as_of.map(Duration::from_secs), second);
        assert_eq!(judged.verdict.until(), Some(Duration::from_secs(60)), "{:?}", judged.verdict);
    }
    // Seen again, and still so.
    judged = look(judged.history, Some(Duration::from_secs(3601)), 3601);
    assert!(matches!(judged.verdict, Verdict::Doomed { .. }), "{:?}", judged.verdict);
    // Who grants no time fails by what was seen.
    let budgets = Budgets::default().fail_fast();
    let now = Now { moment: Duration::from_secs(9), wall: time(0) };
    let sight = Sight { as_of: Some(Duration::from_secs(3)), ..Sight::of(&pod) };
    let judged = judge(&sight, &Policy { budgets, ..Policy::default() }, History::default(), now);
    assert!(matches!(judged.verdict, Verdict::Doomed { .. }), "{:?}", judged.verdict);
}

#[test]
fn an_announced_node_gives_more_time() {
    let pod = pod_with(&json!({"nodeName": ""}), &json!({"phase": "Pending"}));
    let pod = with_condition(pod, "PodScheduled", "False", "Unschedulable", "0/1", 20);
    let mut judge = Judge::default();
    judge.waits_for(&pod);
    judge.events = vec![event("TriggeredScaleUp", "pod triggered scale-up: [{pool 1->2 (max: 5)}]", 60)];
    let (budget, _) = judge.after(299_000).in_time(&pod);
    assert_eq!(budget.as_secs(), 600);
}

#[test]
fn a_crash_loops_budget_runs_while_it_runs() {
    let mut judge = Judge::default();
    judge.policy.budgets = Budgets::default().with(Budget::Crash, Limit::After(Duration::from_secs(30)));
    let looped = pod_with(
        &json!({"restartPolicy": "Always"}),
        &json!({"phase": "Running", "containerStatuses": [
        container("app", &waits("CrashLoopBackOff", "back-off")), container("helper", &runs())]}),
    );
    judge.waits_for(&looped);
    judge.after(20_000).see(&app_is(&runs()));
    judge.after(10_000);
    assert_eq!(judge.at_once(&looped).cause, Cause::CrashLoop);
}

#[test]
fn starting_and_becoming_ready_can_be_limited() {
    let mut judge = Judge::default();
    judge.policy.budgets = Budgets::default()
        .with(Budget::Start, Limit::After(Duration::from_secs(5)))
        .with(Budget::Ready, Limit::After(Duration::from_secs(7)));
    let creating = app_waits("ContainerCreating", "");
    judge.see(&creating);
    assert!(matches!(judge.after(4999).see(&creating), Verdict::Waiting { why: None, .. }));
    assert_eq!(judge.after(1).at_once(&creating).cause, Cause::StartTimeout);
    let mut judge = Judge { policy: judge.policy, ..Judge::default() };
    let unready = with_condition(
        pod_with(
            &json!({"initContainers": []}),
            &json!({"phase": "Running",
        "containerStatuses": [container("app", &runs()), container("helper", &runs())]}),
        ),
        "Ready",
        "False",
        "ContainersNotReady",
        "",
        3,
    );
    judge.see(&unready);
    assert_eq!(judge.after(7000).at_once(&unready).cause, Cause::NeverReady);
}

#[test]
fn every_budget_has_a_name_and_is_found_by_it() {
    for budget in Budget::ALL {
        assert_eq!(Budget::parse(budget.as_str()), Some(*budget));
        assert_eq!(Budgets::default().of(*budget), budget.default_limit());
    }
    assert_eq!(Budget::parse("nope"), None);
}

#[test]
fn who_fails_fast_still_lets_a_scheduler_speak() {
    let mut judge = Judge::default();
    judge.policy.budgets = Budgets::default().fail_fast();
    let fresh = pod_with(&json!({"nodeName": null}), &json!({"phase": "Pending"}));
    assert!(matches!(judge.see(&fresh), Verdict::Waiting { why: None, .. }), "nobody has said anything");
    // What a scheduler says counts at once.
    let said = with_condition(fresh, "PodScheduled", "False", "Unschedulable", "0/3 nodes are available", 15);
    assert_eq!(judge.at_once(&said).cause, Cause::Unschedulable);
}

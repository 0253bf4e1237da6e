//! Whatever a cluster shows, in whatever order: judging ends, and what is said for good stays said.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::bed::*;
use crate::judgement::{Category, Cause, Presence, Verdict};

fn state() -> impl Strategy<Value = Value> {
    let reasons = prop::sample::select(vec![
        "",
        "ContainerCreating",
        "PodInitializing",
        "ErrImagePull",
        "ImagePullBackOff",
        "CrashLoopBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
        "InvalidImageName",
        "RegistryUnavailable",
        "Odd",
        "OOMKilled",
        "Error",
        "Completed",
        "StartError",
        "ContainerStatusUnknown",
    ]);
    let message = prop::sample::select(vec![
        "",
        "not found",
        "dial tcp",
        "context deadline exceeded",
        "exec format error",
        "ü\u{0}\n",
    ]);
    (reasons, message, -1..300_i32, 0..5_u8, 0..40_i64).prop_map(|(reason, message, code, kind, when)| match kind {
        0 => json!({}),
        1 => json!({"running": {"startedAt": at(when)}}),
        2 | 3 => json!({"waiting": {"reason": reason, "message": message}}),
        _ => json!({"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": at(when)}}),
    })
}

prop_compose! {
    fn any_pod()(
        states in prop::collection::vec(prop::option::of((state(), state(), 0..3_i32)), 4),
        phase in prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed", "Unknown", "", "Odd"]),
        reason in prop::sample::select(vec!["", "Evicted", "OutOfcpu", "DeadlineExceeded", "NodeLost", "Odd"]),
        policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        condition in prop::option::of((prop::sample::select(vec!["DisruptionTarget", "PodScheduled", "Ready"]), any::<bool>())),
        deleted in prop::option::of(0..60_i64),
        when in 0..60_i64,
    ) -> Pod {
        let names = ["setup", "proxy", "app", "helper"];
        let one = |(name, given): (&&str, &Option<(Value, Value, i32)>)| given.as_ref().map(|(state, last, restarts)| {
            let mut status = container(name, state);
            status["lastState"] = last.clone();
            status["restartCount"] = json!(restarts);
            status
        });
        let all: Vec<Option<Value>> = names.iter().zip(&states).map(one).collect();
        let (init, main) = all.split_at(2);
        let list = |part: &[Option<Value>]| part.iter().flatten().cloned().collect::<Vec<_>>();
        let status = json!({"phase": phase, "reason": reason, "initContainerStatuses": list(init), "containerStatuses": list(main)});
        let mut pod = pod_with(&json!({"restartPolicy": policy}), &status);
        if let Some((kind, holds)) = condition {
            pod = with_condition(pod, kind, if holds { "True" } else { "False" }, "DeletionByPodGC", "m", when);
        }
        if let Some(since) = deleted {
            pod = deleting(pod, since, 30);
        }
        pod
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn judging_is_total_and_an_end_is_never_taken_back(
        sights in prop::collection::vec((any_pod(), 0..90_000_u64, 0..12_u8), 1..25),
    ) {
        let mut judge = Judge::default();
        let mut end: Option<Verdict> = None;
        for (pod, wait, rare) in sights {
            let presence = match rare { 0 => Presence::Gone, 1 => Presence::Replaced, _ => Presence::Here };
            let verdict = judge.after(wait).see_as(&pod, presence);
            if let Some(until) = verdict.until() {
                prop_assert!(until > judge.moment, "a deadline that has passed is no deadline: {:?}", verdict);
            }
            match (&end, &verdict) {
                (Some(Verdict::Failed(before)), Verdict::Failed(now)) => {
                    prop_assert_eq!((before.cause, &before.evidence, before.since), (now.cause, &now.evidence, now.since));
                    prop_assert!(now.later.starts_with(&before.later));
                }
                (Some(before), now) => prop_assert_eq!(before, now),
                (None, _) => {}
            }
            if verdict.is_final() {
                prop_assert!(judge.history.is_sealed());
                end = Some(verdict);
            }
        }
    }

    #[test]
    fn a_sight_that_does_not_change_comes_to_rest(pod in any_pod()) {
        let mut judge = Judge::default();
        let mut looks = 0;
        while let Some(until) = judge.see(&pod).until() {
            prop_assert!(until > judge.moment);
            judge.moment = until;
            looks += 1;
            prop_assert!(looks < 10, "it never rests");
        }
        let rest = judge.see(&pod);
        judge.moment += Duration::from_secs(100_000);
        prop_assert_eq!(std::mem::discriminant(&rest), std::mem::discriminant(&judge.see(&pod)));
    }

    #[test]
    fn looking_more_often_changes_nothing(pod in any_pod(), looks in prop::collection::vec(1..2000_u64, 0..20)) {
        let mut often = Judge::default();
        let mut once = Judge::default();
        often.see(&pod);
        once.see(&pod);
        for wait in looks {
            often.after(wait).see(&pod);
        }
        once.moment = often.moment.max(Duration::from_secs(1));
        often.moment = once.moment;
        let cause = |verdict: Verdict| match verdict { Verdict::Failed(f) => Some(f.cause), _ => None };
        prop_assert_eq!(cause(often.see(&pod)), cause(once.see(&pod)));
    }
}

#[test]
fn every_cause_has_a_name_a_category_a_meaning_and_a_remedy() {
    let mut names: Vec<&str> = Cause::ALL.iter().map(|c| c.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Cause::ALL.len());
    for cause in Cause::ALL {
        assert!(cause.meaning().ends_with('.') && cause.remedy().ends_with('.'), "{cause}");
        assert!(!cause.category().as_str().is_empty());
    }
    for category in
        [Category::Configuration, Category::Program, Category::Infrastructure, Category::External, Category::Cancelled]
    {
        assert!(Cause::ALL.iter().any(|c| c.category() == category), "{category}");
    }
}

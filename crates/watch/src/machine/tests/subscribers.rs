//! Whose verdict it is: subscribers by uid and attempt, Pods of one name, deletions.

use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::{Cause, Verdict};

use super::{Bed, broken, pod, running};
use crate::machine::{Counters, Input, Machine, Scope, Settings, Target};

#[test]
fn one_list_and_one_watch_serve_any_number_of_subscribers() {
    let pods: Vec<Pod> = (0..50).map(|i| pod(&format!("p{i}"), &format!("u{i}"), 50, &broken())).collect();
    let mut bed = Bed::watching(pods);
    for id in 0..50 {
        bed.named(id, &format!("p{id}"));
    }
    for id in 0..50 {
        assert_eq!(bed.cause(id), Some(Cause::InvalidImageName));
    }
    assert_eq!(bed.machine.counters(), Counters { probes: 1, lists: 1, watches: 1, ..Counters::default() });
}

#[test]
fn what_is_in_the_cache_is_judged_on_subscribing() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &broken())]);
    bed.pass(1000);
    bed.named(1, "a");
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
}

#[test]
fn an_erroneous_pod_of_another_name_is_nothing_to_anybody() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    bed.see(pod("b", "u2", 101, &broken()));
    assert_eq!(bed.cause(1), None);
}

#[test]
fn a_verdict_never_reaches_the_next_attempt() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &broken())]);
    bed.subscribe(1, Target::named("ns", "a"), 1);
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
    bed.subscribe(2, Target::Uid { namespace: "ns".into(), name: "a".into(), uid: "u2".into() }, 2);
    bed.leave(pod("a", "u1", 101, &broken()));
    bed.see(pod("a", "u2", 102, &running()));
    assert_eq!(bed.cause(2), None);
    let report = &bed.reports[&2];
    assert_eq!((report.attempt, report.uid.as_deref()), (2, Some("u2")));
    assert!(matches!(report.verdict, Some(Verdict::Healthy(_))));
}

#[test]
fn an_expected_pod_is_not_the_one_that_still_goes() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &broken())]);
    bed.subscribe(1, Target::Expected { namespace: "ns".into(), name: "a".into() }, 1);
    assert_eq!(bed.cause(1), None);
    bed.leave(pod("a", "u1", 101, &broken()));
    bed.see(pod("a", "u2", 102, &broken()));
    assert_eq!(bed.cause(1), None);
    bed.take(Input::Bind { id: 1, uid: "u2".into() });
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
}

#[test]
fn a_deletion_that_is_seen_only_by_a_relist_counts() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    bed.relist(vec![], "200");
    assert_eq!(bed.cause(1), Some(Cause::Deleted));
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    bed.relist(vec![pod("a", "u2", 150, &running())], "200");
    assert_eq!(bed.cause(1), Some(Cause::Replaced));
}

#[test]
fn a_pod_deleted_before_anybody_saw_it_is_deleted() {
    let mut bed = Bed::watching(vec![]);
    bed.subscribe(1, Target::Uid { namespace: "ns".into(), name: "a".into(), uid: "u1".into() }, 1);
    bed.answer(None);
    assert_eq!(bed.cause(1), Some(Cause::Deleted));
}

#[test]
fn a_name_that_another_has_by_now_is_replaced() {
    let mut bed = Bed::watching(vec![pod("a", "u2", 50, &running())]);
    bed.subscribe(1, Target::Uid { namespace: "ns".into(), name: "a".into(), uid: "u1".into() }, 1);
    bed.answer(Some(pod("a", "u2", 50, &running())));
    assert_eq!(bed.cause(1), Some(Cause::Replaced));
}

#[test]
fn ones_own_deletion_is_nobodys_failure() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    bed.take(Input::OwnDeletion { id: 1 });
    bed.leave(pod("a", "u1", 101, &running()));
    assert_eq!(bed.cause(1), Some(Cause::OwnDeletion));
}

#[test]
fn a_scope_that_is_followed_has_a_report_for_each_uid() {
    let settings = Settings { follow_all: true, ..Settings::default() };
    let mut bed = Bed::watching(vec![]);
    bed.machine = Machine::new(Scope::namespace("ns"), settings);
    bed.take(Input::Tick);
    let mut bed = bed.opened(vec![pod("a", "u1", 50, &running()), pod("b", "u2", 51, &broken())]);
    bed.see(pod("a", "u3", 101, &running()));
    bed.pass(300);
    let uids: Vec<&str> = bed.reports.values().filter_map(|r| r.uid.as_deref()).collect();
    assert_eq!(uids, ["u1", "u2", "u3"]);
}

#[test]
fn nobody_is_told_what_is_no_news() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    bed.reports.clear();
    bed.see(pod("a", "u1", 50, &running()));
    bed.pass(10_000);
    assert!(bed.reports.is_empty());
}

//! With fewer rights: polling, or nothing at all.

use minke_core::judgement::Cause;

use super::{Bed, broken, pod, running};
use crate::machine::{Access, ApiFault, Input, Observer, Scope};

#[test]
fn without_lists_pods_are_asked_for_by_name() {
    let mut bed = Bed::new(Scope::namespace("ns"));
    bed.named(1, "a");
    bed.take(Input::Probed(Access::Get("not allowed to list pods".into())));
    bed.answer(Some(pod("a", "u1", 50, &running())));
    assert!(matches!(bed.reports[&1].observer, Observer::Polling(_)));
    bed.pass(3000);
    bed.answer(Some(pod("a", "u1", 51, &broken())));
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
    assert_eq!(bed.machine.counters().lists, 0);
}

#[test]
fn whoever_polls_a_cluster_that_does_not_answer_is_told_so_and_rests() {
    let mut bed = Bed::new(Scope::namespace("ns"));
    bed.named(1, "a");
    bed.take(Input::Probed(Access::Get("not allowed to list pods".into())));
    bed.answer(Some(pod("a", "u1", 50, &running())));
    for _ in 0..5 {
        bed.pass(3000);
        let fault = ApiFault::Unreachable("no route".into());
        bed.no_answer(fault);
    }
    assert_eq!(bed.reports[&1].observer, Observer::Stale);
    assert!(bed.machine.next_wake().is_none_or(|wake| wake > bed.at), "it asks to be woken at once, for ever");
    bed.answer(Some(pod("a", "u1", 51, &running())));
    assert!(matches!(bed.reports[&1].observer, Observer::Polling(_)));
    let fault = ApiFault::Unreachable("no route".into());
    bed.no_answer(fault);
    let fault = ApiFault::Denied("revoked".into());
    bed.no_answer(fault);
    bed.pass(20_000);
    assert_eq!(bed.reports[&1].observer, Observer::Blind("revoked".into()));
}

#[test]
fn with_nothing_allowed_it_says_so_and_asks_again_later() {
    let mut bed = Bed::new(Scope::namespace("ns"));
    bed.named(1, "a");
    bed.take(Input::Probed(Access::Nothing("not allowed to get pods".into())));
    assert_eq!(bed.reports[&1].observer, Observer::Blind("not allowed to get pods".into()));
    bed.pass(60_000);
    assert_eq!(bed.machine.counters().probes, 2);
}

#[test]
fn rights_that_are_taken_away_while_watching_degrade_to_polling() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    let (stream, _) = bed.stream();
    bed.take(Input::WatchFailed { stream, fault: ApiFault::Denied("revoked".into()) });
    assert_eq!(bed.machine.counters().probes, 2);
    bed.take(Input::Probed(Access::Get("revoked".into())));
    bed.answer(Some(pod("a", "u1", 51, &broken())));
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
}

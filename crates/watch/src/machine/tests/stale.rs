//! Answers that are older than what is known.

use minke_core::judgement::Cause;

use super::{Bed, broken, pod, running};
use crate::machine::{Action, ApiFault, Input, Scope, Target, Whereabouts};

#[test]
fn an_answer_from_before_a_subscription_says_nothing_about_it() {
    let mut bed = Bed::watching(vec![]);
    bed.named(1, "a");
    let asked = bed.actions.iter().rev().find_map(|a| if let Action::Get { ask, .. } = a { Some(*ask) } else { None });
    bed.subscribe(2, Target::Uid { namespace: "ns".into(), name: "a".into(), uid: "u9".into() }, 1);
    bed.take(Input::Got { ask: asked.unwrap(), namespace: "ns".into(), name: "a".into(), pod: None });
    assert_eq!(bed.cause(2), None);
    assert_eq!(bed.reports[&1].whereabouts, Whereabouts::Missing);
}

#[test]
fn an_answer_to_a_question_from_before_a_pod_was_created_does_not_delete_it() {
    let mut bed = Bed::watching(vec![]);
    bed.named(1, "a");
    // Asked for while there was nobody; created, and told by the watch; only then the answer.
    bed.see(pod("a", "u1", 101, &running()));
    bed.answer(None);
    assert_eq!(bed.cause(1), None);
    assert_eq!(bed.reports[&1].whereabouts, Whereabouts::Present);
}

#[test]
fn a_list_from_before_a_pod_was_seen_does_not_delete_it() {
    let mut bed = Bed::watching(vec![]);
    bed.named(1, "a");
    let (stream, _) = bed.stream();
    bed.take(Input::WatchFailed { stream, fault: ApiFault::Expired });
    bed.answer(Some(pod("a", "u1", 150, &running())));
    let ask = bed.ask();
    bed.take(Input::Listed { ask, pods: vec![], version: "140".to_owned() });
    assert_eq!(bed.cause(1), None);
}

#[test]
fn a_pod_whose_labels_change_is_not_deleted() {
    let labelled = pod("a", "u1", 50, &running());
    let mut bed = Bed::new(Scope::labelled("ns", "app=a")).opened(vec![labelled]);
    bed.named(1, "a");
    bed.leave(pod("a", "u1", 101, &running()));
    bed.answer(Some(pod("a", "u1", 101, &running())));
    assert_eq!(bed.cause(1), None);
    // It is followed by name from now on.
    bed.pass(3000);
    bed.answer(Some(pod("a", "u1", 110, &broken())));
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
}

#[test]
fn an_answer_that_the_watch_brings_a_moment_later_breaks_nothing() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    let first = bed.stream().0;
    bed.pass(5000);
    bed.answer(Some(pod("a", "u1", 130, &running())));
    bed.pass(500);
    bed.see(pod("a", "u1", 130, &running()));
    bed.pass(2000);
    assert_eq!(bed.stream().0, first);
}

#[test]
fn events_of_a_watch_that_is_over_change_nothing() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    let old = bed.stream().0;
    bed.relist(vec![pod("a", "u1", 150, &running())], "200");
    bed.take(Input::Gone { stream: old, pod: Box::new(pod("a", "u1", 60, &running())) });
    assert_eq!(bed.cause(1), None);
}

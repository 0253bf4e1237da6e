//! The way to the cluster: watches that are cut, silent or refused, and a cluster that is away.

use std::time::Duration;

use minke_core::judgement::Cause;

use super::{Bed, broken, pod, running};
use crate::machine::{Action, ApiFault, Input, Observer};

#[test]
fn a_stream_of_bookmarks_alone_is_a_sign_of_life_and_moves_the_version() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    for version in 101..120 {
        bed.pass(2000);
        let (stream, _) = bed.stream();
        bed.take(Input::Bookmark { stream, version: version.to_string() });
    }
    assert_eq!(bed.count(|a| matches!(a, Action::Get { .. })), 0);
    let (stream, _) = bed.stream();
    bed.take(Input::WatchEnded { stream });
    assert_eq!(bed.stream().1, "119");
    assert_eq!(bed.machine.counters().lists, 1);
}

#[test]
fn a_half_open_watch_is_found_in_seconds() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    let first = bed.stream().0;
    bed.pass(5000);
    bed.answer(Some(pod("a", "u1", 130, &broken())));
    // The Pod is judged by what was seen, and the watch is opened anew.
    assert_eq!(bed.cause(1), Some(Cause::InvalidImageName));
    bed.pass(1000);
    assert_ne!(bed.stream().0, first);
}

#[test]
fn a_watch_that_outlives_its_time_is_opened_anew() {
    let mut bed = Bed::watching(vec![]);
    let first = bed.stream().0;
    bed.pass(66_000);
    assert_ne!(bed.stream().0, first);
}

#[test]
fn a_version_that_is_too_old_is_a_list_and_a_cut_is_a_watch() {
    let mut bed = Bed::watching(vec![]);
    let (stream, _) = bed.stream();
    bed.pass(10_000);
    bed.take(Input::WatchFailed { stream, fault: ApiFault::Unreachable("cut".into()) });
    bed.pass(300);
    assert_eq!((bed.machine.counters().lists, bed.machine.counters().watches), (1, 2));
    bed.relist(vec![], "200");
    assert_eq!((bed.machine.counters().lists, bed.machine.counters().watches), (2, 3));
}

#[test]
fn too_many_requests_are_waited_for_as_long_as_the_server_asks() {
    let mut bed = Bed::watching(vec![]);
    let (stream, _) = bed.stream();
    bed.take(Input::WatchFailed { stream, fault: ApiFault::Throttled(Duration::from_secs(7)) });
    bed.pass(6999);
    assert_eq!(bed.machine.counters().watches, 1);
    bed.pass(1);
    assert_eq!(bed.machine.counters().watches, 2);
}

#[test]
fn an_unreachable_cluster_is_tried_with_back_off_and_said_to_be_stale() {
    let mut bed = Bed::watching(vec![pod("a", "u1", 50, &running())]);
    bed.named(1, "a");
    for _ in 0..12 {
        let (stream, _) = bed.stream();
        bed.take(Input::WatchFailed { stream, fault: ApiFault::Unreachable("no route".into()) });
        let ask = bed.actions.iter().rev().find_map(|a| if let Action::List { ask } = a { Some(*ask) } else { None });
        bed.take(Input::ListFailed { ask: ask.unwrap(), fault: ApiFault::Unreachable("no route".into()) });
        bed.pass(10_000);
    }
    assert_eq!(bed.reports[&1].observer, Observer::Stale);
    assert_eq!(bed.cause(1), None, "a pod fails because of nobody's network");
    let ask = bed.ask();
    bed.take(Input::Listed { ask, pods: vec![pod("a", "u1", 50, &running())], version: "300".to_owned() });
    assert_eq!(bed.reports[&1].observer, Observer::Current);
}

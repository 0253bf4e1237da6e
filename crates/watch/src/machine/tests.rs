//! Each defect that watchers are known for, as a test that would catch it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::{Cause, Now, Verdict};
use serde_json::{Value, json};

use super::*;

pub(super) fn now(moment: Duration) -> Now {
    let wall = Timestamp::from_second(1_790_000_000).unwrap();
    Now { moment, wall: wall.checked_add(SignedDuration::try_from(moment).unwrap()).unwrap() }
}

pub(super) fn pod(name: &str, uid: &str, version: u64, status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string(),
                     "managedFields": [{"manager": "m"}]},
        "spec": {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "app", "image": "i:1"}]},
        "status": status,
    }))
    .unwrap()
}

pub(super) fn state(phase: &str, state: &Value) -> Value {
    let ready = state.get("running").is_some();
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
           "containerStatuses": [{"name": "app", "image": "i:1", "imageID": "", "ready": ready, "restartCount": 0, "state": state}]})
}

pub(super) fn running() -> Value {
    state("Running", &json!({"running": {}}))
}

pub(super) fn waits(reason: &str, message: &str) -> Value {
    state("Pending", &json!({"waiting": {"reason": reason, "message": message}}))
}

fn broken() -> Value {
    waits("InvalidImageName", "bad")
}

/// A machine with a clock, a memory of its actions, and the newest report of each subscriber.
struct Bed {
    machine: Machine,
    at: Duration,
    actions: Vec<Action>,
    reports: BTreeMap<SubscriberId, Report>,
}

impl Bed {
    fn new(scope: Scope) -> Self {
        let settings = Settings { events_every: None, ..Settings::default() };
        let mut bed = Self {
            machine: Machine::new(scope, settings),
            at: Duration::ZERO,
            actions: Vec::new(),
            reports: BTreeMap::new(),
        };
        bed.take(Input::Tick);
        bed
    }

    /// One that watches a namespace in which there are these Pods.
    fn watching(pods: Vec<Pod>) -> Self {
        Self::new(Scope::namespace("ns")).opened(pods)
    }

    fn opened(mut self, pods: Vec<Pod>) -> Self {
        self.take(Input::Probed(Access::Watch));
        let ask = self.ask();
        self.take(Input::Listed { ask, pods, version: "100".to_owned() });
        self
    }

    fn take(&mut self, input: Input) {
        for action in self.machine.handle(input, now(self.at)) {
            if let Action::Publish { id, report } = action {
                self.reports.insert(id, *report);
            } else {
                self.actions.push(action);
            }
        }
    }

    /// Lets time pass, waking the machine whenever it wants.
    fn pass(&mut self, millis: u64) {
        let end = self.at + Duration::from_millis(millis);
        while let Some(wake) = self.machine.next_wake().filter(|wake| *wake <= end) {
            self.at = self.at.max(wake);
            self.take(Input::Tick);
        }
        self.at = end;
        self.take(Input::Tick);
    }

    fn subscribe(&mut self, id: SubscriberId, target: Target, attempt: u32) {
        self.take(Input::Subscribe { id, target, attempt });
    }

    fn named(&mut self, id: SubscriberId, name: &str) {
        self.subscribe(id, Target::named("ns", name), 1);
    }

    fn ask(&self) -> u64 {
        self.actions.iter().rev().find_map(|a| if let Action::List { ask } = a { Some(*ask) } else { None }).unwrap()
    }

    fn stream(&self) -> (u64, String) {
        let watch = |a: &Action| {
            if let Action::Watch { stream, version } = a { Some((*stream, version.clone())) } else { None }
        };
        self.actions.iter().rev().find_map(watch).unwrap()
    }

    fn see(&mut self, pod: Pod) {
        let stream = self.stream().0;
        self.take(Input::Seen { stream, pod: Box::new(pod) });
    }

    fn leave(&mut self, pod: Pod) {
        let stream = self.stream().0;
        self.take(Input::Gone { stream, pod: Box::new(pod) });
    }

    /// Answers the newest question for a Pod by name.
    fn answer(&mut self, pod: Option<Pod>) {
        let newest = self.actions.iter().rev().find(|a| matches!(a, Action::Get { .. })).cloned();
        let Some(Action::Get { ask, namespace, name }) = newest else {
            panic!("nothing was asked: {:?}", self.actions)
        };
        self.take(Input::Got { ask, namespace, name, pod: pod.map(Box::new) });
    }

    /// Nothing comes back for the Pod `a`.
    fn no_answer(&mut self, fault: ApiFault) {
        let (namespace, name) = ("ns".to_owned(), "a".to_owned());
        self.take(Input::GetFailed { ask: 0, namespace, name, fault });
    }

    fn relist(&mut self, pods: Vec<Pod>, version: &str) {
        let (stream, _) = self.stream();
        self.take(Input::WatchFailed { stream, fault: ApiFault::Expired });
        let ask = self.ask();
        self.take(Input::Listed { ask, pods, version: version.to_owned() });
    }

    fn cause(&mut self, id: SubscriberId) -> Option<Cause> {
        self.pass(300);
        match &self.reports.get(&id)?.verdict {
            Some(Verdict::Failed(failure)) => Some(failure.cause),
            _ => None,
        }
    }

    fn count(&self, of: fn(&Action) -> bool) -> usize {
        self.actions.iter().filter(|action| of(action)).count()
    }
}

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
fn a_watch_that_outlives_its_time_is_opened_anew() {
    let mut bed = Bed::watching(vec![]);
    let first = bed.stream().0;
    bed.pass(66_000);
    assert_ne!(bed.stream().0, first);
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

#![expect(clippy::needless_pass_by_value, reason = "json! literals read best as arguments")]

use std::sync::Arc;

use minke_core::manifest::Origin;
use minke_core::runtime::error_chain;
use minke_kubelet::PodTimings;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn group(names: &[&str], parallelism: usize) -> PodGroup {
    PodGroup {
        origin: Origin::Job,
        namespace: "default".to_owned(),
        name: "job".to_owned(),
        pods: names.iter().map(|name| pod(name, json!({}))).collect(),
        parallelism,
    }
}

fn pod(name: &str, status: serde_json::Value) -> Arc<Pod> {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]});
    let meta = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}")});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": status})).unwrap())
}

fn begun() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

fn uid(name: &str) -> PodUid {
    PodUid::new(format!("uid-{name}")).unwrap()
}

fn report(name: &str, phase: &str, state: serde_json::Value, stage: PodStage) -> PodReport {
    let status = json!({"phase": phase, "containerStatuses": [
        {"name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": state}]});
    PodReport { pod: pod(name, status), stage, timings: PodTimings::default() }
}

fn running(name: &str) -> Input {
    Input::Changed(report(name, "Running", json!({"running": {}}), PodStage::Syncing))
}

fn ended(name: &str, code: i32) -> Input {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    Input::Changed(report(name, phase, json!({"terminated": {"exitCode": code}}), PodStage::Finished))
}

fn accepted(names: &[&str]) -> Input {
    Input::Admitted(names.iter().map(|n| (uid(n), Admission::Accepted)).collect())
}

fn session(names: &[&str], until: Until, foreground: bool) -> Session {
    let mut session = Session::new(&[group(names, names.len())], Wish { until, foreground }, begun());
    assert_eq!(session.begin(), [Effect::Apply(names.iter().map(|n| uid(n)).collect())]);
    assert_eq!(session.step(accepted(names)), []);
    session
}

fn stopped(effects: &[Effect]) -> Option<(Vec<PodUid>, Option<Duration>)> {
    effects.iter().find_map(|e| match e {
        Effect::Stop { uids, grace } => Some((uids.clone(), *grace)),
        Effect::Apply(_) | Effect::Say(_) | Effect::End(_) => None,
    })
}

#[test]
fn it_ends_when_all_run() {
    let mut session = session(&["a", "b"], Until::Running, false);
    assert_eq!(session.step(running("a")), []);
    assert_eq!(session.step(running("b")), [Effect::End(Exit::Reached)]);
}

#[test]
fn in_the_foreground_it_stays_and_ends_with_the_pods() {
    let mut session = session(&["a"], Until::Running, true);
    assert_eq!(session.step(running("a")), []);
    assert!(!session.is_waiting());
    assert_eq!(session.step(ended("a", 3)), [Effect::End(Exit::ContainerFailed)]);
}

#[test]
fn a_time_out_leaves_pods_alone_in_the_background_and_stops_them_in_the_foreground() {
    let mut background = session(&["a"], Until::Running, false);
    assert_eq!(background.step(Input::TimedOut), [Effect::End(Exit::Timeout)]);

    let mut foreground = session(&["a"], Until::Running, true);
    assert_eq!(stopped(&foreground.step(Input::TimedOut)), Some((vec![uid("a")], None)));
    assert_eq!(foreground.step(ended("a", 143)), [Effect::End(Exit::Timeout)]);
}

#[test]
fn a_time_out_after_the_goal_is_nothing() {
    let mut session = session(&["a"], Until::Running, true);
    assert_eq!(session.step(running("a")), []);
    assert_eq!(session.step(Input::TimedOut), []);
}

#[test]
fn interrupt_stops_twice_kills_and_a_third_gives_up() {
    let mut session = session(&["a", "b"], Until::Completed, false);
    assert_eq!(session.step(ended("b", 0)), []);
    assert_eq!(stopped(&session.step(Input::Interrupt(2))), Some((vec![uid("a")], None)));
    assert_eq!(stopped(&session.step(Input::Interrupt(2))), Some((vec![uid("a")], Some(Duration::ZERO))));
    assert_eq!(session.step(Input::Interrupt(2)), [Effect::End(Exit::Interrupted(2))]);
}

#[test]
fn after_an_interrupt_it_waits_until_all_have_stopped() {
    let mut session = session(&["a"], Until::Running, false);
    assert!(stopped(&session.step(Input::Interrupt(15))).is_some());
    let stopping = report("a", "Failed", json!({"terminated": {"exitCode": 143}}), PodStage::Terminating);
    assert_eq!(session.step(Input::Changed(stopping)), []);
    assert_eq!(session.step(ended("a", 143)), [Effect::End(Exit::Interrupted(15))]);
}

#[test]
fn only_what_this_command_started_is_stopped() {
    let mut session =
        Session::new(&[group(&["a", "b", "c"], 3)], Wish { until: Until::Running, foreground: false }, begun());
    let _ = session.begin();
    let answers =
        vec![(uid("a"), Admission::Unchanged), (uid("b"), Admission::Accepted), (uid("c"), Admission::Accepted)];
    assert_eq!(session.step(Input::Admitted(answers)), []);
    assert_eq!(session.step(ended("c", 0)), []);
    assert_eq!(stopped(&session.step(Input::Interrupt(2))), Some((vec![uid("b")], None)));
}

#[test]
fn a_pod_that_runs_already_is_as_it_was_reported_before_the_answer() {
    let mut session = Session::new(&[group(&["a"], 1)], Wish { until: Until::Running, foreground: false }, begun());
    assert_eq!(session.step(running("a")), [Effect::Apply(vec![uid("a")])]);
    assert_eq!(session.step(Input::Admitted(vec![(uid("a"), Admission::Unchanged)])), [Effect::End(Exit::Reached)]);
}

#[test]
fn a_pod_that_is_there_because_a_lost_answer_started_it_is_ours() {
    let mut session = Session::new(&[group(&["a"], 1)], Wish { until: Until::Running, foreground: false }, begun());
    let _ = session.begin();
    assert_eq!(session.step(Input::All(vec![])), [Effect::Apply(vec![uid("a")])], "the agent died: offered again");
    assert_eq!(session.step(Input::Admitted(vec![(uid("a"), Admission::Unchanged)])), []);
    assert_eq!(stopped(&session.step(Input::Interrupt(2))), Some((vec![uid("a")], None)));
}

#[test]
fn a_pod_that_a_lost_answer_ran_to_its_end_is_not_run_again() {
    let mut session = Session::new(&[group(&["a"], 1)], Wish { until: Until::Completed, foreground: false }, begun());
    let _ = session.begin();
    let mut done = report("a", "Succeeded", json!({"terminated": {"exitCode": 0}}), PodStage::Finished);
    done.timings.admitted_at = Some(Timestamp::from_second(1_001).unwrap());
    assert_eq!(session.step(Input::All(vec![done])), [Effect::End(Exit::Reached)]);
}

#[test]
fn what_an_earlier_run_left_does_not_count() {
    let mut session = Session::new(&[group(&["a"], 1)], Wish { until: Until::Completed, foreground: false }, begun());
    let _ = session.begin();
    assert_eq!(session.step(ended("a", 3)), []);
    assert_eq!(session.step(Input::Removed(uid("a"))), []);
    assert_eq!(session.step(accepted(&["a"])), []);
    assert_eq!(session.step(ended("a", 0)), [Effect::End(Exit::Reached)]);
}

#[test]
fn a_new_agent_is_told_again_to_stop() {
    let mut session = session(&["a"], Until::Completed, false);
    let _ = session.step(Input::Interrupt(2));
    let all = |name| match running(name) {
        Input::Changed(report) => Input::All(vec![report]),
        other => other,
    };
    assert_eq!(stopped(&session.step(all("a"))), Some((vec![uid("a")], None)));
    let _ = session.step(Input::Interrupt(2));
    assert_eq!(stopped(&session.step(all("a"))), Some((vec![uid("a")], Some(Duration::ZERO))));
}

#[test]
fn an_interrupt_before_the_agent_has_answered_waits_for_the_answer() {
    let mut session = Session::new(&[group(&["a"], 1)], Wish { until: Until::Running, foreground: false }, begun());
    let _ = session.begin();
    assert_eq!(session.step(Input::Interrupt(2)), []);
    assert_eq!(stopped(&session.step(accepted(&["a"]))), Some((vec![uid("a")], None)));
    assert_eq!(session.step(ended("a", 143)), [Effect::End(Exit::Interrupted(2))]);
}

#[test]
fn a_rejection_ends_it_with_its_code() {
    let mut session = Session::new(&[group(&["a"], 1)], Wish { until: Until::Running, foreground: false }, begun());
    let _ = session.begin();
    let rejected = Admission::Rejected { reason: "OutOfcpu".to_owned(), message: "no".to_owned() };
    let effects = session.step(Input::Admitted(vec![(uid("a"), rejected)]));
    assert_eq!(effects, [Effect::End(Exit::Rejected)]);
}

#[test]
fn a_new_agent_that_does_not_know_a_pod_means_that_it_was_removed() {
    let mut session = session(&["a"], Until::Completed, false);
    assert_eq!(session.step(running("a")), []);
    assert_eq!(session.step(Input::All(vec![])), [Effect::End(Exit::System)]);
}

#[test]
fn a_job_runs_in_waves() {
    let names = ["a", "b", "c"];
    let mut session = Session::new(&[group(&names, 2)], Wish { until: Until::Completed, foreground: false }, begun());
    assert_eq!(session.begin(), [Effect::Apply(vec![uid("a"), uid("b")])]);
    assert_eq!(session.step(accepted(&["a", "b"])), []);
    assert_eq!(session.step(running("a")), []);
    assert_eq!(session.step(ended("b", 0)), [Effect::Apply(vec![uid("c")])]);
    assert_eq!(session.step(accepted(&["c"])), []);
    assert_eq!(session.step(ended("c", 0)), []);
    assert_eq!(session.step(ended("a", 0)), [Effect::End(Exit::Reached)]);
}

#[test]
fn running_is_not_reached_while_pods_of_a_job_wait_for_their_turn() {
    let mut session =
        Session::new(&[group(&["a", "b"], 1)], Wish { until: Until::Running, foreground: false }, begun());
    let _ = session.begin();
    let _ = session.step(accepted(&["a"]));
    assert_eq!(session.step(running("a")), []);
    assert_eq!(session.step(ended("a", 0)), [Effect::Apply(vec![uid("b")])]);
    let _ = session.step(accepted(&["b"]));
    assert_eq!(session.step(running("b")), [Effect::End(Exit::Reached)]);
}

#[test]
fn no_pod_is_handed_over_after_an_interrupt() {
    let mut session =
        Session::new(&[group(&["a", "b"], 1)], Wish { until: Until::Completed, foreground: false }, begun());
    let _ = session.begin();
    let _ = session.step(accepted(&["a"]));
    let _ = session.step(Input::Interrupt(2));
    assert_eq!(session.step(ended("a", 143)), [Effect::End(Exit::Interrupted(2))]);
}

#[test]
fn sandbox_failures_that_repeat_end_it() {
    let mut session = session(&["a"], Until::Running, false);
    let event = Input::Progress(Progress::Event {
        pod: uid("a"),
        container: None,
        reason: "FailedCreatePodSandBox".to_owned(),
        message: "no cgroup".to_owned(),
        warning: true,
    });
    assert_eq!(session.step(event.clone()), []);
    assert_eq!(session.step(event.clone()), []);
    assert_eq!(session.step(event), [Effect::End(Exit::System)]);
}

#[test]
fn a_runtime_that_is_away_is_no_failure_of_the_pod() {
    let mut session = session(&["a"], Until::Running, false);
    let event = |message: &str| {
        Input::Progress(Progress::Event {
            pod: uid("a"),
            container: None,
            reason: "FailedCreatePodSandBox".to_owned(),
            message: message.to_owned(),
            warning: true,
        })
    };
    let away = RuntimeError::Unavailable { operation: "run sandbox", source: "connection refused".into() };
    let words = format!("Failed to create pod sandbox: {}", error_chain(&away));
    for _ in 0..20 {
        assert_eq!(session.step(event(&words)), []);
    }
    assert_eq!(session.step(event("no cgroup")), []);
    assert_eq!(session.step(event(&words)), []);
    assert_eq!(session.step(event("no cgroup")), []);
    assert_eq!(session.step(event("no cgroup")), [Effect::End(Exit::System)], "others still are");
}

#[derive(Debug, Clone)]
enum Act {
    Run(usize),
    End(usize, i32),
    Remove(usize),
    Interrupt,
    TimeOut,
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0_usize..5).prop_map(Act::Run),
        6 => (0_usize..5, 0_i32..2).prop_map(|(i, code)| Act::End(i, code)),
        1 => (0_usize..5).prop_map(Act::Remove),
        1 => Just(Act::Interrupt),
        1 => Just(Act::TimeOut),
    ]
}

proptest! {
    /// A small agent plays against the session at random. Never more Pods of the group are unfinished than its
    /// parallelism allows, none is handed over twice, and the session ends exactly once.
    #[test]
    fn waves_and_endings_hold_under_any_history(
        acts in prop::collection::vec(any_act(), 0..60),
        parallelism in 1_usize..4,
        foreground in any::<bool>(),
        completed in any::<bool>(),
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let until = if completed { Until::Completed } else { Until::Running };
        let mut session = Session::new(&[group(&names, parallelism)], Wish { until, foreground }, begun());
        let mut live: Vec<&str> = Vec::new();
        let mut handed: HashSet<PodUid> = HashSet::new();
        let mut endings = 0;
        let mut pending = session.begin();
        let mut acts = acts.into_iter();
        loop {
            while !pending.is_empty() {
                let mut next = Vec::new();
                for effect in pending {
                    match effect {
                        Effect::Apply(uids) => {
                            prop_assert_eq!(endings, 0);
                            for uid in &uids {
                                prop_assert!(handed.insert(uid.clone()), "handed over twice");
                                live.push(names.iter().find(|n| uid.as_str() == format!("uid-{n}")).unwrap());
                            }
                            prop_assert!(live.len() <= parallelism);
                            let answers = uids.into_iter().map(|uid| (uid, Admission::Accepted)).collect();
                            next.extend(session.step(Input::Admitted(answers)));
                        }
                        Effect::Stop { uids, .. } => prop_assert!(uids.iter().all(|uid| handed.contains(uid))),
                        Effect::Say(_) => {}
                        Effect::End(_) => endings += 1,
                    }
                }
                pending = next;
            }
            let Some(act) = acts.next() else { break };
            pending = match act {
                Act::Run(i) | Act::End(i, _) | Act::Remove(i) if !live.contains(&names[i]) => vec![],
                Act::Run(i) => session.step(running(names[i])),
                Act::End(i, code) => {
                    live.retain(|n| *n != names[i]);
                    session.step(ended(names[i], code))
                }
                Act::Remove(i) => {
                    live.retain(|n| *n != names[i]);
                    session.step(Input::Removed(uid(names[i])))
                }
                Act::Interrupt => session.step(Input::Interrupt(2)),
                Act::TimeOut => session.step(Input::TimedOut),
            };
        }
        prop_assert!(endings <= 1, "ended {endings} times");
        if live.is_empty() && handed.len() == names.len() {
            prop_assert_eq!(endings, 1, "everything is over and it does not end");
        }
    }
}

//! Pods of an earlier agent, admitted again.

use std::collections::BTreeMap;

use minke_core::resources::Amount;
use serde_json::json;

use super::*;
use crate::DesiredPod;
use crate::admission::Machine;
use crate::checkpoint::SavedState;
use crate::kubelet::admit::MachineAdmission;

fn saved(name: &str, cpu: &str, priority: i32, second: i64) -> SavedPod {
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"priority": priority, "terminationGracePeriodSeconds": 7,
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }));
    let mut state = SavedState { lifecycle: SavedLifecycle::Syncing, ..SavedState::default() };
    state.timings.admitted_at = Some(Timestamp::from_second(second).unwrap());
    let desired = DesiredPod { pod: Arc::new(pod.unwrap()), objects: Arc::default() };
    SavedPod { uid: PodUid::new(name).unwrap(), desired, state }
}

fn machine(cpu: &str) -> MachineAdmission {
    let allocatable = [("cpu".to_owned(), Amount::parse(cpu).unwrap())].into();
    MachineAdmission { machine: Machine { name: "here".to_owned(), allocatable, max_pods: 9, labels: BTreeMap::new() } }
}

async fn outcome(pods: Vec<SavedPod>, cpu: &str) -> Vec<(String, Option<String>)> {
    let reason = |p: &SavedPod| match &p.state.lifecycle {
        SavedLifecycle::Syncing => None,
        SavedLifecycle::Terminating { cause, .. }
        | SavedLifecycle::Terminated { cause, .. }
        | SavedLifecycle::Finished { cause } => cause.failure().map(|f| f.reason.clone()),
    };
    let pods = admit_again(pods, &machine(cpu)).await;
    pods.iter().map(|p| (p.uid.to_string(), reason(p))).collect()
}

#[tokio::test]
async fn those_that_came_first_stay_when_the_machine_shrank() {
    let pods = || vec![saved("third", "1", 0, 30), saved("first", "1", 0, 10), saved("second", "1", 0, 20)];
    let all = |reasons: [Option<&str>; 3]| {
        let names = ["first", "second", "third"].into_iter();
        names.zip(reasons).map(|(n, r)| (n.to_owned(), r.map(str::to_owned))).collect::<Vec<_>>()
    };
    assert_eq!(outcome(pods(), "3").await, all([None, None, None]));
    assert_eq!(outcome(pods(), "2").await, all([None, None, Some("OutOfcpu")]));
}

#[tokio::test]
async fn one_that_is_ending_counts_until_nothing_of_it_runs() {
    let mut ending = saved("ending", "1", 0, 40);
    let cause = Cause::Stopped;
    ending.state.lifecycle = SavedLifecycle::Terminating { cause, grace: Duration::from_secs(1), then: Then::Remove };
    let mut done = saved("done", "1", 0, 5);
    done.state.lifecycle = SavedLifecycle::Finished { cause: Cause::Completed };
    let found = outcome(vec![ending, done, saved("new", "1", 0, 50)], "1").await;
    assert_eq!(found[2], ("new".to_owned(), Some("OutOfcpu".to_owned())));
    assert_eq!(found[0].1, None);
}

#[tokio::test]
async fn a_critical_one_takes_the_place_of_another() {
    let pods = vec![saved("ordinary", "1", 0, 10), saved("critical", "1", 2_000_000_000, 20)];
    let found = outcome(pods, "1").await;
    assert_eq!(found, [("ordinary".to_owned(), Some("Preempting".to_owned())), ("critical".to_owned(), None)]);
}

//! Whatever happens to lists, watches and questions: in the end the verdict is that of an observer with perfect sight.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::{Cause, History, Policy, Presence, Sight, Verdict, judge};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{now, pod, running, state, waits};
use super::*;

/// What happens to one name: states with how long each lasts, in milliseconds; `None`: there is no Pod.
type Life = Vec<(Option<(&'static str, Value)>, u64)>;

fn lives() -> Vec<Life> {
    let creating = || waits("ContainerCreating", "");
    let up = |status: Value| Some(("u1", status));
    let ended = |code: i32, reason: &str, phase: &str| {
        state(phase, &json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-09-21T14:13:21Z"}}))
    };
    let disrupted = || {
        let mut status = running();
        status["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
        status
    };
    vec![
        vec![(up(creating()), 700), (up(running()), 1)],
        vec![(up(creating()), 300), (up(waits("ErrImagePull", "manifest unknown")), 1)],
        vec![(up(creating()), 300), (up(waits("ErrImagePull", "dial tcp: x")), 9000), (up(running()), 1)],
        vec![
            (up(waits("ErrImagePull", "dial tcp: x")), 10_000),
            (up(waits("ImagePullBackOff", "Back-off: dial tcp: x")), 1),
        ],
        vec![(up(running()), 5000), (up(ended(1, "Error", "Failed")), 1)],
        vec![(up(running()), 5000), (up(ended(137, "OOMKilled", "Failed")), 1)],
        vec![(up(running()), 5000), (up(ended(0, "Completed", "Succeeded")), 1)],
        vec![(up(running()), 8000), (None, 1)],
        vec![(up(running()), 4000), (None, 2000), (Some(("u2", running())), 1)],
        vec![(up(running()), 4000), (Some(("u2", waits("InvalidImageName", ""))), 1)],
        vec![(up(disrupted()), 6000), (up(running()), 1)],
        vec![(up(creating()), 2000), (None, 1)],
        vec![(up(waits("Brandnew", "")), 1)],
    ]
}

#[derive(Debug)]
struct Change {
    at: Duration,
    version: u64,
    name: String,
    pod: Option<Pod>,
    /// Who left, when somebody did.
    left: Option<Pod>,
}

fn world(chosen: &[usize]) -> Vec<Change> {
    let all = lives();
    let mut changes = Vec::new();
    for (place, index) in chosen.iter().enumerate() {
        let name = format!("p{place}");
        let mut at = Duration::from_millis(100 + 37 * place as u64);
        let mut before: Option<Pod> = None;
        for (what, lasts) in &all[index % all.len()] {
            let next = what.as_ref().map(|(uid, status)| pod(&name, &format!("{uid}-{place}"), 0, status));
            let same = before.as_ref().zip(next.as_ref()).is_some_and(|(a, b)| a.metadata.uid == b.metadata.uid);
            if before.is_some() && !same {
                changes.push(Change { at, version: 0, name: name.clone(), pod: None, left: before.clone() });
            }
            if next.is_some() {
                changes.push(Change { at, version: 0, name: name.clone(), pod: next.clone(), left: None });
            }
            before = next;
            at += Duration::from_millis(*lasts);
        }
    }
    changes.sort_by_key(|change| change.at);
    for (place, change) in changes.iter_mut().enumerate() {
        change.version = 10 + place as u64;
        for pod in change.pod.iter_mut().chain(change.left.iter_mut()) {
            pod.metadata.resource_version = Some(change.version.to_string());
        }
    }
    changes
}

/// What is so at a moment.
fn snapshot(world: &[Change], at: Duration) -> (BTreeMap<String, Pod>, u64) {
    let mut pods = BTreeMap::new();
    let mut version = 1;
    for change in world.iter().take_while(|change| change.at <= at) {
        version = change.version;
        match &change.pod {
            Some(pod) => pods.insert(change.name.clone(), pod.clone()),
            None => pods.remove(&change.name),
        };
    }
    (pods, version)
}

/// In what it may rightly differ, an imperfect observer agrees: who is gone and who was replaced.
fn essence(verdict: Option<&Verdict>) -> String {
    match verdict {
        None => "nothing".to_owned(),
        Some(Verdict::Failed(failure)) if matches!(failure.cause, Cause::Deleted | Cause::Replaced) => {
            "gone".to_owned()
        }
        Some(Verdict::Failed(failure)) => failure.cause.to_string(),
        Some(Verdict::Succeeded) => "succeeded".to_owned(),
        Some(Verdict::Healthy(_)) => "healthy".to_owned(),
        Some(Verdict::Waiting { .. }) => "waiting".to_owned(),
        Some(Verdict::Doomed { .. }) => "doomed".to_owned(),
    }
}

/// The verdict on the first uid of a name, by someone who misses nothing.
fn perfect(world: &[Change], name: &str, end: Duration) -> String {
    let mut history = History::default();
    let mut seen: Option<(Pod, Presence)> = None;
    let mut verdict = None;
    let mut look = |seen: &Option<(Pod, Presence)>, at: Duration, until: Duration| {
        let Some((pod, presence)) = seen else { return };
        let mut at = at;
        loop {
            let sight = Sight { presence: *presence, ..Sight::of(pod) };
            let judged = judge(&sight, &Policy::default(), history.clone(), now(at));
            history = judged.history;
            let next = judged.verdict.until().filter(|next| *next < until);
            verdict = Some(judged.verdict);
            match next {
                Some(next) => at = next,
                None => return,
            }
        }
    };
    let mine: Vec<&Change> = world.iter().filter(|change| change.name == name).collect();
    for (place, change) in mine.iter().enumerate() {
        let until = mine.get(place + 1).map_or(end, |next| next.at);
        match (&mut seen, &change.pod) {
            (None, Some(pod)) => seen = Some((pod.clone(), Presence::Here)),
            (Some((known, presence)), Some(pod)) if known.metadata.uid == pod.metadata.uid => {
                (*known, *presence) = (pod.clone(), Presence::Here);
            }
            (Some((_, presence)), _) => *presence = Presence::Gone,
            (None, None) => {}
        }
        look(&seen, change.at, until);
    }
    essence(verdict.as_ref())
}

/// What goes wrong with the questions, one number each, in turn.
struct Faults {
    numbers: Vec<u8>,
    next: usize,
}

impl Faults {
    fn draw(&mut self, at: Duration, calm: Duration) -> u8 {
        if at >= calm || self.numbers.is_empty() {
            return 255;
        }
        self.next += 1;
        self.numbers[self.next % self.numbers.len()]
    }
}

fn watch_inputs(world: &[Change], stream: u64, from: u64, at: Duration, fault: u8) -> Vec<(Duration, Input)> {
    let mut inputs = Vec::new();
    let soon = Duration::from_millis(20);
    let opened = at + soon;
    let expires = opened + Duration::from_secs(60);
    // Silent from there on; cut there; or as it should be.
    let (end, dies) = match fault {
        0..30 => (at + Duration::from_millis(u64::from(fault) * 150), None),
        30..60 => {
            let cut = at + Duration::from_millis(u64::from(fault) * 100);
            (cut, Some((cut, Input::WatchFailed { stream, fault: ApiFault::Unreachable("cut".into()) })))
        }
        60..75 => (at, Some((opened, Input::WatchFailed { stream, fault: ApiFault::Expired }))),
        75..85 => {
            (at, Some((opened, Input::WatchFailed { stream, fault: ApiFault::Throttled(Duration::from_secs(2)) })))
        }
        85..95 => (at, Some((opened, Input::WatchEnded { stream }))),
        _ => (expires, Some((expires, Input::WatchEnded { stream }))),
    };
    for change in world.iter().filter(|change| change.version > from) {
        let told = change.at.max(opened) + soon;
        if told >= end {
            break;
        }
        let input = match (&change.pod, &change.left) {
            (Some(pod), _) => Input::Seen { stream, pod: Box::new(pod.clone()) },
            (None, Some(pod)) => Input::Gone { stream, pod: Box::new(pod.clone()) },
            (None, None) => continue,
        };
        inputs.push((told, input));
    }
    inputs.extend(dies);
    inputs
}

fn answers(world: &[Change], action: &Action, at: Duration, fault: u8) -> Vec<(Duration, Input)> {
    let later = at + Duration::from_millis(10 + u64::from(fault) * 3);
    match action {
        Action::Probe => vec![(later, Input::Probed(Access::Watch))],
        Action::List { ask } => match fault {
            0..25 => vec![],
            25..60 => vec![(later, Input::ListFailed { ask: *ask, fault: ApiFault::Unreachable("x".into()) })],
            _ => {
                // The list is as of now and arrives later.
                let (pods, version) = snapshot(world, at);
                vec![(
                    later,
                    Input::Listed { ask: *ask, pods: pods.into_values().collect(), version: version.to_string() },
                )]
            }
        },
        Action::Watch { stream, version } => watch_inputs(world, *stream, version.parse().unwrap(), at, fault),
        Action::Get { ask, namespace, name } => match fault {
            0..20 => vec![],
            20..50 => vec![(
                later,
                Input::GetFailed {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    fault: ApiFault::Unreachable("x".into()),
                },
            )],
            _ => {
                let pod = snapshot(world, at).0.remove(name).map(Box::new);
                vec![(later, Input::Got { ask: *ask, namespace: namespace.clone(), name: name.clone(), pod })]
            }
        },
        Action::Events { .. } | Action::Node { .. } | Action::Count { .. } | Action::Publish { .. } => vec![],
    }
}

fn simulate(world: &[Change], names: usize, faults: Vec<u8>, subscribe_at: u64) -> Vec<String> {
    let calm = Duration::from_secs(40);
    let end = Duration::from_secs(300);
    let mut faults = Faults { numbers: faults, next: 0 };
    let mut machine = Machine::new(Scope::namespace("ns"), Settings::default());
    let mut queue: BTreeMap<(Duration, u64), Input> = BTreeMap::new();
    let mut number = 0;
    for place in 0..names {
        let target = Target::Uid { namespace: "ns".into(), name: format!("p{place}"), uid: format!("u1-{place}") };
        // A uid is known once there is a Pod.
        let at = Duration::from_millis(140 + 37 * place as u64 + subscribe_at);
        queue.insert((at, place as u64), Input::Subscribe { id: place as u64, target, attempt: 1 });
        number += 1;
    }
    queue.insert((Duration::ZERO, number), Input::Tick);
    let mut verdicts: BTreeMap<SubscriberId, Option<Verdict>> = BTreeMap::new();
    let mut steps = 0;
    let mut at = Duration::ZERO;
    loop {
        steps += 1;
        assert!(steps < 200_000, "it does not come to rest");
        let queued = queue.first_key_value().map(|((at, _), _)| *at);
        let wake = machine.next_wake().map(|wake| wake.max(at));
        let input = match (queued, wake) {
            (Some(queued), wake) if wake.is_none_or(|wake| queued <= wake) => {
                at = at.max(queued);
                queue.pop_first().map(|(_, input)| input)
            }
            (_, Some(wake)) => {
                at = wake;
                Some(Input::Tick)
            }
            (_, None) => None,
        };
        let Some(input) = input.filter(|_| at <= end) else { break };
        for action in machine.handle(input, now(at)) {
            if let Action::Publish { id, report } = action {
                verdicts.insert(id, report.verdict);
                continue;
            }
            for (when, input) in answers(world, &action, at, faults.draw(at, calm)) {
                number += 1;
                queue.insert((when, number), input);
            }
        }
    }
    (0..names).map(|place| essence(verdicts.get(&(place as u64)).and_then(Option::as_ref))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_verdict_is_that_of_perfect_sight(
        chosen in prop::collection::vec(0..64_usize, 1..6),
        faults in prop::collection::vec(any::<u8>(), 0..40),
        subscribe_at in 0..6000_u64,
    ) {
        let world = world(&chosen);
        let found = simulate(&world, chosen.len(), faults, subscribe_at);
        for (place, found) in found.iter().enumerate() {
            let perfect = perfect(&world, &format!("p{place}"), Duration::from_secs(300));
            prop_assert_eq!(found, &perfect, "p{} of life {}", place, chosen[place] % lives().len());
        }
    }
}

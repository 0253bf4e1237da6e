//! What happens in the cluster, and what someone who misses nothing makes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::{Cause, History, Policy, Presence, Sight, Verdict, judge};
use serde_json::{Value, json};

use crate::machine::tests::{now, pod, running, state, waits};

/// What is so of one name for a while.
#[derive(Debug, Clone)]
pub(super) enum Spell {
    /// A Pod with this uid and status.
    Here(&'static str, Value),
    /// The same, with labels that the scope does not select.
    Outside(&'static str, Value),
    /// No Pod.
    Nobody,
}

/// What happens to one name: spells with how long each lasts, in milliseconds; the last lasts for ever.
pub(super) type Life = Vec<(Spell, u64)>;

pub(super) fn lives() -> Vec<Life> {
    let creating = || waits("ContainerCreating", "");
    let up = |status: Value| Spell::Here("u1", status);
    let outside = |status: Value| Spell::Outside("u1", status);
    let nobody = || Spell::Nobody;
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
        vec![(up(running()), 8000), (nobody(), 1)],
        vec![(up(running()), 4000), (nobody(), 2000), (Spell::Here("u2", running()), 1)],
        vec![(up(running()), 4000), (Spell::Here("u2", waits("InvalidImageName", "")), 1)],
        vec![(up(disrupted()), 6000), (up(running()), 1)],
        vec![(up(creating()), 2000), (nobody(), 1)],
        vec![(up(waits("Brandnew", "")), 1)],
        // Labels change: it leaves the scope, and what becomes of it there counts.
        vec![(up(creating()), 1500), (outside(running()), 1)],
        vec![(up(running()), 3000), (outside(running()), 4000), (outside(waits("InvalidImageName", "")), 1)],
        vec![(up(running()), 3000), (outside(running()), 2000), (up(ended(3, "Error", "Failed")), 1)],
        vec![(up(running()), 3000), (outside(running()), 6000), (nobody(), 1)],
        vec![(up(running()), 2000), (outside(running()), 3000), (Spell::Here("u2", running()), 1)],
    ]
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) at: Duration,
    pub(super) version: u64,
    pub(super) name: String,
    pub(super) pod: Option<Pod>,
    /// Whether the scope's selector has the Pod.
    pub(super) inside: bool,
    /// Who left the cluster, or the scope, and whether the scope had it before.
    pub(super) left: Option<(Pod, bool)>,
}

/// The changes of these lives, one a name, in the order in which they happen.
pub(super) fn world(chosen: &[usize]) -> Vec<Change> {
    let all = lives();
    let mut changes = Vec::new();
    for (place, index) in chosen.iter().enumerate() {
        let name = format!("p{place}");
        let mut at = Duration::from_millis(100 + 37 * place as u64);
        let mut before: Option<(Pod, bool)> = None;
        for (spell, lasts) in &all[index % all.len()] {
            let next = match spell {
                Spell::Here(uid, status) => Some((pod(&name, &format!("{uid}-{place}"), 0, status), true)),
                Spell::Outside(uid, status) => Some((pod(&name, &format!("{uid}-{place}"), 0, status), false)),
                Spell::Nobody => None,
            };
            let same = before.as_ref().zip(next.as_ref()).is_some_and(|(a, b)| a.0.metadata.uid == b.0.metadata.uid);
            if let Some((pod, inside)) = before.as_ref().filter(|_| !same) {
                let left = Some((pod.clone(), *inside));
                changes.push(Change { at, version: 0, name: name.clone(), pod: None, inside: false, left });
            }
            if let Some((pod, inside)) = &next {
                // A Pod that leaves the scope is told as it is now.
                let leaves = same && !inside && before.as_ref().is_some_and(|(_, was_inside)| *was_inside);
                let left = leaves.then(|| (pod.clone(), true));
                let pod = Some(pod.clone());
                changes.push(Change { at, version: 0, name: name.clone(), pod, inside: *inside, left });
            }
            before = next;
            at += Duration::from_millis(*lasts);
        }
    }
    changes.sort_by_key(|change| change.at);
    for (place, change) in changes.iter_mut().enumerate() {
        change.version = 10 + place as u64;
        for pod in change.pod.iter_mut().chain(change.left.iter_mut().map(|(pod, _)| pod)) {
            pod.metadata.resource_version = Some(change.version.to_string());
        }
    }
    changes
}

/// What is so at a moment: all Pods, each with whether the scope has it, and the version.
pub(super) fn snapshot(world: &[Change], at: Duration) -> (BTreeMap<String, (Pod, bool)>, u64) {
    let mut pods = BTreeMap::new();
    let mut version = 1;
    for change in world.iter().take_while(|change| change.at <= at) {
        version = change.version;
        match &change.pod {
            Some(pod) => pods.insert(change.name.clone(), (pod.clone(), change.inside)),
            None => pods.remove(&change.name),
        };
    }
    (pods, version)
}

/// In what it may rightly differ, an imperfect observer agrees: who is gone and who was replaced.
pub(super) fn essence(verdict: Option<&Verdict>) -> String {
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

/// The verdict on a uid, by someone who misses nothing.
pub(super) fn perfect(world: &[Change], name: &str, uid: &str, end: Duration) -> String {
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
        let own = change.pod.as_ref().filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        match (&mut seen, own) {
            (seen, Some(pod)) => *seen = Some((pod.clone(), Presence::Here)),
            (Some((_, presence)), None) => *presence = Presence::Gone,
            (None, None) => {}
        }
        look(&seen, change.at, until);
    }
    essence(verdict.as_ref())
}

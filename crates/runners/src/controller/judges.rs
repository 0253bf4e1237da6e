//! What is to be expected of each Pod, by the core's judgement: the same causes that `minke watch` names. Pure.
//!
//! ```text
//! Pod, now ──judge──► Healthy                      ─► Fine
//!            ▲  │     Waiting with a reason        ─► Troubled: it may heal, within its budget
//!            │  │     Doomed                       ─► Troubled, settling: a deeper cause may still come
//!         history     Failed                       ─► Hopeless, with the first root cause
//! ```
//! A look is wanted again when a budget ends, although nothing is heard of the Pod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::{
    Budget, Budgets, Cause, Evidence, History, Judged, Limit, Now, Policy, Sight, Verdict, judge,
};

use crate::ids::Slot;
use crate::life::{Fault, Outlook};

/// No look again sooner: a moment that is over is no wake-up.
const SOONEST: SignedDuration = SignedDuration::from_millis(10);

/// What a look at a Pod comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// Something ends it, and what that was may be told in a moment: an eviction looks like exit code 137 at first.
    Settling(Fault),
    /// So it is.
    Settled(Outlook),
}

#[derive(Debug)]
struct Judge {
    uid: String,
    history: History,
    again: Option<Timestamp>,
}

/// The judges of a set's Pods.
#[derive(Debug)]
pub(super) struct Judges {
    policy: Policy,
    judges: BTreeMap<Slot, Judge>,
}

impl Default for Judges {
    fn default() -> Self {
        Self { policy: policy(), judges: BTreeMap::new() }
    }
}

impl Judges {
    /// Looks at a Pod. Another uid in a slot is another Pod.
    pub(super) fn look(&mut self, slot: Slot, pod: &Pod, now: Timestamp) -> View {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let known = self.judges.remove(&slot).filter(|judge| judge.uid == uid);
        let history = known.map(|judge| judge.history).unwrap_or_default();
        let Judged { verdict, history } = judge(&Sight::of(pod), &self.policy, history, time(now));
        let again = verdict.until().and_then(moment).map(|until| until.max(now + SOONEST));
        self.judges.insert(slot, Judge { uid, history, again });
        view(verdict, time(now).moment, &self.policy.budgets)
    }

    /// Only these slots have a Pod.
    pub(super) fn retain(&mut self, slots: &BTreeSet<Slot>) {
        self.judges.retain(|slot, _| slots.contains(slot));
    }

    /// This Pod is no more.
    pub(super) fn forget(&mut self, slot: Slot, uid: &str) {
        if self.judges.get(&slot).is_some_and(|judge| judge.uid == uid) {
            self.judges.remove(&slot);
        }
    }

    /// Whose Pods are to be looked at now, although they have not changed.
    pub(super) fn due(&self, now: Timestamp) -> Vec<Slot> {
        let due = |judge: &Judge| judge.again.is_some_and(|again| again <= now);
        self.judges.iter().filter(|(_, judge)| due(judge)).map(|(slot, _)| *slot).collect()
    }

    /// When the next is.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.judges.values().filter_map(|judge| judge.again).min()
    }
}

/// What someone says who sees a Pod once, and for the first time: as if what is seen had settled.
pub(super) fn first_sight(pod: &Pod, now: Timestamp) -> View {
    let policy = policy();
    let first = judge(&Sight::of(pod), &policy, History::default(), time(now));
    let Now { moment, wall } = time(now);
    let later = Now { moment: moment.saturating_add(policy.budgets.settle), wall };
    view(judge(&Sight::of(pod), &policy, first.history, later).verdict, later.moment, &policy.budgets)
}

/// A pool is more patient than who waits for one Pod: what heals makes no new registration necessary. How long a Pod may wait
/// for a node is the deadline of its start: autoscalers read the Pods that wait.
fn policy() -> Policy {
    let seconds = |seconds| Limit::After(Duration::from_secs(seconds));
    let mut budgets = Budgets::default()
        .with(Budget::Schedule, Limit::Never)
        .with(Budget::ScaleUp, Limit::Never)
        // Objects that are applied together come in any order.
        .with(Budget::Missing, seconds(30))
        .with(Budget::Pull, seconds(300));
    // Events are not read.
    budgets.explain = Duration::ZERO;
    Policy { budgets, ..Policy::default() }
}

fn view(verdict: Verdict, now: Duration, budgets: &Budgets) -> View {
    let fault = |cause: Cause, evidence: &Evidence| Fault { cause, evidence: evidence.of(cause) };
    match verdict {
        Verdict::Healthy(_) | Verdict::Succeeded | Verdict::Waiting { why: None, .. } => View::Settled(Outlook::Fine),
        Verdict::Waiting { why: Some(why), .. } => View::Settled(Outlook::Troubled(fault(why.cause, &why.evidence))),
        Verdict::Doomed { why, until } if until.is_some_and(|until| until <= now.saturating_add(budgets.settle)) => {
            View::Settling(fault(why.cause, &why.evidence))
        }
        Verdict::Doomed { why, .. } => View::Settled(Outlook::Troubled(fault(why.cause, &why.evidence))),
        Verdict::Failed(failure) => View::Settled(Outlook::Hopeless(fault(failure.cause, &failure.evidence))),
    }
}

/// The controller has one clock, the wall's. One that is set back lets budgets last longer.
fn time(now: Timestamp) -> Now {
    Now { moment: Duration::from_millis(u64::try_from(now.as_millisecond()).unwrap_or(0)), wall: now }
}

fn moment(moment: Duration) -> Option<Timestamp> {
    let millis = i64::try_from(moment.as_nanos().div_ceil(1_000_000)).ok()?;
    Timestamp::from_millisecond(millis).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::facts::tests::pod;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
    const SLOT: Slot = Slot(3);

    fn at(millis: i64) -> Timestamp {
        NOW + SignedDuration::from_millis(millis)
    }

    fn waits(reason: &str, message: &str) -> Pod {
        pod(|p| {
            p["status"]["phase"] = json!("Pending");
            let status = &mut p["status"]["containerStatuses"][0];
            status["ready"] = json!(false);
            status["state"] = json!({"waiting": {"reason": reason, "message": message}});
        })
    }

    fn unschedulable() -> Pod {
        pod(|p| {
            p["spec"]["nodeName"] = json!(null);
            p["status"] = json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"},
            ]});
        })
    }

    fn cause(view: &View) -> Option<(Cause, bool)> {
        match view {
            View::Settling(fault) => Some((fault.cause, false)),
            View::Settled(outlook) => outlook.fault().map(|fault| (fault.cause, outlook.hopeless().is_some())),
        }
    }

    #[test]
    fn an_image_that_is_not_there_is_hopeless_once_it_has_settled() {
        let (mut judges, pod) = (Judges::default(), waits("ErrImagePull", "r:9: not found"));
        assert_eq!(cause(&judges.look(SLOT, &pod, NOW)), Some((Cause::ImageNotFound, false)));
        assert_eq!((judges.wake(), judges.due(at(199))), (Some(at(200)), vec![]));
        assert_eq!(judges.due(at(200)), [SLOT]);
        let View::Settled(Outlook::Hopeless(fault)) = judges.look(SLOT, &pod, at(200)) else { panic!("{judges:?}") };
        assert_eq!(fault.to_string(), "ImageNotFound (configuration): container runner: ErrImagePull: r:9: not found");
        assert_eq!(judges.wake(), None, "nothing will change that");
        assert_eq!(
            cause(&first_sight(&pod, NOW)),
            Some((Cause::ImageNotFound, true)),
            "who looks once sees it as well"
        );
    }

    #[test]
    fn a_registry_that_is_away_has_five_minutes() {
        let (mut judges, pod) = (Judges::default(), waits("ErrImagePull", "dial tcp: connection refused"));
        assert_eq!(cause(&judges.look(SLOT, &pod, NOW)), Some((Cause::RegistryUnavailable, false)));
        assert_eq!(judges.wake(), Some(at(300_000)));
        judges.look(SLOT, &pod, at(300_000));
        assert_eq!(cause(&judges.look(SLOT, &pod, at(300_200))), Some((Cause::RegistryUnavailable, true)));
    }

    /// Nothing is gained by another Pod that waits: the deadline of the start decides, and has a name for it.
    #[test]
    fn a_pod_that_no_node_can_take_is_in_trouble_and_waits() {
        let (mut judges, pod) = (Judges::default(), unschedulable());
        for time in [NOW, at(3_600_000)] {
            assert_eq!(cause(&judges.look(SLOT, &pod, time)), Some((Cause::Unschedulable, false)));
        }
        assert_eq!(judges.wake(), None);
    }

    #[test]
    fn another_pod_in_the_slot_is_judged_by_itself() {
        let mut judges = Judges::default();
        let first = waits("InvalidImageName", "x");
        judges.look(SLOT, &first, NOW);
        judges.look(SLOT, &first, at(200));
        let mut second = pod(|_| {});
        second.metadata.uid = Some("another".to_owned());
        assert_eq!(cause(&judges.look(SLOT, &second, at(300))), None);
        judges.forget(SLOT, "u");
        assert_eq!(judges.judges.len(), 1, "the first one's end is not the second one's");
        judges.retain(&BTreeSet::new());
        assert!(judges.judges.is_empty());
    }
}

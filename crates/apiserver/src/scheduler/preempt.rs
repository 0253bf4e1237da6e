//! Which Pods of lower priority would have to go so that one fits, and where that costs least.
//!
//! On each node where others are in the way: all of lower priority go, then those that can stay come back, the most
//! important first. The node is taken whose most important victim is least important, then the one with the fewest victims.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::facts::{PodFacts, PodRef};
use super::fit::{Misfit, fits};
use super::message::unavailable;
use super::node::NodeFacts;
use super::usage::Usage;

/// A node, what is against the Pod there, and the Pods that use it.
#[derive(Debug)]
pub(super) struct Stand<'a> {
    pub(super) node: &'a NodeFacts,
    pub(super) usage: &'a Usage,
    pub(super) misfit: &'a Misfit,
    pub(super) pods: Vec<&'a PodFacts>,
}

/// Where, and who goes.
#[derive(Debug, PartialEq)]
pub(super) struct Plan<'a> {
    pub(super) node: &'a str,
    pub(super) victims: Vec<&'a PodFacts>,
}

/// Who is missed least comes first: by priority, then the youngest.
fn importance(pod: &PodFacts) -> (i32, Reverse<Option<Timestamp>>, &PodRef) {
    (pod.priority, Reverse(pod.created), &pod.id)
}

/// The victims on one node, or why there are none.
fn victims<'a>(pod: &PodFacts, stand: &Stand<'a>) -> Result<Vec<&'a PodFacts>, Misfit> {
    if !stand.misfit.room {
        return Err(Misfit::never("Preemption is not helpful for scheduling"));
    }
    let mut lower: Vec<&PodFacts> = stand.pods.iter().copied().filter(|other| other.priority < pod.priority).collect();
    if lower.is_empty() {
        return Err(Misfit::never("No preemption victims found for incoming pod"));
    }
    let mut usage = stand.usage.clone();
    for other in &lower {
        usage.remove(&other.demand);
    }
    fits(pod, stand.node, &usage)?;
    lower.sort_by_key(|other| Reverse(importance(other)));
    lower.retain(|other| {
        usage.add(&other.demand);
        let stays = fits(pod, stand.node, &usage).is_ok();
        if !stays {
            usage.remove(&other.demand);
        }
        !stays
    });
    Ok(lower)
}

/// Upstream's words for a Pod whose room is being made already.
pub(super) const MAKING_ROOM: &str = "not eligible due to a terminating pod on the nominated node.";

/// The plan, or what upstream says after `preemption: ` when there is none.
pub(super) fn preempt<'a>(pod: &PodFacts, nominated: Option<&str>, stands: &[Stand<'a>]) -> Result<Plan<'a>, String> {
    if !pod.rules.preempts {
        return Err("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    // Room is being made already: nobody else goes before that has come to something.
    let making_room = |stand: &Stand<'_>| {
        Some(&*stand.node.name) == nominated
            && stand.pods.iter().any(|other| other.deleting && other.priority < pod.priority)
    };
    if stands.iter().any(making_room) {
        return Err(MAKING_ROOM.to_owned());
    }
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for stand in stands {
        match victims(pod, stand) {
            Ok(victims) => plans.push(Plan { node: &stand.node.name, victims }),
            Err(misfit) => refused.push(misfit),
        }
    }
    let cost = |plan: &Plan<'_>| {
        let highest = plan.victims.iter().map(|victim| victim.priority).max();
        let sum: i64 = plan.victims.iter().map(|victim| i64::from(victim.priority)).sum();
        (highest, sum, plan.victims.len(), plan.node.to_owned())
    };
    plans.into_iter().min_by_key(cost).ok_or_else(|| unavailable(refused.iter()))
}

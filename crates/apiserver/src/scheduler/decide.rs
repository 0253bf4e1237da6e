//! One Pod, all nodes: where it goes, or why nowhere. Pure.

use std::borrow::Cow;

use super::facts::{PodFacts, PodRef};
use super::fit::{Misfit, fits, score};
use super::message::{NO_NODES, unavailable};
use super::node::NodeFacts;
use super::preempt::{Stand, preempt};
use super::usage::Usage;

/// A node with what decides there.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) node: &'a NodeFacts,
    /// What is used, and what is promised to Pods that are at least as important.
    pub(super) usage: Cow<'a, Usage>,
}

/// What becomes of a Pod.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// It goes there.
    Place {
        /// The node.
        node: String,
    },
    /// It fits nowhere.
    Nowhere {
        /// Upstream's words.
        message: String,
        /// Whether it would help if other Pods went.
        room: bool,
        /// Where it will fit when these are gone.
        instead: Option<(String, Vec<PodRef>)>,
    },
}

/// Decides on a Pod. `nominated` is the node that is being made free for it; `on` are the Pods that use a node.
pub(super) fn decide<'a>(
    pod: &PodFacts,
    nominated: Option<&str>,
    candidates: &'a [Candidate<'a>],
    on: impl Fn(&str) -> Vec<&'a PodFacts>,
) -> Decision {
    if candidates.is_empty() {
        return Decision::Nowhere { message: NO_NODES.to_owned(), room: false, instead: None };
    }
    let looked: Vec<(&Candidate<'_>, Result<(), Misfit>)> =
        candidates.iter().map(|candidate| (candidate, fits(pod, candidate.node, &candidate.usage))).collect();
    let fitting = looked.iter().filter(|(_, fits)| fits.is_ok()).map(|(candidate, _)| *candidate);
    // Room that was made for it is used, whatever else there is by now.
    let best = fitting.max_by(|a, b| {
        let rank = |candidate: &Candidate<'_>| {
            (nominated == Some(&*candidate.node.name), score(pod, candidate.node, &candidate.usage))
        };
        rank(a).cmp(&rank(b)).then_with(|| b.node.name.cmp(&a.node.name))
    });
    if let Some(best) = best {
        return Decision::Place { node: best.node.name.clone() };
    }
    let stands: Vec<Stand<'_>> = looked
        .iter()
        .filter_map(|(candidate, fits)| {
            let misfit = fits.as_ref().err()?;
            Some(Stand { node: candidate.node, usage: &candidate.usage, misfit, pods: on(&candidate.node.name) })
        })
        .collect();
    let message = unavailable(stands.iter().map(|stand| stand.misfit));
    let room = stands.iter().any(|stand| stand.misfit.room);
    match preempt(pod, nominated, &stands) {
        Ok(plan) => {
            // Who goes already need not be told again.
            let victims = plan.victims.iter().filter(|victim| !victim.deleting).map(|victim| victim.id.clone());
            Decision::Nowhere { message, room, instead: Some((plan.node.to_owned(), victims.collect())) }
        }
        Err(why) => Decision::Nowhere { message: format!("{message} preemption: {why}"), room, instead: None },
    }
}

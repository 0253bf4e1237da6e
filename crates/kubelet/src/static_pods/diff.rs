//! What is to be done so that the static Pods that are here become those that are wanted: a pure function of both.
//!
//! It is asked again whenever either changes, so it never waits and remembers nothing. A name is one Pod's at a time
//! (upstream's `allowPodStart`): of several that want it, the one that came first has it until it is gone. A Pod whose
//! uid is wanted again while the old one ends is started when that one is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use minke_core::identity::{PodKey, PodUid};

use crate::worker::differs;
use crate::{DesiredPod, PodStage};

/// A Pod that a manifest asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) key: PodKey,
    pub(super) desired: DesiredPod,
    /// The object that it belongs to, and how many of that object's Pods may be live at once.
    pub(super) group: (String, usize),
}

/// A Pod that is here.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) key: PodKey,
    pub(super) desired: DesiredPod,
    /// The manifest that it came from; `None` for one that is no static Pod.
    pub(super) manifest: Option<String>,
    pub(super) stage: PodStage,
    /// It is being forgotten.
    pub(super) deleted: bool,
}

/// What sources say, all together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wish {
    /// Pods in the order in which they came.
    pub(super) pods: Vec<Wanted>,
    /// Manifests that can't be read or understood now: what runs of them stays.
    pub(super) held: BTreeSet<String>,
    /// Every source was heard: a Pod that nobody wants is really unwanted.
    pub(super) complete: bool,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Take it on.
    Start(DesiredPod),
    /// Tell its worker.
    Update(DesiredPod),
    /// Stop it and forget it.
    Remove(PodUid),
}

type Name<'a> = (&'a str, &'a str);

fn name(key: &PodKey) -> Name<'_> {
    (&key.namespace, &key.name)
}

/// What is to be done now.
pub(super) fn diff(wish: &Wish, known: &[Known]) -> Vec<Action> {
    let wanted: BTreeSet<&PodUid> = wish.pods.iter().map(|w| &w.key.uid).collect();
    let mut actions = Vec::new();
    for pod in known {
        let held = pod.manifest.as_ref().is_none_or(|manifest| wish.held.contains(manifest));
        if wish.complete && !held && !pod.deleted && !wanted.contains(&pod.key.uid) {
            actions.push(Action::Remove(pod.key.uid.clone()));
        }
    }
    let by_uid: BTreeMap<&PodUid, &Known> = known.iter().map(|k| (&k.key.uid, k)).collect();
    let mut taken: BTreeMap<Name<'_>, Vec<&Known>> = BTreeMap::new();
    for pod in known {
        taken.entry(name(&pod.key)).or_default().push(pod);
    }
    let mut live: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in &wish.pods {
        let going =
            by_uid.get(&pod.key.uid).is_some_and(|k| matches!(k.stage, PodStage::Syncing | PodStage::Terminating));
        *live.entry(&pod.group.0).or_default() += usize::from(going);
    }
    let mut started: BTreeSet<Name<'_>> = BTreeSet::new();
    for pod in &wish.pods {
        match by_uid.get(&pod.key.uid) {
            // A uid that was given by hand may have moved to another name.
            Some(here) if here.key != pod.key => {
                actions.extend((!here.deleted).then(|| Action::Remove(here.key.uid.clone())));
            }
            Some(here) => actions.extend(keep(pod, here, wish.held.is_empty())),
            None => {
                let in_the_way = taken.get(&name(&pod.key)).map(Vec::as_slice).unwrap_or_default();
                // One that has ended, and that no manifest asks for, only keeps the name.
                let ended =
                    in_the_way.iter().filter(|k| k.manifest.is_none() && k.stage == PodStage::Finished && !k.deleted);
                actions.extend(ended.map(|k| Action::Remove(k.key.uid.clone())));
                let room = live.entry(&pod.group.0).or_default();
                if in_the_way.is_empty() && *room < pod.group.1.max(1) && started.insert(name(&pod.key)) {
                    *room += 1;
                    actions.push(Action::Start(pod.desired.clone()));
                }
            }
        }
    }
    actions
}

/// What is to be done about a Pod that is wanted and here.
fn keep(wanted: &Wanted, here: &Known, all_readable: bool) -> Option<Action> {
    match here.stage {
        PodStage::Syncing => {
            // A configuration that can't be read now is not taken from those who have it.
            let objects = if all_readable { &wanted.desired.objects } else { &here.desired.objects };
            let next = DesiredPod { pod: wanted.desired.pod.clone(), objects: objects.clone() };
            differs(&here.desired, &next).then_some(Action::Update(next))
        }
        // When it is gone, or has finished, there is another decision.
        PodStage::Terminating | PodStage::Terminated => None,
        PodStage::Finished => {
            let same_objects = DesiredPod { pod: wanted.desired.pod.clone(), objects: here.desired.objects.clone() };
            (!here.deleted && differs(&here.desired, &same_objects)).then(|| Action::Remove(here.key.uid.clone()))
        }
    }
}

#[cfg(test)]
mod tests;

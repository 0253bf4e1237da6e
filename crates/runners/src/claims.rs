//! Which claim goes to which runner, and when one goes for good. Pure.
//!
//! A set has one claim a slot at most, named after it (`<set>-<slot>-work`): whoever is in the slot works on it, and the next one
//! after him again. Slots are filled from the lowest, so that claims are used again before new ones are made. A claim is deleted
//! only while nobody is in its slot: when nobody has used it for too long, when its template has changed or the set makes none
//! any more, when its slot is above the maximum, when its volume is lost, or when a Pod never started on it. Until it is gone,
//! the slot stays closed: a Pod on a claim that is going would wait for ever.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use sha2::{Digest, Sha256};

use crate::ids::Slot;
use crate::set::RunnerSetSpec;

/// The hash of the template that a claim was made from.
pub const ANNOTATION_CLAIM_TEMPLATE: &str = "runners.minke.dev/claim-template";
/// An unused claim is kept for so long unless told otherwise.
const UNUSED: u32 = 86_400;
const SUFFIX: &str = "work";

/// What a set says of its claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The hash of the template; `None`: no claims.
    pub template: Option<String>,
    /// So long an unused one is kept.
    pub unused: SignedDuration,
    /// So many slots there are.
    pub max: u32,
}

/// A claim as the cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub slot: Slot,
    /// Its uid.
    pub uid: String,
    /// What it was made from.
    pub template: String,
    /// It is on its way out.
    pub deleting: bool,
    /// Its volume is no more.
    pub lost: bool,
}

/// What is to be done with the claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimPlan {
    /// These go.
    pub delete: Vec<(Slot, String)>,
    /// These slots can't be filled for now.
    pub closed: BTreeSet<Slot>,
    /// When to look again.
    pub wake_at: Option<Timestamp>,
}

/// The claims of a set.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    known: BTreeMap<Slot, Claim>,
    unused_since: BTreeMap<Slot, Timestamp>,
    spoilt: BTreeSet<String>,
}

impl Policy {
    /// What a set says.
    #[must_use]
    pub fn of(spec: &RunnerSetSpec) -> Self {
        let work = spec.work_volume.as_ref();
        let template = work.and_then(|work| work.claim_template.as_ref()).map(|template| {
            let text = serde_json::json!(template).to_string();
            hex::encode(&Sha256::digest(text)[..5])
        });
        let unused = work.and_then(|work| work.unused_seconds).unwrap_or(UNUSED);
        Self { template, unused: SignedDuration::from_secs(i64::from(unused)), max: spec.max }
    }
}

/// The name of a slot's claim.
#[must_use]
pub fn claim_name(set: &str, slot: Slot) -> String {
    format!("{}-{SUFFIX}", slot.pod_name(set))
}

impl Claim {
    /// A claim of the set; `None`: it is none of the set's own.
    #[must_use]
    pub fn of(set: &str, claim: &PersistentVolumeClaim) -> Option<Self> {
        let name = claim.metadata.name.as_deref()?.strip_suffix(SUFFIX)?.strip_suffix('-')?;
        let slot = Slot::of_pod(set, name)?;
        let template = claim.metadata.annotations.as_ref()?.get(ANNOTATION_CLAIM_TEMPLATE)?.clone();
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let deleting = claim.metadata.deletion_timestamp.is_some();
        Some(Self { slot, uid: claim.metadata.uid.clone()?, template, deleting, lost: phase == Some("Lost") })
    }
}

impl Claims {
    /// All there are.
    pub fn listed(&mut self, claims: impl IntoIterator<Item = Claim>) {
        self.known = claims.into_iter().map(|claim| (claim.slot, claim)).collect();
        self.forget();
    }

    /// One appeared or changed.
    pub fn seen(&mut self, claim: Claim) {
        self.known.insert(claim.slot, claim);
    }

    /// One is gone.
    pub fn gone(&mut self, slot: Slot, uid: &str) {
        if self.known.get(&slot).is_some_and(|claim| claim.uid == uid) {
            self.known.remove(&slot);
        }
        self.forget();
    }

    /// It was asked to go.
    pub fn deleting(&mut self, slot: Slot, uid: &str) {
        if let Some(claim) = self.known.get_mut(&slot).filter(|claim| claim.uid == uid) {
            claim.deleting = true;
        }
    }

    /// Whether a slot has one.
    #[must_use]
    pub fn has(&self, slot: Slot) -> bool {
        self.known.contains_key(&slot)
    }

    /// A Pod never started in this slot: its claim may be why.
    pub fn spoil(&mut self, slot: Slot) {
        if let Some(claim) = self.known.get(&slot) {
            self.spoilt.insert(claim.uid.clone());
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Decides. `occupied` are the slots that have a runner, or had one whose Pod is not gone.
    #[must_use]
    pub fn plan(&mut self, policy: &Policy, occupied: &BTreeSet<Slot>, now: Timestamp) -> ClaimPlan {
        self.unused_since.retain(|slot, _| !occupied.contains(slot) && self.known.contains_key(slot));
        let mut plan = ClaimPlan::default();
        for (slot, claim) in &self.known {
            if claim.deleting {
                plan.closed.insert(*slot);
                continue;
            }
            if occupied.contains(slot) {
                continue;
            }
            let expires = *self.unused_since.entry(*slot).or_insert(now) + policy.unused;
            let wanted = policy.template.as_ref() == Some(&claim.template) && slot.0 < policy.max;
            if !wanted || claim.lost || self.spoilt.contains(&claim.uid) || expires <= now {
                plan.delete.push((*slot, claim.uid.clone()));
                plan.closed.insert(*slot);
            } else {
                plan.wake_at = Some(plan.wake_at.map_or(expires, |wake| wake.min(expires)));
            }
        }
        plan
    }

    fn forget(&mut self) {
        let Self { known, spoilt, .. } = self;
        spoilt.retain(|uid| known.values().any(|claim| claim.uid == *uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn policy() -> Policy {
        Policy { template: Some("t".to_owned()), unused: SignedDuration::from_secs(60), max: 10 }
    }

    fn claim(slot: u32) -> Claim {
        let (uid, template) = (format!("u{slot}"), "t".to_owned());
        Claim { slot: Slot(slot), uid, template, deleting: false, lost: false }
    }

    fn slots(slots: &[u32]) -> BTreeSet<Slot> {
        slots.iter().copied().map(Slot).collect()
    }

    fn deleted(plan: &ClaimPlan) -> Vec<u32> {
        plan.delete.iter().map(|(slot, _)| slot.0).collect()
    }

    #[test]
    fn a_claim_stays_for_the_next_runner_and_goes_when_none_comes() {
        let mut claims = Claims::default();
        claims.listed([claim(0), claim(1)]);
        let later = |seconds| NOW + SignedDuration::from_secs(seconds);
        let plan = claims.plan(&policy(), &slots(&[0]), NOW);
        assert_eq!((deleted(&plan), plan.wake_at), (vec![], Some(later(60))));
        assert_eq!(deleted(&claims.plan(&policy(), &slots(&[0, 1]), later(59))), Vec::<u32>::new(), "used again");
        assert_eq!(deleted(&claims.plan(&policy(), &slots(&[0]), later(60))), Vec::<u32>::new());
        let plan = claims.plan(&policy(), &slots(&[0]), later(120));
        assert_eq!((deleted(&plan), plan.closed), (vec![1], slots(&[1])));
    }

    /// ARC 1286, 2092, 2266, 2282, 3221 and its unbound claims of dead sets: none is forgotten.
    #[test]
    fn what_will_never_be_used_goes_at_once_and_never_below_a_runner() {
        type Spoils = fn(&mut Claims, &mut Policy);
        let reasons: [(&str, Spoils); 5] = [
            ("another template", |_, policy| policy.template = Some("other".to_owned())),
            ("no claims any more", |_, policy| policy.template = None),
            ("above the maximum", |_, policy| policy.max = 3),
            ("its volume is lost", |claims, _| claims.seen(Claim { lost: true, ..claim(3) })),
            ("a Pod never started on it", |claims, _| claims.spoil(Slot(3))),
        ];
        for (reason, spoils) in reasons {
            let (mut claims, mut policy) = (Claims::default(), policy());
            claims.seen(claim(3));
            spoils(&mut claims, &mut policy);
            assert_eq!(
                deleted(&claims.plan(&policy, &slots(&[3]), NOW)),
                Vec::<u32>::new(),
                "{reason}: someone works on it"
            );
            assert_eq!(deleted(&claims.plan(&policy, &slots(&[]), NOW)), [3], "{reason}");
            claims.gone(Slot(3), "u3");
            assert!(claims.is_empty() && claims.spoilt.is_empty(), "{reason}");
        }
    }

    #[test]
    fn nobody_gets_a_slot_whose_claim_is_going() {
        let mut claims = Claims::default();
        claims.seen(Claim { deleting: true, ..claim(2) });
        let plan = claims.plan(&policy(), &slots(&[2]), NOW);
        assert_eq!((deleted(&plan), plan.closed), (vec![], slots(&[2])));
    }

    #[test]
    fn claims_are_known_by_name_and_annotation() {
        let object = |name: &str, annotations: serde_json::Value| {
            let metadata = json!({"name": name, "uid": "u", "annotations": annotations});
            serde_json::from_value::<PersistentVolumeClaim>(json!({"metadata": metadata})).unwrap()
        };
        let ours = json!({ANNOTATION_CLAIM_TEMPLATE: "t"});
        let name = claim_name("linux", Slot(3));
        assert_eq!(Claim::of("linux", &object(&name, ours.clone())).unwrap().slot, Slot(3));
        assert_eq!(Claim::of("linux", &object(&name, json!({}))), None, "someone else's of that name");
        assert_eq!(Claim::of("linux", &object("linux-3", ours)), None);
    }

    proptest! {
        /// Whatever is known: no claim goes whose slot is occupied, and what goes closes its slot.
        #[test]
        fn never_below_a_runner(
            known in prop::collection::vec((0_u32..12, any::<bool>(), any::<bool>(), any::<bool>()), 0..12),
            occupied in prop::collection::btree_set(0_u32..12, 0..12),
            max in 0_u32..12, after in 0_i64..200,
        ) {
            let mut claims = Claims::default();
            for (slot, deleting, lost, same) in known {
                let template = if same { "t" } else { "x" }.to_owned();
                claims.seen(Claim { deleting, lost, template, ..claim(slot) });
            }
            let occupied: BTreeSet<Slot> = occupied.into_iter().map(Slot).collect();
            let policy = Policy { max, ..policy() };
            let first = claims.plan(&policy, &occupied, NOW);
            let second = claims.plan(&policy, &occupied, NOW + SignedDuration::from_secs(after));
            for plan in [&first, &second] {
                for (slot, _) in &plan.delete {
                    prop_assert!(!occupied.contains(slot) && plan.closed.contains(slot));
                }
            }
            prop_assert!(deleted(&first).iter().all(|slot| deleted(&second).contains(slot)), "it stays decided");
        }
    }
}

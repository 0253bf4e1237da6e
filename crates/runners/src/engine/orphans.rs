//! Registrations that no Pod belongs to.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::inputs::ForgeRunner;
use crate::ids::{RunnerId, Slot};
use crate::life::{Removal, Timing};

/// A registration that nobody knows is left alone for so long: who made it may just be making its Pod.
pub(super) const SUSPICION: SignedDuration = SignedDuration::from_mins(2);
/// So often the removal is tried. Then it waits until the forge lists it again.
pub(super) const TRIES: u32 = 20;

#[derive(Debug, Clone, Copy)]
struct Orphan {
    due: Timestamp,
    tries: u32,
}

/// Those that are known, and those that are suspected.
#[derive(Debug, Clone, Default)]
pub struct Orphans {
    known: BTreeMap<RunnerId, Orphan>,
    suspects: BTreeMap<RunnerId, Timestamp>,
}

impl Orphans {
    /// How many are known: leaks at the forge that are being worked off.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether nobody is known or suspected.
    pub(super) fn is_clean(&self) -> bool {
        self.known.is_empty() && self.suspects.is_empty()
    }

    pub(super) fn add(&mut self, id: RunnerId, now: Timestamp) {
        self.suspects.remove(&id);
        self.known.entry(id).or_insert(Orphan { due: now, tries: 0 });
    }

    /// Looks at a list for runners of the set that `known` does not know.
    pub(super) fn listed(
        &mut self,
        set: &str,
        runners: &[ForgeRunner],
        known: impl Fn(&ForgeRunner) -> bool,
        now: Timestamp,
    ) {
        let own = runners.iter().filter(|runner| belongs(set, &runner.name) && !known(runner));
        let mut suspects = BTreeMap::new();
        for runner in own.filter(|runner| !self.known.contains_key(&runner.id)) {
            suspects.insert(runner.id, self.suspects.get(&runner.id).copied().unwrap_or(now));
        }
        self.suspects = suspects;
        let certain: Vec<_> =
            self.suspects.iter().filter(|(_, first)| now.duration_since(**first) >= SUSPICION).collect();
        for id in certain.into_iter().map(|(id, _)| *id).collect::<Vec<_>>() {
            self.add(id, now);
        }
    }

    /// Those whose removal is to be asked for now.
    pub(super) fn due(&mut self, now: Timestamp, timing: &Timing) -> Vec<RunnerId> {
        self.known.retain(|_, orphan| orphan.tries < TRIES || now < orphan.due);
        let mut due = Vec::new();
        for (id, orphan) in self.known.iter_mut().filter(|(_, orphan)| orphan.due <= now) {
            orphan.tries += 1;
            orphan.due = now + timing.backoff(orphan.tries);
            due.push(*id);
        }
        due
    }

    pub(super) fn answered(&mut self, id: RunnerId, removal: Removal, now: Timestamp, timing: &Timing) {
        let Some(orphan) = self.known.get_mut(&id) else { return };
        let wait = timing.backoff(orphan.tries);
        match removal {
            Removal::Gone => {
                self.known.remove(&id);
            }
            Removal::Failed => orphan.due = now + wait,
            Removal::Limited(until) => orphan.due = until.max(now + wait),
            Removal::Busy | Removal::Forbidden | Removal::NoCredential => orphan.due = now + wait * 10,
        }
    }

    /// When something is to be done.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.known.values().map(|orphan| orphan.due).min()
    }
}

/// Whether a runner's name is one that the set gave: `<set>-<slot>-<hexadecimal>`.
fn belongs(set: &str, name: &str) -> bool {
    let Some((pod, nonce)) = name.rsplit_once('-') else { return false };
    !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) && Slot::of_pod(set, pod).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn listed(name: &str) -> Vec<ForgeRunner> {
        vec![ForgeRunner { id: RunnerId(1), name: name.to_owned(), online: false, busy: false }]
    }

    #[test]
    fn a_stranger_of_our_name_is_an_orphan_after_a_while() {
        let timing = Timing::default();
        let mut orphans = Orphans::default();
        orphans.listed("set", &listed("set-3-19f"), |_| false, NOW);
        assert_eq!(orphans.due(NOW, &timing), []);
        orphans.listed("set", &listed("set-3-19f"), |_| false, NOW + SUSPICION);
        assert_eq!(orphans.due(NOW + SUSPICION, &timing), [RunnerId(1)]);
        orphans.answered(RunnerId(1), Removal::Gone, NOW + SUSPICION, &timing);
        assert!(orphans.is_empty());
    }

    #[test]
    fn runners_of_others_are_left_alone() {
        let mut orphans = Orphans::default();
        for name in ["set", "set-3", "other-3-19f", "set-x-19f", "set-3-19f-x", "my-set-3-19f"] {
            for now in [NOW, NOW + SUSPICION * 2] {
                orphans.listed("set", &listed(name), |_| false, now);
            }
            assert!(orphans.is_empty(), "{name}");
        }
        for now in [NOW, NOW + SUSPICION * 2] {
            orphans.listed("set", &listed("set-3-19f"), |_| true, now);
        }
        assert!(orphans.is_empty(), "known");
    }

    #[test]
    fn who_was_not_seen_in_between_is_suspected_anew() {
        let mut orphans = Orphans::default();
        orphans.listed("set", &listed("set-3-19f"), |_| false, NOW);
        orphans.listed("set", &[], |_| false, NOW + SUSPICION);
        orphans.listed("set", &listed("set-3-19f"), |_| false, NOW + SUSPICION * 2);
        assert!(orphans.is_empty());
    }
}

//! What runs, by the newest list of each Pod: the gauges of running Pods and containers.

use std::collections::HashMap;

use minke_core::identity::PodUid;

use super::record::{Record, State};
use super::stats::{Counters, InState};

/// Counts of one Pod, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Pods with a ready sandbox.
    pub(super) pods: i64,
    pub(super) created: i64,
    pub(super) running: i64,
    pub(super) exited: i64,
    pub(super) unknown: i64,
}

impl Counts {
    pub(super) fn of(record: &Record) -> Self {
        let ready = record.sandboxes.iter().any(|s| s.state == State::Running);
        let mut counts = Self { pods: i64::from(ready), ..Self::default() };
        for container in &record.containers {
            match container.state {
                State::Created => counts.created += 1,
                State::Running => counts.running += 1,
                State::Exited => counts.exited += 1,
                State::Unknown => counts.unknown += 1,
            }
        }
        counts
    }

    pub(super) fn add(&mut self, other: &Self, sign: i64) {
        self.pods += sign * other.pods;
        self.created += sign * other.created;
        self.running += sign * other.running;
        self.exited += sign * other.exited;
        self.unknown += sign * other.unknown;
    }
}

/// Keeps the sum over all Pods right as single Pods are listed, without going through all of them. Counts what lists
/// show, so a Pod that can't be inspected is counted all the same.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pods: HashMap<PodUid, Counts>,
    total: Counts,
}

impl Tally {
    /// The newest list shows this of a Pod.
    pub(super) fn listed(&mut self, uid: &PodUid, record: &Record) {
        let counts = Counts::of(record);
        match self.pods.get_mut(uid) {
            Some(before) => self.total.add(&std::mem::replace(before, counts), -1),
            None => drop(self.pods.insert(uid.clone(), counts)),
        }
        self.total.add(&counts, 1);
    }

    /// Nothing is known of the Pod any more.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        if let Some(counts) = self.pods.remove(uid) {
            self.total.add(&counts, -1);
        }
    }

    /// Shows the sum.
    pub(super) fn show(&self, counters: &Counters) {
        counters.running_pods.set(self.total.pods);
        for (container_state, count) in [
            ("created", self.total.created),
            ("running", self.total.running),
            ("exited", self.total.exited),
            ("unknown", self.total.unknown),
        ] {
            counters.containers.get_or_create(&InState { container_state }).set(count);
        }
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> Counts {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Item;
    use super::*;

    fn item(id: &str, state: State) -> Item {
        Item { id: id.into(), state }
    }

    #[test]
    fn a_pod_is_counted_once_and_containers_by_state() {
        let sandboxes = vec![item("s1", State::Running), item("s2", State::Running)];
        let states = [State::Created, State::Running, State::Exited, State::Exited, State::Unknown];
        let containers = states.into_iter().map(|state| item("c", state)).collect();
        let counts = Counts::of(&Record { sandboxes, containers });
        assert_eq!(counts, Counts { pods: 1, created: 1, running: 1, exited: 2, unknown: 1 });
    }

    #[test]
    fn the_sum_follows_each_pod() {
        let uid = PodUid::new("a").unwrap();
        let with = |state| Record { sandboxes: vec![item("s", state)], containers: vec![item("c", state)] };
        let mut tally = Tally::default();
        tally.listed(&uid, &with(State::Running));
        assert_eq!(tally.total(), Counts { pods: 1, running: 1, ..Counts::default() });
        tally.listed(&uid, &with(State::Exited));
        assert_eq!(tally.total(), Counts { exited: 1, ..Counts::default() });
        tally.forget(&uid);
        assert_eq!(tally.total(), Counts::default());
    }
}

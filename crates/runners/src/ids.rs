//! Who is who: slots, registrations, jobs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place for a runner in its set. Its Pod is named after it (`<set>-<slot>`), and a set has as many slots as runners are
/// allowed: whoever is late, stale or doubled, there are never more Pods than names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u32);

/// The number that the forge gave a registration. One registration serves one Pod, and at most one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunnerId(pub u64);

/// The forge's number of a job. Another attempt at the same job is another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

impl Slot {
    /// The name of the Pod in this slot of a set.
    #[must_use]
    pub fn pod_name(self, set: &str) -> String {
        format!("{set}-{self}")
    }

    /// The slot that a Pod of a set is in, by its name; `None`: it is none of the set's own names.
    #[must_use]
    pub fn of_pod(set: &str, pod: &str) -> Option<Self> {
        let number = pod.strip_prefix(set)?.strip_prefix('-')?;
        let slot: u32 = number.parse().ok()?;
        (slot.to_string() == number).then_some(Self(slot))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RunnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_name_and_its_slot_are_one() {
        assert_eq!(Slot(12).pod_name("linux"), "linux-12");
        assert_eq!(Slot::of_pod("linux", "linux-12"), Some(Slot(12)));
        for foreign in
            ["linux", "linux-", "linux-012", "linux-+1", "linux-x", "linux-1-2", "linux2-1", "linux-4294967296"]
        {
            assert_eq!(Slot::of_pod("linux", foreign), None, "{foreign}");
        }
    }
}

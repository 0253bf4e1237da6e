//! The end of a node's Pods when it goes down: in groups by priority, the least important first (pure).
//!
//! Upstream source: `pkg/kubelet/nodeshutdown`. Each group has so long to end, then the next one's turn comes; the seconds that
//! a group does not need are not given to others.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use minke_core::priority::pod_priority;
use minke_core::provider::HeldPod;

/// Priorities from here on are critical (`system-cluster-critical`), as upstream.
const CRITICAL: i32 = 2_000_000_000;

/// How long Pods of a priority get, from this priority up to the next entry's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraceOfPriority {
    /// From here on.
    pub priority: i32,
    /// So long.
    pub grace: Duration,
}

/// How long Pods get, in upstream's two ways of saying it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShutdownPolicy(Vec<GraceOfPriority>);

/// A policy that can't be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// As upstream.
    #[error("shutdownGracePeriodCriticalPods must not be longer than shutdownGracePeriod, of which it is a part")]
    CriticalTooLong,
    /// A priority is there twice.
    #[error("shutdownGracePeriodByPodPriority has priority {0} twice")]
    Twice(i32),
}

impl ShutdownPolicy {
    /// `shutdownGracePeriod` and `shutdownGracePeriodCriticalPods`: the second is the critical Pods' part of the first.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn periods(all: Duration, critical: Duration) -> Result<Self, PolicyError> {
        let regular = all.checked_sub(critical).ok_or(PolicyError::CriticalTooLong)?;
        if all.is_zero() {
            return Ok(Self::default());
        }
        let of = |priority, grace| GraceOfPriority { priority, grace };
        Ok(Self(vec![of(0, regular), of(CRITICAL, critical)]))
    }

    /// `shutdownGracePeriodByPodPriority`.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn by_priority(mut graces: Vec<GraceOfPriority>) -> Result<Self, PolicyError> {
        graces.sort();
        if let Some(twice) = graces.windows(2).find(|pair| pair[0].priority == pair[1].priority) {
            return Err(PolicyError::Twice(twice[0].priority));
        }
        Ok(Self(graces))
    }

    /// Whether Pods stay as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|entry| entry.grace.is_zero())
    }

    /// How long it takes at most.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.iter().map(|entry| entry.grace).sum()
    }

    /// Which Pods end together and how long they have, in order. Those that have ended are left out.
    #[must_use]
    pub fn groups(&self, pods: &[HeldPod]) -> Vec<(Duration, Vec<PodKey>)> {
        let mut groups: Vec<(Duration, Vec<PodKey>)> = self.0.iter().map(|entry| (entry.grace, Vec::new())).collect();
        for held in pods.iter().filter(|held| may_run(&held.pod)) {
            let priority = pod_priority(&held.pod);
            // Whoever is below the lowest entry belongs to it.
            let at = self.0.iter().rposition(|entry| entry.priority <= priority).unwrap_or(0);
            if let Some((_, group)) = groups.get_mut(at) {
                group.push(held.key.clone());
            }
        }
        groups.retain(|(_, group)| !group.is_empty());
        groups
    }
}

fn may_run(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32, phase: &str) -> HeldPod {
        let value = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"containers": [], "priority": priority},
            "status": {"phase": phase},
        });
        let pod: Pod = serde_json::from_value(value).unwrap();
        HeldPod { key: PodKey::of(&pod).unwrap(), pod: Arc::new(pod) }
    }

    fn shown(policy: &ShutdownPolicy, pods: &[HeldPod]) -> Vec<(u64, Vec<String>)> {
        let names = |group: Vec<PodKey>| group.iter().map(|key| key.name.to_string()).collect();
        policy.groups(pods).into_iter().map(|(grace, group)| (grace.as_secs(), names(group))).collect()
    }

    #[test]
    fn critical_pods_end_last_within_their_part() {
        let s = Duration::from_secs;
        let policy = ShutdownPolicy::periods(s(30), s(10)).unwrap();
        let pods = [
            pod("critical", CRITICAL, "Running"),
            pod("web", 0, "Running"),
            pod("low", -5, "Pending"),
            pod("done", 0, "Succeeded"),
        ];
        let words = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(&policy, &pods), [(20, words(&["web", "low"])), (10, words(&["critical"]))]);
        assert_eq!(policy.total(), s(30));
        assert_eq!(ShutdownPolicy::periods(s(5), s(6)), Err(PolicyError::CriticalTooLong));
        assert!(ShutdownPolicy::periods(s(0), s(0)).unwrap().is_empty());
    }

    #[test]
    fn priorities_of_ones_own() {
        let of = |priority, seconds| GraceOfPriority { priority, grace: Duration::from_secs(seconds) };
        let policy = ShutdownPolicy::by_priority(vec![of(100, 3), of(0, 9), of(1000, 1)]).unwrap();
        let pods =
            [pod("a", 1000, "Running"), pod("b", 99, "Running"), pod("c", 100, "Running"), pod("d", 5000, "Running")];
        let words = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(&policy, &pods), [(9, words(&["b"])), (3, words(&["c"])), (1, words(&["a", "d"]))]);
        assert_eq!(ShutdownPolicy::by_priority(vec![of(1, 1), of(1, 2)]), Err(PolicyError::Twice(1)));
    }
}

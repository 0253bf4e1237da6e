//! How long a Pod's containers get to end by themselves.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// Whatever else is said, nobody gets less than this, except by an explicit request for none.
const LEAST: Duration = Duration::from_secs(1);
/// What a Pod without a spec of its own gets.
pub(crate) const ORPHAN_GRACE: Duration = Duration::from_secs(1);

fn seconds(value: Option<i64>) -> Option<Duration> {
    value.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs)
}

/// The grace period of a Pod that is being stopped: the shortest of what was allowed before, what its deletion says
/// and what is requested now; its own `terminationGracePeriodSeconds` where nobody says anything. It can only
/// shrink.
#[must_use]
pub fn effective_grace(pod: &Pod, previous: Option<Duration>, requested: Option<Duration>) -> Duration {
    if requested == Some(Duration::ZERO) || previous == Some(Duration::ZERO) {
        return Duration::ZERO;
    }
    let deletion = seconds(pod.metadata.deletion_grace_period_seconds);
    let named = [previous, deletion, requested].into_iter().flatten().min();
    let own = || seconds(pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds));
    named.or_else(own).unwrap_or(LEAST).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(deletion: Option<i64>, own: Option<i64>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.deletion_grace_period_seconds = deletion;
        pod.spec.get_or_insert_default().termination_grace_period_seconds = own;
        pod
    }

    #[test]
    fn calculate_effective_grace_period() {
        let s = |n: u64| Some(Duration::from_secs(n));
        for (name, deletion, own, previous, requested, expected) in [
            ("nothing said: the pod's own", None, Some(100), None, None, s(100)),
            ("nothing at all: the least", None, None, None, None, s(1)),
            ("deletion", Some(20), Some(100), None, None, s(20)),
            ("deletion of zero seconds is the least", Some(0), Some(100), None, None, s(1)),
            ("the request shrinks", Some(20), Some(100), None, s(10), s(10)),
            ("the request can't grow what deletion says", Some(20), Some(100), None, s(30), s(20)),
            ("what was allowed before can't grow", None, Some(100), s(5), s(30), s(5)),
            ("what was allowed before shrinks", None, Some(100), s(30), s(5), s(5)),
            ("a request may exceed the pod's own", None, Some(10), None, s(60), s(60)),
            ("negative values count as unsaid", Some(-5), Some(-5), None, None, s(1)),
            ("an explicit zero is zero", Some(20), Some(100), s(30), s(0), s(0)),
            ("and stays zero", None, Some(100), s(0), s(30), s(0)),
        ] {
            let grace = effective_grace(&pod(deletion, own), previous, requested);
            assert_eq!(Some(grace), expected, "{name}");
        }
    }
}

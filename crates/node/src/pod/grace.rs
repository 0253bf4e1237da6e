//! How long a Pod may still take to end.
//!
//! Counted on this machine's monotonic clock, from the moment at which the deletion was heard of, as the kubelet does: a wall clock that
//! is wrong by an hour would kill at once, or never. Only of a Pod that was deleted before this controller had it, the
//! deletion's time is believed, and only so far that less is left.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use crate::Now;

/// A Pod's grace where it names none.
const DEFAULT: Duration = Duration::from_secs(30);

/// What a Pod names, which may be any number: no clock ends by it.
fn seconds(named: Option<i64>) -> Option<Duration> {
    named.map(|seconds| Duration::from_secs(u32::try_from(seconds.max(0)).unwrap_or(u32::MAX).into()))
}

/// The whole grace of its deletion; `None`: it is not deleted.
fn whole(object: &Pod) -> Option<Duration> {
    let metadata = &object.metadata;
    metadata.deletion_timestamp.as_ref()?;
    Some(seconds(metadata.deletion_grace_period_seconds).unwrap_or_default())
}

/// By when a Pod has to have ended that is deleted already, as far as can be told.
pub(super) fn ends_by(object: &Pod, now: Now) -> Option<Instant> {
    let left = object.metadata.deletion_timestamp.as_ref()?.0.duration_since(now.wall);
    Some(now.instant + Duration::try_from(left).unwrap_or_default().min(whole(object)?))
}

/// The same after it was deleted, or deleted anew: it only gets sooner.
pub(super) fn heard(before: Option<Instant>, object: &Pod, now: Now) -> Option<Instant> {
    let anew = whole(object).map(|whole| now.instant + whole);
    before.into_iter().chain(anew).min()
}

/// What is left at this time; the Pod's own grace if nobody has deleted it.
pub(super) fn left(ends_by: Option<Instant>, object: &Pod, now: Now) -> Duration {
    if let Some(ends_by) = ends_by {
        return ends_by.saturating_duration_since(now.instant);
    }
    let own = object.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    seconds(own).unwrap_or(DEFAULT)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::*;

    const API: &str = "2026-01-01T00:00:00Z";

    fn deleted(grace: i64) -> Pod {
        let deadline = API.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(grace.clamp(0, 100));
        serde_json::from_value(json!({"metadata": {
            "deletionTimestamp": deadline.to_string(), "deletionGracePeriodSeconds": grace,
        }}))
        .unwrap()
    }

    /// A machine whose clock is wrong by so much.
    fn machine(wrong: i64) -> Now {
        let wall = API.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(wrong);
        Now { instant: Instant::now(), wall }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_wrong_by_an_hour_takes_nothing_of_a_grace_and_adds_nothing() {
        for wrong in [-3600, 0, 3600] {
            let now = machine(wrong);
            let by = heard(None, &deleted(30), now);
            assert_eq!(left(by, &deleted(30), now), Duration::from_secs(30), "{wrong}");
            let later = Now { instant: now.instant + Duration::from_secs(20), ..now };
            assert_eq!(left(by, &deleted(30), later), Duration::from_secs(10), "{wrong}");
            let sooner = heard(by, &deleted(2), later);
            assert_eq!(left(sooner, &deleted(2), later), Duration::from_secs(2), "{wrong}");
            assert_eq!(heard(sooner, &deleted(60), later), sooner, "it never gets more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_from_before_leaves_what_is_left_and_never_more_than_the_whole() {
        let left_at = |wrong| {
            let now = machine(wrong);
            left(ends_by(&deleted(30), now), &deleted(30), now).as_secs()
        };
        assert_eq!((left_at(-3600), left_at(0), left_at(20), left_at(3600)), (30, 30, 10, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn any_number_is_a_grace() {
        let now = machine(0);
        for grace in [i64::MIN, -1, 0, i64::MAX] {
            let by = heard(None, &deleted(grace), now);
            assert!(now.instant + left(by, &deleted(grace), now) >= now.instant);
            let spec = json!({"spec": {"containers": [], "terminationGracePeriodSeconds": grace}});
            let own = left(None, &serde_json::from_value(spec).unwrap(), now);
            assert_eq!(own.is_zero(), grace <= 0);
        }
        assert_eq!(left(None, &Pod::default(), now), DEFAULT);
    }
}

//! Ending Pods from outside: stops, evictions, and waiting for them.

use std::time::Duration;

use minke_core::identity::PodUid;
use tokio::time::timeout;

use super::Kubelet;
use crate::worker::grace::effective_grace;
use crate::worker::questions::Answers;
use crate::worker::{WorkerContext, WorkerHandle};
use crate::{Eviction, KillError, StopRequest, UnknownPod};

/// The least that is waited for a Pod to stop.
const LEAST_WAIT: Duration = Duration::from_secs(10);

/// How long a Pod that has this grace is waited for.
fn bound(grace: Duration) -> Duration {
    grace.saturating_add(grace / 2).max(LEAST_WAIT)
}

impl Kubelet {
    /// Stops a Pod, and forgets it afterwards if the request says so. Returns at once; reports tell the rest. The
    /// request outlives this agent from the moment that the Pod is reported as [`crate::PodStage::Terminating`].
    ///
    /// # Errors
    /// [`UnknownPod`].
    pub fn stop(&self, uid: &PodUid, request: StopRequest) -> Result<(), UnknownPod> {
        self.shared.workers.handle(uid)?.mailbox.stop(request);
        Ok(())
    }

    /// Stops a Pod and waits until nothing of it runs any more (upstream's `killPodNow`): the longer of 10 s and one and
    /// a half times its grace. Dropping the call takes nothing back.
    ///
    /// # Errors
    /// [`KillError`]; a Pod that is not stopped in time is told of as `ExceededGracePeriod`, and still stops later.
    pub async fn stop_now(&self, uid: &PodUid, request: StopRequest) -> Result<(), KillError> {
        self.shared.workers.stop_now(uid, request).await
    }

    /// Stops a Pod because the machine needs its place. It fails with this reason and a `DisruptionTarget` condition,
    /// both told once nothing of it runs. A Pod that ends already because it failed or completed keeps its own
    /// reason. Returns at once.
    ///
    /// # Errors
    /// [`UnknownPod`].
    pub fn evict(&self, uid: &PodUid, eviction: Eviction) -> Result<(), UnknownPod> {
        self.shared.workers.handle(uid)?.mailbox.evict(eviction);
        Ok(())
    }

    /// [`Self::evict`], and waits like [`Self::stop_now`].
    ///
    /// # Errors
    /// [`KillError`].
    pub async fn evict_now(&self, uid: &PodUid, eviction: Eviction) -> Result<(), KillError> {
        self.shared.workers.evict_now(uid, eviction).await
    }

    /// What may be said of a Pod, by its worker's word.
    #[must_use]
    pub fn ask(&self, uid: &PodUid) -> Answers {
        self.shared.workers.registry.answers(uid)
    }
}

impl WorkerContext {
    fn handle(&self, uid: &PodUid) -> Result<WorkerHandle, UnknownPod> {
        self.registry.get(uid).ok_or_else(|| UnknownPod(uid.clone()))
    }

    /// See [`Kubelet::stop_now`].
    pub(crate) async fn stop_now(&self, uid: &PodUid, request: StopRequest) -> Result<(), KillError> {
        let handle = self.handle(uid)?;
        handle.mailbox.stop(request);
        self.wait_stopped(&handle, request.grace).await
    }

    /// See [`Kubelet::evict_now`].
    pub(crate) async fn evict_now(&self, uid: &PodUid, eviction: Eviction) -> Result<(), KillError> {
        let (handle, grace) = (self.handle(uid)?, eviction.grace);
        handle.mailbox.evict(eviction);
        self.wait_stopped(&handle, grace).await
    }

    async fn wait_stopped(&self, handle: &WorkerHandle, requested: Option<Duration>) -> Result<(), KillError> {
        let uid = &handle.key.uid;
        let pod = self.hub.get(uid).map(|report| report.pod).unwrap_or_default();
        let bound = bound(effective_grace(&pod, None, requested));
        if timeout(bound, handle.stopped()).await.is_ok() {
            return Ok(());
        }
        let error = KillError::ExceededGracePeriod { pod: uid.clone(), bound };
        let message = "Container runtime did not kill the pod within specified grace period.";
        self.sync.recorder.warning(uid, None, "ExceededGracePeriod", message);
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_pod_now_waits_ten_seconds_or_half_more_than_the_grace() {
        let s = Duration::from_secs;
        for (grace, expected) in [(0, 10_000), (1, 10_000), (6, 10_000), (7, 10_500), (30, 45_000)] {
            assert_eq!(bound(s(grace)), Duration::from_millis(expected), "{grace} s");
        }
        assert_eq!(bound(Duration::MAX), Duration::MAX);
    }
}

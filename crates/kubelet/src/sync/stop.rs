//! Stops the containers of a Pod: all at once, except that sidecars wait for what they serve.
//!
//! For each container the grace period is one budget: preStop, the wait of a sidecar and the stop signal share it.
//! What is left for the signal is at least two seconds, unless the Pod is to be killed at once.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use minke_core::containers::container_named;
use minke_core::identity::PodKey;
use minke_core::resources::is_sidecar;
use minke_core::runtime::{ContainerId, ContainerState, PodRuntimeStatus, RuntimeError, error_chain};
use minke_core::status::FatalProbe;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{CALL_TIMEOUT, SyncContext, hooks};
use crate::DesiredPod;
use crate::pleg::bounded;

/// The least that a stop signal gets.
pub(super) const LEAST_GRACE: Duration = Duration::from_secs(2);

/// One container to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopPlan {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Places in the list of those that have to end first.
    pub waits_for: Vec<usize>,
}

/// The order in which what may run is stopped: a sidecar waits for all containers that are none, and for the sidecars
/// that started after it.
#[must_use]
pub fn stop_order(pod: &Pod, runtime: &PodRuntimeStatus) -> Vec<StopPlan> {
    let inits: &[Container] = pod.spec.as_ref().and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
    let rank = |name: &str| inits.iter().position(|c| c.name == name && is_sidecar(c));
    let live: Vec<_> = runtime
        .containers
        .iter()
        .filter(|c| matches!(c.state, ContainerState::Running { .. } | ContainerState::Unknown))
        .collect();
    let plan = |c: &&minke_core::runtime::ContainerStatus| {
        let own = rank(&c.name);
        let first = |other: &str| match (own, rank(other)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(own), Some(other)) => other > own,
        };
        let waits_for = live.iter().enumerate().filter(|(_, o)| first(&o.name)).map(|(i, _)| i).collect();
        StopPlan { id: c.id.clone(), name: c.name.clone(), waits_for }
    };
    live.iter().map(plan).collect()
}

/// Stops everything that may run of a Pod, within `grace`. Zero kills at once.
///
/// Cancel-safe: to be called again, perhaps with a shorter grace.
///
/// # Errors
/// The first failure, in words; the others were tried.
pub async fn stop_pod(
    ctx: &SyncContext,
    key: &PodKey,
    desired: Option<&DesiredPod>,
    runtime: &PodRuntimeStatus,
    grace: Duration,
) -> Result<(), String> {
    let nothing = Pod::default();
    let pod = desired.map_or(&nothing, |d| &*d.pod);
    let (plans, ips) = (stop_order(pod, runtime), ctx.pod_ips(pod, runtime));
    let ended: Vec<CancellationToken> = plans.iter().map(|_| CancellationToken::new()).collect();
    let stops = plans.iter().zip(&ended).map(|(plan, done)| {
        let container = desired.and_then(|d| container_named(&d.pod, &plan.name));
        let before: Vec<_> = plan.waits_for.iter().map(|i| ended[*i].clone()).collect();
        let doomed = Doomed { key, id: &plan.id, name: &plan.name, container, ips: &ips, grace };
        async move {
            let result =
                stop_one(ctx, doomed, "the pod ends", format!("Stopping container {}", plan.name), &before).await;
            if result.is_ok() {
                done.cancel();
            }
            result
        }
    });
    join_all(stops).await.into_iter().collect::<Result<Vec<()>, String>>().map(drop)
}

/// A container that is to be stopped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doomed<'a> {
    pub(super) key: &'a PodKey,
    pub(super) id: &'a ContainerId,
    pub(super) name: &'a str,
    /// Its spec, if it is known.
    pub(super) container: Option<&'a Container>,
    pub(super) ips: &'a [IpAddr],
    /// Zero kills at once.
    pub(super) grace: Duration,
}

/// Stops one container: its preStop hook, the wait for others, then the signal, all within its grace. `message` is for
/// people.
pub(super) async fn stop_one(
    ctx: &SyncContext,
    doomed: Doomed<'_>,
    why: &str,
    message: String,
    before: &[CancellationToken],
) -> Result<(), String> {
    let Doomed { key, id, name, container, ips, grace } = doomed;
    let begun = Instant::now();
    ctx.stopping(&key.uid, name, why);
    ctx.recorder.normal(&key.uid, Some(name), "Killing", message);
    if let Some(container) = container
        && !grace.is_zero()
    {
        hooks::pre_stop(ctx, hooks::Hooked { key, container, id, ips }, grace).await;
    }
    let left = grace.saturating_sub(begun.elapsed());
    // Those that are waited for have the same grace, so running out of it here is their failure, not this one's.
    drop(timeout(left, join_all(before.iter().map(CancellationToken::cancelled))).await);
    let used = Duration::from_secs(begun.elapsed().as_secs());
    let left = if grace.is_zero() { grace } else { grace.saturating_sub(used).max(LEAST_GRACE) };
    stop_now(ctx, id, left).await.map_err(|error| format!("can't stop container {name}: {}", error_chain(&error)))
}

async fn stop_now(ctx: &SyncContext, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
    match bounded("stop container", CALL_TIMEOUT + grace, ctx.runtime.stop_container(id, grace)).await {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}

/// How long one container gets to end while its Pod goes on: what the probe that condemned it says, else what the Pod
/// says.
pub(super) fn own_grace(pod: &Pod, container: Option<&Container>, condemned: Option<FatalProbe>) -> Duration {
    let probe = container.and_then(|c| match condemned? {
        FatalProbe::Liveness => c.liveness_probe.as_ref(),
        FatalProbe::Startup => c.startup_probe.as_ref(),
    });
    let own = probe.and_then(|p| p.termination_grace_period_seconds);
    let seconds = own.or_else(|| pod.spec.as_ref()?.termination_grace_period_seconds);
    seconds.and_then(|s| u64::try_from(s).ok()).map_or(LEAST_GRACE, Duration::from_secs).max(LEAST_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_grace_of_the_probe_that_condemned_wins() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"terminationGracePeriodSeconds": 30, "containers": [{
            "name": "c", "livenessProbe": {"terminationGracePeriodSeconds": 7}, "startupProbe": {},
        }]}}))
        .unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        for (condemned, expected) in [(Some(FatalProbe::Liveness), 7), (Some(FatalProbe::Startup), 30), (None, 30)] {
            let grace = own_grace(&pod, Some(container), condemned);
            assert_eq!(grace, Duration::from_secs(expected), "{condemned:?}");
        }
        assert_eq!(own_grace(&Pod::default(), None, None), LEAST_GRACE);
    }
}

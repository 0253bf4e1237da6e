//! Stops the containers of a Pod: all at once, except that sidecars wait for what they serve.
//!
//! For each container the grace period is one budget: preStop, the wait of a sidecar and the stop signal share it.
//! What is left for the signal is at least two seconds, unless the Pod is to be killed at once.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use minke_core::identity::PodKey;
use minke_core::resources::is_sidecar;
use minke_core::runtime::{ContainerId, ContainerState, PodRuntimeStatus, RuntimeError, error_chain};
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
    let plans = stop_order(pod, runtime);
    let ended: Vec<CancellationToken> = plans.iter().map(|_| CancellationToken::new()).collect();
    let stops = plans.iter().zip(&ended).map(|(plan, done)| {
        let container = desired.and_then(|d| super::execute::find(d, &plan.name));
        let before: Vec<_> = plan.waits_for.iter().map(|i| ended[*i].clone()).collect();
        async move {
            let result = stop_one(ctx, key, container, plan, &runtime.ips, grace, before).await;
            if result.is_ok() {
                done.cancel();
            }
            result
        }
    });
    join_all(stops).await.into_iter().collect::<Result<Vec<()>, String>>().map(drop)
}

async fn stop_one(
    ctx: &SyncContext,
    key: &PodKey,
    container: Option<&Container>,
    plan: &StopPlan,
    ips: &[IpAddr],
    grace: Duration,
    before: Vec<CancellationToken>,
) -> Result<(), String> {
    let begun = Instant::now();
    ctx.stopping(&key.uid, &plan.name, "the pod ends");
    ctx.recorder.normal(&key.uid, Some(&plan.name), "Killing", format!("Stopping container {}", plan.name));
    if let Some(container) = container
        && !grace.is_zero()
    {
        hooks::pre_stop(ctx, key, container, ips, grace).await;
    }
    let left = grace.saturating_sub(begun.elapsed());
    // Those that are waited for have the same grace, so running out of it here is their failure, not this one's.
    drop(timeout(left, join_all(before.iter().map(CancellationToken::cancelled))).await);
    let used = Duration::from_secs(begun.elapsed().as_secs());
    let left = if grace.is_zero() { grace } else { grace.saturating_sub(used).max(LEAST_GRACE) };
    stop_now(ctx, &plan.id, left)
        .await
        .map_err(|error| format!("can't stop container {}: {}", plan.name, error_chain(&error)))
}

async fn stop_now(ctx: &SyncContext, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
    match bounded("stop container", CALL_TIMEOUT + grace, ctx.runtime.stop_container(id, grace)).await {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}

/// Stops a container whose postStart hook failed.
pub(super) async fn after_failed_hook(
    ctx: &SyncContext,
    key: &PodKey,
    desired: &DesiredPod,
    id: &ContainerId,
    container: &Container,
) {
    let own = desired.pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
    let grace = Duration::from_secs(own.and_then(|s| u64::try_from(s).ok()).unwrap_or(0)).max(LEAST_GRACE);
    ctx.stopping(&key.uid, &container.name, "its postStart hook failed");
    let message = format!("Stopping container {}: its postStart hook failed", container.name);
    ctx.recorder.normal(&key.uid, Some(&container.name), "Killing", message);
    if let Err(error) = stop_now(ctx, id, grace).await {
        tracing::warn!(pod = %key, container = container.name, error = error_chain(&error), "can't stop a container");
    }
}

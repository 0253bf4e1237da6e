//! Reads a Pod from the runtime. All the PLEG's runtime calls are here.

use std::cmp::Reverse;
use std::future::Future;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use minke_core::identity::PodUid;
use minke_core::runtime::{
    ContainerId, ContainerInfo, ListFilter, Operation, PodRuntimeStatus, Runtime, RuntimeError, SandboxId, SandboxInfo,
    SandboxState,
};
use tokio::time::timeout;

use super::record::{Record, group};
use super::relister::Outcome;

/// Calls of one Pod's inspection that run at a time.
const CALLS_AT_A_TIME: usize = 8;
/// Lists of one Pod that are out of date, one after the other, before the runtime is not believed.
const LOOKS: usize = 3;

pub(crate) async fn bounded<T>(
    operation: Operation,
    after: Duration,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    timeout(after, call).await.unwrap_or(Err(RuntimeError::TimedOut { operation, after }))
}

/// Lists sandboxes and then containers, so that a container never comes without the sandbox it was made in.
pub(super) async fn list(
    runtime: &dyn Runtime,
    filter: &ListFilter,
    after: Duration,
) -> Result<(Vec<SandboxInfo>, Vec<ContainerInfo>), RuntimeError> {
    let sandboxes = bounded("list sandboxes", after, runtime.list_sandboxes(filter)).await?;
    let containers = bounded("list containers", after, runtime.list_containers(filter)).await?;
    Ok((sandboxes, containers))
}

/// Lists one Pod.
pub(super) async fn list_pod(runtime: &dyn Runtime, uid: &PodUid, after: Duration) -> Result<Record, RuntimeError> {
    let (sandboxes, containers) = list(runtime, &ListFilter::pod(uid), after).await?;
    Ok(group(&sandboxes, &containers).remove(uid).unwrap_or_default())
}

/// Inspects what `record` lists. When something in it is gone by then the list is out of date and is made again, so
/// that a status is never less than its list: a sandbox that was left out would be made a second time.
pub(super) async fn look(runtime: &dyn Runtime, uid: &PodUid, mut record: Record, after: Duration) -> Outcome {
    for _ in 0..LOOKS {
        if record.is_empty() {
            return Outcome::Inspected { record, status: Ok(PodRuntimeStatus::empty(uid.clone())) };
        }
        match bounded("pod status", after, inspect(runtime, uid, &record)).await {
            Ok(Some(status)) => return Outcome::Inspected { record, status: Ok(status) },
            Ok(None) => {}
            Err(error) => return Outcome::Inspected { record, status: Err(error) },
        }
        record = match list_pod(runtime, uid, after).await {
            Ok(record) => record,
            Err(error) => return Outcome::NotListed(error),
        };
    }
    let error = RuntimeError::failed("pod status", "the runtime lists sandboxes or containers that it does not have");
    Outcome::Inspected { record, status: Err(error) }
}

/// Reads the full status of everything in `record`. `None`: something of it is gone.
async fn inspect(
    runtime: &dyn Runtime,
    uid: &PodUid,
    record: &Record,
) -> Result<Option<PodRuntimeStatus>, RuntimeError> {
    let ids: Vec<SandboxId> = record.sandboxes.iter().map(|item| SandboxId(item.id.clone())).collect();
    let mut sandboxes: Vec<_> = stream::iter(ids)
        .map(|id| async move { present(runtime.sandbox_status(&id).await) })
        .buffered(CALLS_AT_A_TIME)
        .try_filter_map(|status| async move { Ok(status) })
        .try_collect()
        .await?;
    let ids: Vec<ContainerId> = record.containers.iter().map(|item| ContainerId(item.id.clone())).collect();
    let mut containers: Vec<_> = stream::iter(ids)
        .map(|id| async move { present(runtime.container_status(&id).await) })
        .buffered(CALLS_AT_A_TIME)
        .try_filter_map(|status| async move { Ok(status) })
        .try_collect()
        .await?;
    if sandboxes.len() < record.sandboxes.len() || containers.len() < record.containers.len() {
        return Ok(None);
    }
    sandboxes.sort_by_key(|s| Reverse((s.info.attempt, s.info.created_at)));
    containers.sort_by_key(|c| Reverse((c.created_at, c.attempt)));
    let ips = match sandboxes.first() {
        Some(newest) if newest.info.state == SandboxState::Ready => newest.ips.clone(),
        Some(_) | None => Vec::new(),
    };
    Ok(Some(PodRuntimeStatus { uid: uid.clone(), sandboxes, containers, ips }))
}

fn present<T>(answer: Result<T, RuntimeError>) -> Result<Option<T>, RuntimeError> {
    match answer {
        Ok(status) => Ok(Some(status)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads one Pod directly, past the cache: for the last look at a Pod that was stopped, and for run-once, where no
/// PLEG runs.
///
/// # Errors
/// Whatever the runtime answers; [`RuntimeError::TimedOut`] after `after` for a list or the whole inspection.
pub async fn read_pod(runtime: &dyn Runtime, uid: &PodUid, after: Duration) -> Result<PodRuntimeStatus, RuntimeError> {
    let record = list_pod(runtime, uid, after).await?;
    match look(runtime, uid, record, after).await {
        Outcome::Inspected { status, record: _ } => status,
        Outcome::NotListed(error) => Err(error),
        Outcome::Unchanged => Ok(PodRuntimeStatus::empty(uid.clone())),
    }
}

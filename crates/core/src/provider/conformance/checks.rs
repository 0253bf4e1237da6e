//! The checks, one promise each.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::{Bench, failed};
use crate::provider::{DesiredPod, Notices, ProviderError};

type Checked = Result<(), String>;

fn ensure(holds: bool, why: impl Into<String>) -> Checked {
    if holds { Ok(()) } else { Err(why.into()) }
}

pub(super) async fn unknown_pods_are_none(bench: &Bench<'_>) -> Checked {
    let (key, _) = bench.desired("nobody", "nobody-1")?;
    ensure(bench.get(&key).await?.is_none(), "get returned a pod that was never created")?;
    let status = bench.provider.status(&key).await.map_err(|error| failed("status", &error))?;
    ensure(status.is_none(), "there is a status of a pod that was never created")
}

pub(super) async fn a_created_pod_is_held_and_listed(bench: &Bench<'_>) -> Checked {
    let (key, desired) = bench.created("held", "held-1").await?;
    let held = bench.get(&key).await?.ok_or("get does not return a pod that was just created")?;
    ensure(held.key == key, format!("get returned {} for {key}", held.key))?;
    ensure(held.pod.metadata.uid == desired.pod.metadata.uid, "the uid of the pod was changed")?;
    ensure(bench.listed().await? == [key], "the list is not the one pod that was created")
}

pub(super) async fn creating_twice_is_one_pod(bench: &Bench<'_>) -> Checked {
    let (key, desired) = bench.created("twice", "twice-1").await?;
    bench.provider.create(&desired).await.map_err(|error| failed("a second create", &error))?;
    ensure(bench.listed().await? == [key], "creating a pod twice did not leave one")
}

pub(super) async fn its_status_arrives(bench: &Bench<'_>) -> Checked {
    let (key, _) = bench.created("status", "status-1").await?;
    let deadline = Instant::now() + bench.harness.patience();
    loop {
        let status = bench.provider.status(&key).await.map_err(|error| failed("status", &error))?;
        let status = status.ok_or("a pod that is held has no status")?;
        let told = match bench.notices {
            Notices::Polled => true,
            Notices::Pushed => bench.heard.any(|told, news| *told == key && news.is_some_and(|s| s.phase.is_some())),
        };
        if status.phase.as_deref() == Some("Running") && told {
            return Ok(());
        }
        bench.pause(deadline, "the pod to be reported as running").await?;
    }
}

pub(super) async fn updates_are_kept(bench: &Bench<'_>) -> Checked {
    let (key, desired) = bench.created("update", "update-1").await?;
    let mut pod = (*desired.pod).clone();
    pod.metadata.labels.get_or_insert_default().insert("minke.dev/conformance".to_owned(), "changed".to_owned());
    let changed = DesiredPod { pod: Arc::new(pod), objects: desired.objects };
    bench.provider.update(&changed).await.map_err(|error| failed("update", &error))?;
    let held = bench.get(&key).await?.ok_or("an update lost the pod")?;
    ensure(held.pod.metadata.labels == changed.pod.metadata.labels, "get returns the pod as it was before the update")
}

pub(super) async fn updating_an_unknown_pod_is_not_found(bench: &Bench<'_>) -> Checked {
    let (_, desired) = bench.desired("stranger", "stranger-1")?;
    match bench.provider.update(&desired).await {
        Err(ProviderError::NotFound { .. }) => Ok(()),
        Err(error) => Err(failed("update", &error)),
        Ok(()) => Err("updating a pod that is not held succeeded".to_owned()),
    }
}

pub(super) async fn deleting_ends_and_forgets(bench: &Bench<'_>) -> Checked {
    let (key, _) = bench.created("delete", "delete-1").await?;
    bench.delete(&key).await?;
    bench.forgotten(&key).await?;
    ensure(bench.listed().await?.is_empty(), "a pod that is forgotten is still listed")?;
    if bench.notices == Notices::Polled {
        return Ok(());
    }
    let deadline = Instant::now() + bench.harness.patience();
    while !bench.heard.any(|told, news| *told == key && news.is_none()) {
        bench.pause(deadline, "the end of the pod to be told").await?;
    }
    Ok(())
}

pub(super) async fn deleting_twice_and_the_unknown_succeeds(bench: &Bench<'_>) -> Checked {
    let (key, _) = bench.created("gone", "gone-1").await?;
    bench.delete(&key).await?;
    bench.delete(&key).await?;
    bench.forgotten(&key).await?;
    bench.delete(&key).await?;
    let (unknown, _) = bench.desired("never", "never-1")?;
    bench.delete(&unknown).await
}

pub(super) async fn a_uid_is_a_pod_of_its_own(bench: &Bench<'_>) -> Checked {
    let (first, _) = bench.created("again", "again-1").await?;
    bench.delete(&first).await?;
    bench.forgotten(&first).await?;
    let (second, _) = bench.created("again", "again-2").await?;
    bench.delete(&first).await?;
    ensure(bench.get(&first).await?.is_none(), "the first pod is back")?;
    ensure(bench.get(&second).await?.is_some(), "deleting a former pod of the same name ended its successor")
}

/// Each call is polled a few times and dropped; whatever it did, the list tells of it and a delete undoes it.
pub(super) async fn dropped_calls_leave_what_is_listed(bench: &Bench<'_>) -> Checked {
    for polls in 1..4 {
        let (key, desired) = bench.desired("dropped", &format!("dropped-{polls}"))?;
        poll_some(bench.provider.create(&desired), polls).await;
        let (held, listed) = (bench.get(&key).await?.is_some(), bench.listed().await?.contains(&key));
        ensure(held == listed, format!("after {polls} polls of create, get says {held} and the list {listed}"))?;
        poll_some(bench.provider.delete(&key, Duration::ZERO), polls).await;
        bench.delete(&key).await?;
        bench.forgotten(&key).await?;
    }
    Ok(())
}

async fn poll_some<T>(call: impl Future<Output = T>, polls: usize) {
    let mut call = std::pin::pin!(call);
    let mut left = polls;
    std::future::poll_fn(|context| {
        left -= 1;
        if call.as_mut().poll(context).is_ready() || left == 0 {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

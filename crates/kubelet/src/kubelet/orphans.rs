//! Pods that the runtime has and nobody knows: left by an agent whose checkpoint is gone.
//!
//! Only what this agent's state directory made is touched: every sandbox carries its owner as an annotation. A Pod
//! whose checkpoint is there but can't be read is left alone, because somebody may still want it.

use std::sync::Arc;

use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::error_chain;

use crate::pleg::read_pod;
use crate::pod_set::PodSet;
use crate::sync::{CALL_TIMEOUT, OWNER, stop_pod};
use crate::worker::grace::ORPHAN_GRACE;
use crate::worker::{WorkerContext, remove_sandboxes, stop_sandboxes};

/// Ends orphans as they are found, each by itself: one that hangs keeps no other. One that can't be ended is found again
/// by the next full relist.
pub(super) async fn run(ctx: Arc<WorkerContext>, unknown: PodSet, unreadable: Vec<PodUid>) {
    loop {
        let uid = unknown.next().await;
        if unreadable.contains(&uid) {
            continue;
        }
        let Some(ending) = ctx.registry.begin_orphan(&uid) else { continue };
        let own = ctx.clone();
        ctx.tasks.spawn(ctx.cancel.clone().run_until_cancelled_owned(async move {
            if let Err(message) = end(&own, &uid).await {
                tracing::warn!(pod = %uid, message, "can't end an orphaned pod");
            }
            drop(ending);
        }));
    }
}

async fn end(ctx: &Arc<WorkerContext>, uid: &PodUid) -> Result<(), String> {
    let words = |e| error_chain(&e);
    let status = read_pod(&*ctx.sync.runtime, uid, CALL_TIMEOUT).await.map_err(words)?;
    let Some(key) = owned(ctx, &status.sandboxes) else { return Ok(()) };
    // It may have been taken on meanwhile.
    if ctx.registry.get(uid).is_some() {
        return Ok(());
    }
    tracing::info!(pod = %key, "ending a pod that nobody knows");
    stop_pod(&ctx.sync, &key, None, &status, ORPHAN_GRACE).await?;
    stop_sandboxes(ctx, &key).await.map_err(words)?;
    remove_sandboxes(ctx, &key).await.map_err(words)?;
    ctx.sync.host.remove_cgroups(uid).await.map_err(|e| e.message)?;
    ctx.sync.host.tear_down(uid).await.map_err(|e| e.message)?;
    ctx.sync.host.remove_logs(&key).await.map_err(|e| e.message)?;
    ctx.pleg.request(uid);
    Ok(())
}

fn owned(ctx: &WorkerContext, sandboxes: &[minke_core::runtime::SandboxStatus]) -> Option<PodKey> {
    let mine = |s: &&minke_core::runtime::SandboxStatus| {
        s.annotations.get(OWNER).is_some_and(|owner| *owner == ctx.sync.owner)
    };
    let all = !sandboxes.is_empty() && sandboxes.iter().all(|s| mine(&s));
    all.then(|| sandboxes[0].info.pod.clone())
}

//! What is done now and then: dead containers and sandboxes that are no longer needed go, logs are rotated, back-off
//! of Pods that are gone is forgotten. Nothing here is on the way of a Pod.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use minke_core::runtime::{ContainerId, ContainerState, PodRuntimeStatus, SandboxId, SandboxState, error_chain};

use crate::PodStage;
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;
use crate::worker::WorkerContext;

/// Between two rounds.
const PERIOD: Duration = Duration::from_secs(10);
/// Dead instances kept of each container name.
const KEEP: usize = 1;

pub(super) async fn run(ctx: Arc<WorkerContext>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        for worker in ctx.registry.all() {
            if worker.stage() != PodStage::Syncing {
                continue;
            }
            let status = ctx.cache.get(&worker.key.uid).status;
            ctx.sync.host.rotate_logs(&status).await;
            collect(&ctx, &garbage(&status)).await;
        }
        ctx.sync.images.collect_garbage(|uid| ctx.registry.get(uid).is_some());
    }
}

/// Removes what nobody needs, whatever its age: dead containers beyond those that say what to do next, and images
/// that no container has.
pub(super) async fn reclaim(ctx: &WorkerContext) {
    for worker in ctx.registry.all() {
        collect(ctx, &garbage(&ctx.cache.get(&worker.key.uid).status)).await;
    }
    let images = bounded("list images", CALL_TIMEOUT, ctx.sync.runtime.list_images()).await.unwrap_or_default();
    for image in images {
        // The store refuses to remove what a container has.
        if let Err(error) = bounded("remove image", CALL_TIMEOUT, ctx.sync.runtime.remove_image(&image.id.0)).await {
            tracing::debug!(image = %image.id, error = error_chain(&error), "an image stays");
        }
    }
}

/// What may go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Garbage {
    containers: Vec<ContainerId>,
    sandboxes: Vec<SandboxId>,
}

/// Of each name all but the newest dead instances, and sandboxes that are dead, empty and not the newest. The newest
/// instance of a name always stays: it says what to do next.
fn garbage(status: &PodRuntimeStatus) -> Garbage {
    let mut dead: HashMap<&str, usize> = HashMap::new();
    let mut garbage = Garbage::default();
    for container in &status.containers {
        if !matches!(container.state, ContainerState::Exited { .. }) {
            continue;
        }
        let seen = dead.entry(&container.name).or_default();
        *seen += 1;
        if *seen > KEEP {
            garbage.containers.push(container.id.clone());
        }
    }
    for sandbox in status.sandboxes.iter().skip(1) {
        let used =
            status.containers.iter().any(|c| c.sandbox == sandbox.info.id && !garbage.containers.contains(&c.id));
        if sandbox.info.state == SandboxState::NotReady && !used {
            garbage.sandboxes.push(sandbox.info.id.clone());
        }
    }
    garbage
}

async fn collect(ctx: &WorkerContext, garbage: &Garbage) {
    let runtime = &ctx.sync.runtime;
    for id in &garbage.containers {
        if let Err(error) = bounded("remove container", CALL_TIMEOUT, runtime.remove_container(id)).await {
            tracing::debug!(container = %id, error = error_chain(&error), "can't remove a dead container");
        }
    }
    for id in &garbage.sandboxes {
        // Stopped once more: a stop that was cut off may have left something.
        let stopped = bounded("stop sandbox", CALL_TIMEOUT, runtime.stop_sandbox(id)).await;
        let removed = match stopped {
            Ok(()) => bounded("remove sandbox", CALL_TIMEOUT, runtime.remove_sandbox(id)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::debug!(sandbox = %id, error = error_chain(&error), "can't remove a dead sandbox");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use minke_core::identity::{PodKey, PodUid};
    use minke_core::runtime::{ContainerStatus, Exit, ExitCode, ImageId, NamespaceOptions, SandboxInfo, SandboxStatus};

    use super::*;

    fn container(id: &str, sandbox: &str, running: bool) -> ContainerStatus {
        let state = if running {
            ContainerState::Running { started_at: Timestamp::UNIX_EPOCH }
        } else {
            let (reason, message) = (String::new(), String::new());
            let exit = Exit { code: ExitCode::Known(0), reason, message, finished_at: Timestamp::UNIX_EPOCH };
            ContainerState::Exited { started_at: None, exit }
        };
        ContainerStatus {
            id: ContainerId(id.to_owned()),
            sandbox: SandboxId(sandbox.to_owned()),
            pod: PodUid::new("u").unwrap(),
            name: id[..1].to_owned(),
            attempt: 0,
            created_at: Timestamp::UNIX_EPOCH,
            state,
            image_name: String::new(),
            image: ImageId(String::new()),
            log_path: "/log".into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            uid: None,
        }
    }

    fn sandbox(id: &str, state: SandboxState) -> SandboxStatus {
        let pod = PodKey::new("default", "p", PodUid::new("u").unwrap());
        let id = SandboxId(id.to_owned());
        SandboxStatus {
            info: SandboxInfo { id, pod, attempt: 0, state, created_at: Timestamp::UNIX_EPOCH },
            ips: Vec::new(),
            namespaces: NamespaceOptions::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn found(containers: Vec<ContainerStatus>, sandboxes: Vec<SandboxStatus>) -> (Vec<String>, Vec<String>) {
        let status = PodRuntimeStatus { sandboxes, containers, ..PodRuntimeStatus::empty(PodUid::new("u").unwrap()) };
        let garbage = garbage(&status);
        (garbage.containers.into_iter().map(|c| c.0).collect(), garbage.sandboxes.into_iter().map(|s| s.0).collect())
    }

    #[test]
    fn one_dead_instance_of_each_name_is_kept() {
        let containers = vec![
            container("a3", "s", true),
            container("a2", "s", false),
            container("a1", "s", false),
            container("a0", "s", false),
            container("b0", "s", false),
        ];
        assert_eq!(found(containers, vec![]).0, ["a1", "a0"]);
    }

    #[test]
    fn a_dead_sandbox_goes_when_it_is_empty_and_not_the_newest() {
        let dead = SandboxState::NotReady;
        let sandboxes = vec![sandbox("s2", dead), sandbox("s1", dead), sandbox("s0", dead)];
        let containers = vec![container("a1", "s1", false)];
        assert_eq!(found(containers, sandboxes).1, ["s0"], "the newest says what to do next; s1 holds a last state");
    }
}

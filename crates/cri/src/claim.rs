//! Names that an earlier call holds.
//!
//! From the moment that a sandbox or container is asked for, a runtime makes no other one of the same Pod, name and attempt.
//! An agent that is killed in the middle of such a call leaves it to the runtime, which takes it back or makes it whole, and
//! nobody has heard of its id. The next agent waits until that is decided, and goes on with what came of it:
//!
//! | what has the name | what is done |
//! |---|---|
//! | nothing that is listed | asked again in a moment: it is being made, or was just taken back |
//! | a sandbox that is ready | it is the one that was wanted |
//! | a container of ours that was never started | removed and made again: the configuration may have changed |
//! | anything else | told as it is; whoever looks next sees it and counts on |

use std::time::Duration;

use minke_core::runtime::{RuntimeError, SandboxId, labels};
use tokio::time::Instant;

use crate::convert::own;
use crate::error::{Subject, is_claimed};
use crate::runtime::{CallError, Inner};
use crate::sandboxes::gone_is_done;
use crate::{api, deadline};

/// What is to be done about a name that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    /// Ask again after a moment.
    Wait,
    /// Take over the sandbox with this id.
    Adopt(String),
    /// Remove the container with this id and ask again.
    Remove(String),
    /// Leave it to the caller.
    Tell,
}

/// How long is waited between two questions, and until when at all.
struct Patience {
    begun: Instant,
    pause: Duration,
}

impl Patience {
    fn new() -> Self {
        Self { begun: Instant::now(), pause: Duration::from_millis(20) }
    }

    /// Whether the answer says that the name is held, and there is still time.
    fn covers(&self, error: &CallError) -> bool {
        error.status().is_some_and(is_claimed) && self.begun.elapsed() < deadline::CLAIMED
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(500));
    }
}

/// Makes a sandbox, or takes over the one that an earlier agent has asked for.
pub(crate) async fn run_sandbox(inner: &Inner, request: &api::RunPodSandboxRequest) -> Result<SandboxId, CallError> {
    let mut patience = Patience::new();
    loop {
        let mut client = inner.connection.runtime();
        let made = inner.bounded(Some(deadline::RUN_SANDBOX), client.run_pod_sandbox(request.clone())).await;
        let error = match made {
            Ok(made) => return Ok(SandboxId(made.pod_sandbox_id)),
            Err(error) if patience.covers(&error) => error,
            Err(error) => return Err(error),
        };
        let Some(wanted) = request.config.as_ref() else { return Err(error) };
        let next = sandbox_holds(&sandboxes(inner, wanted).await?, wanted);
        match next {
            Next::Adopt(id) => {
                tracing::info!(sandbox = id, "taking over the sandbox that an earlier agent asked for");
                return Ok(SandboxId(id));
            }
            Next::Wait => patience.pause().await,
            Next::Remove(_) | Next::Tell => return Err(error),
        }
    }
}

/// Makes a container; one that an earlier agent asked for and never started makes room.
pub(crate) async fn create_container(
    inner: &Inner,
    request: &api::CreateContainerRequest,
) -> Result<String, CallError> {
    let mut patience = Patience::new();
    loop {
        let mut client = inner.connection.runtime();
        let made = inner.bounded(Some(deadline::CALL), client.create_container(request.clone())).await;
        let error = match made {
            Ok(made) => return Ok(made.container_id),
            Err(error) if patience.covers(&error) => error,
            Err(error) => return Err(error),
        };
        let Some(wanted) = request.config.as_ref() else { return Err(error) };
        let next = container_holds(&containers(inner, wanted).await?, wanted);
        match next {
            Next::Remove(id) => {
                tracing::info!(container = id, "removing what an earlier agent asked for and never started");
                let request = api::RemoveContainerRequest { container_id: id.clone() };
                let mut client = inner.connection.runtime();
                let removed = inner.bounded(Some(deadline::CALL), client.remove_container(request)).await;
                let told = removed.map(drop).map_err(|e| e.into_runtime("remove container", Subject::Container(&id)));
                if let Err(RuntimeError::Unavailable { .. }) = gone_is_done(told) {
                    return Err(error);
                }
                patience.pause().await;
            }
            Next::Wait => patience.pause().await,
            Next::Adopt(_) | Next::Tell => return Err(error),
        }
    }
}

fn of_pod(labels: &std::collections::HashMap<String, String>) -> Option<&String> {
    labels.get(labels::POD_UID)
}

async fn sandboxes(inner: &Inner, wanted: &api::PodSandboxConfig) -> Result<Vec<api::PodSandbox>, CallError> {
    let label_selector = of_pod(&wanted.labels).map(|uid| (labels::POD_UID.to_owned(), uid.clone()));
    let filter = api::PodSandboxFilter { label_selector: label_selector.into_iter().collect(), ..Default::default() };
    let request = api::ListPodSandboxRequest { filter: Some(filter) };
    let mut client = inner.connection.runtime();
    Ok(inner.bounded(Some(deadline::CALL), client.list_pod_sandbox(request)).await?.items)
}

async fn containers(inner: &Inner, wanted: &api::ContainerConfig) -> Result<Vec<api::Container>, CallError> {
    let label_selector = of_pod(&wanted.labels).map(|uid| (labels::POD_UID.to_owned(), uid.clone()));
    let filter = api::ContainerFilter { label_selector: label_selector.into_iter().collect(), ..Default::default() };
    let request = api::ListContainersRequest { filter: Some(filter) };
    let mut client = inner.connection.runtime();
    Ok(inner.bounded(Some(deadline::CALL), client.list_containers(request)).await?.containers)
}

/// What holds the name of this sandbox, by what is listed of its Pod.
fn sandbox_holds(listed: &[api::PodSandbox], wanted: &api::PodSandboxConfig) -> Next {
    let same = |sandbox: &&api::PodSandbox| {
        of_pod(&sandbox.labels) == of_pod(&wanted.labels) && sandbox.metadata == wanted.metadata
    };
    match listed.iter().find(same) {
        None => Next::Wait,
        Some(sandbox) if sandbox.state() == api::PodSandboxState::SandboxReady => Next::Adopt(sandbox.id.clone()),
        Some(_) => Next::Tell,
    }
}

/// What holds the name of this container, by what is listed of its Pod.
fn container_holds(listed: &[api::Container], wanted: &api::ContainerConfig) -> Next {
    let same = |container: &&api::Container| {
        of_pod(&container.labels) == of_pod(&wanted.labels) && container.metadata == wanted.metadata
    };
    match listed.iter().find(same) {
        None => Next::Wait,
        Some(container)
            if container.state() == api::ContainerState::ContainerCreated
                && container.annotations.contains_key(own::SANDBOX) =>
        {
            Next::Remove(container.id.clone())
        }
        Some(_) => Next::Tell,
    }
}

//! Sandboxes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use minke_core::identity::PodUid;
use minke_core::runtime::{
    ListFilter, RuntimeError, SandboxConfig, SandboxId, SandboxInfo, SandboxService, SandboxStatus, error_chain, labels,
};
use tokio::time::Instant;
use tonic::Code;

use crate::containers::make_true;
use crate::convert::{own, sandbox};
use crate::error::Subject;
use crate::runtime::{CallError, CriRuntime, Inner};
use crate::{api, claim, deadline};

const RUN: &str = "run sandbox";
const STOP: &str = "stop sandbox";
const REMOVE: &str = "remove sandbox";
const STATUS: &str = "sandbox status";

#[async_trait]
impl SandboxService for CriRuntime {
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let (inner, handler) = (self.inner.clone(), config.runtime_handler.clone());
        if config.namespaces.user.is_some() && !inner.facts.handler(&handler).user_namespaces {
            let feature = format!(
                "user namespaces (hostUsers: false); {} {} does not offer them",
                inner.facts.name, inner.facts.version
            );
            return Err(RuntimeError::Unsupported { operation: RUN, feature });
        }
        let name = format!("{} attempt {}", config.pod, config.attempt);
        let (config, there) = (config.clone(), sandbox::config(config, inner.facts.cgroup_driver));
        Self::to_the_end(RUN, async move {
            let run = async {
                make_group(&inner, &config).await?;
                let request = api::RunPodSandboxRequest { config: Some(there), runtime_handler: handler };
                claim::run_sandbox(&inner, &request).await.map_err(|e| match e.status().map(tonic::Status::code) {
                    // Something that it needs; the sandbox itself can't be missing.
                    Some(Code::NotFound) => e.into_runtime(RUN, Subject::Runtime),
                    Some(_) | None => e.into_runtime(RUN, Subject::Sandbox(&name)),
                })
            };
            let ran = run.await;
            inner.groups.made(&config.cgroup_parent);
            match ran {
                Ok(made) => {
                    inner.pods().insert(made.0.clone(), config.pod.uid);
                    Ok(made)
                }
                Err(error) => {
                    remove_group(&inner, config.cgroup_parent).await;
                    Err(error)
                }
            }
        })
        .await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let (inner, id) = (self.inner.clone(), id.clone());
        Self::to_the_end(STOP, async move {
            stop(&inner, &id).await?;
            if let Some(remains) = Remains::of(&inner, &id).await? {
                remains.end(&inner).await;
            }
            Ok(())
        })
        .await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let (inner, id) = (self.inner.clone(), id.clone());
        Self::to_the_end(REMOVE, async move { remove(&inner, &id).await }).await
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        let status = raw_status(&self.inner, id).await?;
        let nobodys = || RuntimeError::NotFound { operation: STATUS, what: "sandbox", id: id.0.clone() };
        status.and_then(sandbox::status).ok_or_else(nobodys)
    }

    async fn list_sandboxes(&self, filter: &ListFilter) -> Result<Vec<SandboxInfo>, RuntimeError> {
        let wanted = api::PodSandboxFilter { label_selector: selector(filter), ..Default::default() };
        let request = api::ListPodSandboxRequest { filter: filter.pod.as_ref().map(|_| wanted) };
        let inner = &self.inner;
        let mut client = inner.connection.runtime();
        let listed = inner.question("list sandboxes", Subject::Runtime, client.list_pod_sandbox(request)).await;
        let listed: Vec<SandboxInfo> = listed?.items.iter().filter_map(sandbox::info).collect();
        let known = listed.iter().map(|s| (s.id.0.clone(), s.pod.uid.clone()));
        match &filter.pod {
            Some(_) => inner.pods().extend(known),
            // What is not there any more is still told of once: by the event of its removal.
            None => keep(&mut inner.pods(), known.collect()),
        }
        // A runtime that does not know the selector would list everything.
        Ok(listed.into_iter().filter(|s| filter.pod.as_ref().is_none_or(|pod| *pod == s.pod.uid)).collect())
    }
}

/// Most sandboxes of which it is remembered whose they were.
const REMEMBERED: usize = 4096;

fn keep(pods: &mut HashMap<String, PodUid>, listed: HashMap<String, PodUid>) {
    if pods.len() > REMEMBERED {
        pods.retain(|id, _| listed.contains_key(id));
    }
    pods.extend(listed);
}

/// Only of this Pod.
pub(crate) fn selector(filter: &ListFilter) -> HashMap<String, String> {
    filter.pod.iter().map(|pod| (labels::POD_UID.to_owned(), pod.to_string())).collect()
}

/// What is not there has been stopped and removed.
pub(crate) fn gone_is_done(result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}

async fn raw_status(inner: &Inner, id: &SandboxId) -> Result<Option<api::PodSandboxStatus>, RuntimeError> {
    let request = api::PodSandboxStatusRequest { pod_sandbox_id: id.0.clone(), verbose: false };
    let mut client = inner.connection.runtime();
    Ok(inner.question(STATUS, Subject::Sandbox(&id.0), client.pod_sandbox_status(request)).await?.status)
}

/// Makes the Pod's cgroup with the limits on the Pod as a whole, before anything is in it.
async fn make_group(inner: &Arc<Inner>, config: &SandboxConfig) -> Result<(), RuntimeError> {
    let (inner, path, limits) = (Arc::clone(inner), config.cgroup_parent.clone(), config.resources.clone());
    let made = tokio::task::spawn_blocking(move || inner.groups.make(&path, &limits)).await;
    made.map_err(|error| RuntimeError::failed(RUN, error))?.map_err(|error| {
        if error.is_not_permitted() {
            RuntimeError::NotPermitted { operation: RUN, message: error_chain(&error) }
        } else {
            RuntimeError::failed(RUN, error)
        }
    })
}

/// Removes a Pod's cgroup, if nothing is in it. Nobody waits for it to succeed: what is left is an empty directory.
async fn remove_group(inner: &Arc<Inner>, path: String) {
    let inner = Arc::clone(inner);
    drop(tokio::task::spawn_blocking(move || inner.groups.remove(&path)).await);
}

/// Whether the runtime knows no sandbox of this Pod.
async fn has_none(inner: &Inner, pod: &str) -> bool {
    let label_selector = [(labels::POD_UID.to_owned(), pod.to_owned())].into();
    let filter = api::PodSandboxFilter { label_selector, ..Default::default() };
    let request = api::ListPodSandboxRequest { filter: Some(filter) };
    let mut client = inner.connection.runtime();
    let listed = inner.question("list sandboxes", Subject::Runtime, client.list_pod_sandbox(request)).await;
    let is_its = |sandbox: &api::PodSandbox| sandbox.labels.get(labels::POD_UID).is_some_and(|uid| uid == pod);
    listed.is_ok_and(|listed| !listed.items.iter().any(is_its))
}

/// What a sandbox may leave on the machine. Who kills a shim takes away whoever would have ended its processes, that of the
/// sandbox itself among them, and removed their cgroups.
struct Remains {
    /// The Pod's cgroup.
    group: String,
    /// The sandbox and its containers.
    ids: Vec<String>,
    /// The Pod, as its labels say.
    pod: Option<String>,
}

impl Remains {
    /// Of a sandbox of ours, which is there.
    async fn of(inner: &Inner, id: &SandboxId) -> Result<Option<Self>, RuntimeError> {
        let mut status = match raw_status(inner, id).await {
            Ok(status) => status.unwrap_or_default(),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(group) = status.annotations.remove(own::CGROUP_PARENT) else { return Ok(None) };
        let pod = status.labels.remove(labels::POD_UID);
        let filter = api::ContainerFilter { pod_sandbox_id: id.0.clone(), ..Default::default() };
        let containers = crate::containers::list(inner, Some(filter)).await?.into_iter();
        // A runtime that does not know the filter would list everything.
        let ids = containers.filter(|container| container.pod_sandbox_id == id.0).map(|container| container.id);
        Ok(Some(Self { group, ids: ids.chain([id.0.clone()]).collect(), pod }))
    }

    /// Ends their processes.
    async fn end(&self, inner: &Arc<Inner>) {
        for id in &self.ids {
            make_true(inner, &self.group, id).await;
        }
    }

    /// Removes their groups, and the Pod's if nothing else is in it. With its last sandbox nothing may be.
    async fn clear(self, inner: &Arc<Inner>) {
        let last = match &self.pod {
            Some(pod) => has_none(inner, pod).await,
            None => false,
        };
        let (own, Self { group, ids, pod: _ }) = (Arc::clone(inner), self);
        let path = group.clone();
        drop(tokio::task::spawn_blocking(move || ids.iter().for_each(|id| own.groups.clear(&path, id))).await);
        let begun = Instant::now();
        while last && begun.elapsed() < deadline::KILLED {
            let (own, path) = (Arc::clone(inner), group.clone());
            match tokio::task::spawn_blocking(move || own.groups.kill_pod(&path)).await {
                Ok(true) => tokio::time::sleep(Duration::from_millis(10)).await,
                Ok(false) | Err(_) => break,
            }
        }
        remove_group(inner, group).await;
    }
}

async fn stop(inner: &Inner, id: &SandboxId) -> Result<(), RuntimeError> {
    let request = api::StopPodSandboxRequest { pod_sandbox_id: id.0.clone() };
    let mut client = inner.connection.runtime();
    let stopped = inner.call(STOP, Subject::Sandbox(&id.0), client.stop_pod_sandbox(request)).await;
    gone_is_done(stopped.map(drop))
}

/// Stopped by the runtime first, as the kubelet does. A containerd that finds everything dead while it is to remove it may lose
/// the shim, which stays for ever.
async fn remove(inner: &Arc<Inner>, id: &SandboxId) -> Result<(), RuntimeError> {
    let remains = Remains::of(inner, id).await?;
    if let Some(remains) = &remains {
        if let Err(error) = stop(inner, id).await {
            // The removal stops as well, and tells what is wrong.
            tracing::debug!(sandbox = id.0, error = error_chain(&error), "not stopped before its removal");
        }
        remains.end(inner).await;
    }
    let request = api::RemovePodSandboxRequest { pod_sandbox_id: id.0.clone() };
    let removed = inner.bounded(Some(deadline::CALL), inner.connection.runtime().remove_pod_sandbox(request)).await;
    gone_is_done(removed.map(drop).map_err(|e: CallError| e.into_runtime(REMOVE, Subject::Sandbox(&id.0))))?;
    if let Some(remains) = remains {
        remains.clear(inner).await;
    }
    Ok(())
}

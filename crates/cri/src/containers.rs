//! Containers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerInfo, ContainerService, ContainerState, ContainerStatus, ImageUser,
    LinuxResources, ListFilter, RunAs, RuntimeError, SandboxConfig, SandboxId, error_chain,
};
use tokio::time::Instant;

use crate::convert::{container, image, own, resources, signal, state};
use crate::deadline::{stop, whole_seconds};
use crate::error::{Subject, Words, is_not_running};
use crate::runtime::{CriRuntime, Inner};
use crate::sandboxes::{gone_is_done, selector};
use crate::start::forget_cut_off;
use crate::{api, claim, deadline};

const CREATE: &str = "create container";
const START: &str = "start container";
const STOP: &str = "stop container";
const REMOVE: &str = "remove container";
const STATUS: &str = "container status";
const LIST: &str = "list containers";
const UPDATE: &str = "update resources";
const REOPEN: &str = "reopen log";

#[async_trait]
impl ContainerService for CriRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let inner = self.inner.clone();
        can_be_made(&inner, config, sandbox_config)?;
        make_log_directory(config, sandbox_config).await?;
        let user = image_user(&inner, config).await?;
        let mut there = container::config(config, sandbox, &sandbox_config.namespaces, user.as_ref());
        there.annotations.insert(own::CGROUP_PARENT.to_owned(), sandbox_config.cgroup_parent.clone());
        let pod = crate::convert::sandbox::config(sandbox_config, inner.facts.cgroup_driver);
        let (sandbox, name) = (sandbox.clone(), format!("{} attempt {}", config.name, config.attempt));
        let image = config.image_name.clone();
        Self::to_the_end(CREATE, async move {
            let request = api::CreateContainerRequest {
                pod_sandbox_id: sandbox.0.clone(),
                config: Some(there),
                sandbox_config: Some(pod),
            };
            let made = claim::create_container(&inner, &request).await.map_err(|error| {
                let words = error.status().map_or("", tonic::Status::message).to_owned();
                let missing_image = words.contains("image");
                match error.status().map(tonic::Status::code) {
                    Some(tonic::Code::NotFound) if missing_image => error.into_runtime(CREATE, Subject::Image(&image)),
                    Some(tonic::Code::NotFound) => error.into_runtime(CREATE, Subject::Sandbox(&sandbox.0)),
                    Some(_) | None => error.into_runtime(CREATE, Subject::Container(&name)),
                }
            })?;
            Ok(ContainerId(made))
        })
        .await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let (this, id) = (self.clone(), id.clone());
        Self::to_the_end(START, async move { this.start(&id).await }).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let inner = &self.inner;
        let request = api::StopContainerRequest { container_id: id.0.clone(), timeout: whole_seconds(grace) };
        let mut client = inner.connection.runtime();
        let stopped = inner.bounded(Some(stop(grace)), client.stop_container(request)).await;
        gone_is_done(stopped.map(drop).map_err(|e| e.into_runtime(STOP, Subject::Container(&id.0))))?;
        self.ended(id).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let (inner, id) = (self.inner.clone(), id.clone());
        Self::to_the_end(REMOVE, async move {
            let request = api::RemoveContainerRequest { container_id: id.0.clone() };
            let mut client = inner.connection.runtime();
            let removed = inner.call(REMOVE, Subject::Container(&id.0), client.remove_container(request));
            gone_is_done(removed.await.map(drop))
        })
        .await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let inner = &self.inner;
        let not_found = || RuntimeError::NotFound { operation: STATUS, what: "container", id: id.0.clone() };
        let request = api::ContainerStatusRequest { container_id: id.0.clone(), verbose: false };
        let mut client = inner.connection.runtime();
        let answer = inner.question(STATUS, Subject::Container(&id.0), client.container_status(request)).await?;
        let status = answer.status.ok_or_else(not_found)?;
        if let Some(group) = status.annotations.get(own::CGROUP_PARENT).filter(|_| state::may_live_on(&status)) {
            make_true(inner, group, &id.0).await;
        }
        if forget_cut_off(inner, &status).await? {
            return Err(not_found());
        }
        let sandbox = match container::sandbox(&status) {
            Some(sandbox) => sandbox,
            None => listed_sandbox(inner, id).await?.ok_or_else(not_found)?,
        };
        container::status(status, sandbox).ok_or_else(not_found)
    }

    async fn list_containers(&self, filter: &ListFilter) -> Result<Vec<ContainerInfo>, RuntimeError> {
        let wanted = api::ContainerFilter { label_selector: selector(filter), ..Default::default() };
        let listed = list(&self.inner, filter.pod.as_ref().map(|_| wanted)).await?;
        let listed = listed.into_iter().filter_map(container::info);
        Ok(listed.filter(|c| filter.pod.as_ref().is_none_or(|pod| *pod == c.pod)).collect())
    }

    async fn update_resources(&self, id: &ContainerId, limits: &LinuxResources) -> Result<(), RuntimeError> {
        let inner = &self.inner;
        let there = resources::resources(&LinuxResources { oom_score_adj: None, ..limits.clone() });
        let request = api::UpdateContainerResourcesRequest {
            container_id: id.0.clone(),
            linux: Some(there),
            ..Default::default()
        };
        let mut client = inner.connection.runtime();
        inner.call(UPDATE, Subject::Container(&id.0), client.update_container_resources(request)).await.map(drop)
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let inner = &self.inner;
        let request = api::ReopenContainerLogRequest { container_id: id.0.clone() };
        let mut client = inner.connection.runtime();
        match inner.bounded(Some(deadline::CALL), client.reopen_container_log(request)).await {
            Ok(_) => Ok(()),
            // Nobody writes any more.
            Err(error) if error.status().is_some_and(is_not_running) => Ok(()),
            Err(error) => Err(error.into_runtime(REOPEN, Subject::Container(&id.0))),
        }
    }
}

impl CriRuntime {
    /// Waits until a container that was stopped has ended for the runtime as well.
    ///
    /// Of a container whose shim was killed containerd has no task any more, and so says at once that it was stopped. It
    /// goes on showing it as running until it has dealt with the end of the shim, for which it comes back a second later,
    /// and then ever more seldom. Who believed it would start a second container beside the first, or stop one again and
    /// again.
    async fn ended(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(10));
        loop {
            match self.container_status(id).await.map(|status| status.state) {
                Ok(ContainerState::Exited { .. } | ContainerState::Created) => return Ok(()),
                Ok(ContainerState::Running { .. } | ContainerState::Unknown) => {}
                Err(error) => return gone_is_done(Err(error)),
            }
            if begun.elapsed() > deadline::STOPPED {
                let words = "the runtime says that it was stopped and does not show it as ended";
                return Err(RuntimeError::failed(STOP, Words(words.to_owned())));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }
}

/// Ends what still runs of a container or sandbox that the runtime calls ended. When a shim is killed, containerd 2 does not always
/// look after its containers' processes: it tells of their end, and they go on, unseen and beside those that take their
/// place.
pub(crate) async fn make_true(inner: &Arc<Inner>, group: &str, id: &str) {
    let begun = Instant::now();
    while begun.elapsed() < deadline::KILLED {
        let (inner, group, name) = (Arc::clone(inner), group.to_owned(), id.to_owned());
        match tokio::task::spawn_blocking(move || inner.groups.kill(&group, &name)).await {
            Ok(true) => tokio::time::sleep(Duration::from_millis(10)).await,
            Ok(false) | Err(_) => return,
        }
    }
    tracing::warn!(id, "processes of what has ended for the runtime can't be killed");
}

/// Containers as the runtime lists them.
pub(crate) async fn list(
    inner: &Inner,
    filter: Option<api::ContainerFilter>,
) -> Result<Vec<api::Container>, RuntimeError> {
    let request = api::ListContainersRequest { filter };
    let mut client = inner.connection.runtime();
    Ok(inner.question(LIST, Subject::Runtime, client.list_containers(request)).await?.containers)
}

/// The sandbox of somebody else's container, which has no note of it.
async fn listed_sandbox(inner: &Inner, id: &ContainerId) -> Result<Option<SandboxId>, RuntimeError> {
    let filter = api::ContainerFilter { id: id.0.clone(), ..Default::default() };
    let listed = list(inner, Some(filter)).await?;
    Ok(listed.into_iter().find(|c| c.id == id.0).map(|c| SandboxId(c.pod_sandbox_id)))
}

/// Refuses what the runtime would silently do otherwise.
fn can_be_made(inner: &Inner, config: &ContainerConfig, sandbox: &SandboxConfig) -> Result<(), RuntimeError> {
    let recursive = config.mounts.iter().find(|mount| mount.recursive_read_only);
    if let Some(mount) = recursive
        && !inner.facts.handler(&sandbox.runtime_handler).recursive_read_only
    {
        let feature = format!(
            "recursiveReadOnly (of {}); {} {} does not offer it",
            mount.container_path.display(),
            inner.facts.name,
            inner.facts.version
        );
        return Err(RuntimeError::Unsupported { operation: CREATE, feature });
    }
    if let Some(name) = &config.stop_signal
        && signal::signal(name).is_none()
    {
        return Err(RuntimeError::Invalid { operation: CREATE, message: format!("{name:?} is not a signal") });
    }
    Ok(())
}

/// Runtimes make the Pod's log directory, and not the container's in it.
async fn make_log_directory(config: &ContainerConfig, sandbox: &SandboxConfig) -> Result<(), RuntimeError> {
    let file = sandbox.log_directory.join(&config.log_path);
    let Some(directory) = file.parent() else { return Ok(()) };
    let failed = |error: std::io::Error| {
        let words = format!("can't make the log directory {}: {}", directory.display(), error_chain(&error));
        RuntimeError::failed(CREATE, Words(words))
    };
    tokio::fs::create_dir_all(directory).await.map_err(failed)
}

/// Who the image says it runs as, when only a group is given: CRI refuses a group without a user.
async fn image_user(inner: &Inner, config: &ContainerConfig) -> Result<Option<RunAs>, RuntimeError> {
    if config.security.run_as != RunAs::Image || config.security.run_as_group.is_none() {
        return Ok(None);
    }
    let subject = Subject::Image(&config.image_name);
    let request = api::ImageStatusRequest { image: Some(image::spec(&config.image.0)), verbose: false };
    let answer = inner.call(CREATE, subject, inner.connection.images().image_status(request)).await?;
    let missing = || RuntimeError::NotFound { operation: CREATE, what: "image", id: config.image_name.clone() };
    Ok(Some(match image::status(answer.image.ok_or_else(missing)?).user {
        ImageUser::Root => RunAs::Uid(0),
        ImageUser::Uid(uid) => RunAs::Uid(uid),
        ImageUser::Name(name) => RunAs::Name(name),
    }))
}

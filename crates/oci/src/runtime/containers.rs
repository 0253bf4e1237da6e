//! Containers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerInfo, ContainerService, ContainerStatus, LinuxResources, ListFilter,
    RuntimeError, RuntimeEventKind, SandboxConfig, SandboxId, SeccompProfile,
};

use super::embedded::{Inner, blocking, make_private, new_id};
use super::record::{ContainerRecord, CreatedRecord};
use super::state::{Container, Life, Sandbox, lock};
use super::{EmbeddedRuntime, destroy, error, stop};
use crate::cgroup::Cgroup;
use crate::create::{CreateRequest, ImageFacts};
use crate::shim::protocol::{Reply, Request};
use crate::shim::{ClientError, write_json};
use crate::snapshot;

const CREATE: &str = "create container";
const START: &str = "start container";
const REMOVE: &str = "remove container";
const UPDATE: &str = "update resources";

#[async_trait]
impl ContainerService for EmbeddedRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        _sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let unknown = || RuntimeError::NotFound { operation: CREATE, what: "sandbox", id: sandbox.0.clone() };
        let sandbox = self.inner.sandbox(sandbox).ok_or_else(unknown)?;
        let inner = Arc::clone(&self.inner);
        let config = config.clone();
        Self::to_the_end(CREATE, async move { create(&inner, &sandbox, config).await }).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let container = self.find(START, id)?;
        let inner = Arc::clone(&self.inner);
        Self::to_the_end(START, async move { start(&inner, &container).await }).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let Some(container) = self.inner.container(id) else { return Ok(()) };
        stop::stop(&self.inner, &container, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let Some(container) = self.inner.container(id) else { return Ok(()) };
        let inner = Arc::clone(&self.inner);
        Self::to_the_end(REMOVE, async move { remove(&inner, &container).await }).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let found = self.inner.container(id).and_then(|c| c.status());
        found.ok_or_else(|| not_found("container status", id))
    }

    async fn list_containers(&self, filter: &ListFilter) -> Result<Vec<ContainerInfo>, RuntimeError> {
        let all = self.inner.containers().into_iter().filter_map(|c| c.info());
        Ok(all.filter(|c| filter.pod.as_ref().is_none_or(|p| *p == c.pod)).collect())
    }

    async fn update_resources(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RuntimeError> {
        let container = self.find(UPDATE, id)?;
        // Not while it is started or removed: what is then no more has no limits.
        let _changing = container.changing.lock().await;
        let Some(sandbox) = self.inner.sandbox(&container.record.sandbox) else { return Ok(()) };
        match &*container.life.borrow() {
            Life::Created | Life::Running(_) => {}
            Life::Creating => {
                return Err(RuntimeError::failed(UPDATE, format!("container {id} is still being created")));
            }
            Life::Exited(_) => return Ok(()),
        }
        let (inner, resources) = (Arc::clone(&self.inner), resources.clone());
        let life = container.life.subscribe();
        let path = group_of(&sandbox, &container);
        blocking(UPDATE, move || match Cgroup::new(&inner.hierarchies, &path).update(&resources) {
            // It has ended meanwhile, and its group is gone.
            Err(_) if matches!(&*life.borrow(), Life::Exited(_)) => Ok(()),
            result => result.map_err(|e| error::cgroup(UPDATE, e)),
        })
        .await
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        const OPERATION: &str = "reopen log";
        let container = self.find(OPERATION, id)?;
        let client = self.inner.sandbox(&container.record.sandbox).and_then(|s| s.client());
        match client {
            // Nobody writes any more.
            None => Ok(()),
            Some(client) => {
                let done = client.call(Request::ReopenLog(id.clone())).await;
                done.map(|_| ()).map_err(|e| error::shim(OPERATION, e))
            }
        }
    }
}

fn not_found(operation: &'static str, id: &ContainerId) -> RuntimeError {
    RuntimeError::NotFound { operation, what: "container", id: id.0.clone() }
}

/// The cgroup of a container.
fn group_of(sandbox: &Sandbox, container: &Container) -> String {
    format!("{}/{}", sandbox.record.config.cgroup_parent.trim_end_matches('/'), container.id())
}

impl EmbeddedRuntime {
    fn find(&self, operation: &'static str, id: &ContainerId) -> Result<Arc<Container>, RuntimeError> {
        self.inner.container(id).ok_or_else(|| not_found(operation, id))
    }
}

async fn create(
    inner: &Arc<Inner>,
    sandbox: &Arc<Sandbox>,
    config: ContainerConfig,
) -> Result<ContainerId, RuntimeError> {
    let Some(client) = sandbox.client() else {
        return Err(RuntimeError::failed(CREATE, format!("sandbox {} is not ready", sandbox.id())));
    };
    if let SeccompProfile::Localhost(path) = &config.security.seccomp
        && !path.is_absolute()
    {
        let message = format!("the path of seccomp profile {} is not absolute", path.display());
        return Err(RuntimeError::Invalid { operation: CREATE, message });
    }
    let lease = {
        let (inner, image) = (Arc::clone(inner), config.image.clone());
        blocking(CREATE, move || inner.images.lease(&image).map_err(|e| e.into_runtime(CREATE))).await?
    };
    let signal = config.stop_signal.as_deref().or(lease.config.stop_signal.as_deref());
    let stop_signal = stop::signal_number(signal).ok_or_else(|| {
        let message = format!("{:?} is not a signal", signal.unwrap_or_default());
        RuntimeError::Invalid { operation: CREATE, message }
    })?;
    let id = ContainerId(new_id(CREATE)?);
    let dir = sandbox.dir.container(&id);
    let record = ContainerRecord::new(id.clone(), &sandbox.record, &config, stop_signal, inner.clock.now());
    let container = Arc::new(Container::new(record, dir, Life::Creating, None));
    let same = |c: &Container| {
        c.record.sandbox == *sandbox.id() && c.record.name == config.name && c.record.attempt == config.attempt
    };
    if !inner.add_container(Arc::clone(&container), same) {
        let id = format!("{} attempt {}", config.name, config.attempt);
        return Err(RuntimeError::AlreadyExists { operation: CREATE, what: "container", id });
    }
    let image = ImageFacts {
        entrypoint: lease.config.entrypoint.clone(),
        cmd: lease.config.cmd.clone(),
        env: lease.config.env.clone(),
        working_dir: lease.config.working_dir.clone().map(Into::into),
        user: lease.config.user.clone(),
    };
    let request = CreateRequest {
        id: id.clone(),
        image,
        layers: lease.layers.clone(),
        root: lease.root,
        state: container.dir.state().to_owned(),
        bundle: container.dir.bundle().to_owned(),
        log: container.record.log_path.clone(),
        config,
    };
    let made = async {
        let state = container.dir.state();
        make_private(state)
            .and_then(|()| write_json(&container.dir.file("container.json"), &container.record, false))
            .map_err(error::step(CREATE, format!("record the container in {}", state.display())))?;
        let uid = match client.call(Request::Create(Box::new(request))).await {
            Ok(Reply::Created { uid }) => uid,
            Ok(_) => return Err(RuntimeError::failed(CREATE, "the shim gave an answer to another question")),
            Err(e) => return Err(error::shim(CREATE, e)),
        };
        write_json(&container.dir.file("created.json"), &CreatedRecord { uid }, false)
            .map_err(error::step(CREATE, format!("record the container in {}", state.display())))?;
        Ok(uid)
    };
    match made.await {
        Ok(uid) => {
            *lock(&container.uid) = Some(uid);
            container.advance(Life::Created);
            inner.events.announce(RuntimeEventKind::Created, &id.0, &container.record.pod);
            Ok(id)
        }
        Err(error) => {
            // The shim undid its part; a dead shim's is undone with its sandbox.
            let _ = snapshot::remove(container.dir.state());
            inner.forget_container(&id);
            Err(error)
        }
    }
}

async fn start(inner: &Arc<Inner>, container: &Arc<Container>) -> Result<(), RuntimeError> {
    let _changing = container.changing.lock().await;
    let wrong = |what: &str| RuntimeError::failed(START, format!("container {} {what}", container.id()));
    match &*container.life.borrow() {
        Life::Created => {}
        Life::Creating => return Err(wrong("is still being created")),
        Life::Running(_) => return Err(wrong("runs already")),
        Life::Exited(_) => return Err(wrong("has ended already")),
    }
    let client = inner
        .sandbox(&container.record.sandbox)
        .and_then(|s| s.client())
        .ok_or_else(|| wrong("is in a sandbox that is not ready"))?;
    match client.call(Request::Start(container.id().clone())).await {
        Ok(Reply::Started { at }) => {
            if container.advance(Life::Running(at)) {
                inner.events.announce(RuntimeEventKind::Started, &container.id().0, &container.record.pod);
            }
            Ok(())
        }
        Ok(_) => Err(wrong("was answered for with another question's answer")),
        Err(e) => {
            if matches!(e, ClientError::Refused(_)) {
                // Its end is on the way; the port promises that the status tells of it after this error.
                let mut life = container.life.subscribe();
                let ended = life.wait_for(|l| matches!(l, Life::Exited(_)));
                let _ = tokio::time::timeout(Duration::from_secs(2), ended).await;
            }
            Err(error::shim(START, e))
        }
    }
}

async fn remove(inner: &Arc<Inner>, container: &Arc<Container>) -> Result<(), RuntimeError> {
    let _changing = container.changing.lock().await;
    if inner.container(container.id()).is_none() {
        return Ok(());
    }
    stop::kill(inner, container).await?;
    let sandbox = inner.sandbox(&container.record.sandbox);
    if let Some(client) = sandbox.as_ref().and_then(|s| s.client()) {
        match client.call(Request::Delete(container.id().clone())).await {
            // A dead shim has nothing to forget.
            Ok(_) | Err(ClientError::Gone(_)) => {}
            Err(e) => return Err(error::shim(REMOVE, e)),
        }
    }
    let (shared, gone) = (Arc::clone(inner), Arc::clone(container));
    blocking(REMOVE, move || {
        if let Some(sandbox) = sandbox {
            let path = group_of(&sandbox, &gone);
            let cgroup = Cgroup::new(&shared.hierarchies, &path);
            cgroup.kill_and_wait().and_then(|()| cgroup.remove()).map_err(|e| error::cgroup(REMOVE, e))?;
        }
        destroy::remove_tree(gone.dir.bundle()).map_err(error::step(REMOVE, "remove the bundle"))?;
        snapshot::remove(gone.dir.state()).map_err(|e| e.into_runtime(REMOVE))
    })
    .await?;
    inner.forget_container(container.id());
    inner.events.announce(RuntimeEventKind::Deleted, &container.id().0, &container.record.pod);
    Ok(())
}

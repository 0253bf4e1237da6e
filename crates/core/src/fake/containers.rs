//! Containers of the fake runtime.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::calls::{Call, Op};
use super::life::{Ending, OnStop};
use super::runtime::FakeRuntime;
use super::world::{Container, World};
use crate::runtime::{
    ContainerConfig, ContainerId, ContainerInfo, ContainerService, ContainerState, ContainerStatus, LinuxResources,
    ListFilter, RuntimeError, RuntimeEventKind, SandboxConfig, SandboxId, SandboxState,
};

fn not_found(op: Op, id: &ContainerId) -> RuntimeError {
    RuntimeError::NotFound { operation: op.name(), what: "container", id: id.0.clone() }
}

impl World {
    fn create(
        &mut self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        now: Instant,
    ) -> Result<ContainerId, RuntimeError> {
        let operation = Op::CreateContainer.name();
        let Some(owner) = self.sandboxes.get(sandbox) else {
            return Err(RuntimeError::NotFound { operation, what: "sandbox", id: sandbox.0.clone() });
        };
        if owner.state != SandboxState::Ready {
            return Err(RuntimeError::failed(operation, format!("sandbox {sandbox} is not ready")));
        }
        let twin =
            |c: &Container| c.sandbox == *sandbox && c.config.name == config.name && c.config.attempt == config.attempt;
        if self.containers.values().any(twin) {
            let id = format!("{} attempt {}", config.name, config.attempt);
            return Err(RuntimeError::AlreadyExists { operation, what: "container", id });
        }
        let pod = owner.config.pod.uid.clone();
        let log_path = owner.config.log_directory.join(&config.log_path);
        if !self.images.values().any(|image| image.id == config.image) {
            return Err(RuntimeError::NotFound { operation, what: "image", id: config.image.0.clone() });
        }
        let order = self.id();
        let id = ContainerId(format!("container{order:06}"));
        let container = Container {
            sandbox: sandbox.clone(),
            pod: pod.clone(),
            config: config.clone(),
            log_path,
            created_at: self.clock.at(now),
            state: ContainerState::Created,
            life: self.life(&pod, &config.name, config.attempt),
            due: None,
            order,
        };
        self.containers.insert(id.clone(), container);
        self.check_single_instances(&pod, &config.name);
        self.emit(RuntimeEventKind::Created, id.0.clone(), pod, now);
        Ok(id)
    }

    fn start(&mut self, id: &ContainerId, now: Instant) -> Result<(), RuntimeError> {
        let operation = Op::StartContainer.name();
        let started_at = self.clock.at(now);
        let container = self.containers.get_mut(id).ok_or_else(|| not_found(Op::StartContainer, id))?;
        if container.state != ContainerState::Created {
            return Err(RuntimeError::failed(operation, format!("container {id} was started before")));
        }
        let pod = container.pod.clone();
        if container.life.start_fails {
            self.end(id, now, &Ending { reason: "StartError".to_owned(), ..Ending::code(128) });
            return Err(RuntimeError::failed(operation, "exec: \"x\": executable file not found in $PATH"));
        }
        container.state = ContainerState::Running { started_at };
        container.due = container.life.runs_for.map(|runs| (now + runs, container.life.ending.clone()));
        self.emit(RuntimeEventKind::Started, id.0.clone(), pod, now);
        self.settle(now);
        Ok(())
    }

    /// Delivers the stop signal: the container ends as its life says, and no later than after `grace`.
    fn signal(&mut self, id: &ContainerId, grace: Duration, now: Instant) {
        let Some(container) = self.containers.get_mut(id).filter(|c| c.is_live()) else { return };
        let killed = (now + grace, Ending::code(137));
        let obeys = match (&container.state, &container.life.on_stop) {
            (ContainerState::Running { .. }, OnStop::Ignores) => killed,
            (ContainerState::Running { .. }, OnStop::Obeys { after, ending }) => {
                if *after <= grace && !grace.is_zero() { (now + *after, ending.clone()) } else { killed }
            }
            (ContainerState::Created | ContainerState::Unknown | ContainerState::Exited { .. }, _) => {
                (now, Ending::code(137))
            }
        };
        // What would have ended it earlier anyway still does; a shorter grace overtakes a longer one.
        let earlier = container.due.take().filter(|(at, _)| *at <= obeys.0);
        container.due = Some(earlier.unwrap_or(obeys));
        self.settle(now);
    }

    pub(super) fn remove_container_now(&mut self, id: &ContainerId, now: Instant) {
        self.end(id, now, &Ending::code(137));
        if let Some(container) = self.containers.remove(id) {
            self.emit(RuntimeEventKind::Deleted, id.0.clone(), container.pod, now);
        }
    }

    fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let container = self.containers.get(id).ok_or_else(|| not_found(Op::ContainerStatus, id))?;
        let config = &container.config;
        Ok(ContainerStatus {
            id: id.clone(),
            sandbox: container.sandbox.clone(),
            pod: container.pod.clone(),
            name: config.name.clone(),
            attempt: config.attempt,
            created_at: container.created_at,
            state: container.state.clone(),
            image_name: config.image_name.clone(),
            image: config.image.clone(),
            log_path: container.log_path.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            uid: Some(0),
        })
    }
}

impl FakeRuntime {
    pub(super) fn container_call(&self, op: Op, id: &ContainerId, number: u64) -> Call {
        let world = self.world();
        let container = world.containers.get(id);
        Call {
            op,
            pod: container.map(|c| c.pod.clone()),
            name: container.map_or_else(|| id.0.clone(), |c| c.config.name.clone()),
            number,
        }
    }
}

#[async_trait]
impl ContainerService for FakeRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let call = Call {
            op: Op::CreateContainer,
            pod: Some(sandbox_config.pod.uid.clone()),
            name: config.name.clone(),
            number: u64::from(config.attempt),
        };
        self.call(call, |e, c| e.runtime(c), |world, now| world.create(sandbox, config, now)).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let call = self.container_call(Op::StartContainer, id, 0);
        self.call(call, |e, c| e.runtime(c), |world, now| world.start(id, now)).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let number = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let call = self.container_call(Op::StopContainer, id, number);
        let signal = |world: &mut World, now| {
            world.signal(id, grace, now);
            Ok(())
        };
        self.call(call, |e, c| e.runtime(c), signal).await?;
        self.until(|world| world.containers.get(id).is_none_or(|c| !c.is_live())).await;
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let call = self.container_call(Op::RemoveContainer, id, 0);
        let remove = |world: &mut World, now| {
            world.remove_container_now(id, now);
            Ok(())
        };
        self.call(call, |e, c| e.runtime(c), remove).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let call = self.container_call(Op::ContainerStatus, id, 0);
        self.call(call, |e, c| e.runtime(c), |world, _| world.container_status(id)).await
    }

    async fn list_containers(&self, filter: &ListFilter) -> Result<Vec<ContainerInfo>, RuntimeError> {
        let call = Call { op: Op::ListContainers, pod: filter.pod.clone(), name: String::new(), number: 0 };
        let list = |world: &mut World, _| {
            let wanted = |c: &Container| filter.pod.as_ref().is_none_or(|pod| *pod == c.pod);
            let info = |(id, c): (&ContainerId, &Container)| ContainerInfo {
                id: id.clone(),
                sandbox: c.sandbox.clone(),
                pod: c.pod.clone(),
                name: c.config.name.clone(),
                attempt: c.config.attempt,
                phase: (&c.state).into(),
                created_at: c.created_at,
            };
            Ok(world.containers.iter().filter(|(_, c)| wanted(c)).map(info).collect())
        };
        self.call(call, |e, c| e.runtime(c), list).await
    }

    async fn update_resources(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RuntimeError> {
        let call = self.container_call(Op::UpdateResources, id, 0);
        let update = |world: &mut World, _| {
            let container = world.containers.get_mut(id).ok_or_else(|| not_found(Op::UpdateResources, id))?;
            if container.is_live() {
                container.config.resources.update(resources);
            }
            Ok(())
        };
        self.call(call, |e, c| e.runtime(c), update).await
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let call = self.container_call(Op::ReopenLog, id, 0);
        let reopen = |world: &mut World, _| match world.containers.get(id) {
            Some(container) if container.state.is_running() => Ok(()),
            Some(_) => Err(RuntimeError::failed(Op::ReopenLog.name(), format!("container {id} does not run"))),
            None => Err(not_found(Op::ReopenLog, id)),
        };
        self.call(call, |e, c| e.runtime(c), reopen).await
    }
}

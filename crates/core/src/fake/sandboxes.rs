//! Sandboxes of the fake runtime.

use std::net::{IpAddr, Ipv4Addr};

use async_trait::async_trait;
use tokio::time::Instant;

use super::calls::{Call, Op};
use super::life::Ending;
use super::runtime::FakeRuntime;
use super::world::{Sandbox, World};
use crate::runtime::{
    ListFilter, NamespaceMode, RuntimeError, RuntimeEventKind, SandboxConfig, SandboxId, SandboxInfo, SandboxService,
    SandboxState, SandboxStatus,
};

impl World {
    /// Ends everything in a sandbox, and the sandbox.
    pub(super) fn stop_sandbox_now(&mut self, id: &SandboxId, now: Instant, ending: &Ending) {
        let inside: Vec<_> =
            self.containers.iter().filter(|(_, c)| c.sandbox == *id && c.is_live()).map(|(id, _)| id.clone()).collect();
        for container in inside {
            self.end(&container, now, ending);
        }
        if let Some(sandbox) = self.sandboxes.get_mut(id)
            && sandbox.state == SandboxState::Ready
        {
            sandbox.state = SandboxState::NotReady;
            sandbox.ips.clear();
            let pod = sandbox.config.pod.uid.clone();
            self.emit(RuntimeEventKind::Stopped, id.0.clone(), pod, now);
        }
    }

    fn run_sandbox(&mut self, config: &SandboxConfig, now: Instant) -> Result<SandboxId, RuntimeError> {
        let twin = |s: &&Sandbox| s.config.pod.uid == config.pod.uid;
        if self.sandboxes.values().filter(twin).any(|s| s.config.attempt == config.attempt) {
            let id = format!("{} attempt {}", config.pod, config.attempt);
            return Err(RuntimeError::AlreadyExists { operation: Op::RunSandbox.name(), what: "sandbox", id });
        }
        if self.sandboxes.values().filter(twin).any(|s| s.state == SandboxState::Ready) {
            self.violation(format!("pod {}: a second ready sandbox", config.pod.uid));
        }
        let order = self.id();
        let id = SandboxId(format!("sandbox{order:06}"));
        let host_network = config.namespaces.network == NamespaceMode::Node;
        let [_, b, c, d] = u32::try_from(order % (1 << 24)).unwrap_or(0).to_be_bytes();
        let ips = if host_network { Vec::new() } else { vec![IpAddr::V4(Ipv4Addr::new(10, b, c, d))] };
        let created_at = self.clock.at(now);
        let sandbox = Sandbox { config: config.clone(), state: SandboxState::Ready, ips, created_at, order };
        self.sandboxes.insert(id.clone(), sandbox);
        self.emit(RuntimeEventKind::Created, id.0.clone(), config.pod.uid.clone(), now);
        self.emit(RuntimeEventKind::Started, id.0.clone(), config.pod.uid.clone(), now);
        Ok(id)
    }

    fn remove_sandbox(&mut self, id: &SandboxId, now: Instant) {
        self.stop_sandbox_now(id, now, &Ending::code(137));
        let inside: Vec<_> =
            self.containers.iter().filter(|(_, c)| c.sandbox == *id).map(|(id, _)| id.clone()).collect();
        for container in inside {
            self.remove_container_now(&container, now);
        }
        if let Some(sandbox) = self.sandboxes.remove(id) {
            self.emit(RuntimeEventKind::Deleted, id.0.clone(), sandbox.config.pod.uid, now);
        }
    }

    fn sandbox_info(id: &SandboxId, sandbox: &Sandbox) -> SandboxInfo {
        SandboxInfo {
            id: id.clone(),
            pod: sandbox.config.pod.clone(),
            attempt: sandbox.config.attempt,
            state: sandbox.state,
            created_at: sandbox.created_at,
        }
    }
}

impl FakeRuntime {
    pub(super) fn sandbox_call(&self, op: Op, id: &SandboxId) -> Call {
        let pod = self.world().sandboxes.get(id).map(|s| s.config.pod.uid.clone());
        Call { op, pod, name: id.0.clone(), number: 0 }
    }
}

#[async_trait]
impl SandboxService for FakeRuntime {
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let call = Call {
            op: Op::RunSandbox,
            pod: Some(config.pod.uid.clone()),
            name: config.pod.name.to_string(),
            number: u64::from(config.attempt),
        };
        self.call(call, |e, c| e.runtime(c), |world, now| world.run_sandbox(config, now)).await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let call = self.sandbox_call(Op::StopSandbox, id);
        let stop = |world: &mut World, now| {
            world.stop_sandbox_now(id, now, &Ending::code(137));
            Ok(())
        };
        self.call(call, |e, c| e.runtime(c), stop).await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let call = self.sandbox_call(Op::RemoveSandbox, id);
        let remove = |world: &mut World, now| {
            world.remove_sandbox(id, now);
            Ok(())
        };
        self.call(call, |e, c| e.runtime(c), remove).await
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        let call = self.sandbox_call(Op::SandboxStatus, id);
        let status = |world: &mut World, _| {
            let not_found =
                || RuntimeError::NotFound { operation: Op::SandboxStatus.name(), what: "sandbox", id: id.0.clone() };
            let sandbox = world.sandboxes.get(id).ok_or_else(not_found)?;
            Ok(SandboxStatus {
                info: World::sandbox_info(id, sandbox),
                ips: sandbox.ips.clone(),
                namespaces: sandbox.config.namespaces.clone(),
                labels: sandbox.config.labels.clone(),
                annotations: sandbox.config.annotations.clone(),
            })
        };
        self.call(call, |e, c| e.runtime(c), status).await
    }

    async fn list_sandboxes(&self, filter: &ListFilter) -> Result<Vec<SandboxInfo>, RuntimeError> {
        let call = Call { op: Op::ListSandboxes, pod: filter.pod.clone(), name: String::new(), number: 0 };
        let list = |world: &mut World, _| {
            let wanted = |s: &Sandbox| filter.pod.as_ref().is_none_or(|pod| *pod == s.config.pod.uid);
            Ok(world.sandboxes.iter().filter(|(_, s)| wanted(s)).map(|(id, s)| World::sandbox_info(id, s)).collect())
        };
        self.call(call, |e, c| e.runtime(c), list).await
    }
}

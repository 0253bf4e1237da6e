//! Sandboxes.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use minke_core::runtime::{
    ListFilter, NamespaceMode, RuntimeError, RuntimeEventKind, SandboxConfig, SandboxId, SandboxInfo, SandboxService,
    SandboxStatus,
};

use super::embedded::{Inner, blocking, make_private, new_id};
use super::record::{ReadyRecord, SandboxRecord};
use super::state::{Sandbox, SandboxLife};
use super::weights::weigh;
use super::{EmbeddedRuntime, destroy, error, files, monitor};
use crate::cgroup::Cgroup;
use crate::create::SandboxFacts;
use crate::network::AttachRequest;
use crate::shim::{Client, Ready, ShimConfig, write_json};

const RUN: &str = "run sandbox";

#[async_trait]
impl SandboxService for EmbeddedRuntime {
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let inner = Arc::clone(&self.inner);
        let config = config.clone();
        Self::to_the_end(RUN, async move { run(&inner, config).await }).await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let Some(sandbox) = self.inner.sandbox(id) else { return Ok(()) };
        let inner = Arc::clone(&self.inner);
        Self::to_the_end("stop sandbox", async move { destroy::stop(&inner, &sandbox).await }).await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let Some(sandbox) = self.inner.sandbox(id) else { return Ok(()) };
        let inner = Arc::clone(&self.inner);
        Self::to_the_end("remove sandbox", async move { destroy::remove(&inner, &sandbox).await }).await
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        let found = self.inner.sandbox(id).and_then(|s| s.status());
        found.ok_or_else(|| RuntimeError::NotFound { operation: "sandbox status", what: "sandbox", id: id.0.clone() })
    }

    async fn list_sandboxes(&self, filter: &ListFilter) -> Result<Vec<SandboxInfo>, RuntimeError> {
        let all = self.inner.sandboxes().into_iter().filter_map(|s| s.info());
        Ok(all.filter(|s| filter.pod.as_ref().is_none_or(|p| *p == s.pod.uid)).collect())
    }
}

async fn run(inner: &Arc<Inner>, config: SandboxConfig) -> Result<SandboxId, RuntimeError> {
    if !config.runtime_handler.is_empty() {
        let feature = format!("runtime handler {:?}; only the default one (empty) exists", config.runtime_handler);
        return Err(RuntimeError::Unsupported { operation: RUN, feature });
    }
    let id = SandboxId(new_id(RUN)?);
    let dir = inner.layout.sandbox(&id);
    let record = SandboxRecord { id: id.clone(), created_at: inner.clock.now(), config };
    let sandbox = Arc::new(Sandbox::new(record, dir, SandboxLife::Making, Vec::new()));
    let (pod, attempt) = (&sandbox.record.config.pod, sandbox.record.config.attempt);
    let same = |s: &Sandbox| s.record.config.pod.uid == pod.uid && s.record.config.attempt == attempt;
    if !inner.add_sandbox(Arc::clone(&sandbox), same) {
        let id = format!("{pod} attempt {attempt}");
        return Err(RuntimeError::AlreadyExists { operation: RUN, what: "sandbox", id });
    }
    match make(inner, &sandbox).await {
        Ok(()) => {
            inner.events.announce(RuntimeEventKind::Created, &id.0, &sandbox.record.config.pod.uid);
            inner.events.announce(RuntimeEventKind::Started, &id.0, &sandbox.record.config.pod.uid);
            Ok(id)
        }
        Err(error) => {
            // What can't be undone now stays listed, so that a later removal can.
            let _ = destroy::remove(inner, &sandbox).await;
            Err(error)
        }
    }
}

/// Makes everything of a sandbox, `ready.json` last.
async fn make(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>) -> Result<(), RuntimeError> {
    let holder = {
        let (inner, sandbox) = (Arc::clone(inner), Arc::clone(sandbox));
        blocking(RUN, move || start_shim(&inner, &sandbox)).await?
    };
    let socket = sandbox.dir.run().join("shim.sock");
    let connection = Client::connect(&socket).await.map_err(|e| error::shim(RUN, e))?;
    let config = &sandbox.record.config;
    if config.namespaces.network != NamespaceMode::Node {
        let request = AttachRequest {
            sandbox: sandbox.id().clone(),
            pod: config.pod.clone(),
            netns: PathBuf::from(format!("/proc/{holder}/ns/net")),
            ports: config.port_mappings.clone(),
        };
        let attachment = inner.network.attach(&request).await.map_err(|e| e.into_runtime(RUN))?;
        sandbox.set_ips(attachment.ips.clone());
        write_json(&sandbox.dir.file("ready.json"), &ReadyRecord { ips: attachment.ips }, false)
    } else {
        write_json(&sandbox.dir.file("ready.json"), &ReadyRecord { ips: Vec::new() }, false)
    }
    .map_err(error::step(RUN, "record the sandbox"))?;
    sandbox.set_life(SandboxLife::Ready(connection.client));
    monitor::watch(inner, sandbox, connection.pushes);
    Ok(())
}

/// Files, cgroup and shim; returns the process that holds the namespaces.
fn start_shim(inner: &Inner, sandbox: &Sandbox) -> Result<i32, RuntimeError> {
    let (dir, config) = (&sandbox.dir, &sandbox.record.config);
    for path in [dir.state(), dir.run(), &dir.containers()] {
        make_private(path).map_err(error::step(RUN, format!("make {}", path.display())))?;
    }
    write_json(&dir.file("sandbox.json"), &sandbox.record, false).map_err(error::step(RUN, "record the sandbox"))?;
    let files = files::write(dir, config).map_err(error::step(RUN, "write the sandbox's files"))?;
    Cgroup::new(&inner.hierarchies, &config.cgroup_parent)
        .create(&config.resources)
        .map_err(|e| error::cgroup(RUN, e))?;
    weigh(inner, &config.cgroup_parent);
    let shim = ShimConfig {
        id: sandbox.id().clone(),
        sandbox: SandboxFacts {
            hostname: config.hostname.clone(),
            namespaces: config.namespaces.clone(),
            cgroup: config.cgroup_parent.clone(),
            hierarchies: inner.hierarchies.clone(),
            files,
        },
        sysctls: config.sysctls.clone(),
        run: dir.run().to_owned(),
        open_files: crate::open_files::for_containers(),
    };
    write_json(&dir.shim_config(), &shim, false).map_err(error::step(RUN, "write shim.json"))?;
    let log = File::options()
        .create(true)
        .append(true)
        .open(dir.file("shim.log"))
        .map_err(error::step(RUN, "open shim.log"))?;
    let (child, ready) = inner.binary.start_shim(dir.run(), log).map_err(error::step(RUN, "start the shim"))?;
    match ready {
        Ready::Ready { holder } => {
            sandbox.keep_process(child);
            Ok(holder)
        }
        Ready::Failed { not_permitted: true, message } => Err(RuntimeError::NotPermitted { operation: RUN, message }),
        Ready::Failed { not_permitted: false, message } => Err(RuntimeError::failed(RUN, message)),
    }
}

//! The end of sandboxes: asked for, or found when a shim is dead. Every step can be repeated, and a call that failed
//! goes on where it stopped.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use minke_core::runtime::{NamespaceMode, Operation, RuntimeError, RuntimeEventKind};
use rustix::mount::{UnmountFlags, unmount};

use super::embedded::{Inner, blocking};
use super::state::{Sandbox, SandboxLife, lost};
use super::weights::weigh;
use super::{error, record};
use crate::cgroup::Cgroup;
use crate::shim::protocol::{ExitRecord, Request};
use crate::shim::{Client, write_json};

/// Stops everything in a sandbox.
pub(super) async fn stop(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>) -> Result<(), RuntimeError> {
    let _changing = sandbox.changing.lock().await;
    finish(inner, sandbox, "stop sandbox").await
}

/// The connection to a shim ended: by a stop, or because it died.
pub(super) async fn shim_ended(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>) -> Result<(), RuntimeError> {
    let _changing = sandbox.changing.lock().await;
    match sandbox.life() {
        SandboxLife::Ready(_) => {
            tracing::warn!(sandbox = %sandbox.id(), pod = %sandbox.record.config.pod, "the shim died; its containers are killed");
            finish(inner, sandbox, "tidy up sandbox").await
        }
        SandboxLife::Making | SandboxLife::NotReady { .. } => Ok(()),
    }
}

/// Stops and removes a sandbox with everything of it.
pub(super) async fn remove(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>) -> Result<(), RuntimeError> {
    const OPERATION: Operation = "remove sandbox";
    let _changing = sandbox.changing.lock().await;
    finish(inner, sandbox, OPERATION).await?;
    {
        let (inner, sandbox) = (Arc::clone(inner), Arc::clone(sandbox));
        blocking(OPERATION, move || {
            let cgroup = Cgroup::new(&inner.hierarchies, &sandbox.record.config.cgroup_parent);
            // Another attempt's sandbox of the same Pod may be in the same cgroup.
            let shared = inner.sandboxes().iter().any(|other| {
                other.id() != sandbox.id() && other.record.config.cgroup_parent == sandbox.record.config.cgroup_parent
            });
            if !shared {
                cgroup.kill_and_wait().and_then(|()| cgroup.remove()).map_err(|e| error::cgroup(OPERATION, e))?;
                cgroup.prune_parents();
            }
            remove_tree(sandbox.dir.run()).map_err(error::step(OPERATION, "remove the run directory"))?;
            // sandbox.json goes last: as long as it is there, a restart finds what is left.
            remove_tree(&sandbox.dir.containers()).map_err(error::step(OPERATION, "remove its containers"))?;
            remove_tree(sandbox.dir.state()).map_err(error::step(OPERATION, "remove the state directory"))
        })
        .await?;
    }
    for container in inner.containers_of(sandbox.id()) {
        inner.forget_container(container.id());
        inner.events.announce(RuntimeEventKind::Deleted, &container.id().0, &container.record.pod);
    }
    inner.forget_sandbox(sandbox.id());
    inner.events.announce(RuntimeEventKind::Deleted, &sandbox.id().0, &sandbox.record.config.pod.uid);
    let (inner, sandbox) = (Arc::clone(inner), Arc::clone(sandbox));
    blocking(OPERATION, move || {
        weigh(&inner, &sandbox.record.config.cgroup_parent);
        Ok(())
    })
    .await
}

/// Makes sure that nothing of a sandbox runs and its network is gone. The caller holds `changing`.
async fn finish(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>, operation: Operation) -> Result<(), RuntimeError> {
    match sandbox.life() {
        SandboxLife::NotReady { detached: true } => return Ok(()),
        SandboxLife::NotReady { detached: false } => {}
        life @ (SandboxLife::Ready(_) | SandboxLife::Making) => {
            // While the namespace is there: CNI plugins look into it for what they have to undo, and some undo
            // nothing without it. What fails now is tried once more from the records.
            let detached = detach(inner, sandbox, operation).await.is_ok();
            // A dead shim can't be asked; what follows does its work. One that was started for a sandbox that could
            // not be made lives, though nobody kept its connection.
            let client = match life {
                SandboxLife::Ready(client) => Some(client),
                SandboxLife::Making | SandboxLife::NotReady { .. } => {
                    Client::connect(&sandbox.dir.run().join("shim.sock")).await.ok().map(|c| c.client)
                }
            };
            if let Some(client) = client {
                let _ = client.call(Request::Shutdown).await;
            }
            sandbox.reap();
            {
                let (inner, sandbox) = (Arc::clone(inner), Arc::clone(sandbox));
                blocking(operation, move || bury(&inner, &sandbox, operation)).await?;
            }
            sandbox.set_life(SandboxLife::NotReady { detached });
            inner.events.announce(RuntimeEventKind::Stopped, &sandbox.id().0, &sandbox.record.config.pod.uid);
            if detached {
                return Ok(());
            }
        }
    }
    detach(inner, sandbox, operation).await?;
    sandbox.set_life(SandboxLife::NotReady { detached: true });
    Ok(())
}

/// Takes the sandbox's network away. Idempotent.
async fn detach(inner: &Inner, sandbox: &Sandbox, operation: Operation) -> Result<(), RuntimeError> {
    if sandbox.record.config.namespaces.network == NamespaceMode::Node {
        return Ok(());
    }
    inner.network.detach(sandbox.id()).await.map_err(|e| e.into_runtime(operation))
}

/// Kills what is left of a sandbox whose shim is gone, and settles how its containers ended.
fn bury(inner: &Inner, sandbox: &Sandbox, operation: Operation) -> Result<(), RuntimeError> {
    // Each container's own group, not the Pod's: a newer sandbox of the same Pod may be in that one already.
    for container in inner.containers_of(sandbox.id()) {
        let path = format!("{}/{}", sandbox.record.config.cgroup_parent.trim_end_matches('/'), container.id());
        let cgroup = Cgroup::new(&inner.hierarchies, &path);
        cgroup.kill_and_wait().and_then(|()| cgroup.remove()).map_err(|e| error::cgroup(operation, e))?;
        let record = settle(container.dir.state(), inner.clock.now())
            .map_err(error::step(operation, format!("record the end of container {}", container.id())))?;
        inner.ended(&container, record);
    }
    let shm = sandbox.dir.shm();
    unmount_all(&shm).map_err(error::step(operation, format!("unmount {}", shm.display())))?;
    remove_tree(sandbox.dir.run()).map_err(error::step(operation, "remove the run directory"))
}

/// How a container ended: as its shim recorded it, or lost.
pub(super) fn settle(dir: &Path, now: Timestamp) -> io::Result<ExitRecord> {
    let path = dir.join("exit.json");
    if let Some(record) = record::read::<ExitRecord>(&path) {
        return Ok(record);
    }
    let record = lost(record::read(&dir.join("started.json")), now);
    write_json(&path, &record, true)?;
    Ok(record)
}

/// Unmounts whatever is mounted at a path, as often as it is. Idempotent.
pub(super) fn unmount_all(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Removes a directory with everything in it. Idempotent.
pub(super) fn remove_tree(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => Ok(()),
    }
}

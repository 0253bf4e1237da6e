//! At open: everything on disk against everything that answers.
//!
//! | on disk | shim | outcome |
//! |---|---|---|
//! | no `ready.json`, or `sandbox.json` unreadable | any | half made: killed and removed |
//! | complete | answers | adopted, with its containers as the shim tells |
//! | complete | dead | its processes are killed, ends without a record are lost, not ready |
//! | container without `created.json` | any | half made: removed |
//! | run directory without a sandbox | – | unmounted and removed |

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minke_core::runtime::{ContainerId, SandboxId, error_chain};

use super::embedded::Inner;
use super::record::{ContainerRecord, CreatedRecord, ReadyRecord, SandboxRecord, read};
use super::state::{Container, Life, Sandbox, SandboxLife};
use super::{OpenError, destroy, monitor};
use crate::cgroup::Cgroup;
use crate::shim::protocol::{ExitRecord, Reply, Request, ShimState};
use crate::shim::{Client, Connection};

/// Brings memory, disk, shims and network together.
pub(super) async fn recover(inner: &Arc<Inner>) -> Result<(), OpenError> {
    for id in list(&inner.layout.sandboxes())? {
        let id = SandboxId(id);
        let dir = inner.layout.sandbox(&id);
        match (read::<SandboxRecord>(&dir.file("sandbox.json")), read::<ReadyRecord>(&dir.file("ready.json"))) {
            (Some(record), Some(ready)) => {
                let sandbox = Arc::new(Sandbox::new(record, dir, SandboxLife::Making, ready.ips));
                adopt(inner, &sandbox).await;
            }
            (Some(record), None) => {
                let sandbox = Arc::new(Sandbox::new(record, dir, SandboxLife::Making, Vec::new()));
                discard(inner, &sandbox).await;
            }
            (None, _) => sweep(&dir.shm(), dir.run(), Some(dir.state())),
        }
    }
    for id in list(&inner.layout.pods())? {
        let id = SandboxId(id);
        if inner.sandbox(&id).is_none() {
            let dir = inner.layout.sandbox(&id);
            sweep(&dir.shm(), dir.run(), None);
        }
    }
    let live: HashSet<SandboxId> = inner.sandboxes().iter().map(|s| s.id().clone()).collect();
    if let Err(error) = inner.network.recover(&live).await {
        tracing::warn!(error = error_chain(&error), "the Pod network could not be repaired completely");
    }
    Ok(())
}

fn list(dir: &Path) -> Result<Vec<String>, OpenError> {
    let failed = |source| OpenError::Io { action: "list", path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// A sandbox that was never finished.
async fn discard(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>) {
    inner.add_sandbox(Arc::clone(sandbox), |_| false);
    tracing::info!(sandbox = %sandbox.id(), pod = %sandbox.record.config.pod, "removing a sandbox that was half made");
    if let Err(error) = destroy::remove(inner, sandbox).await {
        sandbox.set_life(SandboxLife::NotReady { detached: false });
        tracing::warn!(sandbox = %sandbox.id(), error = error_chain(&error), "a half made sandbox could not be removed");
    }
}

/// A sandbox that was finished, whatever became of it.
async fn adopt(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>) {
    inner.add_sandbox(Arc::clone(sandbox), |_| false);
    let connection = Client::connect(&sandbox.dir.run().join("shim.sock")).await;
    let told = match &connection {
        Ok(Connection { client, .. }) => match client.call(Request::List).await {
            Ok(Reply::Containers(list)) => Some(list.into_iter().map(|c| (c.id, c.state)).collect()),
            Ok(_) | Err(_) => None,
        },
        Err(_) => None,
    };
    let mut told: BTreeMap<ContainerId, ShimState> = told.unwrap_or_default();
    for id in list(&sandbox.dir.containers()).unwrap_or_default() {
        let id = ContainerId(id);
        let dir = sandbox.dir.container(&id);
        let record = read::<ContainerRecord>(&dir.file("container.json"));
        let created = read::<CreatedRecord>(&dir.file("created.json"));
        let (Some(record), Some(created)) = (record, created) else {
            half_made(inner, sandbox, &id, dir.state().to_owned(), connection.as_ref().ok()).await;
            told.remove(&id);
            continue;
        };
        let exit = read::<ExitRecord>(&dir.file("exit.json"));
        let life = match (exit, told.remove(&id)) {
            (Some(record), _) | (None, Some(ShimState::Exited(record))) => Life::Exited(record),
            (None, Some(ShimState::Running { started_at })) => Life::Running(started_at),
            // Without a word of the shim this is settled below.
            (None, Some(ShimState::Created | ShimState::Creating) | None) => Life::Created,
        };
        let container = Container::new(record, dir, life, Some(created.uid));
        inner.add_container(Arc::new(container), |_| false);
    }
    if let Ok(Connection { client, pushes }) = connection {
        for id in told.into_keys() {
            drop_from_shim(&client, &id).await;
        }
        sandbox.set_life(SandboxLife::Ready(client));
        monitor::watch(inner, sandbox, pushes);
    } else if let Err(error) = destroy::stop(inner, sandbox).await {
        tracing::warn!(sandbox = %sandbox.id(), error = error_chain(&error), "a dead sandbox could not be tidied up; its removal will try again");
    }
}

async fn half_made(inner: &Inner, sandbox: &Sandbox, id: &ContainerId, state: PathBuf, shim: Option<&Connection>) {
    if let Some(Connection { client, .. }) = shim {
        drop_from_shim(client, id).await;
    }
    let path = format!("{}/{id}", sandbox.record.config.cgroup_parent.trim_end_matches('/'));
    let cgroup = Cgroup::new(&inner.hierarchies, &path);
    let cleared = cgroup.kill_and_wait().and_then(|()| cgroup.remove());
    let removed = crate::snapshot::remove(&state);
    if let (Err(error), _) = (&cleared, &removed) {
        tracing::warn!(container = %id, error = error_chain(error), "a half made container could not be removed");
    }
    if let Err(error) = removed {
        tracing::warn!(container = %id, error = error_chain(&error), "a half made container could not be removed");
    }
}

/// Kills a container that the disk knows nothing of, and waits until its shim can forget it.
async fn drop_from_shim(client: &Client, id: &ContainerId) {
    for _ in 0..200 {
        let _ = client.call(Request::Kill { id: id.clone(), signal: libc::SIGKILL, all: true }).await;
        if client.call(Request::Delete(id.clone())).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Directories that belong to nothing.
fn sweep(shm: &Path, run: &Path, state: Option<&Path>) {
    let done = destroy::unmount_all(shm).and_then(|()| destroy::remove_tree(run));
    let done = done.and_then(|()| state.map_or(Ok(()), destroy::remove_tree));
    if let Err(error) = done {
        tracing::warn!(directory = %run.display(), %error, "leftovers could not be removed");
    }
}

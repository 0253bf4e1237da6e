//! The runtime itself: what it owns, and how it is opened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minke_core::clock::Clock;
use minke_core::runtime::{ContainerId, Operation, RuntimeError, SandboxId};
use rustix::fs::FlockOperation;
use tokio::time::{Instant, sleep};

use super::events::Events;
use super::state::{Container, Sandbox, lock};
use super::stats::WritableLayers;
use super::{EmbeddedConfig, OpenError, error, host, recover};
use crate::cgroup::Hierarchies;
use crate::image::ImageStore;
use crate::layout::Layout;
use crate::network::Network;
use crate::shim::Binary;
use crate::shim::protocol::ExitRecord;

/// Whoever had the state directory before may hold its lock a moment after its end: a process that was killed just as it
/// started another one, by that one until it has become its own program.
const LONGEST_END: Duration = Duration::from_secs(2);
/// Between two looks whether it is free.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The embedded runtime: the whole Runtime port with no daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EmbeddedRuntime {
    pub(super) inner: Arc<Inner>,
}

/// What all clones share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) layout: Layout,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) images: ImageStore,
    pub(super) network: Network,
    pub(super) hierarchies: Hierarchies,
    pub(super) binary: Binary,
    pub(super) events: Events,
    pub(super) writable: WritableLayers,
    /// Held while a group of Pods is weighed.
    pub(super) weighing: Mutex<()>,
    sandboxes: Mutex<BTreeMap<SandboxId, Arc<Sandbox>>>,
    containers: Mutex<BTreeMap<ContainerId, Arc<Container>>>,
    /// Held for as long as the runtime lives.
    _lock: File,
}

impl EmbeddedRuntime {
    /// Opens the runtime of a state directory: checks what the machine offers, takes the directory's lock, adopts
    /// what still runs and removes what was left half made. Needs a tokio runtime with I/O and time; the calling
    /// process's `main` must begin with [`crate::reexec`].
    ///
    /// # Errors
    /// What is missing and how to get it.
    pub async fn open(config: EmbeddedConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let begun = Instant::now();
        let inner = loop {
            let blocking = tokio::task::spawn_blocking({
                let (config, clock) = (config.clone(), Arc::clone(&clock));
                move || Inner::open(&config, clock)
            });
            match blocking.await {
                Ok(Err(OpenError::InUse { .. })) if begun.elapsed() < LONGEST_END => sleep(LOOK_AGAIN).await,
                Ok(inner) => break Arc::new(inner?),
                Err(e) => {
                    return Err(OpenError::Io { action: "open", path: "runtime".into(), source: io::Error::other(e) });
                }
            }
        };
        recover::recover(&inner).await?;
        Ok(Self { inner })
    }

    /// The image store, for what the Runtime port does not have: import and prune.
    #[must_use]
    pub fn images(&self) -> &ImageStore {
        &self.inner.images
    }

    /// Runs a change to its end in a task of its own, so that a caller who stops waiting leaves nothing half done.
    pub(super) async fn to_the_end<T: Send + 'static>(
        operation: Operation,
        change: impl Future<Output = Result<T, RuntimeError>> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        match tokio::spawn(change).await {
            Ok(result) => result,
            Err(e) => Err(RuntimeError::failed(operation, e)),
        }
    }
}

impl Inner {
    fn open(config: &EmbeddedConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let hierarchies = host::check()?;
        let layout = Layout::new(&config.state_dir, &config.run_dir);
        for dir in [layout.sandboxes(), layout.pods()] {
            make_private(&dir).map_err(|source| OpenError::Io { action: "make", path: dir, source })?;
        }
        let path = layout.lock();
        let lock = File::create(&path).map_err(|source| OpenError::Io { action: "open", path, source })?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(OpenError::InUse { path: config.state_dir.clone() });
        }
        let images =
            ImageStore::open(&config.state_dir.join("images"), config.images.clone()).map_err(OpenError::Images)?;
        let network = Network::open(config.network.clone()).map_err(OpenError::Network)?;
        let binary = Binary::copy_self().map_err(|source| OpenError::Io {
            action: "copy",
            path: "/proc/self/exe".into(),
            source,
        })?;
        Ok(Self {
            layout,
            events: Events::new(Arc::clone(&clock)),
            writable: WritableLayers::default(),
            weighing: Mutex::default(),
            clock,
            images,
            network,
            hierarchies,
            binary,
            sandboxes: Mutex::default(),
            containers: Mutex::default(),
            _lock: lock,
        })
    }

    pub(super) fn sandbox(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        lock(&self.sandboxes).get(id).cloned()
    }

    pub(super) fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        lock(&self.sandboxes).values().cloned().collect()
    }

    /// Adds a sandbox unless `refuse` finds a reason among those that are there.
    pub(super) fn add_sandbox(&self, sandbox: Arc<Sandbox>, refuse: impl Fn(&Sandbox) -> bool) -> bool {
        let mut sandboxes = lock(&self.sandboxes);
        if sandboxes.values().any(|s| refuse(s)) {
            return false;
        }
        sandboxes.insert(sandbox.id().clone(), sandbox);
        true
    }

    pub(super) fn forget_sandbox(&self, id: &SandboxId) {
        lock(&self.sandboxes).remove(id);
    }

    pub(super) fn container(&self, id: &ContainerId) -> Option<Arc<Container>> {
        lock(&self.containers).get(id).cloned()
    }

    pub(super) fn containers(&self) -> Vec<Arc<Container>> {
        lock(&self.containers).values().cloned().collect()
    }

    pub(super) fn containers_of(&self, sandbox: &SandboxId) -> Vec<Arc<Container>> {
        lock(&self.containers).values().filter(|c| c.record.sandbox == *sandbox).cloned().collect()
    }

    /// As [`Inner::add_sandbox`].
    pub(super) fn add_container(&self, container: Arc<Container>, refuse: impl Fn(&Container) -> bool) -> bool {
        let mut containers = lock(&self.containers);
        if containers.values().any(|c| refuse(c)) {
            return false;
        }
        containers.insert(container.id().clone(), container);
        true
    }

    pub(super) fn forget_container(&self, id: &ContainerId) {
        lock(&self.containers).remove(id);
    }

    /// Takes over how a container ended, and tells whoever listens.
    pub(super) fn ended(&self, container: &Container, record: ExitRecord) {
        for kind in container.end(record) {
            self.events.announce(*kind, &container.id().0, &container.record.pod);
        }
    }
}

/// Runs blocking work off the runtime's own threads.
pub(super) async fn blocking<T: Send + 'static>(
    operation: Operation,
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(RuntimeError::failed(operation, e)),
    }
}

/// An id that was never used.
pub(super) fn new_id(operation: Operation) -> Result<String, RuntimeError> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut f| io::Read::read_exact(&mut f, &mut bytes));
    read.map_err(error::step(operation, "make an id"))?;
    Ok(hex::encode(bytes))
}

pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o711).create(dir)
}

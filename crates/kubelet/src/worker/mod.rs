//! One worker a Pod (by uid): the only place that knows where the Pod is in its life, and the only one that acts.
//!
//! [`machine`] decides, `task` performs; [`lifecycle`] names the stages; others speak to a worker through its
//! [`mailbox`].

pub mod grace;
pub mod lifecycle;
pub mod machine;
pub mod mailbox;
mod metrics;
pub mod questions;
mod registry;
pub mod requeue;
mod spans;
mod steps;
mod task;
mod update;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minke_core::identity::PodKey;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use metrics::WorkerMetrics;
pub(crate) use registry::{Registry, WorkerHandle};
pub use update::differs;

pub(crate) use steps::{remove_sandboxes, stop_sandboxes};

use crate::DesiredPod;
use crate::cache::{PodCache, Stamp};
use crate::checkpoint::{Checkpoints, SavedState};
use crate::kubelet::Hub;
use crate::metrics::Metrics;
use crate::pleg::Pleg;
use crate::sync::SyncContext;

/// What every worker needs. Shared by all.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) sync: SyncContext,
    pub(crate) cache: PodCache,
    pub(crate) pleg: Pleg,
    pub(crate) hub: Hub,
    pub(crate) metrics: Metrics,
    pub(crate) timing: WorkerMetrics,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    pub(crate) registry: Registry,
    pub(crate) tasks: TaskTracker,
    pub(crate) cancel: CancellationToken,
    pub(crate) running: AtomicUsize,
    /// The node's name, lower case.
    pub(crate) node_name: Arc<str>,
}

/// A Pod that gets a worker.
#[derive(Debug)]
pub(crate) struct NewPod {
    pub(crate) key: PodKey,
    pub(crate) desired: DesiredPod,
    pub(crate) state: SavedState,
    /// Its first sync wants an observation that is newer than this.
    pub(crate) newer_than: Stamp,
}

impl WorkerContext {
    /// Starts the worker of a Pod that has none.
    pub(crate) fn start(self: &Arc<Self>, new: NewPod) {
        let came = Instant::now();
        let handle = WorkerHandle::new(&new.key, new.desired.clone());
        self.running.fetch_add(1, Ordering::Relaxed);
        let (worker, actions) = task::Worker::new(self.clone(), new, handle.clone());
        worker.tell_stage();
        // At once, so that whoever lists Pods next sees this one.
        worker.publish();
        self.registry.insert(handle);
        self.tasks.spawn(self.cancel.clone().run_until_cancelled_owned(worker.run(actions, came)));
    }

    /// The Pod is gone.
    fn forget(&self, key: &PodKey, handle: &WorkerHandle) {
        self.sync.recorder.timeline().gone(&key.uid);
        self.registry.remove(&key.uid);
        self.sync.probes.remove(&key.uid);
        self.hub.remove(&key.uid);
        handle.end();
    }
}

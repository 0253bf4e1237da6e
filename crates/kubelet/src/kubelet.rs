//! The kubelet's handle: what the binary holds.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use minke_core::clock::Clock;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{Runtime, RuntimeError};
use tokio::sync::{Mutex, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::{Stamp, pod_cache};
use crate::checkpoint::SavedPod;
use crate::eviction::Gauge;
use crate::housekeeping::Housekeeping;
use crate::images::{ImageManager, PARALLEL_PULLS};
use crate::metrics::Metrics;
use crate::pleg::{Health, Pleg, PlegStats};
use crate::probes::{ProbeMetrics, Prober};
use crate::sync::{BoundedImages, SyncContext};
use crate::timeline::{Timelines, Transition};
use crate::worker::{NewPod, Registry, WorkerContext, WorkerMetrics};
use crate::{KubeletConfig, PodReport, Progress};

mod admit;
mod coming;
mod exec;
mod hub;
mod orphans;
mod ports;
mod probing;
mod room;
mod sink;
mod stop;

pub use admit::{Admit, AdmitAll};
pub use exec::{ExecError, streams_of};
pub use hub::Subscription;
pub(crate) use hub::{Hub, Listener};
pub use ports::{Ports, StartError};
use room::Room;

#[derive(Debug)]
struct Shared {
    workers: Arc<WorkerContext>,
    housekeeping: Housekeeping,
    admit: Arc<dyn Admit>,
    gauge: Arc<dyn Gauge>,
    room: Room,
    config: KubeletConfig,
    /// Pods are admitted one call at a time: each must see those before it.
    admission: Mutex<()>,
}

/// The kubelet core, running. Cheap to clone; lives until [`Kubelet::shutdown`] or until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Kubelet {
    shared: Arc<Shared>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.workers.cancel.cancel();
    }
}

impl Kubelet {
    /// Starts it on this machine: takes up the Pods of earlier agents from their checkpoints and finds their
    /// containers.
    ///
    /// # Errors
    /// [`StartError`] when a directory can't be used.
    pub async fn start(
        config: KubeletConfig,
        runtime: Arc<dyn Runtime>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let ports = Ports::of_machine(&config, &runtime, &clock).await?;
        Self::start_with(config, runtime, clock, ports).await
    }

    /// Starts it on given ports: takes up the Pods of earlier agents from their checkpoints and finds their
    /// containers.
    ///
    /// # Errors
    /// [`StartError`] when the checkpoints can't be read.
    pub async fn start_with(
        config: KubeletConfig,
        runtime: Arc<dyn Runtime>,
        clock: Arc<dyn Clock>,
        ports: Ports,
    ) -> Result<Self, StartError> {
        let loaded = ports.checkpoints.load().await.map_err(StartError::Load)?;
        for uid in &loaded.unreadable {
            tracing::warn!(pod = %uid, "the pod's checkpoint can't be read; what runs of it is left alone");
        }
        let (cache, writer) = pod_cache();
        let (tasks, cancel, registry) = (TaskTracker::new(), CancellationToken::new(), Registry::default());
        let (sink, unknown, deaths) = sink::Dispatcher::new(registry.clone());
        let (sink, how) = (Arc::new(sink), ports.pleg.clone());
        let pleg = Pleg::start(runtime.clone(), writer, sink, how, clock.clone(), &tasks, &cancel);
        let metrics = Metrics::default();
        pleg.register(&metrics, &clock, runtime.clone());
        cache.register(&metrics);
        let timing = WorkerMetrics::new(&metrics);
        let sync = sync_context(&config, &ports, runtime.clone(), clock);
        let probing = probing::run(&sync, runtime, registry.clone(), ProbeMetrics::new(&metrics));
        tasks.spawn(cancel.clone().run_until_cancelled_owned(probing));
        let workers = Arc::new(WorkerContext {
            sync,
            cache,
            pleg,
            hub: Hub::default(),
            metrics,
            timing,
            checkpoints: ports.checkpoints,
            registry,
            tasks: tasks.clone(),
            cancel: cancel.clone(),
            running: AtomicUsize::new(0),
            node_name: config.node_name.as_str().into(),
        });
        for SavedPod { uid, desired, state } in room::admit_again(loaded.pods, &*ports.admit).await {
            match PodKey::of(&desired.pod) {
                Ok(key) if key.uid == uid => {
                    workers.sync.recorder.timeline().begin(&key, &desired.pod, Transition::Adopted);
                    workers.start(NewPod { key, desired, state, newer_than: Stamp::ZERO });
                }
                Ok(_) | Err(_) => tracing::warn!(pod = %uid, "the pod's checkpoint is of another pod; left alone"),
            }
        }
        let housekeeping = Housekeeping::new(workers.clone(), config.image_gc.clone(), loaded.unreadable.clone());
        let orphans = orphans::run(workers.clone(), unknown, loaded.unreadable);
        tasks.spawn(cancel.clone().run_until_cancelled_owned(orphans));
        tasks.spawn(cancel.run_until_cancelled_owned(housekeeping.clone().run(deaths)));
        let (admit, gauge, room) = (ports.admit, ports.gauge, Room::new(&workers.metrics));
        room::keep(&workers, &housekeeping, config.eviction.clone(), gauge.clone(), &room);
        let shared = Shared { workers, housekeeping, admit, gauge, room, config, admission: Mutex::new(()) };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(crate) fn workers(&self) -> &Arc<WorkerContext> {
        &self.shared.workers
    }

    pub(crate) fn config(&self) -> &KubeletConfig {
        &self.shared.config
    }

    /// A Pod as it is.
    #[must_use]
    pub fn report(&self, uid: &PodUid) -> Option<PodReport> {
        self.shared.workers.hub.get(uid)
    }

    /// All Pods, sorted by namespace, name and uid.
    #[must_use]
    pub fn reports(&self) -> Vec<PodReport> {
        self.shared.workers.hub.all()
    }

    /// Changes of all Pods; first, all Pods as they are.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.shared.workers.hub.subscribe()
    }

    /// What is going on, for people; lossy.
    #[must_use]
    pub fn progress(&self) -> broadcast::Receiver<Progress> {
        self.shared.workers.sync.recorder.listen()
    }

    /// When things happened to these Pods (`None`: to all, those included that were forgotten lately).
    #[must_use]
    pub fn timelines(&self, pods: Option<&[PodUid]>) -> Timelines {
        let sync = &self.shared.workers.sync;
        sync.recorder.timeline().snapshot(pods, sync.clock.now())
    }

    /// Removes dead containers that are not needed, of all Pods that are kept, at once; returns how many. The first thing
    /// to do when the disk fills.
    pub async fn reclaim_containers(&self) -> usize {
        self.shared.housekeeping.reclaim_containers().await
    }

    /// Removes every image that nothing uses and that is old enough, however full the disk is; returns the bytes that
    /// became free.
    ///
    /// # Errors
    /// The runtime can't be asked.
    pub async fn reclaim_images(&self) -> Result<u64, RuntimeError> {
        self.shared.housekeeping.reclaim_images().await
    }

    /// Whether no Pod needs supervision.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.shared.workers.registry.idle()
    }

    /// Whether the runtime is being observed.
    pub fn health(&self) -> Health {
        self.shared.workers.pleg.health()
    }

    /// What the PLEG has done so far.
    #[must_use]
    pub fn pleg_stats(&self) -> PlegStats {
        self.shared.workers.pleg.stats()
    }

    /// The agent's metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.workers.metrics.clone()
    }

    /// Stops supervising and leaves Pods running. How far each is has been saved, or is found by looking.
    pub async fn shutdown(self) {
        let workers = self.shared.workers.clone();
        drop(self);
        workers.cancel.cancel();
        workers.tasks.close();
        workers.tasks.wait().await;
    }
}

/// What syncs need, on these ports.
pub(crate) fn sync_context(
    config: &KubeletConfig,
    ports: &Ports,
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
) -> SyncContext {
    SyncContext {
        images: Arc::new(ImageManager::new(Arc::new(BoundedImages(runtime.clone())), PARALLEL_PULLS)),
        runtime,
        clock,
        host: ports.host.clone(),
        probes: Prober::new(),
        recorder: ports.recorder.clone(),
        host_ips: ports.host_ips.clone(),
        runtime_name: config.runtime_name.clone(),
        owner: config.state_directory.display().to_string(),
        epoch: Instant::now(),
    }
}

//! The kubelet's handle: what the binary holds.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::future::join_all;
use minke_core::clock::Clock;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{ListFilter, Runtime, RuntimeError};
use minke_core::status::FailureOverride;
use tokio::sync::{Mutex, broadcast};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::{Rejection, Verdict, read_machine};
use crate::cache::{Stamp, pod_cache};
use crate::checkpoint::{CheckpointError, Checkpoints, DiskCheckpoints, OpenError, SavedPod, SavedState};
use crate::eviction::{Gauge, MachineGauge};
use crate::host::{MachineHost, node_settings};
use crate::housekeeping::Housekeeping;
use crate::images::{ImageManager, PARALLEL_PULLS};
use crate::logs::RotationPolicy;
use crate::metrics::Metrics;
use crate::pleg::{Health, Pleg, PlegConfig, PlegStats, bounded};
use crate::probes::{ProbeMetrics, Prober};
use crate::sync::{BoundedImages, CALL_TIMEOUT, PodHost, Recorder, SyncContext};
use crate::timeline::{Timelines, Transition};
use crate::worker::lifecycle::{Cause, SavedLifecycle};
use crate::worker::{NewPod, Registry, WorkerContext, WorkerHandle, WorkerMetrics};
use crate::{Admission, DesiredPod, KubeletConfig, PodReport, PodStage, Progress, StopRequest};

mod admit;
mod coming;
mod exec;
mod hub;
mod orphans;
mod probing;
mod room;
mod sink;
mod stop;

use admit::MachineAdmission;
pub use admit::{Admit, AdmitAll};
pub use exec::ExecError;
pub(crate) use hub::Hub;
pub use hub::Subscription;
use room::Room;

/// How long a Pod of the same uid or name that ends may take to be forgotten before its successor is refused.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Events that a slow listener may be behind.
const PROGRESS_BACKLOG: usize = 1024;

/// The kubelet could not start. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory of checkpoints can't be used.
    #[error("can't open the state of earlier agents")]
    Open(#[source] OpenError),
    /// What the machine has can't be read.
    #[error("can't read what this machine has")]
    Machine(#[source] std::io::Error),
    /// The checkpoints can't be listed.
    #[error("can't read the state of earlier agents")]
    Load(#[source] CheckpointError),
}

/// What the kubelet stands on beside the runtime.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Where its memory is.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Volumes, files, configurations.
    pub host: Arc<dyn PodHost>,
    /// Who may come in.
    pub admit: Arc<dyn Admit>,
    /// Tells people what happens.
    pub recorder: Recorder,
    /// Addresses of the machine, primary first.
    pub host_ips: Vec<std::net::IpAddr>,
    /// How the PLEG works.
    pub pleg: PlegConfig,
    /// What is left of the machine.
    pub gauge: Arc<dyn Gauge>,
}

impl Ports {
    /// The ports of this machine.
    ///
    /// # Errors
    /// [`StartError`] when a directory can't be used or the machine can't be read.
    pub async fn of_machine(
        config: &KubeletConfig,
        runtime: &Arc<dyn Runtime>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let checkpoints = DiskCheckpoints::open(&config.state_directory).map_err(StartError::Open)?;
        let free = |capacity: &_| config.eviction.kept_free(capacity);
        let machine = read_machine(&config.node_name, &config.state_directory, config.max_pods, &config.node, &free);
        let machine = machine.map_err(StartError::Machine)?;
        let node = node_settings(config, &machine);
        let (recorder, host_ips) = (Recorder::new(PROGRESS_BACKLOG), node.host_ips.clone());
        let rotation = RotationPolicy { max_bytes: config.log_max_bytes, max_files: config.log_max_files };
        let host = MachineHost::new(node, clock.clone(), runtime.clone(), recorder.clone(), rotation);
        recover_ranges(&host, &**runtime).await;
        Ok(Self {
            checkpoints: Arc::new(checkpoints),
            host: Arc::new(host),
            admit: Arc::new(MachineAdmission { machine }),
            recorder,
            host_ips,
            pleg: PlegConfig::new(config.relist_mode, config.relist_period),
            gauge: Arc::new(MachineGauge::new(&config.state_directory, &config.log_directory, runtime.clone())),
        })
    }
}

#[derive(Debug)]
struct Shared {
    workers: Arc<WorkerContext>,
    housekeeping: Housekeeping,
    admit: Arc<dyn Admit>,
    gauge: Arc<dyn Gauge>,
    room: Room,
    /// Pods are admitted one call at a time: each must see those before it.
    admission: Mutex<()>,
}

/// A Pod that was decided about.
struct Coming {
    key: PodKey,
    desired: DesiredPod,
    /// How its life begins if it is not rejected.
    first: SavedLifecycle,
    rejection: Option<Rejection>,
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
        pleg.register(&metrics, &clock);
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
        room::keep(&workers, &housekeeping, config.eviction, gauge.clone(), &room);
        let shared = Shared { workers, housekeeping, admit, gauge, room, admission: Mutex::new(()) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Takes Pods on, in order. Durable before it returns.
    pub async fn apply(&self, pods: Vec<DesiredPod>) -> Vec<Admission> {
        self.make_way(&pods).await;
        let _one_at_a_time = self.shared.admission.lock().await;
        let mut decided = Vec::with_capacity(pods.len());
        let mut coming: Vec<Coming> = Vec::new();
        for desired in pods {
            match self.decide(desired, &mut coming).await {
                Ok(new) => {
                    decided.push(Ok(coming.len()));
                    coming.push(new);
                }
                Err(answer) => decided.push(Err(answer)),
            }
        }
        // All at once: each write waits for the disk.
        let answers = join_all(coming.into_iter().map(|new| self.take_on(new))).await;
        decided.into_iter().map(|d| d.map_or_else(|answer| answer, |at| answers[at].clone())).collect()
    }

    /// Decides about one Pod, given those that come with it.
    async fn decide(&self, desired: DesiredPod, coming: &mut [Coming]) -> Result<Coming, Admission> {
        let workers = &self.shared.workers;
        let key = PodKey::of(&desired.pod).map_err(|error| refused("InvalidPod", error.to_string()))?;
        let removal =
            |key: &PodKey| refused("AlreadyExists", format!("pod {key} has ended and is still being removed"));
        if coming.iter().any(|c| c.key.uid == key.uid) {
            return Err(Admission::Unchanged);
        }
        if let Some(existing) = workers.registry.get(&key.uid) {
            if !self.is_ending(&existing) {
                return Err(self.update(&existing, desired).await);
            }
            if !self.forget(&key.uid, REMOVAL_TIMEOUT).await {
                return Err(removal(&key));
            }
        }
        let exists =
            |uid: &PodUid| refused("AlreadyExists", format!("pod {} exists already with uid {uid}", key.full_name()));
        let namesake =
            |c: &&Coming| c.rejection.is_none() && c.key.namespace == key.namespace && c.key.name == key.name;
        if let Some(other) = coming.iter().find(namesake) {
            return Err(exists(&other.key.uid));
        }
        for other in workers.registry.named(&key) {
            if !self.is_ending(&other) {
                return Err(exists(&other.key.uid));
            }
            // A name is one Pod's at a time.
            if !self.forget(&other.key.uid, REMOVAL_TIMEOUT).await {
                return Err(removal(&other.key));
            }
        }
        let first = self.first_seen(&key.uid, &desired.pod).await;
        let rejection = match first {
            SavedLifecycle::Syncing => match self.admission(&desired, coming).await {
                Verdict::Admit => None,
                Verdict::Reject(rejection) => Some(rejection),
                Verdict::Preempt(preemption) => {
                    self.preempt(&preemption, coming).await;
                    None
                }
            },
            // Nothing of it will run, so it needs no place.
            SavedLifecycle::Terminating { .. }
            | SavedLifecycle::Terminated { .. }
            | SavedLifecycle::Finished { .. } => None,
        };
        Ok(Coming { key, desired, first, rejection })
    }

    /// Keeps a Pod that was decided about, and gives it a worker.
    async fn take_on(&self, new: Coming) -> Admission {
        let workers = &self.shared.workers;
        let Coming { key, desired, first, rejection } = new;
        if let Err(error) = workers.checkpoints.save_pod(&key.uid, &desired).await {
            let message = format!("can't keep the pod: {}", minke_core::runtime::error_chain(&error));
            return refused("CheckpointFailed", message);
        }
        let now = workers.sync.clock.now();
        let how = match &rejection {
            None => Transition::Admitted,
            Some(rejection) => Transition::Rejected { reason: rejection.reason.clone() },
        };
        workers.sync.recorder.timeline().begin(&key, &desired.pod, how);
        let mut state = SavedState { lifecycle: first, ..SavedState::default() };
        if state.lifecycle != SavedLifecycle::Syncing {
            // How it ended elsewhere is not ours to change.
            state.status = desired.pod.status.clone().unwrap_or_default();
        }
        state.timings.admitted_at = Some(now);
        if let Some(rejection) = &rejection {
            let (reason, message) = (&rejection.reason, rejection.status_message());
            workers.sync.recorder.warning(&key.uid, None, reason, message.clone());
            state.status.phase = Some("Failed".to_owned());
            state.status.reason = Some(reason.clone());
            state.status.message = Some(message.clone());
            state.timings.finished_at = Some(now);
            let cause = Cause::Failed(FailureOverride { reason: reason.clone(), message });
            state.lifecycle = SavedLifecycle::Finished { cause };
            if let Err(error) = workers.checkpoints.save_state(&key.uid, &state).await {
                tracing::warn!(pod = %key, error = minke_core::runtime::error_chain(&error), "can't keep a rejection");
            }
        }
        // What an earlier agent left of it may be on its way out.
        drop(timeout(REMOVAL_TIMEOUT, workers.registry.orphan_ended(&key.uid)).await);
        let newer_than = self.first_look(&key.uid);
        workers.start(NewPod { key, desired, state, newer_than });
        match rejection {
            None => Admission::Accepted,
            Some(Rejection { reason, message }) => Admission::Rejected { reason, message },
        }
    }

    /// What the first sync of a Pod must be newer than. A uid that the cache has never heard of can't have anything
    /// that is older; one that it knows may have been removed and not be observed to be gone.
    fn first_look(&self, uid: &PodUid) -> Stamp {
        let workers = &self.shared.workers;
        let known = workers.cache.get(uid);
        let empty = known.status.sandboxes.is_empty() && known.status.containers.is_empty() && known.error.is_none();
        if empty { Stamp::ZERO } else { workers.cache.stamp() }
    }

    async fn admission(&self, desired: &DesiredPod, coming: &[Coming]) -> Verdict {
        let workers = &self.shared.workers;
        let mut active: Vec<_> = workers
            .registry
            .all()
            .iter()
            .filter(|h| matches!(h.stage(), PodStage::Syncing | PodStage::Terminating))
            .filter_map(|h| workers.hub.get(&h.key.uid).map(|r| r.pod))
            .collect();
        active.extend(coming.iter().filter(|c| c.rejection.is_none()).map(|c| c.desired.pod.clone()));
        self.shared.admit.admit(&desired.pod, &active, &self.shared.room.node.pressure()).await
    }

    /// Whether the Pod has ended or is on its way there: who asks for it again means a new run, and does not have to
    /// know how far the clean-up of the last one is.
    fn is_ending(&self, handle: &WorkerHandle) -> bool {
        match handle.stage() {
            PodStage::Terminating | PodStage::Terminated | PodStage::Finished => true,
            PodStage::Syncing => {
                let report = self.shared.workers.hub.get(&handle.key.uid);
                let phase = report.as_ref().and_then(|r| r.pod.status.as_ref()).and_then(|s| s.phase.as_deref());
                matches!(phase, Some("Succeeded" | "Failed"))
            }
        }
    }

    /// Removes a Pod that has ended or is about to, and waits until it is forgotten.
    async fn forget(&self, uid: &PodUid, bound: Duration) -> bool {
        let Some(handle) = self.shared.workers.registry.get(uid) else { return true };
        handle.mailbox.stop(StopRequest { grace: None, remove: true });
        timeout(bound, handle.ended()).await.is_ok()
    }

    pub(crate) fn workers(&self) -> &Arc<WorkerContext> {
        &self.shared.workers
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
        runtime_name: "minke".to_owned(),
        owner: config.state_directory.display().to_string(),
        epoch: Instant::now(),
    }
}

/// Keeps the ranges of user ids apart that Pods of earlier agents have.
async fn recover_ranges(host: &MachineHost, runtime: &dyn Runtime) {
    let listed = bounded("list sandboxes", CALL_TIMEOUT, runtime.list_sandboxes(&ListFilter::default())).await;
    for sandbox in listed.unwrap_or_default() {
        let status = bounded("sandbox status", CALL_TIMEOUT, runtime.sandbox_status(&sandbox.id)).await;
        if let Some(range) = status.ok().and_then(|s| s.namespaces.user) {
            host.recover(&sandbox.pod.uid, range);
        }
    }
}

fn refused(reason: &str, message: String) -> Admission {
    Admission::Rejected { reason: reason.to_owned(), message }
}

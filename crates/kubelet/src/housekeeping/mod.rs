//! Housekeeping: what is not needed any more goes. All of it beside the way of Pods: nothing that starts or stops a
//! container waits for it, it takes one call of the runtime at a time, and no lock that others need.
//!
//! The order matters, and is this:
//! 1. Nothing at all before checkpoints are loaded (the caller) and the runtime was listed once: a Pod that was not
//!    heard of yet is not one that nobody wants.
//! 2. **On a container's death**, at once: dead instances beyond the newest of its name (`garbage`). Pods queue up by
//!    uid, so a Pod that dies a hundred times a second is in the queue once.
//! 3. Every 10 s, Pod by Pod: logs are rotated; dead containers, then dead sandboxes that became empty by that.
//!    Containers whose state nobody knows are stopped before they are removed, sandboxes are stopped once more.
//!    Only Pods that are kept: one that ends removes all it has by itself, step by step, in its worker.
//! 4. Every minute, after containers: what the machine has of Pods that nobody knows ([`leftovers`]): mounts, then
//!    volumes, then logs, then cgroups. The machine is looked at first and the Pods are asked for afterwards, and what
//!    is left over must be so in two rounds.
//! 5. Every 5 minutes, last, since a dead container keeps its image: images, if the disk is full ([`images`]).
//!
//! The eviction manager calls the same for pressure: [`Housekeeping::reclaim_containers`], then
//! [`Housekeeping::reclaim_images`].

mod garbage;
mod images;
mod leftovers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use minke_core::containers::all_containers;
use minke_core::identity::PodUid;
use minke_core::runtime::{FsInfo, ImageId, ImageStatus, ListFilter, RuntimeError, error_chain};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::garbage::{Garbage, Stop, garbage};
pub use self::images::{ImageGcPolicy, InvalidImageGc};
use self::images::{Ledger, named};
pub use self::leftovers::Leftover;
use self::leftovers::Suspects;
use crate::PodStage;
use crate::pleg::bounded;
use crate::pod_set::PodSet;
use crate::sync::CALL_TIMEOUT;
use crate::worker::WorkerContext;

/// Between two rounds over the Pods' containers and logs.
const CONTAINERS: Duration = Duration::from_secs(10);
/// Between two looks at what is left over.
const LEFTOVERS: Duration = Duration::from_secs(60);
/// Between two looks at the images.
const IMAGES: Duration = Duration::from_secs(300);
/// Before it is asked again whether the runtime was listed.
const NOT_YET: Duration = Duration::from_secs(1);
/// What a container gets whose state nobody knows.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Keeps house for one agent. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Housekeeping {
    ctx: Arc<WorkerContext>,
    policy: ImageGcPolicy,
    /// Pods with a checkpoint that can't be read.
    unreadable: Arc<BTreeSet<PodUid>>,
    ledger: Arc<tokio::sync::Mutex<Ledger>>,
}

impl Housekeeping {
    /// Housekeeping over these Pods.
    pub(crate) fn new(ctx: Arc<WorkerContext>, policy: ImageGcPolicy, unreadable: Vec<PodUid>) -> Self {
        Self { ctx, policy, unreadable: Arc::new(unreadable.into_iter().collect()), ledger: Arc::default() }
    }

    /// Keeps house for ever.
    pub(crate) async fn run(self, deaths: PodSet) {
        while self.ctx.pleg.health().is_err() {
            tokio::time::sleep(NOT_YET).await;
        }
        tokio::join!(self.on_deaths(&deaths), self.now_and_then());
    }

    async fn on_deaths(&self, deaths: &PodSet) {
        loop {
            let uid = deaths.next().await;
            self.collect(&uid).await;
        }
    }

    async fn now_and_then(&self) {
        let every = |period| {
            let mut ticks = interval(period);
            // A round that takes long delays the next one; it does not make several of them follow each other.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let (mut containers, mut leftovers, mut images) = (every(CONTAINERS), every(LEFTOVERS), every(IMAGES));
        let mut suspects = Suspects::default();
        loop {
            tokio::select! {
                biased;
                _ = containers.tick() => self.containers().await,
                _ = leftovers.tick() => self.leftovers(&mut suspects).await,
                _ = images.tick() => self.images().await,
            }
        }
    }

    async fn containers(&self) {
        for worker in self.ctx.registry.all() {
            if worker.stage() != PodStage::Syncing {
                continue;
            }
            let status = self.ctx.cache.get(&worker.key.uid).status;
            self.ctx.sync.host.rotate_logs(&status).await;
            self.collect(&worker.key.uid).await;
        }
        self.ctx.sync.images.collect_garbage(|uid| self.ctx.registry.get(uid).is_some());
    }

    /// Removes what a Pod that is kept needs no more; returns how many containers.
    async fn collect(&self, uid: &PodUid) -> usize {
        // One that ends sees to it by itself, and one that is unknown may belong to somebody else.
        if self.ctx.registry.get(uid).is_none_or(|worker| worker.stage() != PodStage::Syncing) {
            return 0;
        }
        let Garbage { containers, sandboxes } = garbage(&self.ctx.cache.get(uid).status);
        let runtime = &self.ctx.sync.runtime;
        let mut removed = 0;
        for (id, stop) in &containers {
            let done = async {
                if *stop == Stop::First {
                    bounded("stop container", CALL_TIMEOUT, runtime.stop_container(id, STOP_GRACE)).await?;
                }
                bounded("remove container", CALL_TIMEOUT, runtime.remove_container(id)).await
            };
            match done.await {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::debug!(container = %id, error = error_chain(&error), "can't remove a dead container");
                }
            }
        }
        for id in &sandboxes {
            let done = async {
                bounded("stop sandbox", CALL_TIMEOUT, runtime.stop_sandbox(id)).await?;
                bounded("remove sandbox", CALL_TIMEOUT, runtime.remove_sandbox(id)).await
            };
            if let Err(error) = done.await {
                tracing::debug!(sandbox = %id, error = error_chain(&error), "can't remove a dead sandbox");
            }
        }
        if !containers.is_empty() || !sandboxes.is_empty() {
            self.ctx.pleg.request(uid);
        }
        removed
    }

    async fn leftovers(&self, suspects: &mut Suspects) {
        // First the machine, then who is known: what was taken on in between has not been seen.
        let found = self.ctx.sync.host.leftovers().await;
        let filter = ListFilter::default();
        let listed = bounded("list sandboxes", CALL_TIMEOUT, self.ctx.sync.runtime.list_sandboxes(&filter)).await;
        // Without knowing what the runtime has, nothing is known to be left over.
        let Ok(listed) = listed else { return };
        let mut known: BTreeSet<PodUid> = listed.into_iter().map(|s| s.pod.uid).collect();
        known.extend(self.ctx.registry.all().into_iter().map(|worker| worker.key.uid));
        known.extend(self.unreadable.iter().cloned());
        for left in suspects.round(found, &known) {
            tracing::info!(?left, "removing what is left of a pod that nobody knows");
            if let Err(error) = self.ctx.sync.host.remove_leftover(&left).await {
                tracing::warn!(?left, error = error.message, "can't remove what is left of a pod");
            }
        }
    }

    /// Looks at the images and frees space if the disk is full.
    async fn images(&self) {
        let round = async {
            let (images, used) = self.look().await?;
            let Some(excess) = self.policy.excess(&self.disk().await?) else { return Ok(()) };
            tracing::info!(bytes = excess, "the disk of images is full; removing images that nothing uses");
            let freed = self.free(&images, &used, excess).await?;
            if freed < excess {
                tracing::warn!(
                    freed,
                    wanted = excess,
                    "FreeDiskSpaceFailed: the images that nothing uses are not enough"
                );
            }
            Ok::<_, RuntimeError>(())
        };
        if let Err(error) = round.await {
            tracing::warn!(error = error_chain(&error), "ImageGCFailed: can't look after images");
        }
    }

    async fn disk(&self) -> Result<FsInfo, RuntimeError> {
        bounded("image file system", CALL_TIMEOUT, self.ctx.sync.runtime.image_fs_info()).await
    }

    /// The images, and those of them that some container has, running or not.
    async fn look(&self) -> Result<(Vec<ImageStatus>, BTreeSet<ImageId>), RuntimeError> {
        let runtime = &self.ctx.sync.runtime;
        let images = bounded("list images", CALL_TIMEOUT, runtime.list_images()).await?;
        let filter = ListFilter::default();
        let sandboxes = bounded("list sandboxes", CALL_TIMEOUT, runtime.list_sandboxes(&filter)).await?;
        let mut pods: BTreeSet<PodUid> = sandboxes.into_iter().map(|s| s.pod.uid).collect();
        pods.extend(self.ctx.registry.all().into_iter().map(|worker| worker.key.uid));
        let mut used = BTreeSet::new();
        for uid in pods {
            let status = self.ctx.cache.get(&uid).status;
            used.extend(status.containers.iter().map(|c| c.image.clone()));
        }
        used.extend(named(&images, &self.wanted()));
        self.ledger.lock().await.look(&images, &used, Instant::now());
        Ok((images, used))
    }

    /// The names of the images of Pods that are kept: theirs may be about to start.
    fn wanted(&self) -> BTreeSet<String> {
        let kept = self.ctx.registry.all().into_iter().filter(|worker| worker.stage() == PodStage::Syncing);
        let desired: Vec<_> = kept.map(|worker| worker.desired().pod).collect();
        desired.iter().flat_map(|pod| all_containers(pod)).filter_map(|c| c.image.clone()).collect()
    }

    async fn free(&self, images: &[ImageStatus], used: &BTreeSet<ImageId>, bytes: u64) -> Result<u64, RuntimeError> {
        let plan = self.ledger.lock().await.plan(images, used, &self.policy, bytes, Instant::now());
        let before = self.disk().await?.used_bytes;
        for id in plan {
            // The runtime refuses one that came into use meanwhile.
            let removed = bounded("remove image", CALL_TIMEOUT, self.ctx.sync.runtime.remove_image(&id.0)).await;
            if let Err(error) = removed {
                tracing::debug!(image = %id, error = error_chain(&error), "can't remove an image");
            }
        }
        Ok(before.saturating_sub(self.disk().await?.used_bytes))
    }

    /// Removes dead containers of all Pods that are kept, at once; returns how many.
    pub(crate) async fn reclaim_containers(&self) -> usize {
        let mut removed = 0;
        for worker in self.ctx.registry.all() {
            removed += self.collect(&worker.key.uid).await;
        }
        removed
    }

    /// Removes every image that nothing uses and that is old enough, however full the disk is; returns the bytes that
    /// became free.
    ///
    /// # Errors
    /// The runtime can't be asked.
    pub(crate) async fn reclaim_images(&self) -> Result<u64, RuntimeError> {
        let (images, used) = self.look().await?;
        self.free(&images, &used, u64::MAX).await
    }
}

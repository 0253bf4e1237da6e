//! A scripted provider: a back end in memory that outlives any number of controllers.
//!
//! A Pod is one small entry, so that a hundred thousand fit; its status is made when somebody asks. Times are tokio's. Nothing
//! runs in the background unless a test drives it ([`FakeProvider::drive`]): a Pod whose time has come changes at the
//! next look at it, and is told of by whoever looks.

mod faults;
mod pod;
#[cfg(test)]
mod tests;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::FakeClock;
use crate::identity::PodKey;
use crate::provider::{DesiredPod, HeldPod, Notices, Provider, ProviderError, StatusSink};

pub use faults::{ProviderFault, ProviderFaultAction, ProviderFaultError, ProviderOp};
use world::{News, World};

/// How Pods live, unless a test says otherwise of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FakePodLife {
    /// From its creation until it runs.
    pub starts_after: Duration,
    /// From its start until it ends by itself, with what exit code; `None`: never.
    pub ends: Option<(Duration, i32)>,
    /// From being told to end until nothing of it runs; never longer than its grace.
    pub stops_after: Duration,
}

impl Default for FakePodLife {
    fn default() -> Self {
        Self { starts_after: Duration::ZERO, ends: None, stops_after: Duration::ZERO }
    }
}

/// A scripted provider. Clones are the same provider.
#[derive(Debug, Clone)]
pub struct FakeProvider {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    sink: Mutex<Option<Arc<dyn StatusSink>>>,
    notices: Notices,
    clock: FakeClock,
    wake: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeProvider {
    /// A provider without Pods, which tells of changes or has to be asked.
    #[must_use]
    pub fn new(notices: Notices, clock: FakeClock) -> Self {
        let (world, sink) = (Mutex::new(World::default()), Mutex::new(None));
        Self { shared: Arc::new(Shared { world, sink, notices, clock, wake: Notify::new() }) }
    }

    /// How Pods created from now on live.
    pub fn set_life(&self, life: FakePodLife) {
        self.world().life = life;
    }

    /// Adds something that goes wrong. The first that matches a call hits it.
    pub fn add_fault(&self, fault: ProviderFault) {
        self.world().faults.push(fault);
    }

    /// Takes back all faults.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
    }

    /// How many calls of this kind were made.
    #[must_use]
    pub fn calls(&self, op: ProviderOp) -> u64 {
        self.world().calls.get(&op).copied().unwrap_or(0)
    }

    /// How often this Pod was started: more than once is a violation.
    #[must_use]
    pub fn starts(&self, key: &PodKey) -> u32 {
        self.world().starts.get(key).copied().unwrap_or(0)
    }

    /// Promises that the controller broke: a Pod started a second time, two Pods of one name at a time.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.world().violations.clone()
    }

    /// How many Pods it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.settled().pods.len()
    }

    /// The Pods it holds, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<PodKey> {
        let mut keys: Vec<PodKey> = self.settled().pods.keys().cloned().collect();
        keys.sort();
        keys
    }

    /// The Pod's containers end by themselves with this code.
    pub fn end(&self, key: &PodKey, exit_code: i32) {
        let now = Instant::now();
        let mut world = self.settled();
        world.end(key, exit_code, now);
        self.tell(world);
    }

    /// The Pod is gone and nobody is told.
    pub fn lose(&self, key: &PodKey) {
        self.world().pods.remove(key);
    }

    /// Something behind the provider ends the Pod.
    pub fn evict(&self, key: &PodKey, grace: Duration) {
        if let Some(sink) = lock(&self.shared.sink).clone() {
            sink.evicted(key, grace);
        }
    }

    /// Tells of what happens in time, for ever. Tests spawn it; dropping it loses nothing.
    pub async fn drive(self) {
        loop {
            let due = {
                let world = self.settled();
                let due = world.next_due();
                self.tell(world);
                due
            };
            let wake = self.shared.wake.notified();
            match due {
                Some(due) => drop(tokio::time::timeout_at(due, wake).await),
                None => wake.await,
            }
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.shared.world)
    }

    /// The world as it is now: what was due has happened.
    fn settled(&self) -> MutexGuard<'_, World> {
        let mut world = self.world();
        world.settle(Instant::now());
        world
    }

    /// Tells what has happened, without the world's lock.
    fn tell(&self, mut world: MutexGuard<'_, World>) {
        let news = std::mem::take(&mut world.news);
        drop(world);
        let sink = lock(&self.shared.sink).clone().filter(|_| self.shared.notices == Notices::Pushed);
        for (key, news) in news {
            let Some(sink) = &sink else { continue };
            match news {
                News::Changed(entry) => sink.changed(&key, entry.status(&self.shared.clock)),
                News::Forgotten => sink.forgotten(&key),
            }
        }
    }

    /// One call: counted, hit by a fault perhaps, then done.
    async fn call<T>(
        &self,
        op: ProviderOp,
        key: Option<&PodKey>,
        run: impl FnOnce(&mut World, Instant) -> Result<T, ProviderError> + Send,
    ) -> Result<T, ProviderError> {
        let action = self.world().called(op, key);
        let mut after = None;
        match action {
            None => {}
            Some(ProviderFaultAction::Fail(error)) => return Err(error.of(op)),
            Some(ProviderFaultAction::FailAfter(error)) => after = Some(error),
            Some(ProviderFaultAction::Delay(delay)) => sleep_until(Instant::now() + delay).await,
            Some(ProviderFaultAction::Hang) => std::future::pending().await,
        }
        let mut world = self.settled();
        let result = run(&mut world, Instant::now());
        world.settle(Instant::now());
        self.tell(world);
        self.shared.wake.notify_one();
        match after {
            None => result,
            Some(error) => result.and_then(|_| Err(error.of(op))),
        }
    }
}

#[async_trait]
impl Provider for FakeProvider {
    async fn create(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = PodKey::of(&pod.pod)
            .map_err(|error| ProviderError::Invalid { operation: "create", message: error.to_string() })?;
        self.call(ProviderOp::Create, Some(&key), |world, now| {
            world.create(&key, pod.pod.clone(), now);
            Ok(())
        })
        .await
    }

    async fn update(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = PodKey::of(&pod.pod)
            .map_err(|error| ProviderError::Invalid { operation: "update", message: error.to_string() })?;
        self.call(ProviderOp::Update, Some(&key), |world, _| match world.pods.get_mut(&key) {
            Some(entry) => {
                entry.pod = pod.pod.clone();
                Ok(())
            }
            None => Err(ProviderError::no_pod("update", key.to_string())),
        })
        .await
    }

    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError> {
        self.call(ProviderOp::Delete, Some(key), |world, now| world.delete(key, grace, now)).await
    }

    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError> {
        let clock = self.shared.clock.clone();
        self.call(ProviderOp::Get, Some(key), |world, _| Ok(world.pods.get(key).map(|entry| entry.held(key, &clock))))
            .await
    }

    async fn status(&self, key: &PodKey) -> Result<Option<PodStatus>, ProviderError> {
        let clock = self.shared.clock.clone();
        self.call(ProviderOp::Status, Some(key), |world, _| Ok(world.pods.get(key).map(|entry| entry.status(&clock))))
            .await
    }

    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError> {
        let clock = self.shared.clock.clone();
        self.call(ProviderOp::List, None, |world, _| {
            Ok(world.pods.iter().map(|(key, entry)| entry.held(key, &clock)).collect())
        })
        .await
    }

    fn notify(&self, sink: Arc<dyn StatusSink>) -> Notices {
        *lock(&self.shared.sink) = Some(sink);
        self.shared.notices
    }
}

//! The handle of the fake runtime: scripting, looking inside, and the way of every call.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{BoxStream, unfold};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::calls::{Call, Fault, FaultAction, FaultError, Op};
use super::clock::FakeClock;
use super::events::{EventPlan, Next, Subscriber};
use super::life::{Ending, Life};
use super::world::World;
use crate::identity::PodUid;
use crate::runtime::{
    ContainerId, ContainerState, Credential, EventService, HealthService, ImageId, ImageStatus, ImageUser,
    LinuxResources, RuntimeError, RuntimeEvent, RuntimeEventKind, SandboxId, SandboxState, Silence,
};

/// A runtime in memory. Must be made and used inside a tokio runtime with time. Clones are the same runtime.
#[derive(Clone)]
pub struct FakeRuntime {
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
    clock: FakeClock,
}

impl FakeRuntime {
    /// An empty runtime in which every image can be pulled and every container runs for ever.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(FakeClock::new())
    }

    /// The same, telling the time by this clock.
    #[must_use]
    pub fn with_clock(clock: FakeClock) -> Self {
        Self { world: Arc::new(Mutex::new(World::new(clock.clone()))), changed: Arc::default(), clock }
    }

    /// Its clock; hand it to whatever is tested.
    #[must_use]
    pub fn clock(&self) -> FakeClock {
        self.clock.clone()
    }

    /// Scripts the attempts of every container of this name; the last life repeats.
    pub fn script(&self, name: impl Into<String>, lives: Vec<Life>) {
        self.world().lives.insert((None, name.into()), lives);
    }

    /// Scripts the attempts of one Pod's container.
    pub fn script_pod(&self, pod: &PodUid, name: impl Into<String>, lives: Vec<Life>) {
        self.world().lives.insert((Some(pod.clone()), name.into()), lives);
    }

    /// Adds a fault.
    pub fn fault(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Removes all faults, the hook included. Calls that hang go on hanging.
    pub fn heal(&self) {
        let mut world = self.world();
        world.faults.clear();
        world.hook = None;
        world.plan = EventPlan::faithful();
    }

    /// Decides the fate of each call that no scripted fault hits.
    pub fn fault_hook(&self, hook: impl FnMut(&Call) -> Option<FaultAction> + Send + 'static) {
        self.world().hook = Some(Box::new(hook));
    }

    /// Decides the fate of each event from now on.
    pub fn event_plan(&self, plan: EventPlan) {
        self.world().plan = plan;
    }

    /// Whether this runtime has events at all.
    pub fn support_events(&self, supported: bool) {
        self.world().events_supported = supported;
    }

    /// What its adapter says of it from now on: that it has not answered for this long, or that it does.
    pub fn fall_silent(&self, silence: Option<Silence>) {
        self.world().silence = silence;
    }

    /// Breaks every event stream, now.
    pub fn break_streams(&self) {
        self.world().subscribers.values_mut().for_each(Subscriber::break_now);
        self.changed.notify_waiters();
    }

    /// Sends an event that nothing caused.
    pub fn forge_event(&self, kind: RuntimeEventKind, id: impl Into<String>, pod: &PodUid) {
        self.world().emit(kind, id.into(), pod.clone(), Instant::now());
        self.changed.notify_waiters();
    }

    /// Puts an image into the store.
    pub fn add_image(&self, name: impl Into<String>, user: ImageUser) -> ImageId {
        let name = name.into();
        let status = fake_image(&name, user);
        let id = status.id.clone();
        self.world().images.insert(name, status);
        id
    }

    /// How many bytes the disk of images has for them, and how large it is.
    pub fn disk(&self, available: u64, capacity: u64) {
        self.world().disk = (available, capacity);
    }

    /// Makes the registry hold only what is published; until the first call it holds everything.
    pub fn publish_image(&self, name: impl Into<String>, user: ImageUser) {
        let name = name.into();
        let status = fake_image(&name, user);
        self.world().registry.get_or_insert_default().insert(name, status);
    }

    /// All calls so far, with their times.
    #[must_use]
    pub fn timed_calls(&self) -> Vec<(Timestamp, Call)> {
        self.world().calls.clone()
    }

    /// All calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.world().calls.iter().map(|(_, call)| call.clone()).collect()
    }

    /// All calls so far that may change something.
    #[must_use]
    pub fn writes(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|call| !call.op.is_read()).collect()
    }

    /// All pulls so far, with the logins that came with each.
    #[must_use]
    pub fn pulls(&self) -> Vec<(String, Vec<Credential>)> {
        self.world().pulls.clone()
    }

    /// How many calls of this kind there were.
    #[must_use]
    pub fn count(&self, op: Op) -> usize {
        self.world().calls.iter().filter(|(_, call)| call.op == op).count()
    }

    /// How many calls of this kind there were about this Pod.
    #[must_use]
    pub fn count_of(&self, pod: &PodUid, op: Op) -> usize {
        self.world().calls.iter().filter(|(_, call)| call.op == op && call.pod.as_ref() == Some(pod)).count()
    }

    /// Forgets the calls so far.
    pub fn clear_calls(&self) {
        self.world().calls.clear();
    }

    /// Broken promises so far, in words. A test ends with an assertion that there is none.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.world().violations.clone()
    }

    /// The newest container of this name in this Pod, with its state.
    #[must_use]
    pub fn newest(&self, pod: &PodUid, name: &str) -> Option<(ContainerId, ContainerState)> {
        let mut world = self.world();
        world.settle(Instant::now());
        let of_name = world.containers.iter().filter(|(_, c)| c.pod == *pod && c.config.name == name);
        of_name.max_by_key(|(_, c)| c.order).map(|(id, c)| (id.clone(), c.state.clone()))
    }

    /// The limits of the newest container of this name in this Pod.
    #[must_use]
    pub fn limits(&self, pod: &PodUid, name: &str) -> Option<LinuxResources> {
        let world = self.world();
        let of_name = world.containers.values().filter(|c| c.pod == *pod && c.config.name == name);
        of_name.max_by_key(|c| c.order).map(|c| c.config.resources.clone())
    }

    /// How many containers of this Pod run.
    #[must_use]
    pub fn running(&self, pod: &PodUid) -> usize {
        let mut world = self.world();
        world.settle(Instant::now());
        world.containers.values().filter(|c| c.pod == *pod && c.state.is_running()).count()
    }

    /// Ends a container, now.
    pub fn end(&self, id: &ContainerId, ending: &Ending) {
        let mut world = self.world();
        let now = Instant::now();
        world.settle(now);
        world.end(id, now, ending);
        drop(world);
        self.changed.notify_waiters();
    }

    /// Kills the process of a sandbox (its shim): its containers end with a lost code, its network is gone.
    pub fn kill_sandbox(&self, id: &SandboxId) {
        let mut world = self.world();
        let now = Instant::now();
        world.settle(now);
        world.stop_sandbox_now(id, now, &Ending::lost());
        drop(world);
        self.changed.notify_waiters();
    }

    /// Makes the runtime unable to say what a container does.
    pub fn make_unknown(&self, id: &ContainerId) {
        if let Some(container) = self.world().containers.get_mut(id) {
            container.state = ContainerState::Unknown;
            container.due = None;
        }
    }

    /// Makes a container disappear without an event, as somebody else's clean-up does.
    pub fn vanish(&self, id: &ContainerId) {
        self.world().containers.remove(id);
    }

    /// The ids of this Pod's sandboxes, newest first, with their states.
    #[must_use]
    pub fn sandboxes(&self, pod: &PodUid) -> Vec<(SandboxId, SandboxState)> {
        let world = self.world();
        let mut found: Vec<_> = world.sandboxes.iter().filter(|(_, s)| s.config.pod.uid == *pod).collect();
        found.sort_by_key(|(_, s)| std::cmp::Reverse(s.order));
        found.into_iter().map(|(id, s)| (id.clone(), s.state)).collect()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way of every call: log, fault, effect. `convert` makes the error of a fault.
    pub(super) async fn call<T, E>(
        &self,
        call: Call,
        convert: impl Fn(&FaultError, &Call) -> E,
        effect: impl FnOnce(&mut World, Instant) -> Result<T, E>,
    ) -> Result<T, E> {
        // One turn of the scheduler, as a real call has: callers see no call complete at once.
        tokio::task::yield_now().await;
        let fate = self.world().fate(&call);
        let act = |effect: &mut dyn FnMut(&mut World, Instant) -> Result<T, E>| {
            let mut world = self.world();
            let now = Instant::now();
            world.settle(now);
            let result = effect(&mut world, now);
            drop(world);
            self.changed.notify_waiters();
            result
        };
        let mut effect = Some(effect);
        let mut once = |world: &mut World, now: Instant| match effect.take() {
            Some(effect) => effect(world, now),
            None => Err(convert(&FaultError::Failed("called twice".to_owned()), &call)),
        };
        match fate {
            None => act(&mut once),
            Some(FaultAction::Fail(error)) => Err(convert(&error, &call)),
            Some(FaultAction::FailAfterEffect(error)) => {
                act(&mut once)?;
                Err(convert(&error, &call))
            }
            Some(FaultAction::Hang) => pending().await,
            Some(FaultAction::HangAfterEffect) => {
                act(&mut once)?;
                pending().await
            }
            Some(FaultAction::Delay(by)) => {
                sleep(by).await;
                act(&mut once)
            }
        }
    }

    /// Waits until `done` holds, looking again whenever something changes or a container's time comes.
    pub(super) async fn until(&self, mut done: impl FnMut(&mut World) -> bool) {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut world = self.world();
                let before = world.next_due();
                world.settle(Instant::now());
                if done(&mut world) {
                    drop(world);
                    if before.is_some() {
                        self.changed.notify_waiters();
                    }
                    return;
                }
                world.next_due()
            };
            wait(changed, due).await;
        }
    }
}

/// Waits for a notification, or for a moment.
async fn wait(changed: impl Future<Output = ()>, due: Option<Instant>) {
    match due {
        None => changed.await,
        Some(due) => {
            futures_util::future::select(std::pin::pin!(changed), std::pin::pin!(sleep_until(due))).await;
        }
    }
}

fn fake_image(name: &str, user: ImageUser) -> ImageStatus {
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(name.as_bytes()));
    ImageStatus {
        id: ImageId(format!("sha256:{digest}")),
        tags: vec![name.to_owned()],
        digests: Vec::new(),
        size_bytes: 1_000_000,
        user,
        pinned: false,
    }
}

impl World {
    /// What a pull of this name brings.
    pub(super) fn published(&self, name: &str) -> Option<ImageStatus> {
        match &self.registry {
            None => Some(fake_image(name, ImageUser::Root)),
            Some(registry) => registry.get(name).cloned(),
        }
    }
}

impl HealthService for FakeRuntime {
    fn silence(&self) -> Option<Silence> {
        self.world().silence.clone()
    }
}

impl EventService for FakeRuntime {
    fn subscribe(&self) -> Result<BoxStream<'static, Result<RuntimeEvent, RuntimeError>>, RuntimeError> {
        let mut world = self.world();
        if !world.events_supported {
            return Err(RuntimeError::Unsupported { operation: "events", feature: "container events".to_owned() });
        }
        let id = world.id();
        world.subscribers.insert(id, Subscriber::default());
        drop(world);
        let subscription = Subscription { runtime: self.clone(), id };
        Ok(Box::pin(unfold(Some(subscription), |state| async move {
            let subscription = state?;
            match subscription.next().await {
                Ok(event) => Some((Ok(event), Some(subscription))),
                Err(error) => Some((Err(error), None)),
            }
        })))
    }
}

/// Unsubscribes when dropped.
struct Subscription {
    runtime: FakeRuntime,
    id: u64,
}

impl Subscription {
    async fn next(&self) -> Result<RuntimeEvent, RuntimeError> {
        loop {
            let changed = self.runtime.changed.notified();
            let due = {
                let mut world = self.runtime.world();
                let now = Instant::now();
                world.settle(now);
                let own = world.next_due();
                match world.subscribers.get_mut(&self.id).map(|s| s.next(now)) {
                    Some(Next::Event(event)) => return Ok(event),
                    Some(Next::Broken(error)) => return Err(error),
                    Some(Next::Wait(due)) => [due, own].into_iter().flatten().min(),
                    None => own,
                }
            };
            wait(changed, due).await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.runtime.world().subscribers.remove(&self.id);
    }
}

impl Default for FakeRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.world();
        f.debug_struct("FakeRuntime")
            .field("sandboxes", &world.sandboxes.len())
            .field("containers", &world.containers.len())
            .finish_non_exhaustive()
    }
}

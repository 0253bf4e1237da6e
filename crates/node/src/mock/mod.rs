//! A provider that runs nothing: Pods are created, say that they run, and end when they are told to. For tests of clusters and of
//! the controller itself; a hundred thousand Pods fit.
//!
//! A Pod is one small entry, its object as text; its status is made when somebody asks. What happens in
//! time is done by one task, in the order of time.

mod world;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::NodeSystemInfo;
use minke_core::clock::{Clock, SystemClock};
use minke_core::identity::PodKey;
use minke_core::provider::{
    DesiredPod, Extras, HeldPod, NodeDescription, NodeShutdown, NodeSource, Notices, Provider, ProviderError,
    StatusSink,
};
use minke_core::resources::{Amount, ResourceList};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use world::{News, World};

/// How a mock's Pods live.
#[derive(Debug, Clone, PartialEq)]
pub struct MockOptions {
    /// From its creation until a Pod runs.
    pub starts_after: Duration,
    /// From being told to end until it has; never longer than its grace.
    pub stops_after: Duration,
    /// Of a hundred calls, so many fail: transient errors that took no effect.
    pub failing_percent: u8,
    /// Processors that the node says it has.
    pub cpus: i64,
    /// Memory that the node says it has, in bytes.
    pub memory: i64,
    /// Most Pods that the node says it takes.
    pub max_pods: usize,
    /// Addresses of the node.
    pub addresses: Vec<IpAddr>,
}

impl Default for MockOptions {
    fn default() -> Self {
        Self {
            starts_after: Duration::ZERO,
            stops_after: Duration::ZERO,
            failing_percent: 0,
            cpus: 1000,
            memory: 4 << 40,
            max_pods: 110,
            addresses: Vec::new(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct MockProvider {
    options: MockOptions,
    clock: Arc<dyn Clock>,
    world: Mutex<World>,
    sink: Mutex<Option<Arc<dyn StatusSink>>>,
    wake: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MockProvider {
    /// A mock and the task that makes time pass for it, which ends with the last holder of the mock. Needs a tokio runtime.
    #[must_use]
    pub fn start(options: MockOptions) -> Arc<Self> {
        Self::start_with(options, Arc::new(SystemClock))
    }

    /// With another clock than the machine's.
    #[must_use]
    pub fn start_with(options: MockOptions, clock: Arc<dyn Clock>) -> Arc<Self> {
        let mock =
            Arc::new(Self { options, clock, world: Mutex::default(), sink: Mutex::default(), wake: Notify::new() });
        let weak = Arc::downgrade(&mock);
        tokio::spawn(async move {
            const LOOK: Duration = Duration::from_secs(1);
            while let Some(mock) = weak.upgrade() {
                let due = mock.settle().unwrap_or_else(|| Instant::now() + LOOK).min(Instant::now() + LOOK);
                // Looked at every second at least, so that the task sees that nobody holds the mock.
                drop(timeout_at(due, mock.wake.notified()).await);
            }
        });
        mock
    }

    /// How many Pods it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        lock(&self.world).len()
    }

    /// Lets happen what is due, tells of it, and returns when there is more.
    fn settle(&self) -> Option<Instant> {
        let (news, next) = {
            let mut world = lock(&self.world);
            let news = world.settle(Instant::now(), self.clock.now());
            (news, world.next_due())
        };
        self.tell(news);
        next
    }

    fn tell(&self, news: Vec<(PodKey, News)>) {
        let Some(sink) = lock(&self.sink).clone() else { return };
        for (key, news) in news {
            match news {
                News::Changed(status) => sink.changed(&key, *status),
                News::Forgotten => sink.forgotten(&key),
            }
        }
    }

    /// A call that may fail.
    fn call<T>(&self, operation: &'static str, run: impl FnOnce(&mut World) -> T) -> Result<T, ProviderError> {
        let done = {
            let mut world = lock(&self.world);
            if world.draw() < self.options.failing_percent {
                return Err(ProviderError::Unavailable { operation, source: "the mock was told to fail".into() });
            }
            run(&mut world)
        };
        self.settle();
        self.wake.notify_one();
        Ok(done)
    }

    fn host_ip(&self) -> IpAddr {
        self.options.addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

fn key_of(operation: &'static str, pod: &DesiredPod) -> Result<PodKey, ProviderError> {
    PodKey::of(&pod.pod).map_err(|error| ProviderError::Invalid { operation, message: error.to_string() })
}

#[async_trait]
impl Provider for MockProvider {
    async fn create(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = key_of("create", pod)?;
        if lock(&self.world).is_closed() && !lock(&self.world).holds(&key) {
            return Err(ProviderError::Rejected {
                reason: "NodeShutdown".to_owned(),
                message: "Pod was rejected as the node is shutting down.".to_owned(),
            });
        }
        let (starts, host, now) = (Instant::now() + self.options.starts_after, self.host_ip(), self.clock.now());
        self.call("create", |world| world.create(key, &pod.pod, starts, host, now))
    }

    async fn update(&self, pod: &DesiredPod) -> Result<(), ProviderError> {
        let key = key_of("update", pod)?;
        let found = self.call("update", |world| world.update(&key, &pod.pod))?;
        if found { Ok(()) } else { Err(ProviderError::no_pod("update", key.to_string())) }
    }

    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError> {
        let ends = Instant::now() + self.options.stops_after.min(grace);
        let found = self.call("delete", |world| world.delete(key, ends))?;
        if found { Ok(()) } else { Err(ProviderError::no_pod("delete", key.to_string())) }
    }

    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError> {
        self.call("get", |world| world.get(key))
    }

    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError> {
        self.call("list", |world| world.list())
    }

    fn notify(&self, sink: Arc<dyn StatusSink>) -> Notices {
        *lock(&self.sink) = Some(sink);
        Notices::Pushed
    }

    fn extras(&self) -> Extras<'_> {
        Extras { shutdown: Some(self), ..Extras::default() }
    }
}

#[async_trait]
impl NodeSource for MockProvider {
    async fn describe(&self) -> Result<NodeDescription, ProviderError> {
        let units = |n: usize| Amount::from_units(i64::try_from(n).unwrap_or(i64::MAX));
        let capacity = ResourceList::from([
            ("cpu".to_owned(), Amount::from_units(self.options.cpus)),
            ("memory".to_owned(), Amount::from_units(self.options.memory)),
            ("ephemeral-storage".to_owned(), Amount::from_units(self.options.memory)),
            ("pods".to_owned(), units(self.options.max_pods)),
        ]);
        let labels = [("kubernetes.io/os", "linux"), ("type", "virtual-kubelet")];
        Ok(NodeDescription {
            allocatable: capacity.clone(),
            capacity,
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            hostname: String::new(),
            addresses: vec![self.host_ip()],
            info: NodeSystemInfo {
                operating_system: "linux".to_owned(),
                container_runtime_version: format!("mock://{}", env!("CARGO_PKG_VERSION")),
                kubelet_version: format!("v1.37.0+minke.{}", env!("CARGO_PKG_VERSION")),
                ..NodeSystemInfo::default()
            },
            ..NodeDescription::default()
        })
    }
}

#[async_trait]
impl NodeShutdown for MockProvider {
    fn close(&self, closed: bool) {
        lock(&self.world).close(closed);
    }

    async fn end(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError> {
        let ends = Instant::now() + self.options.stops_after.min(grace);
        let found = self.call("end", |world| world.end(key, ends))?;
        if found { Ok(()) } else { Err(ProviderError::no_pod("end", key.to_string())) }
    }
}

#[cfg(test)]
mod tests;

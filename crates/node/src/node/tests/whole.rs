//! The whole controller under paused time: an API that fails as told, a provider that answers as told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use minke_core::fake::FakeClock;
use minke_core::provider::{NodeSource, ProviderError};
use tokio::time::sleep;

use super::super::api::NodeApi;
use super::*;
use crate::api::ApiError;

/// An API that fails as told, for the whole controller.
#[derive(Debug, Clone, Default)]
struct FakeApi {
    objects: Arc<Mutex<Objects>>,
    down: Arc<AtomicBool>,
    slow: Arc<AtomicU64>,
}

impl FakeApi {
    async fn call<T>(&self, answer: impl FnOnce(&mut Objects) -> Result<T, ApiError>) -> Result<T, ApiError> {
        sleep(Duration::from_millis(1 + self.slow.load(Ordering::Relaxed))).await;
        if self.down.load(Ordering::Relaxed) {
            return Err(ApiError::Failed { operation: "call", source: "refused".into() });
        }
        answer(&mut self.objects.lock().unwrap())
    }

    fn node_call(objects: &mut Objects, call: NodeCall) -> Result<Option<Node>, ApiError> {
        match objects.answer(call) {
            NodeEvent::Fetched(node) => Ok(node.map(|node| *node)),
            NodeEvent::Wrote(node) => Ok(Some(*node)),
            _ => Err(ApiError::Conflict("write node")),
        }
    }

    fn store(objects: &mut Objects, lease: &Lease) -> Result<Lease, ApiError> {
        let here = objects.lease.as_ref().and_then(|l| l.metadata.resource_version.clone());
        if here != lease.metadata.resource_version {
            return Err(ApiError::Conflict("write lease"));
        }
        objects.version += 1;
        let mut lease = lease.clone();
        lease.metadata.resource_version = Some(objects.version.to_string());
        objects.lease = Some(lease.clone());
        Ok(lease)
    }
}

#[async_trait]
impl NodeApi for FakeApi {
    async fn node(&self) -> Result<Option<Node>, ApiError> {
        self.call(|objects| Self::node_call(objects, NodeCall::Get)).await
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        let call = NodeCall::Create(Box::new(node.clone()));
        self.call(|objects| Self::node_call(objects, call)).await.map(Option::unwrap)
    }

    async fn patch_node_status(&self, patch: &Value) -> Result<Node, ApiError> {
        let call = NodeCall::Patch(patch.clone());
        self.call(|objects| Self::node_call(objects, call)).await.map(Option::unwrap)
    }

    async fn lease(&self) -> Result<Option<Lease>, ApiError> {
        self.call(|objects| Ok(objects.lease.clone())).await
    }

    async fn create_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.call(|objects| Self::store(objects, lease)).await
    }

    async fn replace_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.call(|objects| Self::store(objects, lease)).await
    }
}

/// A provider that answers as told.
#[derive(Debug, Default)]
struct Source {
    hangs: AtomicBool,
    panics: AtomicBool,
    asked: AtomicU64,
    at_once: AtomicU64,
    most: AtomicU64,
}

#[async_trait]
impl NodeSource for Source {
    async fn describe(&self) -> Result<NodeDescription, ProviderError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(at_once, Ordering::Relaxed);
        while self.hangs.load(Ordering::Relaxed) {
            sleep(SECOND).await;
        }
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        assert!(!self.panics.load(Ordering::Relaxed), "as told");
        Ok(description())
    }
}

fn controller(api: &FakeApi, source: &Arc<Source>, identity: &str) -> (NodeController, NodeHandle) {
    let config = NodeConfig { identity: identity.to_owned(), ..config() };
    let controller =
        NodeController::new(config, Arc::new(api.clone()), source.clone()).clock(Arc::new(FakeClock::new()));
    let handle = controller.handle();
    (controller, handle)
}

fn ready(api: &FakeApi) -> String {
    api.objects.lock().unwrap().ready()
}

fn renewed(api: &FakeApi) -> u64 {
    api.objects.lock().unwrap().version
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_or_panics_makes_its_node_not_ready_and_delays_no_lease() {
    let (api, source) = (FakeApi::default(), Arc::new(Source::default()));
    let (controller, handle) = controller(&api, &source, "a");
    let task = tokio::spawn(controller.run());
    assert!(handle.ready().await);
    sleep(SECOND).await;
    assert_eq!(ready(&api), "True KubeletReady");
    source.hangs.store(true, Ordering::Relaxed);
    let before = renewed(&api);
    sleep(100 * SECOND).await;
    assert_eq!(ready(&api), "False KubeletNotReady");
    assert!(renewed(&api) - before >= 9, "the agent lives");
    assert_eq!(source.most.load(Ordering::Relaxed), 1, "it is asked once at a time");
    source.hangs.store(false, Ordering::Relaxed);
    sleep(30 * SECOND).await;
    assert_eq!(ready(&api), "True KubeletReady");
    source.panics.store(true, Ordering::Relaxed);
    sleep(30 * SECOND).await;
    assert_eq!(ready(&api), "False KubeletNotReady");
    source.panics.store(false, Ordering::Relaxed);
    sleep(30 * SECOND).await;
    assert_eq!(ready(&api), "True KubeletReady");
    assert!(handle.shutdown().await.is_none());
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_away_for_long_and_back_finds_the_node_again() {
    let (api, source) = (FakeApi::default(), Arc::new(Source::default()));
    api.down.store(true, Ordering::Relaxed);
    let (controller, handle) = controller(&api, &source, "a");
    let task = tokio::spawn(controller.run());
    sleep(600 * SECOND).await;
    assert!(handle.trouble().is_some_and(|trouble| trouble.contains("refused")));
    api.down.store(false, Ordering::Relaxed);
    let ready_again = tokio::time::timeout(20 * SECOND, handle.ready()).await;
    assert_eq!(ready_again, Ok(true));
    sleep(SECOND).await;
    assert_eq!((ready(&api).as_str(), handle.trouble()), ("True KubeletReady", None));
    api.down.store(true, Ordering::Relaxed);
    sleep(600 * SECOND).await;
    // It is back with an older state: the node was never there.
    *api.objects.lock().unwrap() = Objects::default();
    api.down.store(false, Ordering::Relaxed);
    sleep(30 * SECOND).await;
    assert_eq!(ready(&api), "True KubeletReady");
    let (owner, uid) = {
        let objects = api.objects.lock().unwrap();
        let owners = objects.lease.as_ref().unwrap().metadata.owner_references.clone().unwrap();
        (owners[0].uid.clone(), objects.node.as_ref().unwrap().metadata.uid.clone())
    };
    assert_eq!(Some(owner), uid);
    handle.shutdown().await;
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_agent_of_the_same_name_ends_and_touches_nothing() {
    let (api, source) = (FakeApi::default(), Arc::new(Source::default()));
    let (first, handle) = controller(&api, &source, "a");
    let task = tokio::spawn(first.run());
    assert!(handle.ready().await);
    sleep(SECOND).await;
    let node = api.objects.lock().unwrap().node.clone();
    let (second, other) = controller(&api, &source, "b");
    let error = second.run().await.unwrap_err();
    assert!(matches!(*error, NodeError::NameTaken(_)), "{error}");
    assert!(!other.ready().await && other.done().await.is_some());
    assert_eq!(api.objects.lock().unwrap().node, node);
    handle.shutdown().await;
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn s17_a_slow_api_keeps_nobody_waiting_who_tells_of_the_node() {
    let (api, source) = (FakeApi::default(), Arc::new(Source::default()));
    api.slow.store(4000, Ordering::Relaxed);
    let (controller, handle) = controller(&api, &source, "a");
    let task = tokio::spawn(controller.run());
    assert!(handle.ready().await);
    let before = Instant::now();
    for n in 0..1000 {
        handle.going_down(n % 2 == 1);
    }
    assert_eq!(before.elapsed(), Duration::ZERO, "the last word counts, and nobody waits for the others");
    assert!(handle.told_that_it_goes_down().await);
    assert_eq!(ready(&api), "False NodeShutdown");
    handle.shutdown().await;
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn s19_a_status_that_is_told_at_once_delays_no_later_one() {
    let (api, source) = (FakeApi::default(), Arc::new(Source::default()));
    let (controller, handle) = controller(&api, &source, "a");
    let task = tokio::spawn(controller.run());
    assert!(handle.ready().await);
    for n in 0..12 {
        // Between two regular looks.
        handle.going_down(n % 2 == 0);
        let (looks, renewals) = (source.asked.load(Ordering::Relaxed), renewed(&api));
        sleep(11 * SECOND).await;
        assert!(source.asked.load(Ordering::Relaxed) > looks, "the provider is asked each ten seconds");
        assert!(renewed(&api) > renewals, "the lease is renewed each ten seconds");
    }
    handle.shutdown().await;
    task.await.unwrap().unwrap();
}

/// Wherever it is, in a call or between two: it ends without an error, a second word changes nothing, and nothing is called later.
#[tokio::test(start_paused = true)]
async fn s26_a_node_that_is_told_to_end_ends_wherever_it_is() {
    for wait in (0..24).map(|n| n * 250) {
        let (api, source) = (FakeApi::default(), Arc::new(Source::default()));
        api.slow.store(1000, Ordering::Relaxed);
        source.hangs.store(wait % 500 == 0, Ordering::Relaxed);
        let (controller, handle) = controller(&api, &source, "a");
        let task = tokio::spawn(controller.run());
        sleep(Duration::from_millis(wait)).await;
        assert!(handle.shutdown().await.is_none(), "after {wait} ms");
        task.await.unwrap().unwrap();
        handle.going_down(true);
        assert!(!handle.told_that_it_goes_down().await && handle.shutdown().await.is_none());
        let version = renewed(&api);
        sleep(600 * SECOND).await;
        assert_eq!(renewed(&api), version);
    }
}

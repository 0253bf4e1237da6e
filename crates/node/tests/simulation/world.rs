//! A node in a small cluster: an API, a provider that outlives controllers, and a controller that can be restarted.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use minke_core::clock::Clock;
use minke_core::fake::{FakeClock, FakeProvider};
use minke_core::identity::PodKey;
use minke_core::provider::{Notices, Provider};
use minke_node::controller::{Controller, Handle, Options};
use minke_node::environment::NodeFacts;
use tokio::task::JoinHandle;

use crate::api::FakeApi;

pub(crate) struct World {
    pub(crate) api: FakeApi,
    pub(crate) provider: FakeProvider,
    clock: FakeClock,
    driver: JoinHandle<()>,
    running: Option<(Handle, JoinHandle<()>)>,
}

impl World {
    pub(crate) fn new(seed: u64, notices: Notices) -> Self {
        let clock = FakeClock::new();
        let provider = FakeProvider::new(notices, clock.clone());
        let driver = tokio::spawn(provider.clone().drive());
        // The API's clock is another machine's.
        let api = FakeApi::new(seed, FakeClock::new());
        Self { api, provider, clock, driver, running: None }
    }

    pub(crate) fn start(&mut self) -> Handle {
        let (provider, clock): (Arc<dyn Provider>, Arc<dyn Clock>) =
            (Arc::new(self.provider.clone()), Arc::new(self.clock.clone()));
        let controller = Controller::builder()
            .api(Arc::new(self.api.clone()))
            .provider(provider)
            .clock(clock)
            .node(NodeFacts { name: "n".to_owned(), ..NodeFacts::default() })
            .options(Options::default())
            .build()
            .unwrap();
        let handle = controller.handle();
        let task = tokio::spawn(async move { drop(controller.run().await) });
        self.running = Some((handle.clone(), task));
        handle
    }

    /// The machine's wall clock is set, ahead or back.
    pub(crate) fn set_clock(&self, by: SignedDuration) {
        self.clock.jump(by);
    }

    /// The controller dies where it stands.
    pub(crate) async fn kill(&mut self) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
            drop(task.await);
        }
    }

    /// Waits until it holds, a virtual hour at most.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..36_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what}: {:#?} {:?}", self.api.pods(), self.provider.keys());
    }

    pub(crate) fn phase(&self, name: &str) -> Option<String> {
        self.api.pod(name)?.status?.phase
    }

    /// What is not as it should be when everything has come to rest.
    pub(crate) async fn unrest(&self) -> Vec<String> {
        let mut wrong = self.provider.violations();
        let mut wanted = Vec::new();
        for pod in self.api.pods() {
            let key = PodKey::of(&pod).unwrap();
            let status = pod.status.unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() {
                wrong.push(format!("{key} was deleted and is still there"));
            }
            let held = self.provider.status(&key).await.unwrap();
            wanted.push(key.clone());
            match held {
                None => wrong.push(format!("{key} is wanted and not held: {status:?}")),
                Some(held) => {
                    if held.phase != status.phase || held.pod_ip != status.pod_ip || status.reason.is_some() {
                        wrong.push(format!("{key} is {held:?} and is said to be {status:?}"));
                    }
                }
            }
        }
        let left = self.provider.keys().into_iter().filter(|key| !wanted.contains(key));
        wrong.extend(left.map(|key| format!("{key} is left behind")));
        wrong
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.driver.abort();
        if let Some((_, task)) = &self.running {
            task.abort();
        }
    }
}

//! A cluster, a forge, deliveries between them, and a controller that can die.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use minke_core::clock::Clock;
use minke_runners::controller::{Controller, Metrics};
use minke_runners::demand::SetKey;
use minke_runners::forge::lookalike::{JobState, State};
use minke_runners::set::{RunnerSet, RunnerSetStatus};
use minke_runners::webhook::JobNews;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::cluster::{FakeCluster, PausedClock, Rates};
use crate::forge::FakeForges;

pub(crate) struct World {
    pub(crate) cluster: FakeCluster,
    pub(crate) forges: FakeForges,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    news: Arc<Mutex<Option<mpsc::Sender<JobNews>>>>,
    /// What a receiver would have on disk.
    journal: Arc<Mutex<Vec<(JobNews, Timestamp)>>>,
    deliveries: JoinHandle<()>,
    controller: Option<JoinHandle<()>>,
    /// Deliveries get lost, in thousandths.
    pub(crate) lost: Arc<Mutex<u64>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.deliveries.abort();
        self.crash();
    }
}

/// A set with these labels.
pub(crate) fn set(name: &str, labels: &[&str], change: impl FnOnce(&mut Value)) -> RunnerSet {
    let mut manifest = json!({
        "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet", "metadata": {"name": name, "namespace": "ci"},
        "spec": {
            "github": {"organization": "octo", "credentialsSecret": "github"}, "labels": labels, "max": 20,
            "template": {"spec": {"containers": [{"name": "runner", "image": "runner:1"}]}},
        },
    });
    change(&mut manifest["spec"]);
    serde_json::from_value(manifest).unwrap()
}

impl World {
    pub(crate) fn new(seed: u64, rates: Rates) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let state = Arc::new(Mutex::new(State::default()));
        let cluster = FakeCluster::new(Arc::clone(&state), Arc::clone(&clock), seed, rates);
        let forges = FakeForges::new(Arc::clone(&state), seed ^ 1);
        let news: Arc<Mutex<Option<mpsc::Sender<JobNews>>>> = Arc::default();
        let lost: Arc<Mutex<u64>> = Arc::default();
        let journal = Arc::default();
        let way = Way {
            state: Arc::clone(&state),
            to: Arc::clone(&news),
            lost: Arc::clone(&lost),
            clock: Arc::clone(&clock),
            journal: Arc::clone(&journal),
        };
        let deliveries = tokio::spawn(way.deliver(seed ^ 2));
        let metrics = Metrics::default();
        let mut world =
            Self { cluster, forges, state, clock, metrics, news, journal, deliveries, controller: None, lost };
        world.start();
        world
    }

    /// A controller begins.
    pub(crate) fn start(&mut self) {
        let (sender, heard) = mpsc::channel(1024);
        *self.news.lock().unwrap() = Some(sender);
        let controller = Controller {
            cluster: Arc::new(self.cluster.clone()),
            forges: Arc::new(self.forges.clone()),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            poll: Duration::from_secs(60),
        };
        self.controller = Some(tokio::spawn(controller.run(self.journal.lock().unwrap().clone(), heard)));
    }

    /// It is no more; what it was doing is not done.
    pub(crate) fn crash(&mut self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(controller) = self.controller.take() {
            controller.abort();
        }
    }

    pub(crate) fn queue(&self, labels: &[&str], jobs: usize) {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap();
        for _ in 0..jobs {
            state.queue("octo/app", labels, now);
        }
    }

    pub(crate) fn unfinished(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.jobs().filter(|job| !matches!(job.state, JobState::Over(_))).count()
    }

    pub(crate) fn running(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.jobs().filter(|job| matches!(job.state, JobState::Running(_))).count()
    }

    pub(crate) fn registrations(&self) -> usize {
        self.state.lock().unwrap().runners().len()
    }

    pub(crate) fn status(&self, name: &str) -> RunnerSetStatus {
        let key = SetKey { namespace: "ci".to_owned(), name: name.to_owned() };
        self.cluster.lock().statuses.get(&key).cloned().unwrap_or_default()
    }

    /// The reason of a condition.
    pub(crate) fn reason(&self, name: &str, kind: &str) -> String {
        let status = self.status(name);
        let found = status.conditions.iter().find(|condition| condition.type_ == kind);
        found.map(|condition| condition.reason.clone()).unwrap_or_default()
    }

    pub(crate) async fn secs(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until it is so, for so long at most.
    pub(crate) async fn until(&self, seconds: u64, what: &str, mut is: impl FnMut(&Self) -> bool) {
        for _ in 0..seconds * 10 {
            if is(self) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("not within {seconds} s: {what}; {}", self.describe());
    }

    pub(crate) fn describe(&self) -> String {
        let pods: Vec<String> = self
            .cluster
            .all_pods()
            .iter()
            .map(|pod| format!("{:?} {:?} {:?}", pod.metadata.name, pod.metadata.annotations, pod.metadata.finalizers))
            .collect();
        let statuses = format!("{:?}", self.cluster.lock().statuses);
        let runners = self.state.lock().unwrap().runners();
        format!("pods {pods:#?}, statuses {statuses}, runners {runners:?}, {} jobs", self.unfinished())
    }

    /// Nothing is left, and nothing went wrong on the way.
    pub(crate) fn assert_clean(&self) {
        let inner = self.cluster.lock();
        assert_eq!(inner.violations, Vec::<String>::new());
        drop(inner);
        assert_eq!(self.unfinished(), 0, "{}", self.describe());
        assert_eq!(self.cluster.all_pods().len(), 0, "{}", self.describe());
        assert_eq!(self.registrations(), 0, "{}", self.describe());
        assert_eq!(self.cluster.all_secrets(), 0, "configurations are left");
    }
}

/// The way of news from the forge to the controller, if there is one.
struct Way {
    state: Arc<Mutex<State>>,
    to: Arc<Mutex<Option<mpsc::Sender<JobNews>>>>,
    lost: Arc<Mutex<u64>>,
    journal: Arc<Mutex<Vec<(JobNews, Timestamp)>>>,
    clock: Arc<dyn Clock>,
}

impl Way {
    async fn deliver(self, seed: u64) {
        let mut random = crate::random::Random::new(seed);
        loop {
            sleep(Duration::from_millis(random.between(20, 400))).await;
            let news = self.state.lock().unwrap_or_else(PoisonError::into_inner).take_news();
            let sender = self.to.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for news in news {
                let rate = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(sender) = sender.as_ref().filter(|_| !random.chance(rate)) {
                    let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
                    journal.push((news.read(), self.clock.now()));
                    let _ = sender.try_send(news.read());
                }
            }
        }
    }
}

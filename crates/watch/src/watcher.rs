//! One task a scope: performs what the machine wants, and hands its reports to subscribers. Decides nothing.
//!
//! Reports lie in `watch` cells: the newest is always there, the end stays, and nobody who is slow makes anybody wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use minke_core::clock::{Clock, SystemClock};
use minke_core::judgement::Now;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cluster::{ApiFault, Cluster, WatchItem};
use crate::machine::{
    Access, Action, Counters, Input, Machine, Observer, Report, Scope, Settings, SubscriberId, Target,
};
use crate::metrics::{Metrics, Share, fault_word};

/// How long a call may take.
const CALL: Duration = Duration::from_secs(10);
/// How long a list may take: it may have many pages.
const LIST: Duration = Duration::from_secs(14);
/// Subscribers of a scope that is followed as a whole are numbered from 1; others from here.
const NAMED: SubscriberId = 1 << 32;

/// What the task is asked.
enum Request {
    Subscribe { id: SubscriberId, target: Target, attempt: u32, cell: watch::Sender<Report> },
    Input(Input),
    Counters(oneshot::Sender<Counters>),
}

/// Watches the Pods of one scope for any number of subscribers, with one list and one watch.
#[derive(Debug)]
pub struct Watcher {
    requests: mpsc::UnboundedSender<Request>,
    ids: AtomicU64,
    task: JoinHandle<()>,
}

/// Everything that happens in a scope: a report of each Pod whenever it changes.
#[derive(Debug)]
pub struct Everything {
    reports: mpsc::UnboundedReceiver<Report>,
    observer: watch::Receiver<Observer>,
}

/// What [`Everything`] tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Of a Pod.
    Pod(Box<Report>),
    /// Of how well the cluster is seen.
    Observer(Observer),
}

impl Everything {
    /// The next change. `None`: the watcher has stopped.
    ///
    /// # Cancel safety
    /// A dropped call loses nothing.
    pub async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            biased;
            Ok(()) = self.observer.changed() => Some(Change::Observer(self.observer.borrow_and_update().clone())),
            report = self.reports.recv() => report.map(|report| Change::Pod(Box::new(report))),
        }
    }
}

impl Watcher {
    /// Begins to watch. Stops when dropped.
    #[must_use]
    pub fn start(cluster: Arc<dyn Cluster>, scope: Scope, settings: Settings) -> Self {
        Self::start_all(cluster, scope, settings).0
    }

    /// The same, with what happens to all Pods of the scope where the settings follow them all.
    #[must_use]
    pub fn start_all(cluster: Arc<dyn Cluster>, scope: Scope, settings: Settings) -> (Self, Everything) {
        Self::start_measured(cluster, scope, settings, Metrics::default())
    }

    /// The same, counted in these metrics.
    #[must_use]
    pub fn start_measured(
        cluster: Arc<dyn Cluster>,
        scope: Scope,
        settings: Settings,
        metrics: Metrics,
    ) -> (Self, Everything) {
        let (requests, inbox) = mpsc::unbounded_channel();
        let (sender, reports) = mpsc::unbounded_channel();
        let (observed, observer) = watch::channel(Observer::Starting);
        let (answers, answered) = mpsc::channel(1024);
        let task = Task {
            cluster,
            watch_timeout: settings.watch_timeout,
            machine: Machine::new(scope.clone(), settings),
            scope,
            origin: Instant::now(),
            clock: SystemClock,
            answers,
            cells: HashMap::new(),
            everything: sender,
            observed,
            stream: None,
            over: None,
            share: Share::new(metrics.clone()),
            metrics,
        };
        let task = tokio::spawn(task.run(inbox, answered));
        (Self { requests, ids: AtomicU64::new(NAMED), task }, Everything { reports, observer })
    }

    /// Subscribes to a Pod; what is known of it already is judged at once.
    #[must_use]
    pub fn subscribe(&self, target: Target, attempt: u32) -> Subscription {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (Target::Uid { namespace, name, .. }
        | Target::Named { namespace, name }
        | Target::Expected { namespace, name }) = target.clone();
        let first = Report::unseen(namespace, name, attempt, SystemClock.now());
        let (cell, reports) = watch::channel(first);
        // A watcher that has stopped tells nothing; its subscriptions say so.
        let _ = self.requests.send(Request::Subscribe { id, target, attempt, cell });
        Subscription { id, reports, requests: self.requests.clone() }
    }

    /// What was asked of the cluster so far; `None`: the watcher has stopped.
    pub async fn counters(&self) -> Option<Counters> {
        let (sender, counters) = oneshot::channel();
        self.requests.send(Request::Counters(sender)).ok()?;
        counters.await.ok()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One subscriber's view of one Pod. Ends when dropped.
#[derive(Debug)]
pub struct Subscription {
    id: SubscriberId,
    reports: watch::Receiver<Report>,
    requests: mpsc::UnboundedSender<Request>,
}

impl Subscription {
    /// The newest report.
    #[must_use]
    pub fn latest(&self) -> Report {
        self.reports.borrow().clone()
    }

    /// Waits for a report that was not seen yet. Of several only the newest is told: verdicts that are final stay.
    /// Waits for ever once the watcher has stopped.
    ///
    /// # Cancel safety
    /// A dropped call loses nothing.
    pub async fn changed(&mut self) -> Report {
        if self.reports.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.reports.borrow_and_update().clone()
    }

    /// The expected Pod has been created with this uid.
    pub fn bind(&self, uid: impl Into<String>) {
        let _ = self.requests.send(Request::Input(Input::Bind { id: self.id, uid: uid.into() }));
    }

    /// The Pod is about to be deleted by the subscriber's own side: that is no failure of anybody else's.
    pub fn deleting(&self) {
        let _ = self.requests.send(Request::Input(Input::OwnDeletion { id: self.id }));
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.requests.send(Request::Input(Input::Unsubscribe { id: self.id }));
    }
}

struct Task {
    cluster: Arc<dyn Cluster>,
    machine: Machine,
    scope: Scope,
    watch_timeout: Duration,
    origin: Instant,
    clock: SystemClock,
    answers: mpsc::Sender<Answer>,
    cells: HashMap<SubscriberId, watch::Sender<Report>>,
    everything: mpsc::UnboundedSender<Report>,
    observed: watch::Sender<Observer>,
    /// The watch that flows; aborted with the task.
    stream: Option<AbortOnDrop>,
    /// Why the watch before is over, where it said so.
    over: Option<&'static str>,
    share: Share,
    metrics: Metrics,
}

/// What a cluster said, and when that arrived.
struct Answer {
    arrived: Instant,
    input: Input,
}

impl Answer {
    fn now(input: Input) -> Self {
        Self { arrived: Instant::now(), input }
    }
}

/// A task that ends with its handle.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Request>, mut answered: mpsc::Receiver<Answer>) {
        self.take(Input::Tick, None);
        loop {
            let wake = self.machine.next_wake().map(|at| self.origin + at);
            let alarm = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // All arms are cancel-safe: both channels keep what is not taken, and the alarm is made anew.
            tokio::select! {
                request = inbox.recv() => match request {
                    Some(Request::Subscribe { id, target, attempt, cell }) => {
                        self.cells.insert(id, cell);
                        self.take(Input::Subscribe { id, target, attempt }, None);
                    }
                    Some(Request::Input(input)) => {
                        if let Input::Unsubscribe { id } = &input {
                            self.cells.remove(id);
                        }
                        self.take(input, None);
                    }
                    Some(Request::Counters(sender)) => {
                        let _ = sender.send(self.machine.counters());
                    }
                    None => return,
                },
                answer = answered.recv() => match answer {
                    Some(Answer { arrived, input }) => self.take(input, Some(arrived)),
                    None => return,
                },
                () = alarm => self.take(Input::Tick, None),
            }
        }
    }

    /// `arrived`: when the cluster said it.
    fn take(&mut self, input: Input, arrived: Option<Instant>) {
        self.count(&input);
        let now = Now { moment: self.origin.elapsed(), wall: self.clock.now() };
        for action in self.machine.handle(input, now) {
            let publishes = matches!(action, Action::Publish { .. });
            self.perform(action, now);
            if let Some(arrived) = arrived.filter(|_| publishes) {
                self.metrics.reported(arrived.elapsed());
            }
        }
        self.share.set(self.machine.subscribers(), self.machine.pods(), Some(self.machine.observer()));
        self.observed.send_if_modified(|observer| {
            let changed = observer != self.machine.observer();
            if changed {
                observer.clone_from(self.machine.observer());
            }
            changed
        });
    }

    fn count(&mut self, input: &Input) {
        match input {
            Input::Seen { .. } => self.metrics.event("seen"),
            Input::Gone { .. } => self.metrics.event("gone"),
            Input::Bookmark { .. } => self.metrics.event("bookmark"),
            Input::WatchEnded { .. } => self.over = Some("ended"),
            Input::WatchFailed { fault, .. } => self.over = Some(fault_word(fault)),
            Input::Tick
            | Input::Probed(_)
            | Input::Listed { .. }
            | Input::ListFailed { .. }
            | Input::Got { .. }
            | Input::GetFailed { .. }
            | Input::Events { .. }
            | Input::Node { .. }
            | Input::Subscribe { .. }
            | Input::Bind { .. }
            | Input::OwnDeletion { .. }
            | Input::Unsubscribe { .. } => {}
        }
    }

    fn perform(&mut self, action: Action, now: Now) {
        if let Some(kind) = request_word(&action) {
            self.metrics.request(kind);
        }
        match action {
            Action::Count { cause, at } => {
                let after = at.map(|at| Duration::try_from(now.wall.duration_since(at)).unwrap_or_default());
                self.metrics.verdict(cause, after);
            }
            Action::Publish { id, report } => match self.cells.get(&id) {
                Some(cell) => {
                    cell.send_replace(*report);
                }
                None => {
                    let _ = self.everything.send(*report);
                }
            },
            Action::Watch { stream, version } => {
                let (cluster, scope, answers) = (Arc::clone(&self.cluster), self.scope.clone(), self.answers.clone());
                // One that is replaced without having said why had gone silent.
                let before = self.stream.take().map(|_| self.over.unwrap_or("silent"));
                if let Some(reason) = before {
                    self.metrics.reconnect(reason);
                }
                self.over = None;
                let order = Flow { scope, version, limit: self.watch_timeout, stream, metrics: self.metrics.clone() };
                let flow = tokio::spawn(flow(cluster, order, answers));
                self.stream = Some(AbortOnDrop(flow.abort_handle()));
            }
            Action::Probe | Action::List { .. } | Action::Get { .. } | Action::Events { .. } | Action::Node { .. } => {
                let (cluster, scope, answers) = (Arc::clone(&self.cluster), self.scope.clone(), self.answers.clone());
                tokio::spawn(async move {
                    if let Some(input) = call(cluster.as_ref(), &scope, action).await {
                        let _ = answers.send(Answer::now(input)).await;
                    }
                });
            }
        }
    }
}

async fn bounded<T>(limit: Duration, call: impl Future<Output = Result<T, ApiFault>>) -> Result<T, ApiFault> {
    let late = || ApiFault::Unreachable(format!("nothing within {} s", limit.as_secs()));
    timeout(limit, call).await.unwrap_or_else(|_| Err(late()))
}

/// One question, and its answer as an input.
async fn call(cluster: &dyn Cluster, scope: &Scope, action: Action) -> Option<Input> {
    Some(match action {
        Action::Probe => match bounded(CALL, cluster.access(scope)).await {
            Ok(access) => Input::Probed(access),
            // A cluster without reviews may still have lists.
            Err(_) => Input::Probed(Access::Watch),
        },
        Action::List { ask } => match bounded(LIST, cluster.list(scope)).await {
            Ok((pods, version)) => Input::Listed { ask, pods, version },
            Err(fault) => Input::ListFailed { ask, fault },
        },
        Action::Get { ask, namespace, name } => match bounded(CALL, cluster.get(&namespace, &name)).await {
            Ok(pod) => Input::Got { ask, namespace, name, pod: pod.map(Box::new) },
            Err(fault) => Input::GetFailed { ask, namespace, name, fault },
        },
        // Events and nodes are extras: without them the verdict has less to go by.
        Action::Events { namespace, uid } => {
            let events = bounded(CALL, cluster.events(&namespace, &uid)).await.ok()?;
            Input::Events { uid, events }
        }
        Action::Node { name } => {
            let node = bounded(CALL, cluster.node(&name)).await.ok().flatten().map(Box::new);
            Input::Node { name, node }
        }
        Action::Watch { .. } | Action::Count { .. } | Action::Publish { .. } => return None,
    })
}

/// As metrics name what goes to a cluster.
fn request_word(action: &Action) -> Option<&'static str> {
    match action {
        Action::Probe => Some("review"),
        Action::List { .. } => Some("list"),
        Action::Watch { .. } => Some("watch"),
        Action::Get { .. } => Some("get"),
        Action::Events { .. } => Some("events"),
        Action::Node { .. } => Some("node"),
        Action::Count { .. } | Action::Publish { .. } => None,
    }
}

/// A watch to be opened.
struct Flow {
    scope: Scope,
    version: String,
    limit: Duration,
    stream: u64,
    metrics: Metrics,
}

/// Passes a watch on until it ends.
async fn flow(cluster: Arc<dyn Cluster>, order: Flow, answers: mpsc::Sender<Answer>) {
    let stream = order.stream;
    let end = match bounded(CALL, cluster.watch(&order.scope, &order.version, order.limit)).await {
        Err(fault) => Input::WatchFailed { stream, fault },
        Ok(mut items) => {
            let _open = order.metrics.open();
            loop {
                let input = match items.next().await {
                    None => break Input::WatchEnded { stream },
                    Some(Err(fault)) => break Input::WatchFailed { stream, fault },
                    Some(Ok(WatchItem::Seen(pod))) => Input::Seen { stream, pod },
                    Some(Ok(WatchItem::Gone(pod))) => Input::Gone { stream, pod },
                    Some(Ok(WatchItem::Bookmark(version))) => Input::Bookmark { stream, version },
                };
                if answers.send(Answer::now(input)).await.is_err() {
                    return;
                }
            }
        }
    };
    let _ = answers.send(Answer::now(end)).await;
}

//! The task that performs what the machines of a node decide, and decides nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::{Clock, SystemClock};
use minke_core::provider::{NodeDescription, NodeSource};
use minke_core::runtime::error_chain;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::api::NodeApi;
use super::conditions::Described;
use super::config::NodeConfig;
use super::handle::{NodeError, NodeHandle, ProgressSender, Stage};
use super::lease::{LeaseCall, LeaseEvent, LeaseMachine, LeaseStep};
use super::machine::{NodeCall, NodeEvent, NodeMachine};
use super::ping::{Ping, PingStep};
use super::rbac::missing_rule;
use crate::Now;
use crate::api::ApiError;

/// Keeps one node; can be run once.
#[derive(Debug)]
pub struct NodeController {
    config: Arc<NodeConfig>,
    api: Arc<dyn NodeApi>,
    source: Arc<dyn NodeSource>,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
    going_down: watch::Sender<bool>,
    progress: ProgressSender,
}

impl NodeController {
    /// For this node, in this API, as this source describes it.
    #[must_use]
    pub fn new(config: NodeConfig, api: Arc<dyn NodeApi>, source: Arc<dyn NodeSource>) -> Self {
        Self {
            config: Arc::new(config),
            api,
            source,
            clock: Arc::new(SystemClock),
            cancel: CancellationToken::new(),
            going_down: watch::Sender::new(false),
            progress: ProgressSender::default(),
        }
    }

    /// With another clock than the machine's.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// For others.
    #[must_use]
    pub fn handle(&self) -> NodeHandle {
        NodeHandle::new(&self.progress, self.going_down.clone(), self.cancel.clone())
    }

    /// Runs until [`NodeHandle::shutdown`]. Neither the API nor the source needs to answer yet: it goes on trying.
    ///
    /// # Errors
    /// [`NodeError`]; it is kept for [`NodeHandle::done`] as well.
    pub async fn run(self) -> Result<(), Arc<NodeError>> {
        let now = Instant::now();
        let (config, progress) = (self.config.clone(), self.progress);
        let running = Running {
            ping: Ping::new(config.period, config.describe_timeout, now),
            node: NodeMachine::new(config.clone()),
            lease: LeaseMachine::new(config.clone(), now),
            config,
            api: self.api,
            source: self.source,
            clock: self.clock,
            tasks: JoinSet::new(),
            kinds: HashMap::new(),
            waiting: None,
            progress: &progress,
        };
        let result = running.run(&self.cancel, self.going_down.subscribe()).await.map_err(Arc::new);
        progress.stage(Stage::Ended(result.clone().err()));
        result
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Describe,
    Node,
    Lease,
}

enum Done {
    Described(Result<Box<NodeDescription>, String>),
    Node(NodeEvent, Option<String>),
    Lease(LeaseEvent, Option<String>),
}

struct Running<'a> {
    config: Arc<NodeConfig>,
    api: Arc<dyn NodeApi>,
    source: Arc<dyn NodeSource>,
    clock: Arc<dyn Clock>,
    ping: Ping,
    node: NodeMachine,
    lease: LeaseMachine,
    tasks: JoinSet<Done>,
    kinds: HashMap<Id, Kind>,
    /// A description that waits for the lease.
    waiting: Option<Described>,
    progress: &'a ProgressSender,
}

impl Running<'_> {
    async fn run(mut self, cancel: &CancellationToken, mut going_down: watch::Receiver<bool>) -> Result<(), NodeError> {
        loop {
            self.due()?;
            let due = [self.ping.due(), self.node.due(), self.lease.due()].into_iter().flatten().min();
            let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            // Cancel-safe: sets and watches lose nothing.
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                Some(done) = self.tasks.join_next_with_id() => self.done(done)?,
                Ok(()) = going_down.changed() => {
                    let goes = *going_down.borrow_and_update();
                    self.node_event(NodeEvent::GoingDown(goes));
                }
                () = sleep_until(due) => {}
            }
            self.publish();
        }
    }

    fn now(&self) -> Now {
        Now { instant: Instant::now(), wall: self.clock.now() }
    }

    fn due(&mut self) -> Result<(), NodeError> {
        let now = Instant::now();
        let passed = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if passed(self.ping.due()) {
            let step = self.ping.step(now);
            self.pinged(step);
        }
        if passed(self.lease.due()) {
            self.lease_event(LeaseEvent::Due)?;
        }
        if passed(self.node.due()) {
            self.node_event(NodeEvent::Due);
        }
        Ok(())
    }

    fn pinged(&mut self, step: PingStep) {
        match step {
            PingStep::Wait => {}
            PingStep::Ask => {
                let source = self.source.clone();
                let asked =
                    async move { Done::Described(source.describe().await.map(Box::new).map_err(|e| error_chain(&e))) };
                self.spawn(Kind::Describe, asked);
            }
            PingStep::Tell(described) => {
                if let Described::Silent { why, .. } = &described {
                    tracing::warn!(why, "the node's provider does not answer");
                }
                // Whose name it is has to be known first.
                match self.lease.renewed() {
                    Some(_) => self.node_event(NodeEvent::Described(described)),
                    None => self.waiting = Some(described),
                }
            }
        }
    }

    fn node_event(&mut self, event: NodeEvent) {
        let now = self.now();
        let before = self.node.uid().map(str::to_owned);
        let call = self.node.step(event, now);
        if let Some(uid) = self.node.uid().map(str::to_owned).filter(|uid| before.as_ref() != Some(uid)) {
            tracing::info!(node = self.config.name, uid, "the node is registered");
            // Only a lease that was taken ends the controller, and this takes none.
            drop(self.lease.step(LeaseEvent::Owner(uid), now));
        }
        let Some(call) = call else { return };
        let (api, patience) = (self.api.clone(), self.config.api_timeout);
        self.spawn(Kind::Node, async move {
            let made = async {
                match call {
                    NodeCall::Get => api.node().await.map(|node| NodeEvent::Fetched(node.map(Box::new))),
                    NodeCall::Create(node) => api.create_node(&node).await.map(|node| NodeEvent::Wrote(Box::new(node))),
                    NodeCall::Patch(patch) => {
                        api.patch_node_status(&patch).await.map(|node| NodeEvent::Wrote(Box::new(node)))
                    }
                }
            };
            match timeout(patience, made).await {
                Ok(Ok(event)) => Done::Node(event, None),
                Ok(Err(error)) => match failed(&error) {
                    Failed::Changed => Done::Node(NodeEvent::Changed, None),
                    Failed::Later(at_least) => Done::Node(NodeEvent::Failed { at_least }, Some(error_chain(&error))),
                },
                Err(_) => Done::Node(NodeEvent::Failed { at_least: Duration::ZERO }, Some(NO_ANSWER.to_owned())),
            }
        });
    }

    fn lease_event(&mut self, event: LeaseEvent) -> Result<(), NodeError> {
        let (now, in_doubt) = (self.now(), self.lease.is_in_doubt());
        let step = self.lease.step(event, now);
        if self.lease.is_in_doubt() && !in_doubt {
            tracing::warn!(
                node = self.config.name,
                "another agent may have this node's name: its lease is watched before anything is done"
            );
        }
        let call = match step {
            LeaseStep::Wait => {
                if self.lease.renewed().is_some()
                    && let Some(described) = self.waiting.take()
                {
                    self.node_event(NodeEvent::Described(described));
                }
                return Ok(());
            }
            LeaseStep::Taken(taken) => return Err(taken.into()),
            LeaseStep::Call(call) => call,
        };
        let (api, patience) = (self.api.clone(), self.config.api_timeout);
        self.spawn(Kind::Lease, async move {
            let made = async {
                match call {
                    LeaseCall::Get => api.lease().await.map(|lease| LeaseEvent::Fetched(lease.map(Box::new))),
                    LeaseCall::Create(lease) => api.create_lease(&lease).await.map(|l| LeaseEvent::Wrote(Box::new(l))),
                    LeaseCall::Replace(lease) => {
                        api.replace_lease(&lease).await.map(|l| LeaseEvent::Wrote(Box::new(l)))
                    }
                }
            };
            match timeout(patience, made).await {
                Ok(Ok(event)) => Done::Lease(event, None),
                Ok(Err(error)) => match failed(&error) {
                    Failed::Changed => Done::Lease(LeaseEvent::Changed, None),
                    Failed::Later(at_least) => Done::Lease(LeaseEvent::Failed { at_least }, Some(error_chain(&error))),
                },
                Err(_) => Done::Lease(LeaseEvent::Failed { at_least: Duration::ZERO }, Some(NO_ANSWER.to_owned())),
            }
        });
        Ok(())
    }

    fn spawn(&mut self, kind: Kind, task: impl Future<Output = Done> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.kinds.insert(id, kind);
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) -> Result<(), NodeError> {
        let id = match &done {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let kind = self.kinds.remove(&id);
        match done.map(|(_, done)| done) {
            Ok(Done::Described(answer)) => {
                let step = self.ping.answered(answer.map(|described| *described), Instant::now());
                self.pinged(step);
            }
            Ok(Done::Node(event, trouble)) => {
                self.tell(trouble);
                self.node_event(event);
            }
            Ok(Done::Lease(event, trouble)) => {
                self.tell(trouble);
                self.lease_event(event)?;
            }
            Err(error) => {
                tracing::error!(%error, "a call panicked");
                match kind {
                    Some(Kind::Describe) | None => {
                        let step = self.ping.answered(Err("the provider panicked".to_owned()), Instant::now());
                        self.pinged(step);
                    }
                    Some(Kind::Node) => self.node_event(NodeEvent::Failed { at_least: Duration::ZERO }),
                    Some(Kind::Lease) => self.lease_event(LeaseEvent::Failed { at_least: Duration::ZERO })?,
                }
            }
        }
        Ok(())
    }

    /// Tells people what the API refuses, once for each.
    fn tell(&self, trouble: Option<String>) {
        if !self.progress.trouble(trouble.clone()) {
            return;
        }
        match trouble {
            None => tracing::info!("the API answers again"),
            Some(trouble) => {
                tracing::warn!(trouble, "the node can't be kept in the API, and is tried again");
                if let Some(rule) = missing_rule(&trouble) {
                    tracing::warn!("a permission is missing; this would give it:\n{rule}");
                }
            }
        }
    }

    fn publish(&self) {
        let registered = self.node.uid().is_some() && self.lease.renewed().is_some();
        self.progress.stage(match (registered, self.node.says_that_it_goes_down()) {
            (false, _) => Stage::Unregistered,
            (true, false) => Stage::Registered,
            (true, true) => Stage::GoesDown,
        });
    }
}

const NO_ANSWER: &str = "the API does not answer";

enum Failed {
    /// It is not what it was taken for.
    Changed,
    /// Again, but not before.
    Later(Duration),
}

fn failed(error: &ApiError) -> Failed {
    match error {
        ApiError::NotFound(_) | ApiError::Conflict(_) => Failed::Changed,
        ApiError::TooMany { after, .. } => Failed::Later(*after),
        ApiError::Expired(_) | ApiError::Failed { .. } => Failed::Later(Duration::ZERO),
    }
}

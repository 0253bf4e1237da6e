//! The task that owns the book.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use minke_core::provider::{HeldPod, Notices, ProviderError};
use minke_core::runtime::error_chain;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::build::Parts;
use super::feed::{self, Feed};
use super::metrics::Untold;
use super::news::News;
use super::{ControllerError, EndWait, perform, spans};
use crate::Now;
use crate::api::{ApiError, Record, Teller, WatchEvent};
use crate::book::{Book, Effect};
use crate::pod::{CallResult, Lane, PodEvent, PodMachine, Trouble, WriteResult};
use crate::queue::{Outcome, WorkQueue};
use crate::references::{Known, ObjectRef, Watches};
use crate::refusals::Refusals;

/// Events that wait to be recorded; what comes on top is dropped.
const RECORDS: usize = 1000;

/// What a task of ours found out.
enum Done {
    Called(PodKey, CallResult),
    Wrote(PodKey, WriteResult, Option<Arc<Pod>>),
    Swept(Result<Vec<HeldPod>, ProviderError>, Instant),
    Looked(PodKey, Result<Option<Arc<Pod>>, ApiError>),
}

/// A turn that runs.
struct Owner {
    key: PodKey,
    lane: Lane,
    since: Instant,
}

pub(super) struct Running {
    parts: Parts,
    book: Book,
    provider_queue: WorkQueue<PodKey>,
    api_queue: WorkQueue<PodKey>,
    tasks: JoinSet<Done>,
    /// Whose call a task is: one that panics fails that call and no more.
    owners: HashMap<Id, Owner>,
    /// Feeds, ended with us.
    feeds: JoinSet<()>,
    followed: HashMap<ObjectRef, AbortHandle>,
    news: Arc<News>,
    feed: (mpsc::Sender<Feed>, mpsc::Receiver<Feed>),
    records: mpsc::Sender<Record>,
    notices: Notices,
    next_sweep: Instant,
    sweeping: bool,
    next_doubt: Instant,
    waits: mpsc::UnboundedReceiver<EndWait>,
    waiting: Vec<EndWait>,
    untold: Untold,
    refusals: Arc<Refusals>,
}

impl Running {
    pub(super) fn new(parts: Parts, waits: mpsc::UnboundedReceiver<EndWait>) -> Self {
        let options = &parts.options;
        let book = Book::new(parts.node.clone(), parts.provider.environment(), options.caution);
        let (provider_queue, api_queue) =
            (WorkQueue::new(options.provider_backoff), WorkQueue::new(options.api_backoff));
        let (records, mut to_record) = mpsc::channel::<Record>(RECORDS);
        let mut feeds = JoinSet::new();
        let (api, patience) = (parts.api.clone(), options.api_timeout);
        let refusals = Arc::<Refusals>::default();
        let told = refusals.clone();
        feeds.spawn(async move {
            while let Some(record) = to_record.recv().await {
                // Best effort: what can't be recorded is not tried again, but a permission that is missing should be known.
                if let Ok(Err(error)) = timeout(patience, api.record(&record)).await {
                    told.refused(&error_chain(&error));
                }
            }
        });
        let news = Arc::new(News::default());
        let notices = parts.provider.notify(news.clone());
        let now = Instant::now();
        Self {
            parts,
            book,
            provider_queue,
            api_queue,
            tasks: JoinSet::new(),
            owners: HashMap::new(),
            feeds,
            followed: HashMap::new(),
            news,
            feed: mpsc::channel(256),
            records,
            notices,
            next_sweep: now,
            sweeping: false,
            next_doubt: now,
            waits,
            waiting: Vec::new(),
            untold: Untold::default(),
            refusals,
        }
    }

    pub(super) async fn run(
        mut self,
        cancel: &CancellationToken,
        ready: impl Fn() + Send,
    ) -> Result<(), ControllerError> {
        if cancel.run_until_cancelled(self.first_list()).await.is_none() {
            return Ok(());
        }
        let options = &self.parts.options;
        let (api, out, refusals) = (self.parts.api.clone(), self.feed.0.clone(), self.refusals.clone());
        self.feeds.spawn(feed::pods(api, options.api_backoff, options.api_timeout, out, refusals));
        loop {
            self.dispatch();
            self.tell_waiting();
            let (provider, api) = (self.provider_queue.waiting(), self.api_queue.waiting());
            self.parts.metrics.pods(self.book.len(), provider, api);
            let due = self.next_due();
            // Cancel-safe: channels and sets lose nothing, and a notice that is not taken stays.
            tokio::select! {
                () = cancel.cancelled() => break,
                Some(feed) = self.feed.1.recv() => self.fed(feed, &ready),
                Some(done) = self.tasks.join_next_with_id() => self.done(done),
                Some(wait) = self.waits.recv() => self.waiting.push(wait),
                Some(_) = self.feeds.join_next() => {
                    // Streams of objects that are not followed any more end; the others never do.
                    if self.feeds.len() < 2 {
                        return Err(ControllerError::Ended("feed"));
                    }
                }
                () = self.news.any() => {
                    for (key, event) in self.news.take() {
                        if matches!(event, PodEvent::Status(_)) && self.book.pod(&key).is_some() {
                            self.untold.heard(&key, Instant::now());
                        }
                        let effects = self.book.event(&key, event, self.now());
                        self.perform(effects);
                    }
                }
                () = sleep_until(due) => {}
            }
        }
        self.feeds.abort_all();
        let in_hand = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(self.parts.options.shutdown, in_hand).await.is_err() {
            tracing::warn!("calls in hand did not end in time and are dropped");
        }
        Ok(())
    }

    /// Nothing can be decided before it is known what the provider has.
    async fn first_list(&mut self) {
        let mut failures = 0;
        loop {
            let asked = Instant::now();
            match timeout(self.parts.options.call_timeout, self.parts.provider.list()).await {
                Ok(Ok(held)) => {
                    let effects = self.book.swept(held, asked, self.now());
                    self.perform(effects);
                    self.swept();
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = error_chain(&error), "the provider can't be asked for its pods");
                }
                Err(_) => tracing::warn!("the provider does not say which pods it has"),
            }
            failures += 1;
            sleep(self.parts.options.provider_backoff.after(failures).max(Duration::from_millis(100))).await;
        }
    }

    /// Who waits for ends that the API knows of by now is told so. Each Pod is looked at until it is over, and then no more.
    fn tell_waiting(&mut self) {
        let book = &self.book;
        let over = |key: &mut PodKey| book.pod(key).is_none_or(PodMachine::api_knows_its_end);
        let told = self.waiting.extract_if(.., |wait| {
            while wait.pods.pop_if(over).is_some() {}
            wait.pods.is_empty()
        });
        for wait in told {
            // Who does not wait any more needs not be told.
            let _ = wait.over.send(());
        }
    }

    fn now(&self) -> Now {
        Now { instant: Instant::now(), wall: self.parts.clock.now() }
    }

    fn swept(&mut self) {
        self.sweeping = false;
        self.next_sweep = Instant::now()
            + match self.notices {
                Notices::Polled => self.parts.options.poll,
                Notices::Pushed => self.parts.options.sweep,
            };
    }

    /// The next time at which there is something to do that can be done.
    fn next_due(&self) -> Instant {
        let free = |queue: &WorkQueue<PodKey>, most: usize| queue.next_due().filter(|_| queue.running() < most);
        let times = [
            free(&self.provider_queue, self.parts.options.workers),
            free(&self.api_queue, self.parts.options.writers),
            Some(self.next_sweep).filter(|_| !self.sweeping),
            self.book.next_doubt().map(|doubt| doubt.max(self.next_doubt)),
        ];
        let far = Instant::now() + Duration::from_secs(3600);
        times.into_iter().flatten().min().unwrap_or(far)
    }

    /// Gives turns to those who are due.
    fn dispatch(&mut self) {
        while self.provider_queue.running() < self.parts.options.workers {
            let Some(key) = self.provider_queue.take(Instant::now()) else { break };
            let effects = self.book.turn(&key, Lane::Provider, self.now());
            self.perform(effects);
        }
        while self.api_queue.running() < self.parts.options.writers {
            let Some(key) = self.api_queue.take(Instant::now()) else { break };
            let effects = self.book.turn(&key, Lane::Api, self.now());
            self.perform(effects);
        }
        let now = Instant::now();
        if !self.sweeping && self.next_sweep <= now {
            self.sweeping = true;
            let (provider, patience) = (self.parts.provider.clone(), self.parts.options.call_timeout);
            self.tasks.spawn(async move {
                let late = ProviderError::TimedOut { operation: "list", after: patience };
                Done::Swept(timeout(patience, provider.list()).await.unwrap_or(Err(late)), now)
            });
        }
        if self.book.next_doubt().is_some_and(|doubt| doubt.max(self.next_doubt) <= now) {
            self.look_for_missing(now);
        }
    }

    fn look_for_missing(&mut self, now: Instant) {
        // Whoever is still missing then is looked for again.
        self.next_doubt = now + self.parts.options.caution.grace.max(Duration::from_secs(1));
        match self.book.doubtful(now) {
            Ok(missing) => {
                for key in missing {
                    let (api, patience) = (self.parts.api.clone(), self.parts.options.api_timeout);
                    self.tasks.spawn(async move {
                        let late = |_| ApiError::Failed { operation: "get", source: "no answer".into() };
                        let found = timeout(patience, api.get(&key)).await.map_err(late).flatten();
                        Done::Looked(key, found)
                    });
                }
            }
            Err(implausible) => tracing::error!("{implausible}"),
        }
    }

    fn fed(&mut self, feed: Feed, ready: impl Fn()) {
        let now = self.now();
        let effects = match feed {
            Feed::Listed(pods) => {
                let effects = self.book.listed(pods, now);
                ready();
                effects
            }
            Feed::Watched(WatchEvent::Applied(pod)) => self.book.seen(pod, now),
            Feed::Watched(WatchEvent::Bookmark(_)) => Vec::new(),
            Feed::Watched(WatchEvent::Deleted { key, .. }) => self.book.gone(&key, now),
            Feed::Object(object, known) => {
                if let Known::Unreadable(why) = &known {
                    self.refusals.refused(why);
                }
                self.book.learned(&object, known, now)
            }
        };
        self.perform(effects);
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) {
        let now = self.now();
        let id = match &done {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let owner = self.owners.remove(&id);
        if let Some(owner) = &owner {
            self.parts.metrics.turn(owner.lane, now.instant.duration_since(owner.since));
        }
        let effects = match done.map(|(_, done)| done) {
            Ok(Done::Called(key, result)) => self.book.event(&key, PodEvent::Called(result), now),
            Ok(Done::Wrote(key, result, found)) => {
                if let WriteResult::Done(Some(_)) = &result {
                    self.untold.told(&key, now.instant, &self.parts.metrics);
                }
                let mut effects = found.map_or(Vec::new(), |pod| self.book.event(&key, PodEvent::Seen(pod), now));
                effects.extend(self.book.event(&key, PodEvent::Wrote(result), now));
                effects
            }
            Ok(Done::Swept(Ok(held), asked)) => {
                self.swept();
                self.book.swept(held, asked, now)
            }
            Ok(Done::Swept(Err(error), _)) => {
                tracing::warn!(error = error_chain(&error), "the provider can't be asked for its pods");
                self.swept();
                Vec::new()
            }
            Ok(Done::Looked(key, found)) => self.looked(&key, found, now),
            Err(error) => self.panicked(owner.as_ref(), &error, now),
        };
        self.perform(effects);
        if let Some(Owner { key, lane, .. }) = owner.filter(|owner| self.book.pod(&owner.key).is_none()) {
            self.queue(lane).finish(&key, Outcome::Done, now.instant);
            self.queue(lane).forget(&key);
        }
    }

    fn looked(&mut self, key: &PodKey, found: Result<Option<Arc<Pod>>, ApiError>, now: Now) -> Vec<Effect> {
        match found {
            Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(key.uid.as_str()) => self.book.seen(pod, now),
            Ok(_) => self.book.gone(key, now),
            Err(error) => {
                self.refusals.failed("look whether a pod is gone", Some(key), &error_chain(&error));
                Vec::new()
            }
        }
    }

    fn panicked(&mut self, owner: Option<&Owner>, error: &JoinError, now: Now) -> Vec<Effect> {
        tracing::error!(%error, "a call panicked");
        match owner {
            Some(Owner { key, lane: Lane::Provider, .. }) => {
                let trouble = Trouble::Failed { message: "the provider panicked".to_owned(), permanent: false };
                self.book.event(key, PodEvent::Called(CallResult::Failed { trouble, perhaps: true }), now)
            }
            Some(Owner { key, lane: Lane::Api, .. }) => {
                self.book.event(key, PodEvent::Wrote(WriteResult::Failed { at_least: Duration::ZERO }), now)
            }
            None => {
                self.swept();
                Vec::new()
            }
        }
    }

    fn queue(&mut self, lane: Lane) -> &mut WorkQueue<PodKey> {
        match lane {
            Lane::Provider => &mut self.provider_queue,
            Lane::Api => &mut self.api_queue,
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Look(key, lane, urgency, at) => self.queue(lane).add(key, urgency, at),
                Effect::Finish(key, lane, outcome) => {
                    if let (Lane::Api, Outcome::Done) = (lane, outcome) {
                        // Written by now, or it was nothing that the API had not.
                        self.untold.dropped(&key);
                    }
                    self.queue(lane).finish(&key, outcome, Instant::now());
                }
                Effect::Forget(key) => {
                    self.untold.dropped(&key);
                    self.provider_queue.forget(&key);
                    self.api_queue.forget(&key);
                }
                Effect::Call(key, call) => {
                    let (provider, patience) = (self.parts.provider.clone(), self.parts.options.call_timeout);
                    let owner = Owner { key: key.clone(), lane: Lane::Provider, since: Instant::now() };
                    let metrics = self.parts.metrics.clone();
                    let span = spans::call(&self.parts.node.name, &key, &call);
                    let made = async move {
                        let result = perform::call(provider, key.clone(), call, patience, &metrics, span).await;
                        Done::Called(key, result)
                    };
                    self.owners.insert(self.tasks.spawn(made).id(), owner);
                }
                Effect::Write(key, write) => {
                    let (api, patience) = (self.parts.api.clone(), self.parts.options.api_timeout);
                    let owner = Owner { key: key.clone(), lane: Lane::Api, since: Instant::now() };
                    let span = spans::write(&self.parts.node.name, &key, &write);
                    let refusals = self.refusals.clone();
                    let made = async move {
                        let written = perform::write(api, key.clone(), write, patience, &refusals, span);
                        let (result, found) = written.await;
                        Done::Wrote(key, result, found)
                    };
                    self.owners.insert(self.tasks.spawn(made).id(), owner);
                }
                Effect::Tell { pod, warning, reason, message } => {
                    drop(self.records.try_send(Record {
                        teller: Teller::Controller,
                        pod,
                        container: None,
                        warning,
                        reason: reason.into(),
                        message,
                    }));
                }
                Effect::Watch(Watches { start, stop }) => {
                    for object in stop {
                        if let Some(task) = self.followed.remove(&object) {
                            task.abort();
                        }
                    }
                    for object in start {
                        let follow = feed::object(self.parts.api.clone(), object.clone(), self.feed.0.clone());
                        self.followed.insert(object, self.feeds.spawn(follow));
                    }
                }
            }
        }
    }
}

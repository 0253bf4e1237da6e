//! Performs what [`Scheduler`] decides: watches, writes, tells. Decides nothing.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::facts::{PodFacts, PodRef};
use super::machine::{Action, Event, Note, Scheduler};
use super::message::SCHEDULER;
use super::node::NodeFacts;
use crate::engine::{Engine, ListOptions, Place, Watch, WatchItem, WriteOptions, micro_time};
use crate::error::ApiError;
use crate::kinds::{Kind, find};
use crate::store::Entry;

/// Writes at a time: the store commits those that wait together.
const AT_ONCE: usize = 64;
/// Most of a Pod's name in the name of its event.
const LONGEST_BASE: usize = 253 - 17;
/// After a watch that can't be had.
const AGAIN: Duration = Duration::from_secs(1);

/// Schedules until the future is dropped. What was under way is seen again at the next start: a Pod has a node or has none.
pub async fn run(engine: &Engine) {
    let mut task = Task::of(engine);
    loop {
        // A watch that ends or falls behind begins anew, with everything that is there.
        if let Err(error) = task.follow().await {
            tracing::warn!(%error, "the scheduler can't see its objects; it tries again");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

struct Task<'a> {
    engine: &'a Engine,
    scheduler: Scheduler,
    start: Instant,
    /// Decided and not begun.
    pending: VecDeque<Action>,
    /// Begun; each says what has failed.
    writing: FuturesUnordered<BoxFuture<'a, Option<Event>>>,
}

fn kind(group: &str, plural: &str) -> Result<&'static Kind, ApiError> {
    find(group, "v1", plural).ok_or_else(ApiError::no_resource)
}

fn read<T: DeserializeOwned>(entry: &Entry) -> Option<T> {
    serde_json::from_slice(&entry.bytes)
        .inspect_err(|error| tracing::warn!(%error, "the scheduler can't read an object; it leaves it alone"))
        .ok()
}

fn node(item: &WatchItem) -> Option<Event> {
    match item {
        WatchItem::Added(entry) | WatchItem::Modified(entry) => Some(Event::Node(NodeFacts::of(&read(entry)?))),
        WatchItem::Deleted(entry) => Some(Event::NodeGone(read::<Node>(entry)?.metadata.name.unwrap_or_default())),
        WatchItem::Bookmark { .. } | WatchItem::Error(_) => None,
    }
}

fn pod(item: &WatchItem) -> Option<Event> {
    match item {
        WatchItem::Added(entry) | WatchItem::Modified(entry) => Some(Event::Pod(Box::new(PodFacts::of(&read(entry)?)))),
        WatchItem::Deleted(entry) => Some(Event::PodGone(read::<Pod>(entry)?.metadata.uid.unwrap_or_default())),
        WatchItem::Bookmark { .. } | WatchItem::Error(_) => None,
    }
}

/// The events of a batch; `None` if the watch has ended.
fn told(items: Option<Vec<WatchItem>>, event: fn(&WatchItem) -> Option<Event>) -> Option<Vec<Event>> {
    let items = items?;
    let broken = items.iter().any(|item| matches!(item, WatchItem::Error(_)));
    (!broken).then(|| items.iter().filter_map(event).collect())
}

impl<'a> Task<'a> {
    fn of(engine: &'a Engine) -> Self {
        let (scheduler, start) = (Scheduler::default(), Instant::now());
        Self { engine, scheduler, start, pending: VecDeque::new(), writing: FuturesUnordered::new() }
    }

    /// What is there, and the watch of what comes.
    fn look<T>(&self, kind: &'static Kind, of: fn(&Entry) -> Option<T>) -> Result<(Vec<T>, Watch), ApiError> {
        let list = self.engine.list(kind, None, &ListOptions::default())?;
        let options = ListOptions { resource_version: Some(list.revision), ..ListOptions::default() };
        let watch = self.engine.watch(kind, None, &options)?;
        Ok((list.entries.iter().filter_map(|entry| of(entry)).collect(), watch))
    }

    /// Schedules until a watch ends.
    async fn follow(&mut self) -> Result<(), ApiError> {
        let (nodes, mut node_watch) = self.look(kind("", "nodes")?, |entry| Some(NodeFacts::of(&read(entry)?)))?;
        let (pods, mut pod_watch) = self.look(kind("", "pods")?, |entry| Some(PodFacts::of(&read(entry)?)))?;
        self.step(vec![Event::Nodes(nodes), Event::Pods(pods)]);
        loop {
            let wake = self
                .scheduler
                .wake()
                .map_or(self.start + Duration::from_secs(u64::from(u32::MAX)), |at| self.start + at);
            let events = tokio::select! {
                items = node_watch.next() => told(items, node),
                items = pod_watch.next() => told(items, pod),
                Some(failed) = self.writing.next() => Some(failed.into_iter().collect()),
                () = tokio::time::sleep_until(wake) => Some(Vec::new()),
            };
            match events {
                Some(events) => self.step(events),
                None => return Ok(()),
            }
        }
    }

    fn step(&mut self, events: Vec<Event>) {
        let actions = self.scheduler.step(events, self.start.elapsed());
        self.pending.extend(actions);
        while self.writing.len() < AT_ONCE {
            let Some(action) = self.pending.pop_front() else { return };
            self.writing.push(Box::pin(perform(self.engine, action)));
        }
    }
}

async fn perform(engine: &Engine, action: Action) -> Option<Event> {
    let (result, failed) = match action {
        Action::Bind { pod, node } => {
            let result = bind(engine, &pod, &node).await;
            (result, Some(Event::BindFailed(pod.uid)))
        }
        Action::Report { pod, report, nominated } => {
            let result = match place(&pod, "pods") {
                Ok(place) => {
                    let why = (report.reason.as_str(), report.message.as_str());
                    engine.report_unscheduled(place, &pod.uid, why, nominated.as_deref()).await
                }
                Err(error) => Err(error),
            };
            (result, None)
        }
        Action::Tell { pod, note } => (tell(engine, &pod, "Warning", "Scheduling", &note).await, None),
        Action::Preempt { victim, preemptor, node } => (preempt(engine, &victim, &preemptor, &node).await, None),
    };
    match result {
        Ok(()) => None,
        Err(error) => {
            // What is gone, or has changed meanwhile, is seen by the watch.
            match error.code() {
                404 | 409 => tracing::debug!(%error, "the scheduler was too late"),
                _ => tracing::warn!(%error, "the scheduler can't write"),
            }
            failed
        }
    }
}

fn place<'a>(pod: &'a PodRef, plural: &str) -> Result<Place<'a>, ApiError> {
    Ok(Place { kind: kind("", plural)?, namespace: &pod.namespace, name: &pod.name })
}

async fn bind(engine: &Engine, pod: &PodRef, node: &str) -> Result<(), ApiError> {
    let binding = json!({"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node}});
    engine.bind(place(pod, "pods")?, &binding, &WriteOptions::default()).await?;
    let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
    let note = Note { reason: "Scheduled", message };
    // The Pod is bound, whoever hears of it.
    if let Err(error) = tell(engine, pod, "Normal", "Binding", &note).await {
        tracing::debug!(%error, "the scheduler can't tell that a Pod is bound");
    }
    Ok(())
}

async fn preempt(engine: &Engine, victim: &PodRef, preemptor: &PodRef, node: &str) -> Result<(), ApiError> {
    engine.preempt(place(victim, "pods")?, &victim.uid).await?;
    let message = format!("Preempted by pod {} on node {node}", preemptor.uid);
    let note = Note { reason: "Preempted", message };
    tell(engine, victim, "Normal", "Preempting", &note).await
}

/// The name of an event is made of what it says, so that the same one said again is found and counted.
async fn tell(engine: &Engine, pod: &PodRef, severity: &str, action: &str, note: &Note) -> Result<(), ApiError> {
    let digest = Sha256::digest(format!("{}\n{}\n{}", pod.uid, note.reason, note.message));
    let suffix: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Names are ASCII; with the suffix they must not become too long.
    let base = pod.name.get(..LONGEST_BASE).unwrap_or(&pod.name);
    let about = PodRef { name: format!("{base}.{suffix}"), ..pod.clone() };
    engine.tell(place(&about, "events")?, event(engine.time(), pod, &about.name, severity, action, note)).await
}

fn event(now: jiff::Timestamp, pod: &PodRef, name: &str, severity: &str, action: &str, note: &Note) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
        },
        "type": severity,
        "reason": note.reason,
        "message": note.message,
        "action": action,
        "eventTime": micro_time(now),
        "firstTimestamp": null,
        "lastTimestamp": null,
        "source": {},
        "reportingComponent": SCHEDULER,
        "reportingInstance": SCHEDULER,
    })
}

//! What a watch of the API tells of each Pod, with when: sequences that tests replay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, WatchEvent, WatchParams};
use minke_core::judgement::{Cause, History, Now, Policy, Presence, Sight, Verdict, judge};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// One thing that was told.
#[derive(Debug, Clone)]
pub(super) enum Told {
    Seen(Box<Pod>),
    Gone(Box<Pod>),
    Event(Box<Event>),
}

type Log = Arc<Mutex<BTreeMap<String, Vec<(Instant, Told)>>>>;

/// Watches a namespace as long as it lives.
pub(super) struct Recorder {
    log: Log,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Records from now on. Nothing may be there yet.
    pub(super) fn start(client: &Client) -> Self {
        let log = Log::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(pods(Api::default_namespaced(client.clone()), Arc::clone(&log)));
        tasks.spawn(events(Api::default_namespaced(client.clone()), Arc::clone(&log)));
        Self { log, _tasks: tasks }
    }

    /// What was told of a Pod.
    pub(super) fn of(&self, name: &str) -> Vec<(Instant, Told)> {
        self.log.lock().unwrap().get(name).cloned().unwrap_or_default()
    }

    /// Writes what was told of a Pod, for a test that expects this cause.
    pub(super) fn write(&self, directory: &Path, name: &str, cause: Cause, maker: &str) {
        let told = self.of(name);
        let Some((first, _)) = told.first() else { return };
        let mut lines = vec![json!({"name": name, "cause": cause, "maker": maker})];
        for (at, told) in &told {
            let millis = at.duration_since(*first).as_millis();
            let (key, object) = match told {
                Told::Seen(pod) => ("pod", plain(&**pod)),
                Told::Gone(pod) => ("gone", plain(&**pod)),
                Told::Event(event) => ("event", plain(&**event)),
            };
            lines.push(json!({"atMs": u64::try_from(millis).unwrap(), key: object}));
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(directory.join(format!("{name}.jsonl")), text).unwrap();
    }
}

/// Without what nobody judges by.
fn plain(object: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    let metadata = value["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| {
        matches!(
            key.as_str(),
            "name" | "namespace" | "uid" | "resourceVersion" | "deletionTimestamp" | "deletionGracePeriodSeconds"
        )
    });
    value
}

async fn pods(api: Api<Pod>, log: Log) {
    watch(
        api,
        |name, told| log.lock().unwrap().entry(name).or_default().push((Instant::now(), told)),
        |pod| (pod.metadata.name.clone().unwrap(), Told::Seen(Box::new(pod))),
    )
    .await;
}

async fn events(api: Api<Event>, log: Log) {
    watch(
        api,
        |name, told| log.lock().unwrap().entry(name).or_default().push((Instant::now(), told)),
        |event| (event.involved_object.name.clone().unwrap_or_default(), Told::Event(Box::new(event))),
    )
    .await;
}

async fn watch<K>(api: Api<K>, note: impl Fn(String, Told), told: impl Fn(K) -> (String, Told))
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + kube::Resource + Send + 'static,
{
    let mut stream = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    while let Ok(Some(event)) = stream.try_next().await {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let (name, told) = told(object);
                note(name, told);
            }
            WatchEvent::Deleted(object) => {
                let (name, told) = told(object);
                if let Told::Seen(pod) = told {
                    note(name, Told::Gone(pod));
                }
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
    }
}

/// When it could first be known from what was told: by someone who sees everything at once and waits for nothing.
pub(super) fn first_known(told: &[(Instant, Told)]) -> Option<Instant> {
    let mut policy = Policy::default();
    policy.budgets = policy.budgets.fail_fast();
    policy.budgets.settle = Duration::ZERO;
    let mut history = History::default();
    let mut seen: Option<(Pod, Presence)> = None;
    let mut events = Vec::new();
    let begun = told.first()?.0;
    for (at, told) in told {
        match told {
            Told::Seen(pod) => seen = Some((Pod::clone(pod), Presence::Here)),
            Told::Gone(pod) => seen = Some((Pod::clone(pod), Presence::Gone)),
            Told::Event(event) => events.push(Event::clone(event)),
        }
        let Some((pod, presence)) = &seen else { continue };
        let wall = minke_core::clock::Clock::now(&minke_core::clock::SystemClock);
        let sight = Sight { presence: *presence, events: &events, ..Sight::of(pod) };
        let judged = judge(&sight, &policy, history, Now { moment: at.duration_since(begun), wall });
        history = judged.history;
        if matches!(judged.verdict, Verdict::Failed(_)) {
            return Some(*at);
        }
    }
    None
}

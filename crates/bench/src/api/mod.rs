//! The embedded API beside kube-apiserver with etcd: start, size, durable writes, lists, watches. Both over TLS on loopback, with
//! the same client and the same objects, one after the other, each from an empty directory.
//!
//! | row | what |
//! |---|---|
//! | start | a process (for the peer two) → `/readyz` |
//! | memory | resident memory: empty; with all Pods; with all watchers |
//! | event | a ConfigMap is created → a watcher has its event; one at a time |
//! | creates | Pods created over 16 connections, each durable before it is answered |
//! | list | all Pods in one answer |
//! | watchers | one change → every one of many watchers has its event |

mod client;
mod server;

use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};
use client::{Connection, Watcher};
use server::Api;
pub(crate) use server::Candidate;

/// Connections that create at one time.
const WRITERS: usize = 16;
/// Changes that are timed from their write to their event.
const EVENTS: usize = 500;
/// Changes that many watchers wait for.
const FANOUTS: usize = 20;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) starts: usize,
    pub(crate) pods: usize,
    pub(crate) watchers: usize,
}

/// What one server was measured at.
struct Measured {
    start: Sample,
    empty: Sample,
    event: Sample,
    creates: Sample,
    rate: Sample,
    full: Sample,
    list: Sample,
    fanout: Sample,
    watched: Sample,
}

/// Measures ours, and the peer where it has been built.
pub(crate) fn measure(ours: &Candidate, peer: Option<&Candidate>, sizes: Sizes) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Failure::runtime("starting tokio"))?;
    server::raise_file_limit();
    let our = runtime.block_on(one(ours, sizes))?;
    let their = peer.map(|peer| runtime.block_on(one(peer, sizes))).transpose()?;
    Ok(rows(our, their, sizes))
}

fn rows(ours: Measured, theirs: Option<Measured>, sizes: Sizes) -> Vec<Row> {
    let mut theirs = theirs.map(|theirs| theirs.each());
    let names = [
        ("api: start → ready".to_owned(), "≤ 50 ms"),
        ("api: memory, empty".to_owned(), "≤ 30 MiB"),
        ("api: create → watch event".to_owned(), ""),
        (format!("api: create a Pod, {WRITERS} connections"), ""),
        (format!("api: Pods created, {WRITERS} connections"), "≥ 3,000/s"),
        (format!("api: memory, {} Pods", sizes.pods), ""),
        (format!("api: list of {} Pods", sizes.pods), ""),
        (format!("api: one change → {} watchers", sizes.watchers), ""),
        (format!("api: memory, {} watchers", sizes.watchers), ""),
    ];
    let name = "kube-apiserver + etcd".to_owned();
    let row = |((what, aim), ours): ((String, &'static str), Sample)| {
        let peer = match theirs.as_mut().map(|theirs| theirs.remove(0)) {
            Some(sample) => Peer::Measured { name: name.clone(), sample },
            None => Peer::NotInstalled { name: name.clone() },
        };
        Row { what, ours, peer, aim }
    };
    names.into_iter().zip(ours.each()).map(row).collect()
}

impl Measured {
    fn each(self) -> Vec<Sample> {
        vec![
            self.start,
            self.empty,
            self.event,
            self.creates,
            self.rate,
            self.full,
            self.list,
            self.fanout,
            self.watched,
        ]
    }
}

fn sample(unit: Unit, values: Vec<f64>) -> Result<Sample, Failure> {
    Sample::new(unit, values).ok_or_else(|| Failure::Unexpected("nothing was measured".to_owned()))
}

fn times(times: &[Duration]) -> Result<Sample, Failure> {
    Sample::of_times(times).ok_or_else(|| Failure::Unexpected("nothing was measured".to_owned()))
}

async fn one(candidate: &Candidate, sizes: Sizes) -> Result<Measured, Failure> {
    let mut starts = Vec::new();
    for _ in 1..sizes.starts.max(1) {
        starts.push(Api::start(candidate).await?.started);
    }
    let api = Api::start(candidate).await?;
    starts.push(api.started);
    let empty = sample(Unit::KibiBytes, vec![api.memory()])?;
    let event = times(&events(&api).await?)?;
    let (each, taken) = creates(&api, sizes.pods).await?;
    let full = sample(Unit::KibiBytes, vec![api.memory()])?;
    let mut connection = Connection::open(&api).await?;
    let mut lists = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        connection.get(PODS).await?;
        lists.push(begun.elapsed());
    }
    let (fanouts, watched) = fanout(&api, sizes.watchers).await?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let rate = each.len() as f64 / taken.as_secs_f64();
    Ok(Measured {
        start: times(&starts)?,
        empty,
        event,
        creates: times(&each)?,
        rate: sample(Unit::PerSecond, vec![rate])?,
        full,
        list: times(&lists)?,
        fanout: times(&fanouts)?,
        watched: sample(Unit::KibiBytes, vec![watched])?,
    })
}

fn map(name: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x".repeat(500)},
    })
    .to_string()
}

fn pod(number: usize) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": format!("app-{}", number % 100)}},
        "spec": {
            "containers": [{
                "name": "main", "image": "registry.example.com/team/program:1.2.3", "args": ["--listen", ":8080"],
                "env": [{"name": "A", "value": "b"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            }],
            "tolerations": [{"key": "a", "operator": "Exists"}], "automountServiceAccountToken": false,
        },
    })
    .to_string()
}

/// One change after the other, each seen before the next.
async fn events(api: &Api) -> Result<Vec<Duration>, Failure> {
    let mut watcher = Watcher::open(api, MAPS).await?;
    let mut connection = Connection::open(api).await?;
    let mut times = Vec::new();
    for number in 0..EVENTS {
        let begun = Instant::now();
        let (sent, seen) = tokio::join!(connection.post(MAPS, map(&format!("event-{number}"))), watcher.event());
        sent?;
        times.push(seen?.duration_since(begun));
    }
    Ok(times)
}

/// Creates Pods over several connections; how long each took, and all of them.
async fn creates(api: &Api, pods: usize) -> Result<(Vec<Duration>, Duration), Failure> {
    let mut connections = Vec::new();
    for _ in 0..WRITERS {
        connections.push(Connection::open(api).await?);
    }
    let begun = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for (writer, mut connection) in connections.into_iter().enumerate() {
        writers.spawn(async move {
            let mut times = Vec::new();
            for number in (writer..pods).step_by(WRITERS) {
                let begun = Instant::now();
                connection.post(PODS, pod(number)).await?;
                times.push(begun.elapsed());
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = writers.join_next().await {
        all.extend(done.map_err(Failure::runtime("creating Pods"))??);
    }
    Ok((all, begun.elapsed()))
}

/// Many watchers, and how long the last of them waits for a change; the memory with all of them.
async fn fanout(api: &Api, watchers: usize) -> Result<(Vec<Duration>, f64), Failure> {
    let (seen, mut events) = tokio::sync::mpsc::channel(watchers.max(1));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..watchers {
        let mut watcher = Watcher::open(api, MAPS).await?;
        let seen = seen.clone();
        tasks.spawn(async move {
            while let Ok(at) = watcher.event().await {
                if seen.send(at).await.is_err() {
                    break;
                }
            }
        });
    }
    let mut connection = Connection::open(api).await?;
    let mut times = Vec::new();
    for number in 0..FANOUTS {
        let begun = Instant::now();
        connection.post(MAPS, map(&format!("fanout-{number}"))).await?;
        let mut last = begun;
        for _ in 0..watchers {
            let next = tokio::time::timeout(client::PATIENCE, events.recv()).await;
            let at =
                next.ok().flatten().ok_or_else(|| Failure::Unexpected("a watcher has missed a change".to_owned()))?;
            last = last.max(at);
        }
        times.push(last.duration_since(begun));
    }
    Ok((times, api.memory()))
}

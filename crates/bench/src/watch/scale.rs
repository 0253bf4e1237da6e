//! Many Pods in one process.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use minke_core::judgement::Verdict;
use minke_watch::{
    Access, ApiFault, Cluster, KubeCluster, Scope, Settings, Subscription, Target, WatchItem, WatchStream, Watcher,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::api::{self, Embedded};
use crate::failure::Failure;
use crate::process::Process;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

/// Nothing here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many Pods fail, one after the other.
const FAILING: usize = 500;
/// Requests to the API at a time while it is filled.
const WIDE: usize = 16;

fn name(n: usize) -> String {
    format!("pod-{n}")
}

/// Fills an API, has another process watch it, and lets Pods fail.
pub(super) async fn measure(count: usize) -> Result<Vec<Row>, Failure> {
    let server = Embedded::start().await?;
    let running = api::status("Running", &json!({"running": {"startedAt": "2026-01-01T00:00:01Z"}}));
    let mut filling = JoinSet::new();
    for lane in 0..WIDE {
        let (pods, running) = (api::pods(&server.client), running.clone());
        filling.spawn(async move {
            for n in (lane..count).step_by(WIDE) {
                api::create(&pods, &api::pod(&name(n)), &running).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(filled) = filling.join_next().await {
        filled.map_err(Failure::runtime("filling the API"))??;
    }
    let own = std::env::current_exe().map_err(Failure::file("finding", Path::new("this program")))?;
    let start = |source| Failure::Start { program: own.display().to_string(), source };
    let mut child = Command::new(&own)
        .args(["--watch-pods", &count.to_string(), "--watch-child"])
        .arg(&server.kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let none = || Failure::Unexpected("the watching process says nothing".to_owned());
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(none)?).lines();
    let seen = said(&mut lines).await?;
    let pods = api::pods(&server.client);
    let failed = api::status("Failed", &json!({"terminated": {"exitCode": 3, "reason": "Error"}}));
    let failing = FAILING.min(count);
    for n in 0..failing {
        api::set(&pods, &name(n), &failed).await?;
    }
    let judged = said(&mut lines).await?;
    // It has ended, or is killed when dropped.
    let _ = timeout(Duration::from_secs(5), child.wait()).await;

    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
    let one = |unit, value| Sample::new(unit, vec![value]).ok_or_else(none);
    let row =
        |what: &str, ours, aim| Row { what: format!("watch {count} Pods: {what}"), ours, peer: Peer::Nobody, aim };
    let times: Vec<Duration> = judged["micros"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .map(Duration::from_micros)
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a number of Pods")]
    let each = number(&seen, "memoryKiB") / count as f64;
    Ok(vec![
        row("lists", one(Unit::Number, number(&judged, "lists"))?, "1"),
        row("watches", one(Unit::Number, number(&judged, "watches"))?, "1"),
        row("other requests", one(Unit::Number, number(&judged, "others"))?, ""),
        row("from the start to all verdicts", one(Unit::Milliseconds, number(&seen, "millis"))?, ""),
        row("memory a Pod", one(Unit::KibiBytes, each)?, ""),
        row("event received → verdict", Sample::of_times(&times).ok_or_else(none)?, "p99 ≤ 1 ms"),
    ])
}

/// The next line that the watching process says.
async fn said(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<Value, Failure> {
    let late = || Failure::Unexpected("the watching process does not come to its end".to_owned());
    let line = timeout(PATIENCE, lines.next_line()).await.ok().and_then(Result::ok).flatten().ok_or_else(late)?;
    serde_json::from_str(&line).map_err(Failure::runtime("the watching process says nonsense"))
}

/// When the newest of each Pod arrived.
type Arrivals = Arc<Mutex<HashMap<String, Instant>>>;

/// The same cluster, noting when the watch brought something of a Pod.
#[derive(Debug)]
struct Stamping {
    cluster: KubeCluster,
    arrivals: Arrivals,
}

#[async_trait]
impl Cluster for Stamping {
    async fn access(&self, scope: &Scope) -> Result<Access, ApiFault> {
        self.cluster.access(scope).await
    }

    async fn list(&self, scope: &Scope) -> Result<(Vec<Pod>, String), ApiFault> {
        self.cluster.list(scope).await
    }

    async fn watch(&self, scope: &Scope, version: &str, timeout: Duration) -> Result<WatchStream, ApiFault> {
        let arrivals = Arc::clone(&self.arrivals);
        let items = self.cluster.watch(scope, version, timeout).await?;
        let stamp = move |item: Result<WatchItem, ApiFault>| {
            if let Ok(WatchItem::Seen(pod)) = &item
                && let Some(name) = pod.metadata.name.clone()
            {
                arrivals.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Instant::now());
            }
            item
        };
        Ok(items.map(stamp).boxed())
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, ApiFault> {
        self.cluster.get(namespace, name).await
    }

    async fn events(&self, namespace: &str, uid: &str) -> Result<Vec<Event>, ApiFault> {
        self.cluster.events(namespace, uid).await
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, ApiFault> {
        self.cluster.node(name).await
    }
}

/// The watching process: what it needs when all Pods are healthy, and then how soon it judges those that fail.
pub(super) async fn child(kubeconfig: &Path, count: usize) -> Result<(), Failure> {
    let client = api::client(kubeconfig).await?;
    let arrivals = Arrivals::default();
    let cluster = Stamping { cluster: KubeCluster::new(client), arrivals: Arc::clone(&arrivals) };
    let mut settings = Settings { events_every: None, ..Settings::default() };
    // What is measured is judging, not waiting for a deeper cause.
    settings.policy.budgets.settle = Duration::ZERO;
    let before = resident();
    let begun = Instant::now();
    let watcher = Watcher::start(Arc::new(cluster), Scope::namespace("default"), settings);
    let mut pods: Vec<Subscription> =
        (0..count).map(|n| watcher.subscribe(Target::named("default", name(n)), 1)).collect();
    let late = |_| Failure::Unexpected("not all pods have a verdict in time".to_owned());
    let healthy = async {
        for pod in &mut pods {
            while !matches!(pod.latest().verdict, Some(Verdict::Healthy(_))) {
                pod.changed().await;
            }
        }
    };
    timeout(PATIENCE, healthy).await.map_err(late)?;
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    println!("{}", json!({"memoryKiB": resident() - before, "millis": millis}));
    let mut failing = JoinSet::new();
    for (n, mut pod) in pods.drain(..FAILING.min(count)).enumerate() {
        let arrivals = Arc::clone(&arrivals);
        failing.spawn(async move {
            while !matches!(pod.latest().verdict, Some(Verdict::Failed(_))) {
                pod.changed().await;
            }
            let told = Instant::now();
            let arrived = arrivals.lock().unwrap_or_else(PoisonError::into_inner).get(&name(n)).copied();
            arrived.map(|arrived| told.saturating_duration_since(arrived))
        });
    }
    let judged = timeout(PATIENCE, failing.join_all()).await.map_err(late)?;
    let micros: Vec<u64> = judged.into_iter().flatten().filter_map(|t| u64::try_from(t.as_micros()).ok()).collect();
    let counters = watcher.counters().await.unwrap_or_default();
    let others = counters.probes + counters.gets + counters.events + counters.nodes;
    println!("{}", json!({"micros": micros, "lists": counters.lists, "watches": counters.watches, "others": others}));
    Ok(())
}

/// Resident size of this process in KiB.
fn resident() -> f64 {
    Process::own().sizes().map_or(0.0, |sizes| sizes.resident)
}

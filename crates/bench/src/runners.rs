//! Runner pools: many jobs queued at once, on the embedded API over HTTPS with a node that only pretends, and a GitHub look-alike
//! over HTTP; and what one decision over many runners costs.
//!
//! Everything is in this process, on loopback; the API keeps its objects in memory. What is measured is the controller with its
//! client, not containers.

mod cluster;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minke_core::clock::{Clock, SystemClock};
use minke_runners::controller::{Cluster, Controller, GitHubForges, KubeCluster, Metrics};
use minke_runners::engine::{Engine, Input, Seen, Settings};
use minke_runners::forge::Secret;
use minke_runners::forge::lookalike::{JobState, Limits, Lookalike, LookalikeSettings};
use minke_runners::ids::{RunnerId, Slot};
use minke_runners::life::{Life, Outlook, PodFacts, Record, Runner, Timing};
use minke_runners::plan::Scaling;
use minke_runners::pretend::{GivenSet, PretendedNode};
use minke_runners::set::RunnerSet;
use minke_runners::webhook::{Receiver, ReceiverSettings};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::failure::Failure;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

/// Nothing here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(100);
const NAMESPACE: &str = "default";
/// What a job takes.
const JOB: Duration = Duration::from_millis(500);
/// Runners of the planner's rows.
const MANY: u32 = 10_000;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn unexpected(what: impl Into<String>) -> Failure {
    Failure::Unexpected(what.into())
}

/// All rows: for each number of jobs, and of the planner.
pub(crate) fn measure(bursts: &[usize], runs: usize) -> Result<Vec<Row>, Failure> {
    let runtime = crate::pods::runtime()?;
    let mut rows = planner(runs)?;
    for jobs in bursts {
        rows.extend(runtime.block_on(burst(*jobs))?);
    }
    runtime.shutdown_background();
    Ok(rows)
}

fn row(what: String, unit: Unit, values: Vec<f64>, aim: &'static str) -> Result<Row, Failure> {
    let ours = Sample::new(unit, values).ok_or_else(|| unexpected(format!("nothing was measured: {what}")))?;
    Ok(Row { what, ours, peer: Peer::Nobody, aim })
}

/// One decision over many idle runners, nothing to do.
fn planner(runs: usize) -> Result<Vec<Row>, Failure> {
    let now = Timestamp::from_second(1_800_000_000).map_err(Failure::runtime("time"))?;
    let scaling = Scaling { min: MANY, max: MANY, ..Scaling::default() };
    let settings = Settings { set: "many".to_owned(), template: "t".to_owned(), scaling, timing: Timing::default() };
    let mut engine = Engine::new(settings);
    let seen = |slot: u32| {
        let life = Life::Idle { id: RunnerId(u64::from(slot) + 1) };
        let runner = Runner { life, ..Runner::requested(Slot(slot), "t".to_owned(), now) };
        let facts = PodFacts {
            uid: slot.to_string(),
            scheduled: true,
            running_since: Some(now),
            deleting_since: None,
            ended: None,
            node_lost: false,
            outlook: Outlook::Fine,
        };
        Some(Seen { slot: Slot(slot), record: Ok(Record::of(&runner)?), facts })
    };
    engine.handle([Input::Listed((0..MANY).filter_map(seen).collect())], now);
    let mut times = Vec::new();
    for _ in 0..runs.max(5) {
        let begun = Instant::now();
        drop(engine.handle([Input::Tick], now));
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(vec![row(format!("runners: one decision over {MANY} idle runners"), Unit::Milliseconds, times, "")?])
}

fn set(jobs: usize, url: &str) -> Result<RunnerSet, Failure> {
    let manifest = serde_json::json!({
        "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet",
        "metadata": {"name": "bench", "namespace": NAMESPACE, "uid": "00000000-0000-0000-0000-000000000000"},
        "spec": {
            "github": {"url": url, "repository": "octo/app", "credentialsSecret": "github"},
            "labels": ["linux"], "max": jobs,
            "template": {"spec": {"containers": [{"name": "runner", "image": "runner:1"}]}},
        },
    });
    serde_json::from_value(manifest).map_err(Failure::runtime("the set of the measurement"))
}

/// So many jobs at once.
async fn burst(jobs: usize) -> Result<Vec<Row>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut tasks = JoinSet::new();
    let api = cluster::Api::start(&mut tasks, Arc::clone(&clock)).await?;
    let listener = TcpListener::bind(LOOPBACK).await.map_err(Failure::runtime("listening for webhooks"))?;
    let address = listener.local_addr().map_err(Failure::runtime("listening for webhooks"))?;
    let secret = Secret::new("of a measurement");
    let settings = LookalikeSettings {
        listen: LOOPBACK,
        token: Secret::new("t"),
        limits: Limits { hourly: 1_000_000, latency: Duration::from_millis(50) },
        webhook: Some((format!("http://{address}/"), secret.clone())),
    };
    let forge = Lookalike::start(settings, Arc::clone(&clock)).await.map_err(Failure::runtime("the look-alike"))?;
    let forge = Arc::new(forge);
    api.secret("github", "github_token", "t").await?;
    let kube = KubeCluster::new(api.client.clone(), Some(NAMESPACE.to_owned()), Arc::clone(&clock));
    let (one, _status) = GivenSet::new(kube, set(jobs, &forge.url())?);
    let cluster: Arc<dyn Cluster> = Arc::new(one);
    let metrics = Metrics::default();
    let forges = Arc::new(GitHubForges::new(Arc::clone(&cluster), Arc::clone(&clock)));
    let poll = Duration::from_secs(3600);
    let controller = Controller { cluster, forges, clock, metrics: metrics.clone(), poll };
    let (news, heard) = mpsc::channel(jobs.max(16));
    let receiver = Receiver::new(ReceiverSettings { secret, news, journal: None, metrics: None });
    tasks.spawn(receiver.serve(listener));
    tasks.spawn(controller.run(Vec::new(), heard));
    let node = PretendedNode::new(api.client.clone(), NAMESPACE, Arc::clone(&forge), |_| JOB);
    tasks.spawn(Arc::clone(&node).run());
    // Watches begin.
    sleep(Duration::from_secs(1)).await;
    let spent = forge.spent();
    let begun = Instant::now();
    forge.with(|state, now| {
        for _ in 0..jobs {
            state.queue("octo/app", &["linux"], now);
        }
    });
    let over = |forge: &Lookalike| {
        forge.with(|state, _| state.jobs().filter(|job| matches!(job.state, JobState::Over(_))).count())
    };
    let mut finished = None;
    while begun.elapsed() < PATIENCE {
        if finished.is_none() && over(&forge) == jobs {
            finished = Some(begun.elapsed());
        }
        if finished.is_some() && node.pods() == 0 {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let Some(finished) = finished else {
        return Err(unexpected(format!("{} of {jobs} jobs ran in {PATIENCE:?}", over(&forge))));
    };
    let created: Vec<f64> = node.created().iter().map(|at| at.duration_since(begun).as_secs_f64() * 1e3).collect();
    let writes = metrics.calls(&["create_pod", "patch_pod", "delete_pod", "create_secret", "delete_secret"]);
    let calls = forge.spent() - spent;
    drop(tasks);
    let each = |count: u64| vec![count as f64 / jobs as f64];
    Ok(vec![
        row(format!("runners: {jobs} jobs at once → their Pods"), Unit::Milliseconds, created, "p99 ≤ 2 s for 500")?,
        row(
            format!("runners: jobs finished a second, of {jobs}"),
            Unit::Number,
            vec![jobs as f64 / finished.as_secs_f64()],
            "≥ 50",
        )?,
        row(format!("runners: API writes a runner, of {jobs}"), Unit::Number, each(writes), "≤ 5")?,
        row(format!("runners: forge calls a runner, of {jobs}"), Unit::Number, each(calls), "≤ 2")?,
    ])
}

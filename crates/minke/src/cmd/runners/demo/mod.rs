//! `minke runners demo`: a pool that needs nothing else.
//!
//! ```text
//! (nothing given)   API in memory, a node that only pretends ─┐
//!                                                             ├─► the controller ◄──webhooks── GitHub's look-alike
//! --containers      the cluster of `minke up`, real containers┘
//! ```
//! What is real in both is the controller, its client and what it writes. The kubeconfig that is printed shows the Pods to
//! kubectl.

mod containers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Secret as KubeSecret;
use kube::Client as KubeClient;
use kube::api::{Api, PostParams};
use minke_apiserver::access::{Authority, Tokens};
use minke_apiserver::engine::Engine;
use minke_apiserver::http::{Limits as ApiLimits, Server};
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use minke_runners::controller::{Cluster, Controller, GitHubForges, KubeCluster, Metrics};
use minke_runners::forge::Secret;
use minke_runners::forge::lookalike::{JobState, Limits, Lookalike, LookalikeSettings};
use minke_runners::pretend::{GivenSet, PretendedNode};
use minke_runners::set::{RunnerSet, RunnerSetStatus};
use minke_runners::webhook::{JobNews, Receiver, ReceiverSettings};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::cmd::watch::connect::{connect, interrupted};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::stdout;

const NAMESPACE: &str = "default";
const SET: &str = "demo";
const SECRET: &str = "minke-runners-demo";
const REPOSITORY: &str = "octo/demo";
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// After the last job, for what is left to go.
const TIDY: Duration = Duration::from_secs(150);

/// Show a pool at work: with a look-alike of GitHub, and an API and a node that pretends, all in this process
#[derive(Debug, Args)]
#[command(
    after_help = "Three waves of jobs are queued, as by webhook. Exit code 0: all have run and nothing is left, at \
                        GitHub's look-alike or in the cluster."
)]
pub(crate) struct DemoArgs {
    /// Jobs of the biggest wave
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=500))]
    jobs: u32,
    /// At most so many runners
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=500))]
    max: u32,
    /// Runners in real containers, on the cluster that `minke up` has begun on this machine
    #[arg(long)]
    containers: bool,
    /// The image of those containers: one with a shell and wget [default: busybox]
    #[arg(long, value_name = "IMAGE", requires = "containers")]
    image: Option<String>,
    /// Another cluster of this machine
    #[arg(long, value_name = "FILE", requires = "containers")]
    kubeconfig: Option<PathBuf>,
}

impl Default for DemoArgs {
    fn default() -> Self {
        Self { jobs: 12, max: 8, containers: false, image: None, kubeconfig: None }
    }
}

/// A directory of this process alone, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, Failure> {
        let name = format!("minke-runners-demo-{}-{:x}", std::process::id(), SystemClock.now().as_nanosecond());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|e| Failure::because("can't make a directory", &e))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What can't be removed is in the directory for temporary things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) async fn run(args: &DemoArgs, client: &Client) -> Outcome {
    let directory = Directory::new()?;
    let mut tasks = JoinSet::new();
    let demo = tokio::select! {
        demo = prepare(args, client, &directory.0, &mut tasks) => demo?,
        signal = interrupted() => return Ok(Exit::Interrupted(signal)),
    };
    let (forge, stage, metrics) = (Arc::clone(&demo.forge), Arc::clone(&demo.stage), demo.controller.metrics.clone());
    let outcome = tokio::select! {
        outcome = play(args, demo, &mut tasks) => outcome,
        signal = interrupted() => {
            if let Stage::Real(_) = &*stage {
                eprintln!("interrupted: the demo's objects are being removed, once their jobs are over");
            }
            Ok(Exit::Interrupted(signal))
        }
    };
    let removed = match &*stage {
        Stage::Pretended { .. } => Ok(()),
        Stage::Real(objects) => tidy(objects).await,
    };
    // What went wrong first is told first; the rest may come of it.
    let outcome = outcome?;
    removed?;
    if matches!(outcome, Exit::Reached) {
        let own = ["create_pod", "patch_pod", "delete_pod", "create_secret", "delete_secret"];
        stdout::print(&format!("{} API writes, {} calls to GitHub\n", metrics.calls(&own), forge.spent()))?;
    }
    Ok(outcome)
}

/// The API; how to reach it is in the file that is returned.
async fn api(directory: &Path, clock: Arc<dyn Clock>, tasks: &mut JoinSet<()>) -> Result<PathBuf, Failure> {
    let authority = Authority::open(&directory.join("pki"), clock.now());
    let authority = authority.map_err(|e| Failure::because("can't make certificates", &e))?;
    let engine = Engine::new(Store::in_memory(HistoryLimits::default()), clock);
    engine.prepare().await.map_err(|e| Failure::because("can't make the API's first objects", &e))?;
    let server = Server::bind(LOOPBACK, engine.clone(), Tokens::default(), ApiLimits::default()).await;
    let server = server.map_err(|e| Failure::because("can't serve the API", &e))?;
    let tls = authority
        .server(&["localhost"], &[LOOPBACK.ip()])
        .map_err(|e| Failure::because("can't make certificates", &e))?;
    let kubeconfig = directory.join("admin.conf");
    let url = format!("https://{}", server.address());
    authority.kubeconfig(&kubeconfig, &url).map_err(|e| Failure::because("can't write the kubeconfig", &e))?;
    tasks.spawn(server.run(tls));
    tasks.spawn(async move { engine.care().await });
    Ok(kubeconfig)
}

fn set(url: &str, max: u32, min_idle: u32, template: &Value) -> Result<RunnerSet, Failure> {
    let manifest = json!({
        "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet",
        "metadata": {"name": SET, "namespace": NAMESPACE},
        "spec": {
            "github": {"url": url, "repository": REPOSITORY, "credentialsSecret": SECRET},
            "labels": ["linux"], "max": max, "minIdle": min_idle, "stabilization": {"downSeconds": 5},
            "template": {"spec": template},
        },
    });
    serde_json::from_value(manifest).map_err(|e| Failure::because("the demo's set", &e))
}

fn secret() -> Result<KubeSecret, Failure> {
    let credential = json!({"metadata": {"name": SECRET}, "stringData": {"github_token": "demo"}});
    serde_json::from_value(credential).map_err(|e| Failure::because("the demo's secret", &e))
}

/// Where the runners are.
enum Stage {
    /// In memory, on a node that pretends.
    Pretended { node: Arc<PretendedNode>, status: watch::Receiver<RunnerSetStatus> },
    /// In a real cluster.
    Real(Box<containers::Objects>),
}

impl Stage {
    async fn pods(&self) -> usize {
        match self {
            Self::Pretended { node, .. } => node.pods(),
            Self::Real(objects) => objects.pods().await,
        }
    }

    async fn status(&self) -> RunnerSetStatus {
        match self {
            Self::Pretended { status, .. } => status.borrow().clone(),
            Self::Real(objects) => objects.status().await,
        }
    }

    /// How many runners wait for a job that may come.
    fn idle(&self) -> usize {
        match self {
            Self::Pretended { .. } => 1,
            Self::Real(_) => 0,
        }
    }
}

/// All that has been set up; nothing of it is in a cluster that is somebody's.
struct Demo {
    forge: Arc<Lookalike>,
    stage: Arc<Stage>,
    controller: Controller,
    webhooks: (Receiver, TcpListener),
    news: mpsc::Receiver<JobNews>,
}

async fn prepare(
    args: &DemoArgs,
    instance: &Client,
    directory: &Path,
    tasks: &mut JoinSet<()>,
) -> Result<Demo, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let kubeconfig = if args.containers {
        containers::kubeconfig(args.kubeconfig.as_deref(), instance).await?
    } else {
        api(directory, Arc::clone(&clock), tasks).await?
    };
    let client = connect(Some(&kubeconfig), None).await?.client;
    let listener = TcpListener::bind(LOOPBACK).await.map_err(|e| Failure::because("can't listen for webhooks", &e))?;
    let address = listener.local_addr().map_err(|e| Failure::because("can't listen for webhooks", &e))?;
    let signed = Secret::new("of the demo");
    let settings = LookalikeSettings {
        listen: LOOPBACK,
        token: Secret::new("demo"),
        limits: Limits { latency: Duration::from_millis(80), ..Limits::default() },
        webhook: Some((format!("http://{address}/"), signed.clone())),
    };
    let forge = Lookalike::start(settings, Arc::clone(&clock)).await;
    let forge = Arc::new(forge.map_err(|e| Failure::because("can't start the look-alike of GitHub", &e))?);
    stdout::print(&format!(
        "GitHub's look-alike is {}; kubectl --kubeconfig {} get pods\n",
        forge.url(),
        kubeconfig.display()
    ))?;
    let (stage, cluster): (Stage, Arc<dyn Cluster>) = if args.containers {
        let image = args.image.as_deref().unwrap_or_else(|| containers::image(instance));
        let objects = containers::Objects::new(client, &forge.url(), args.max, image)?;
        let cluster = objects.cluster(Arc::clone(&clock));
        (Stage::Real(Box::new(objects)), cluster)
    } else {
        pretended(client, &forge, args.max, &clock, tasks).await?
    };
    let (news, heard) = mpsc::channel(1024);
    let forges = Arc::new(GitHubForges::new(Arc::clone(&cluster), Arc::clone(&clock)));
    let poll = Duration::from_secs(30);
    let controller = Controller { cluster, forges, clock, metrics: Metrics::default(), poll };
    let receiver = Receiver::new(ReceiverSettings { secret: signed, news, journal: None, metrics: None });
    Ok(Demo { forge, stage: Arc::new(stage), controller, webhooks: (receiver, listener), news: heard })
}

async fn play(args: &DemoArgs, demo: Demo, tasks: &mut JoinSet<()>) -> Outcome {
    let Demo { forge, stage, controller, webhooks: (receiver, listener), news } = demo;
    tasks.spawn(receiver.serve(listener));
    if let Stage::Real(objects) = &*stage {
        objects.make().await?;
    }
    tasks.spawn(controller.run(Vec::new(), news));
    waves(args, &forge, &stage).await
}

/// Whatever became of the jobs, what was made goes: the cluster is somebody's. Who interrupts this too is told what stays.
async fn tidy(objects: &containers::Objects) -> Result<(), Failure> {
    tokio::select! {
        removed = objects.remove() => removed,
        _ = interrupted() => {
            let left = format!("interrupted while the demo's objects were being removed; in namespace {NAMESPACE} are left");
            Err(Failure::system(format!("{left}: the RunnerSet {SET}, its Pods, and the Secret {SECRET}")))
        }
    }
}

/// The set is none of the cluster's objects, and the node pretends.
async fn pretended(
    client: KubeClient,
    forge: &Arc<Lookalike>,
    max: u32,
    clock: &Arc<dyn Clock>,
    tasks: &mut JoinSet<()>,
) -> Result<(Stage, Arc<dyn Cluster>), Failure> {
    let secrets: Api<KubeSecret> = Api::namespaced(client.clone(), NAMESPACE);
    let made = secrets.create(&PostParams::default(), &secret()?).await;
    made.map_err(|e| Failure::because("can't make the credential's secret", &e))?;
    let kube = KubeCluster::new(client.clone(), Some(NAMESPACE.to_owned()), Arc::clone(clock));
    let template = json!({"containers": [{"name": "runner", "image": "pretended:1"}]});
    let (given, status) = GivenSet::new(kube, set(&forge.url(), max, 1, &template)?);
    let takes = |job| Duration::from_millis(800 + job % 5 * 700);
    let node = PretendedNode::new(client, NAMESPACE, Arc::clone(forge), takes);
    tasks.spawn(Arc::clone(&node).run());
    Ok((Stage::Pretended { node, status }, Arc::new(given)))
}

/// Queues the jobs, tells what becomes of them, and whether all is well at the end.
async fn waves(args: &DemoArgs, forge: &Lookalike, stage: &Stage) -> Outcome {
    let begun = Instant::now();
    for (wave, jobs) in [(1, (args.jobs / 3).max(1)), (2, args.jobs), (3, (args.jobs / 4).max(1))] {
        say(begun, &format!("wave {wave}: {jobs} jobs are queued"))?;
        forge.with(|state, now| {
            for _ in 0..jobs {
                state.queue(REPOSITORY, &["self-hosted", "linux"], now);
            }
        });
        let mut last = String::new();
        while unfinished(forge) > 0 {
            if begun.elapsed() > Duration::from_secs(600) {
                return Err(Failure::system(format!("{} jobs have not run", unfinished(forge))));
            }
            let now = line(&stage.status().await);
            if now != last {
                say(begun, &now)?;
                last = now;
            }
            sleep(Duration::from_millis(200)).await;
        }
        let waits = forge.with(|state, _| {
            let wait = |started: jiff::Timestamp, queued| started.duration_since(queued).as_secs_f64();
            let mut waits: Vec<f64> = state.jobs().filter_map(|job| Some(wait(job.started?, job.queued))).collect();
            waits.sort_by(f64::total_cmp);
            waits
        });
        let (half, most) = (waits.get(waits.len() / 2), waits.last());
        let (half, most) = (half.copied().unwrap_or_default(), most.copied().unwrap_or_default());
        say(begun, &format!("all jobs have run; until now they waited {half:.1} s (median), {most:.1} s at most"))?;
    }
    // Who is always idle stays; everybody else goes.
    let (ended, idle) = (Instant::now(), stage.idle());
    while ended.elapsed() < TIDY {
        let registered = forge.with(|state, _| state.runners().len());
        if registered <= idle && stage.pods().await <= idle {
            let left =
                if idle == 0 { "nothing is left" } else { "what is left is the one idle runner that is always kept" };
            say(begun, left)?;
            return Ok(Exit::Reached);
        }
        sleep(Duration::from_millis(500)).await;
    }
    Err(Failure::system(format!("{} Pods are left", stage.pods().await)))
}

fn unfinished(forge: &Lookalike) -> usize {
    forge.with(|state, _| state.jobs().filter(|job| !matches!(job.state, JobState::Over(_))).count())
}

fn line(status: &RunnerSetStatus) -> String {
    let held = status.conditions.iter().find(|condition| condition.status == "False");
    let held = held.map(|condition| format!(" ({}: {})", condition.reason, condition.message)).unwrap_or_default();
    format!(
        "{} queued, {} wanted: {} pending, {} idle, {} busy, {} draining{held}",
        status.queued, status.desired, status.pending, status.idle, status.busy, status.draining
    )
}

fn say(begun: Instant, text: &str) -> Result<(), Failure> {
    stdout::print(&format!("{:>6.1} s  {text}\n", begun.elapsed().as_secs_f64()))
}

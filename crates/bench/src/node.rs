//! A node of the embedded API: how soon Pods that are bound to it run, what that costs the API and the node's memory, and how long
//! a single Pod takes in real containers.
//!
//! Nothing stands beside it here: what a cluster's own agents need is in the design as an aim.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use kube::{Client, Config};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::failure::Failure;
use crate::instance::{IMAGE, Instance};
use crate::process::Process;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

const NODE: &str = "bench-1";
/// Nothing here takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server or an agent, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Result<Running, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Running).map_err(|source| Failure::Start { program, source })
}

/// An API on loopback, removed when dropped.
struct Cluster {
    _server: Running,
    data: tempfile::TempDir,
    client: Client,
}

impl Cluster {
    async fn start(minke: &Path) -> Result<Self, Failure> {
        let data = tempfile::tempdir().map_err(Failure::file("making", Path::new("a data directory")))?;
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let listen = free.map_err(Failure::file("finding", Path::new("a free port")))?.to_string();
        let server =
            start(Command::new(minke).arg("api").arg("--data-dir").arg(data.path()).args(["--listen", &listen]))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(client) = client(&data.path().join("admin.conf")).await
                && client.apiserver_version().await.is_ok()
            {
                return Ok(Self { _server: server, data, client });
            }
            wait(deadline, "the API to answer").await?;
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.data.path().join("admin.conf")
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Binds so many Pods to the node, which may not be there yet.
    async fn bind(&self, count: usize) -> Result<(), Failure> {
        let pods = self.pods();
        let all = stream::iter(0..count).map(|n| {
            let pods = pods.clone();
            async move { pods.create(&PostParams::default(), &pod(&format!("p-{n}"))?).await.map(drop).map_err(asked) }
        });
        let mut all = std::pin::pin!(all.buffer_unordered(32));
        while let Some(created) = all.next().await {
            created?;
        }
        Ok(())
    }

    /// Where the API's history is: it counts its writes.
    async fn version(&self) -> Result<u64, Failure> {
        let list = self.pods().list_metadata(&ListParams::default().limit(1)).await.map_err(asked)?;
        let version = list.metadata.resource_version.unwrap_or_default();
        version.parse().map_err(|_| Failure::Unexpected(format!("{version:?} is no number of writes")))
    }

    /// Follows all Pods from the beginning until so many are Running, or gone.
    async fn until(&self, wanted: usize, gone: bool) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let (pods, mut seen) = (self.pods(), std::collections::HashSet::new());
        let list = pods.list(&ListParams::default()).await.map_err(asked)?;
        let running = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        let mut left = list.items.len();
        seen.extend(list.items.iter().filter(|pod| running(pod)).map(name));
        let version = list.metadata.resource_version.unwrap_or_default();
        let events = pods.watch(&WatchParams::default(), &version).await.map_err(asked)?;
        let mut events = std::pin::pin!(events);
        while if gone { left > 0 } else { seen.len() < wanted } {
            let event = tokio::time::timeout_at(deadline, events.next()).await;
            let late = |_| Failure::Unexpected(format!("{} of {wanted} pods after {PATIENCE:?}", seen.len()));
            match event.map_err(late)? {
                Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => {
                    if running(&pod) {
                        seen.insert(name(&pod));
                    }
                }
                Some(Ok(WatchEvent::Deleted(_))) => left = left.saturating_sub(1),
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                Some(Ok(WatchEvent::Error(status))) => return Err(Failure::Unexpected(status.message.clone())),
                Some(Err(error)) => return Err(asked(error)),
                None => return Err(Failure::Unexpected("the API ended the watch".to_owned())),
            }
        }
        Ok(())
    }

    async fn ready(&self) -> Result<(), Failure> {
        let (nodes, deadline): (Api<Node>, _) = (Api::all(self.client.clone()), Instant::now() + PATIENCE);
        loop {
            let node = nodes.get_opt(NODE).await.map_err(asked)?;
            let conditions = node.and_then(|n| n.status).and_then(|s| s.conditions).unwrap_or_default();
            if conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
                return Ok(());
            }
            wait(deadline, "the node to be ready").await?;
        }
    }
}

async fn client(kubeconfig: &Path) -> Option<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).ok()?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.ok()?;
    Client::try_from(config).ok()
}

async fn wait(deadline: Instant, what: &str) -> Result<(), Failure> {
    if Instant::now() >= deadline {
        return Err(Failure::Unexpected(format!("waited {} s for {what}", PATIENCE.as_secs())));
    }
    sleep(Duration::from_millis(10)).await;
    Ok(())
}

fn asked(error: kube::Error) -> Failure {
    Failure::Runtime { what: "asking the API", source: Box::new(error) }
}

fn pod(name: &str) -> Result<Pod, Failure> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": NODE, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 30,
            // Ends at once when it is told to, as a well-behaved program does.
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"],
            }],
        },
    });
    serde_json::from_value(pod).map_err(Failure::runtime("making a pod"))
}

fn row(what: String, sample: Option<Sample>, aim: &'static str) -> Option<Row> {
    sample.map(|ours| Row { what, ours, peer: Peer::Nobody, aim })
}

/// Measures nodes with so many Pods of a mock, and one Pod in real containers again and again.
pub(crate) fn measure(minke: &Path, counts: &[usize], runs: usize) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Failure::runtime("starting the async runtime"))?;
    let mut rows = Vec::new();
    for count in counts {
        rows.extend(runtime.block_on(mocked(minke, *count))?);
    }
    rows.extend(runtime.block_on(real(minke, runs))?);
    Ok(rows)
}

async fn mocked(minke: &Path, count: usize) -> Result<Vec<Row>, Failure> {
    let cluster = Cluster::start(minke).await?;
    cluster.bind(count).await?;
    let before = cluster.version().await?;
    let state = tempfile::tempdir().map_err(Failure::file("making", Path::new("a state directory")))?;
    let begun = Instant::now();
    let mut command = Command::new(minke);
    command.args(["node", "--provider=mock", "--node-name", NODE, "--max-pods=100000", "--kubeconfig"]);
    let node = start(command.arg(cluster.kubeconfig()).arg("--state-dir").arg(state.path()))?;
    cluster.until(count, false).await?;
    let running = begun.elapsed();
    let writes = cluster.version().await?.saturating_sub(before);
    let sizes = Process::mentioning(state.path()).first().and_then(Process::sizes);
    let begun = Instant::now();
    let params = DeleteParams { grace_period_seconds: Some(30), ..DeleteParams::default() };
    cluster.pods().delete_collection(&params, &ListParams::default()).await.map_err(asked)?;
    cluster.until(count, true).await?;
    let gone = begun.elapsed();
    drop(node);
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let a_pod = writes as f64 / count as f64;
    eprintln!("{count} pods of a mock: {a_pod:.2} writes a pod, {writes} in all");
    let memory = sizes.and_then(|sizes| Sample::new(Unit::KibiBytes, vec![sizes.proportional]));
    let rows = [
        row(
            format!("node, {count} pods of a mock: start → all Running"),
            Sample::of_times(&[running]),
            "15 s for 10,000",
        ),
        row(format!("node, {count} pods of a mock: deleted → all gone"), Sample::of_times(&[gone]), ""),
        row(format!("node, {count} pods of a mock: memory of the node"), memory, "20 KiB a Pod"),
    ];
    Ok(rows.into_iter().flatten().collect())
}

async fn real(minke: &Path, runs: usize) -> Result<Vec<Row>, Failure> {
    let (cluster, instance) = (Cluster::start(minke).await?, Instance::new(minke)?);
    let mut command = instance.command();
    command.args(["node", "--node-name", NODE, "--kubeconfig"]).arg(cluster.kubeconfig());
    let node = start(&mut command)?;
    cluster.ready().await?;
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let name = format!("real-{run}");
        let begun = Instant::now();
        cluster.pods().create(&PostParams::default(), &pod(&name)?).await.map_err(asked)?;
        cluster.until(1, false).await?;
        starts.push(begun.elapsed());
        // The shell sets its trap first.
        sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        cluster.pods().delete(&name, &DeleteParams::default()).await.map_err(asked)?;
        cluster.until(0, true).await?;
        ends.push(begun.elapsed());
    }
    drop(node);
    let rows = [
        row("node: pod bound → Running, real containers".to_owned(), Sample::of_times(&starts), "100 ms"),
        row("node: pod deleted → gone, real containers".to_owned(), Sample::of_times(&ends), "100 ms past its end"),
    ];
    Ok(rows.into_iter().flatten().collect())
}

//! A node of the embedded API: how soon Pods that are bound to it run, what that costs the API and the node's memory, and how long
//! a single Pod takes in real containers.
//!
//! Beside it stands virtual-kubelet with its own mock, as it comes, where `e2e/virtual-kubelet/build` has built it: on the same API,
//! with as many Pods as its limits let through in a few minutes.

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
/// Virtual-kubelet takes ten Pods a second, and each of its Pods stays for its grace.
const PEERS_PATIENCE: Duration = Duration::from_secs(400);
/// More Pods than this are not waited for.
const PEERS_MOST: usize = 1000;
/// Nodes of the one process that has several.
const NODES: usize = 100;

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

    /// Binds so many Pods to the nodes in turn, which may not be there yet.
    async fn bind(&self, count: usize, nodes: &[String]) -> Result<(), Failure> {
        let pods = self.pods();
        let all = stream::iter(0..count).map(|n| {
            let pods = pods.clone();
            let node = &nodes[n % nodes.len()];
            async move {
                let pod = pod(&format!("p-{n}"), node)?;
                pods.create(&PostParams::default(), &pod).await.map(drop).map_err(asked)
            }
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

    /// Follows all Pods from the beginning until so many are Running, or gone. A watch that the API ends is begun again.
    async fn until(&self, wanted: usize, gone: bool, patience: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + patience;
        let (pods, mut seen) = (self.pods(), std::collections::HashSet::new());
        let running = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        loop {
            let list = pods.list(&ListParams::default()).await.map_err(asked)?;
            let mut left = list.items.len();
            seen.extend(list.items.iter().filter(|pod| running(pod)).map(name));
            let version = list.metadata.resource_version.unwrap_or_default();
            let events = pods.watch(&WatchParams::default(), &version).await.map_err(asked)?;
            let mut events = std::pin::pin!(events);
            while if gone { left > 0 } else { seen.len() < wanted } {
                let event = tokio::time::timeout_at(deadline, events.next()).await;
                let late = |_| Failure::Unexpected(format!("{} of {wanted} pods after {patience:?}", seen.len()));
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
                    None => break,
                }
            }
            if if gone { left == 0 } else { seen.len() >= wanted } {
                return Ok(());
            }
        }
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

fn pod(name: &str, node: &str) -> Result<Pod, Failure> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 30,
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

/// Measures nodes with so many Pods of a mock, many nodes in one process, and one Pod in real containers again and again.
pub(crate) fn measure(minke: &Path, cache: &Path, counts: &[usize], runs: usize) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Failure::runtime("starting the async runtime"))?;
    let virtual_kubelet = virtual_kubelet(cache);
    if virtual_kubelet.is_none() {
        eprintln!("SKIPPED virtual-kubelet: not built; `e2e/virtual-kubelet/build` builds it");
    }
    let mut rows = Vec::new();
    for count in counts {
        let ours = runtime.block_on(mocked(minke, &Agent::Minke, *count))?;
        let peer = virtual_kubelet.clone().filter(|_| *count <= PEERS_MOST).map(Agent::VirtualKubelet);
        let theirs = peer.map(|peer| runtime.block_on(mocked(minke, &peer, *count)));
        if let Some(Err(error)) = &theirs {
            eprintln!("virtual-kubelet, {count} pods: {error}");
        }
        let theirs = theirs.and_then(Result::ok);
        rows.extend(ours.rows(&format!("node, {count} pods of a mock"), theirs));
    }
    if let Some(most) = counts.iter().max() {
        let many = runtime.block_on(mocked(minke, &Agent::ManyMinkes, *most))?;
        rows.extend(many.rows(&format!("{NODES} nodes in one process, {most} pods of mocks"), None));
    }
    rows.extend(runtime.block_on(real(minke, runs))?);
    Ok(rows)
}

/// What `e2e/virtual-kubelet/build` has made.
fn virtual_kubelet(cache: &Path) -> Option<PathBuf> {
    let cache = std::env::var_os("MINKE_KUBE_CACHE").map_or_else(|| cache.to_owned(), PathBuf::from);
    let built = std::fs::read_dir(cache).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut built: Vec<PathBuf> = built
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("virtual-kubelet-")))
        .map(|path| path.join("virtual-kubelet"))
        .filter(|path| path.is_file())
        .collect();
    built.sort();
    built.pop()
}

/// Whose node it is.
enum Agent {
    Minke,
    /// [`NODES`] in one process.
    ManyMinkes,
    VirtualKubelet(PathBuf),
}

impl Agent {
    fn nodes(&self) -> Vec<String> {
        match self {
            Self::Minke | Self::VirtualKubelet(_) => vec![NODE.to_owned()],
            Self::ManyMinkes => (0..NODES).map(|n| format!("{NODE}-{n}")).collect(),
        }
    }

    fn patience(&self) -> Duration {
        match self {
            Self::Minke | Self::ManyMinkes => PATIENCE,
            Self::VirtualKubelet(_) => PEERS_PATIENCE,
        }
    }

    fn command(&self, minke: &Path, kubeconfig: &Path, state: &Path) -> Result<Command, Failure> {
        let mut command = match self {
            Self::Minke | Self::ManyMinkes => Command::new(minke),
            Self::VirtualKubelet(program) => Command::new(program),
        };
        match self {
            Self::Minke | Self::ManyMinkes => {
                command.args(["node", "--provider=mock", "--node-name", NODE, "--max-pods=100000"]);
                command.arg("--state-dir").arg(state);
                if let Self::ManyMinkes = self {
                    command.arg(format!("--mock-nodes={NODES}"));
                }
            }
            Self::VirtualKubelet(_) => {
                let config = state.join("mock.json");
                let written = json!({NODE: {"cpu": "1000", "memory": "4Ti", "pods": "100000"}}).to_string();
                std::fs::write(&config, written).map_err(Failure::file("writing", &config))?;
                command
                    .args(["--provider=mock", "--nodename", NODE, "--disable-taint", "--provider-config"])
                    .arg(config);
                let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
                let port = free.map_err(Failure::file("finding", Path::new("a free port")))?.port();
                command.env("KUBELET_PORT", port.to_string()).env("VKUBELET_POD_IP", "127.0.0.1");
                // It does not start without a certificate to serve with, whatever it is.
                let pki = kubeconfig.with_file_name("pki");
                command.env("APISERVER_CERT_LOCATION", pki.join("ca.crt"));
                command.env("APISERVER_KEY_LOCATION", pki.join("ca.key"));
            }
        }
        command.arg("--kubeconfig").arg(kubeconfig);
        Ok(command)
    }
}

/// What a mock's Pods took.
struct Mocked {
    running: Option<Sample>,
    writes: Option<Sample>,
    memory: Option<Sample>,
    gone: Option<Sample>,
}

impl Mocked {
    fn rows(self, what: &str, peer: Option<Self>) -> Vec<Row> {
        let (running, writes, memory, gone) =
            peer.map_or((None, None, None, None), |peer| (peer.running, peer.writes, peer.memory, peer.gone));
        let beside = |sample: Option<Sample>| match sample {
            Some(sample) => Peer::Measured { name: "virtual-kubelet".to_owned(), sample },
            None => Peer::Nobody,
        };
        let rows = [
            ("start → all Running", self.running, running, "15 s for 10,000"),
            ("writes of the API until then", self.writes, writes, "1 a Pod"),
            ("memory of the agent", self.memory, memory, "20 KiB a Pod"),
            ("deleted → all gone", self.gone, gone, ""),
        ];
        let rows = rows.into_iter().map(|(of, ours, theirs, aim)| {
            ours.map(|ours| Row { what: format!("{what}: {of}"), ours, peer: beside(theirs), aim })
        });
        rows.flatten().collect()
    }
}

async fn mocked(minke: &Path, agent: &Agent, count: usize) -> Result<Mocked, Failure> {
    let cluster = Cluster::start(minke).await?;
    cluster.bind(count, &agent.nodes()).await?;
    let before = cluster.version().await?;
    let state = tempfile::tempdir().map_err(Failure::file("making", Path::new("a state directory")))?;
    let begun = Instant::now();
    let node = start(&mut agent.command(minke, &cluster.kubeconfig(), state.path())?)?;
    cluster.until(count, false, agent.patience()).await?;
    let running = begun.elapsed();
    let writes = cluster.version().await?.saturating_sub(before);
    // What it needs lastingly: queues are empty by then.
    sleep(Duration::from_secs(2)).await;
    let sizes = Process::mentioning(state.path()).first().and_then(Process::sizes);
    let begun = Instant::now();
    let params = DeleteParams { grace_period_seconds: Some(30), ..DeleteParams::default() };
    cluster.pods().delete_collection(&params, &ListParams::default()).await.map_err(asked)?;
    cluster.until(count, true, agent.patience()).await?;
    let gone = begun.elapsed();
    drop(node);
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let writes = writes as f64;
    Ok(Mocked {
        running: Sample::of_times(&[running]),
        writes: Sample::new(Unit::Number, vec![writes]),
        memory: sizes.and_then(|sizes| Sample::new(Unit::KibiBytes, vec![sizes.proportional])),
        gone: Sample::of_times(&[gone]),
    })
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
        cluster.pods().create(&PostParams::default(), &pod(&name, NODE)?).await.map_err(asked)?;
        cluster.until(1, false, PATIENCE).await?;
        starts.push(begun.elapsed());
        // The shell sets its trap first.
        sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        cluster.pods().delete(&name, &DeleteParams::default()).await.map_err(asked)?;
        cluster.until(0, true, PATIENCE).await?;
        ends.push(begun.elapsed());
    }
    drop(node);
    let rows = [
        row("node: pod bound → Running, real containers".to_owned(), Sample::of_times(&starts), "100 ms"),
        row("node: pod deleted → gone, real containers".to_owned(), Sample::of_times(&ends), "100 ms past its end"),
    ];
    Ok(rows.into_iter().flatten().collect())
}

//! `minke node`.

use std::mem;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use clap::{Args, ValueEnum};
use futures_util::future;
use k8s_openapi::api::core::v1::Taint;
use kube::Client as KubeClient;
use minke_kubelet::housekeeping::ImageGcPolicy;
use minke_kubelet::source::Source;
use minke_kubelet::{Kubelet, RelistMode, StaticSource};
use minke_node::controller::Options;
use minke_node::mock::{MockOptions, MockProvider};
use minke_node::node::NodeConfig;
use minke_node::node::shutdown::ShutdownPolicy;
use tokio::signal::unix::{SignalKind, signal};

use super::configz::configz;
use super::file::KubeletFile;
use super::serving::ServingArgs;
use super::{NodeArgs, cluster};
use crate::agent::{self, AgentError, Companion, Mode, Overrides, Readiness, Settings};
use crate::client::Client;
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};
use crate::node::logind::HeldUp;
use crate::node::{Backing, CertificateSource, NodeRunError, RunningNode, ServingSettings, identity};
use crate::spans::OtlpArgs;

/// Pods of one node, as upstream recommends.
const MAX_PODS: usize = 110;

/// Be a node of a Kubernetes cluster, in the foreground
///
/// Registers the node, runs the Pods that are bound to it, and tells the cluster how they are. It can end and start at any time: Pods
/// keep running meanwhile, unless a shutdown grace period is set. Other commands (ps, logs, exec) work on the node's Pods.
#[derive(Debug, Args)]
pub(crate) struct NodeCommand {
    /// How to reach the cluster [default: $KUBECONFIG, ~/.kube/config, or the service account of the Pod that this is]
    #[arg(long, value_name = "FILE", env = "MINKE_NODE_KUBECONFIG", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// A kubeconfig with a bootstrap token: the node asks for a certificate of its own, and for the next one before it ends
    #[arg(
        long,
        value_name = "FILE",
        env = "MINKE_NODE_BOOTSTRAP_KUBECONFIG",
        conflicts_with = "kubeconfig",
        help_heading = "Cluster"
    )]
    bootstrap_kubeconfig: Option<PathBuf>,
    /// Where certificates are kept that were asked for [default: pki in the state directory]
    #[arg(long, value_name = "DIR", env = "MINKE_NODE_CERT_DIR", help_heading = "Cluster")]
    cert_dir: Option<PathBuf>,
    /// The kubeconfig's context
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    /// The node's name [default: this machine's host name, lower case]
    #[arg(long, value_name = "NAME", env = "MINKE_NODE_NAME", help_heading = "Cluster")]
    node_name: Option<String>,
    /// Addresses of the node instead of those that are found, the first is the primary one
    #[arg(long, value_name = "IP,…", value_delimiter = ',', help_heading = "Cluster")]
    node_ip: Vec<IpAddr>,
    /// Taints of the node when it is registered
    #[arg(long, value_name = "KEY=VALUE:EFFECT,…", value_delimiter = ',', value_parser = taint, help_heading = "Cluster")]
    register_with_taints: Vec<Taint>,
    #[command(flatten)]
    serving: ServingArgs,
    /// What the node is to the cloud, `spec.providerID`
    #[arg(long, value_name = "ID", help_heading = "Cluster")]
    provider_id: Option<String>,
    /// Take the place of the agent that runs; Pods keep running meanwhile
    #[arg(long)]
    replace: bool,
    /// Who runs the Pods
    #[arg(long, value_enum, default_value_t = ProviderKind::Kubelet, value_name = "KIND")]
    provider: ProviderKind,
    /// Upstream's KubeletConfiguration; fields that have no effect here are named. Flags count more
    #[arg(long, value_name = "FILE", env = "MINKE_NODE_CONFIG")]
    config: Option<PathBuf>,
    /// Most Pods at a time [default: 110]
    #[arg(long, value_name = "N")]
    max_pods: Option<usize>,
    /// On SIGTERM, end Pods within this time, and then the node; 0s: they go on. (On SIGINT they always do)
    #[arg(long, value_name = "DURATION", value_parser = durations::duration)]
    shutdown_grace_period: Option<Duration>,
    /// The part of it that is kept for critical Pods
    #[arg(long, value_name = "DURATION", value_parser = durations::duration)]
    shutdown_grace_period_critical_pods: Option<Duration>,
    /// Run the static Pods of this directory or manifest as well; repeatable
    #[arg(long, value_name = "PATH")]
    manifests: Vec<PathBuf>,
    /// How long a mock's Pods take to start
    #[arg(long, value_name = "DURATION", value_parser = durations::duration, default_value = "0s", help_heading = "Mock")]
    mock_start: Duration,
    /// How long a mock's Pods take to stop
    #[arg(long, value_name = "DURATION", value_parser = durations::duration, default_value = "0s", help_heading = "Mock")]
    mock_stop: Duration,
    /// Of a hundred calls on a mock, so many fail
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100), default_value_t = 0, help_heading = "Mock")]
    mock_failures: u8,
    /// So many nodes of mocks in this process, called NAME-0, NAME-1, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=5000), help_heading = "Mock")]
    mock_nodes: Option<u16>,
    #[command(flatten)]
    pub(crate) otlp: OtlpArgs,
    #[command(flatten)]
    machine: NodeArgs,
}

/// Who runs the Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProviderKind {
    /// The kubelet core on this machine
    Kubelet,
    /// Nobody: Pods only say that they run; for tests of clusters, thousands of Pods cost little
    Mock,
}

/// Reads `key=value:Effect` and `key:Effect`.
fn taint(text: &str) -> Result<Taint, String> {
    let wrong = || format!("{text:?} is no taint: write for example dedicated=ci:NoSchedule");
    let (pair, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
    if !["NoSchedule", "NoExecute", "PreferNoSchedule"].contains(&effect) {
        return Err(format!("{effect:?} is none of NoSchedule, NoExecute, PreferNoSchedule"));
    }
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value)));
    if key.is_empty() {
        return Err(wrong());
    }
    Ok(Taint {
        key: key.to_owned(),
        value: value.filter(|value| !value.is_empty()).map(str::to_owned),
        effect: effect.to_owned(),
        time_added: None,
    })
}

/// All that was said about the node, checked.
struct Plan {
    node: NodeConfig,
    settings: Settings,
    shutdown: ShutdownPolicy,
    max_pods: usize,
    serving: Option<ServingSettings>,
}

impl NodeCommand {
    fn plan(&self, client: &Client) -> Result<Plan, Failure> {
        let file = self.config.as_deref().map(KubeletFile::read).transpose()?.unwrap_or_default();
        let idle = file.without_effect();
        if !idle.is_empty() {
            tracing::warn!(fields = idle.join(", "), "these fields of the configuration have no effect here");
        }
        if let Some(endpoint) = &file.container_runtime_endpoint
            && client.place().backend.is_none()
        {
            return Err(Failure::usage(format!(
                "containerRuntimeEndpoint {endpoint} is told with --runtime-endpoint here"
            ))
            .hint("remove it from the file, or pass --runtime embedded to have it ignored"));
        }
        let machine = file.under(&self.machine)?;
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => agent::node_name(),
        };
        if let Some(problem) = minke_core::validation::object_name(&name) {
            return Err(
                Failure::usage(format!("the node's name {name:?} is none: {problem}")).hint("name it with --node-name")
            );
        }
        let max_pods = self.max_pods.or(file.max_pods).unwrap_or(MAX_PODS);
        let mut node = NodeConfig::new(name.clone(), identity(&client.place().state));
        let options = machine.options()?;
        node.labels.clone_from(&options.labels);
        node.taints = match self.register_with_taints.as_slice() {
            [] => file.register_with_taints.clone(),
            told => told.to_vec(),
        };
        node.provider_id = self.provider_id.clone().or_else(|| file.provider_id.clone());
        if let Some(most) = file.node_status_max_images {
            // -1 is "all" upstream.
            node.max_images = usize::try_from(most).unwrap_or(usize::MAX);
        }
        node.period = file.node_status_update_frequency.map_or(node.period, |span| span.0.max(Duration::from_secs(1)));
        node.report = file.node_status_report_frequency.map_or(node.report, |span| span.0);
        node.lease = match file.node_lease_duration_seconds {
            Some(0) => return Err(Failure::usage("nodeLeaseDurationSeconds must be more than 0")),
            Some(seconds) => Duration::from_secs(seconds),
            None => node.lease,
        };
        let shutdown = file.shutdown((self.shutdown_grace_period, self.shutdown_grace_period_critical_pods))?;
        let policy = ImageGcPolicy::default();
        let image_gc = ImageGcPolicy {
            high_percent: file.image_gc_high.unwrap_or(policy.high_percent),
            low_percent: file.image_gc_low.unwrap_or(policy.low_percent),
            min_age: file.image_min_age.map_or(policy.min_age, |span| span.0),
            ..policy
        };
        image_gc.check().map_err(|error| Failure::usage(error.to_string()))?;
        let settings = Settings {
            relist: RelistMode::default(),
            node: options,
            eviction: machine.eviction(false)?,
            image_gc,
            static_sources: self.static_sources(&file)?,
            overrides: Overrides {
                node_name: Some(name),
                max_pods: Some(max_pods),
                log_max_bytes: file.log_max_bytes()?,
                log_max_files: file.container_log_max_files,
            },
        };
        let kept = self.cert_dir(client);
        let serving = self.serving.settings(&node.name, &self.node_ip, file.server_tls_bootstrap, &kept)?;
        let serving = serving.map(|serving| {
            let bootstraps = matches!(serving.certificate, CertificateSource::Cluster { .. });
            ServingSettings { config: configz(&node, &settings, &shutdown, bootstraps), ..serving }
        });
        Ok(Plan { node, settings, shutdown, max_pods, serving })
    }

    fn cert_dir(&self, client: &Client) -> PathBuf {
        self.cert_dir.clone().unwrap_or_else(|| client.place().state.join("pki"))
    }

    fn static_sources(&self, file: &KubeletFile) -> Result<Vec<StaticSource>, Failure> {
        let wrong = |text: &str| Failure::usage(format!("{text} is no source of static pods"));
        let path = |path: &PathBuf| {
            std::path::absolute(path).map(StaticSource::Path).map_err(|_| wrong(&path.display().to_string()))
        };
        let mut sources: Vec<StaticSource> = self.manifests.iter().map(path).collect::<Result<_, _>>()?;
        if let Some(text) = file.static_pod_path.as_ref().filter(|text| !text.is_empty()) {
            sources.push(path(&PathBuf::from(text))?);
        }
        if let Some(text) = file.static_pod_url.as_ref().filter(|text| !text.is_empty()) {
            match text.parse::<Source>() {
                Ok(Source::Url(url)) => sources.push(StaticSource::Url(url)),
                Ok(Source::Path(_) | Source::Stdin) | Err(_) => return Err(wrong(text)),
            }
        }
        Ok(sources)
    }
}

/// Runs the node until it is told to end.
pub(crate) async fn run(args: &NodeCommand, client: &Client) -> Outcome {
    let plan = args.plan(client)?;
    let context = args.context.as_deref();
    let connection = match &args.bootstrap_kubeconfig {
        Some(file) => cluster::bootstrap(file, context, &plan.node.name, &args.cert_dir(client)).await?,
        None => cluster::connect(args.kubeconfig.as_deref(), context).await?,
    };
    let cluster = connection.client.clone();
    let held_up = (!plan.shutdown.is_empty()).then(|| HeldUp::begin(plan.shutdown.total()));
    let ended = match args.provider {
        ProviderKind::Kubelet => on_kubelet(args, client, plan, cluster).await,
        ProviderKind::Mock => on_mock(args, plan, cluster).await,
    };
    if let Some(held_up) = held_up {
        held_up.let_go().await;
    }
    ended
}

/// A node beside an agent.
struct NodeCompanion {
    cluster: KubeClient,
    node: NodeConfig,
    addresses: Vec<IpAddr>,
    serving: Option<ServingSettings>,
    shutdown: ShutdownPolicy,
    terminating: bool,
    running: Option<RunningNode>,
}

#[async_trait]
impl Companion for NodeCompanion {
    async fn start(&mut self, kubelet: &Kubelet) -> Result<(), Failure> {
        let backing = Backing::kubelet(kubelet.clone(), self.addresses.clone()).served(self.serving.clone());
        let started = RunningNode::start(self.cluster.clone(), self.node.clone(), Options::default(), backing).await;
        self.running = Some(started.map_err(|error| Failure::from_error(&error))?);
        Ok(())
    }

    async fn run(&mut self) -> Failure {
        match &self.running {
            Some(running) => Failure::from_error(&watch_over(running, &self.node.name).await),
            None => std::future::pending().await,
        }
    }

    fn terminating(&mut self) {
        self.terminating = true;
    }

    async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            // Another agent goes on with the Pods, unless the machine goes down.
            let policy = if self.terminating { mem::take(&mut self.shutdown) } else { ShutdownPolicy::default() };
            running.shutdown(&policy).await;
        }
    }
}

/// Says when the node is ready, and returns why it ended by itself.
async fn watch_over(running: &RunningNode, name: &str) -> NodeRunError {
    let told = async {
        if running.ready().await {
            tracing::info!(node = name, "the node is ready");
        }
        std::future::pending::<NodeRunError>().await
    };
    tokio::select! {
        error = running.ended() => error,
        never = told => never,
    }
}

async fn on_kubelet(args: &NodeCommand, client: &Client, plan: Plan, cluster: KubeClient) -> Outcome {
    let mut companion = NodeCompanion {
        cluster,
        node: plan.node,
        addresses: args.node_ip.clone(),
        serving: plan.serving,
        shutdown: plan.shutdown,
        terminating: false,
        running: None,
    };
    if args.replace {
        crate::cmd::agent::end_running(client).await?;
    }
    // The agent that was told to end lets go of its lock a moment after its socket.
    let mode = if args.replace { Mode::Replacement } else { Mode::Service };
    let mut nobody = Readiness::Nobody;
    let ended = agent::run(client.place(), mode, &plan.settings, &mut nobody, &mut companion).await;
    ended.map(|()| Exit::Reached).map_err(|error| match &error {
        AgentError::Lock(_) => Failure::from_error(&error).hint("`minke node --replace` takes its place"),
        other => crate::cmd::agent::failure(other),
    })
}

async fn on_mock(args: &NodeCommand, plan: Plan, cluster: KubeClient) -> Outcome {
    let signals = |kind| signal(kind).map_err(|error| Failure::system(format!("can't watch for signals: {error}")));
    let (mut terminate, mut interrupt) = (signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?);
    let options = MockOptions {
        starts_after: args.mock_start,
        stops_after: args.mock_stop,
        failing_percent: args.mock_failures,
        max_pods: plan.max_pods,
        addresses: args.node_ip.clone(),
        ..MockOptions::default()
    };
    if args.mock_nodes.is_some() && plan.serving.is_some() {
        return Err(Failure::usage("several nodes can't be served at one port").hint("leave out --listen and the rest"));
    }
    let mut nodes = Vec::new();
    for name in names(&plan.node.name, args.mock_nodes) {
        let mock = MockProvider::start(options.clone());
        let backing = Backing { source: mock.clone(), provider: mock, kubelet: None, serving: plan.serving.clone() };
        let node = NodeConfig { name: name.clone(), ..plan.node.clone() };
        let running = RunningNode::start(cluster.clone(), node, Options::default(), backing).await;
        nodes.push((name, running.map_err(|error| Failure::from_error(&error))?));
    }
    let ended = future::select_all(nodes.iter().map(|(name, running)| Box::pin(watch_over(running, name))));
    let policy = tokio::select! {
        (error, ..) = ended => return Err(Failure::from_error(&error)),
        _ = terminate.recv() => plan.shutdown,
        _ = interrupt.recv() => ShutdownPolicy::default(),
    };
    future::join_all(nodes.into_iter().map(|(_, running)| running.shutdown(&policy))).await;
    Ok(Exit::Reached)
}

/// What the nodes of a process are called.
fn names(name: &str, several: Option<u16>) -> Vec<String> {
    match several {
        None => vec![name.to_owned()],
        Some(nodes) => (0..nodes).map(|n| format!("{name}-{n}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_as_upstream_writes_them() {
        let shown = |text| taint(text).map(|t| (t.key, t.value, t.effect));
        let of = |key: &str, value: Option<&str>, effect: &str| {
            Ok((key.to_owned(), value.map(str::to_owned), effect.to_owned()))
        };
        assert_eq!(shown("dedicated=ci:NoSchedule"), of("dedicated", Some("ci"), "NoSchedule"));
        assert_eq!(shown("example.com/a=:NoExecute"), of("example.com/a", None, "NoExecute"));
        assert_eq!(shown("a:PreferNoSchedule"), of("a", None, "PreferNoSchedule"));
        for wrong in ["a", "a=b", "a=b:Never", ":NoSchedule", "=b:NoSchedule"] {
            assert!(taint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_node_has_its_name_and_several_have_numbers() {
        assert_eq!(names("n", None), ["n"]);
        assert_eq!(names("n", Some(2)), ["n-0", "n-1"]);
    }

    /// A flag that nothing reads does not compile (its field would be dead); what the help says of the environment is what is read.
    #[test]
    fn r26_the_help_names_the_environment_that_is_read() {
        #[derive(Debug, clap::Parser)]
        struct Program {
            #[command(flatten)]
            node: NodeCommand,
        }
        let program = <Program as clap::CommandFactory>::command();
        let mut named = 0;
        for argument in program.get_arguments() {
            let Some(variable) = argument.get_env() else { continue };
            named += 1;
            let variable = variable.to_string_lossy();
            assert!(variable.starts_with("MINKE_") || variable.starts_with("OTEL_"), "{argument}");
            let said = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!said.contains("MINKE_"), "{argument}: clap says which variable it is, a second word may be wrong");
        }
        assert!(named > 5);
    }
}

//! The controller as a service: one of several replicas acts, all answer for their health.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use minke_core::clock::{Clock, SystemClock};
use minke_runners::controller::{Cluster, Controller, GitHubForges, KubeCluster, Metrics};
use minke_runners::forge::Secret;
use minke_runners::lease::{LeaseName, Terms, hold};
use minke_runners::observe::Observed;
use minke_runners::webhook::{JobNews, Journal, Receiver, ReceiverSettings};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::cmd::watch::connect::{connect, interrupted};
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};

/// News of jobs that wait to be decided on.
const NEWS: usize = 4096;
const LEASE: &str = "minke-runners";

/// The controller's flags.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The kubeconfig; otherwise $KUBECONFIG, ~/.kube/config, or the service account of the Pod that this runs in
    #[arg(long, value_name = "FILE", env = "MINKE_RUNNERS_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Only the RunnerSets of this namespace; those of all if not given
    #[arg(long, short, value_name = "NAME", env = "MINKE_RUNNERS_NAMESPACE")]
    namespace: Option<String>,
    /// Where to take GitHub's webhook deliveries; without it, jobs are found by polling alone
    #[arg(long, value_name = "ADDR", env = "MINKE_RUNNERS_WEBHOOK_LISTEN", requires = "webhook_secret_file")]
    webhook_listen: Option<SocketAddr>,
    /// The secret that deliveries are signed with
    #[arg(long, value_name = "FILE", env = "MINKE_RUNNERS_WEBHOOK_SECRET_FILE")]
    webhook_secret_file: Option<PathBuf>,
    /// Where deliveries are written down before GitHub is told that they are taken; what a crash loses otherwise, polls find
    #[arg(long, value_name = "DIR", env = "MINKE_RUNNERS_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Where to answer for health and metrics
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8082", env = "MINKE_RUNNERS_LISTEN")]
    listen: SocketAddr,
    /// A bearer token that may read the metrics; without one, only this machine may
    #[arg(long, value_name = "FILE", env = "MINKE_RUNNERS_METRICS_TOKEN_FILE")]
    metrics_token_file: Option<PathBuf>,
    /// How often GitHub's jobs are listed: what webhooks lose is found so late
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = durations::duration, env = "MINKE_RUNNERS_POLL")]
    poll: Duration,
    /// Act without asking other replicas
    #[arg(long, env = "MINKE_RUNNERS_NO_LEADER_ELECTION")]
    no_leader_election: bool,
    /// The namespace of the Lease; the kubeconfig's or service account's if not given
    #[arg(long, value_name = "NAME", env = "MINKE_RUNNERS_LEASE_NAMESPACE")]
    lease_namespace: Option<String>,
}

/// What stands in a file, without the line's end.
fn secret(path: &Path) -> Result<Secret, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|e| Failure::because(format!("can't read {}", path.display()), &e))?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Err(Failure::usage(format!("{} is empty; it must hold a secret", path.display())));
    }
    Ok(Secret::new(text))
}

async fn listen(what: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|e| Failure::because(format!("can't listen on {address} for {what}"), &e))
}

/// What the acting replica needs, again and again.
struct Acting {
    client: Client,
    namespace: Option<String>,
    metrics: Metrics,
    poll: Duration,
    webhook: Option<(SocketAddr, Secret)>,
    state_dir: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT.
pub(super) async fn run(args: &ServeArgs) -> Outcome {
    let connection = connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let metrics = Metrics::default();
    let webhook = match (&args.webhook_listen, &args.webhook_secret_file) {
        (Some(address), Some(file)) => Some((*address, secret(file)?)),
        _ => None,
    };
    let token = args.metrics_token_file.as_deref().map(secret).transpose()?;
    let health = listen("health and metrics", args.listen).await?;
    let (sender, leads) = watch::channel(args.no_leader_election);
    let observed = Observed { metrics: metrics.clone(), leads: leads.clone(), token };
    let name = LeaseName {
        namespace: args.lease_namespace.clone().unwrap_or_else(|| connection.namespace.clone()),
        name: LEASE.to_owned(),
        identity: identity(),
    };
    tracing::info!(health = %args.listen, webhook = ?args.webhook_listen, lease = ?name, "minke runners");
    let acting = Acting {
        client: connection.client.clone(),
        namespace: args.namespace.clone(),
        metrics,
        poll: args.poll.max(Duration::from_secs(5)),
        webhook,
        state_dir: args.state_dir.clone(),
    };
    let elect = async {
        if args.no_leader_election {
            // The sender stays: whoever waits for a change waits for ever.
            std::future::pending::<()>().await;
        }
        hold(connection.client, name, Terms::default(), Arc::new(SystemClock), sender).await;
    };
    tokio::select! {
        () = observed.serve(health) => Ok(Exit::Reached),
        () = elect => Ok(Exit::Reached),
        outcome = acting.follow(leads) => outcome,
        _ = interrupted() => Ok(Exit::Reached),
    }
}

/// A name that no other replica has: the Pod's, which is its host name, and the process.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}_{:x}", host.trim(), std::process::id(), SystemClock.now().as_nanosecond())
}

impl Acting {
    /// Acts whenever this replica leads.
    async fn follow(self, mut leads: watch::Receiver<bool>) -> Outcome {
        loop {
            // The sender lives as long as this.
            let _ = leads.wait_for(|leads| *leads).await;
            tracing::info!("this replica acts");
            self.metrics.leads(true);
            let ended = tokio::select! {
                failure = self.act() => Some(failure),
                _ = leads.wait_for(|leads| !*leads) => None,
            };
            self.metrics.leads(false);
            if let Some(failure) = ended {
                return Err(failure);
            }
            tracing::warn!("this replica does not act any more");
        }
    }

    /// Until it is dropped, or can't.
    async fn act(&self) -> Failure {
        match self.prepare().await {
            Ok((controller, known, heard, receiver)) => {
                tokio::select! {
                    () = controller.run(known, heard) => Failure::system("the controller has ended"),
                    () = receive(receiver) => Failure::system("the webhook receiver has ended"),
                }
            }
            Err(failure) => failure,
        }
    }

    async fn prepare(
        &self,
    ) -> Result<
        (Controller, Vec<(JobNews, Timestamp)>, mpsc::Receiver<JobNews>, Option<(Receiver, TcpListener)>),
        Failure,
    > {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let cluster: Arc<dyn Cluster> =
            Arc::new(KubeCluster::new(self.client.clone(), self.namespace.clone(), Arc::clone(&clock)));
        let forges = Arc::new(GitHubForges::new(Arc::clone(&cluster), Arc::clone(&clock)));
        let (news, heard) = mpsc::channel(NEWS);
        let (mut journal, mut known) = (None, Vec::new());
        if let Some(directory) = &self.state_dir {
            std::fs::create_dir_all(directory).map_err(|e| Failure::because("can't make the state directory", &e))?;
            let opened = Journal::open(&directory.join("webhook-journal"), clock.now());
            let (opened, before) = opened.map_err(|e| Failure::because("can't keep deliveries", &e))?;
            (journal, known) = (Some((opened, Arc::clone(&clock))), before);
        }
        let receiver = match &self.webhook {
            Some((address, secret)) => {
                let listener = listen("webhooks", *address).await?;
                let settings =
                    ReceiverSettings { secret: secret.clone(), news, journal, metrics: Some(self.metrics.clone()) };
                Some((Receiver::new(settings), listener))
            }
            None => None,
        };
        let metrics = self.metrics.clone();
        Ok((Controller { cluster, forges, clock, metrics, poll: self.poll }, known, heard, receiver))
    }
}

async fn receive(receiver: Option<(Receiver, TcpListener)>) {
    match receiver {
        Some((receiver, listener)) => receiver.serve(listener).await,
        None => std::future::pending().await,
    }
}

//! `minke watch`: waits for Pods of any cluster, and says at once why one will never work.
//!
//! [`wanted`] decides when it is over, [`tell`] turns reports into lines and JSON, [`screen`] shows them, [`logs`] streams
//! containers, [`connect`] finds the cluster. Judging is `minke_watch`.

pub(crate) mod connect;
mod logs;
mod options;
mod screen;
mod tell;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use minke_core::clock::{Clock, SystemClock};
use minke_core::judgement::{Failure as Verdict, Policy};
use minke_core::manifest::{Origin, Validate};
use minke_kubelet::source::{Source, load};
use minke_watch::{Change, Everything, KubeCluster, Observer, Report, Scope, Settings, Subscription, Target, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::logs::Logs;
use self::options::BudgetOption;
use self::screen::Screen;
use self::wanted::{Board, State, Wanted, exit_of};
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::diagnostics;

/// Wait for Pods of any cluster, and say at once why one will never work
///
/// Looks at what the cluster tells of the Pods (status, events, nodes) and ends when all are as wanted, or when one can
/// never be: with the first cause, whose matter it is, and what to do. Causes, budgets and the JSON are in docs/watch.md.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 as wanted, 1 the program failed, 2 bad usage, 3 timeout, 4 refused by the node, \
                        5 infrastructure, 6 the Pod's configuration, 7 something outside of the cluster, 8 cancelled."
)]
pub(crate) struct WatchArgs {
    /// Pods: NAME, pod/NAME or NAMESPACE/NAME
    #[arg(value_name = "POD", required_unless_present_any = ["selector", "files"])]
    pods: Vec<String>,
    /// All Pods with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with_all = ["pods", "files"])]
    selector: Option<String>,
    /// The Pods of manifests: a file, a directory, an http(s) URL, or - for standard input
    #[arg(short, long = "filename", value_name = "SOURCE")]
    files: Vec<String>,
    /// The namespace, where the Pod does not name one; the kubeconfig's otherwise
    #[arg(short, long)]
    namespace: Option<String>,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t = Wanted::Ready)]
    wanted: Wanted,
    /// Give up after this time (30s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = durations::duration)]
    timeout: Option<Duration>,
    /// How long a trouble may last: NAME=DURATION or NAME=never, for example pull=0,schedule=10m
    #[arg(long, value_name = "BUDGET", value_delimiter = ',', value_parser = BudgetOption::parse)]
    budget: Vec<BudgetOption>,
    /// Nothing may heal by itself: every trouble is the end
    #[arg(long)]
    fail_fast: bool,
    /// A container whose end does not fail its Pod
    #[arg(long, value_name = "CONTAINER")]
    service: Vec<String>,
    /// Show the logs of all containers, and at a failure the last lines of the one to blame
    #[arg(long)]
    logs: bool,
    /// How to print: one line a change, or one JSON object a change
    #[arg(short, long, value_enum, default_value_t = tell::Format::Text)]
    output: tell::Format,
    /// Only errors
    #[arg(short, long)]
    quiet: bool,
    /// The kubeconfig; otherwise $KUBECONFIG, ~/.kube/config, or the service account of the Pod that this runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
}

impl WatchArgs {
    fn settings(&self) -> Settings {
        let mut budgets = minke_core::judgement::Budgets::default();
        if self.fail_fast {
            budgets = budgets.fail_fast();
        }
        let budgets = self.budget.iter().fold(budgets, |budgets, option| budgets.with(option.budget, option.limit));
        let policy = Policy { budgets, services: self.service.iter().cloned().collect() };
        let nodes_every = Some(Duration::from_secs(10));
        Settings { policy, nodes_every, follow_all: self.selector.is_some(), ..Settings::default() }
    }

    /// Namespace and name of each Pod that was named or stands in a manifest.
    async fn targets(&self, namespace: &str) -> Result<Vec<(String, String)>, Failure> {
        let mut targets: Vec<(String, String)> = Vec::new();
        for text in &self.pods {
            targets.push(options::pod(text, namespace)?);
        }
        let sources: Vec<Source> = self.files.iter().map(|text| super::run::source(text)).collect();
        if !sources.is_empty() {
            let manifests = load(&sources, Validate::Warn).await.map_err(|error| diagnostics::fail(&error))?;
            for group in &manifests.groups {
                if group.origin != Origin::Pod {
                    let message = format!("the cluster names the pods of {} {}", group.origin, group.name);
                    return Err(Failure::usage(message).hint("watch them by their labels: -l app=…"));
                }
                for pod in &group.pods {
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    targets.push((pod.metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned()), name));
                }
            }
        }
        targets.sort();
        targets.dedup();
        if targets.is_empty() && self.selector.is_none() {
            return Err(Failure::usage("there is no pod in the manifests"));
        }
        Ok(targets)
    }
}

/// All watchers of one command, as one stream of reports.
struct Eyes {
    _watchers: Vec<Watcher>,
    reports: mpsc::UnboundedReceiver<Report>,
}

impl Eyes {
    fn open(cluster: &Arc<KubeCluster>, args: &WatchArgs, namespace: &str, targets: &[(String, String)]) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let mut watchers = Vec::new();
        if let Some(selector) = &args.selector {
            let scope = Scope::labelled(namespace, selector.clone());
            let (watcher, everything) = Watcher::start_all(Arc::<KubeCluster>::clone(cluster), scope, args.settings());
            watchers.push(watcher);
            tokio::spawn(pass_all(everything, namespace.to_owned(), sender));
            return Self { _watchers: watchers, reports };
        }
        let mut by_namespace: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (namespace, name) in targets {
            by_namespace.entry(namespace).or_default().push(name);
        }
        for (namespace, names) in by_namespace {
            let scope = match names.as_slice() {
                [name] => Scope::one(namespace, name),
                _ => Scope::namespace(namespace),
            };
            let watcher = Watcher::start(Arc::<KubeCluster>::clone(cluster), scope, args.settings());
            for name in names {
                tokio::spawn(pass_on(watcher.subscribe(Target::named(namespace, name), 1), sender.clone()));
            }
            watchers.push(watcher);
        }
        Self { _watchers: watchers, reports }
    }
}

async fn pass_on(mut subscription: Subscription, reports: mpsc::UnboundedSender<Report>) {
    while reports.send(subscription.changed().await).is_ok() {}
}

/// Of a selector, what is seen; and once, that nothing can be.
async fn pass_all(mut everything: Everything, namespace: String, reports: mpsc::UnboundedSender<Report>) {
    while let Some(change) = everything.next().await {
        let report = match change {
            Change::Pod(report) => *report,
            Change::Observer(observer) => {
                Report { observer, ..Report::unseen(namespace.clone(), "", 1, SystemClock.now()) }
            }
        };
        if reports.send(report).is_err() {
            return;
        }
    }
}

/// Watches.
pub(crate) async fn run(args: &WatchArgs) -> Outcome {
    let begun = Instant::now();
    let connection = connect::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| connection.namespace.clone());
    let targets = args.targets(&namespace).await?;
    let cluster = Arc::new(KubeCluster::new(connection.client.clone()));
    let mut eyes = Eyes::open(&cluster, args, &namespace, &targets);
    let mut board = Board::new(args.wanted, targets, args.selector.is_some());
    let mut screen = Screen::new(args.output, args.quiet, begun);
    let mut logs = Logs::new(connection.client, args.logs);
    let mut interrupted = Box::pin(connect::interrupted());
    let deadline = args.timeout.map(|timeout| begun + timeout);

    // All arms are cancel-safe: the channels keep what is not taken, and signals are kept by their streams.
    let state = loop {
        let alarm = async {
            match deadline {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(report) = eyes.reports.recv() => {
                if let Some(failure) = cannot_watch(&report, args) {
                    screen.clear();
                    return Err(failure);
                }
                screen.report(&report)?;
                logs.follow(&report);
                match board.take(report) {
                    State::Waiting => {}
                    State::Reached => break Ok(()),
                    State::Failed(report, failure) => break Err(Some((report, failure))),
                }
            }
            line = logs.next() => screen.line(&line)?,
            () = alarm => break Err(None),
            signal = &mut interrupted => {
                screen.clear();
                return Ok(Exit::Interrupted(signal));
            }
        }
    };
    // What containers wrote last is on its way.
    while let Some(line) = logs.rest().await {
        screen.line(&line)?;
    }
    screen.clear();
    match state {
        Ok(()) => Ok(Exit::Reached),
        Err(None) => {
            let late = board.unfinished().join(", ");
            let failure =
                Failure { exit: Exit::Timeout, message: format!("not {} in time: {late}", args.wanted), hint: None };
            Err(failure)
        }
        Err(Some((report, failure))) => {
            for line in logs.last_words(&report, &failure).await {
                screen.line(&line)?;
            }
            Err(blame(&report, &failure))
        }
    }
}

/// A cluster that can't be watched is told at once: waiting would change nothing.
fn cannot_watch(report: &Report, args: &WatchArgs) -> Option<Failure> {
    let hint = "give this user the verbs get, list and watch on pods in the namespace";
    match &report.observer {
        Observer::Blind(why) => Some(Failure::system(format!("pods can't be watched: {why}")).hint(hint)),
        Observer::Polling(why) if args.selector.is_some() => {
            Some(Failure::system(format!("pods can't be found by labels: {why}")).hint(hint))
        }
        Observer::Starting | Observer::Current | Observer::Stale | Observer::Polling(_) => None,
    }
}

fn blame(report: &Report, failure: &Verdict) -> Failure {
    let message = format!("{}/{}: {failure} [{}]", report.name.0, report.name.1, failure.cause.category());
    Failure { exit: exit_of(failure.cause), message, hint: Some(failure.cause.remedy().to_owned()) }
}

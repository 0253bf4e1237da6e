//! `minke run`: from manifests to Pods that run, or have run.
//!
//! [`session`] decides, [`drive`] performs, [`view`] shows; [`compat`] is the kubelet's removed run-once mode.

mod compat;
mod drive;
mod session;
mod view;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use minke_core::clock::{Clock, SystemClock};
use minke_core::manifest::{Manifests, Validate};
use minke_kubelet::source::{Source, load};

use self::session::{Session, Wish};
use crate::client::Client;
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};
use crate::goal::{self, Goal, Tracked, Until};
use crate::output::result::{ContainerResult, PodResult, run_result};
use crate::output::{Format, diagnostics, document, stdout, table};
use crate::timeline::TimelineFile;

/// Run the Pods of manifests
///
/// Understands Pod, Job, Deployment, ConfigMap and Secret, as YAML or JSON. Bad input starts nothing. Pods that were
/// started stay when the command ends, supervised by a background agent; the foreground stops what it started.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A file, a directory, an http(s) URL, or - for standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// What to wait for
    #[arg(long, value_enum, default_value_t = Until::Running)]
    until: Until,
    /// Give up waiting after this time (30s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = durations::duration)]
    timeout: Option<Duration>,
    /// What to do about unknown and duplicate fields
    #[arg(long, value_enum, default_value_t = Strictness::Strict)]
    validate: Strictness,
    /// Check the manifests and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Stay and show the logs; an interrupt stops what was started
    #[arg(long, short)]
    foreground: bool,
    /// End with the exit code of this container, once it has ended
    #[arg(long, value_name = "POD/CONTAINER")]
    exit_code_from: Option<String>,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// No progress and no result, only errors
    #[arg(short, long)]
    quiet: bool,
    /// Write when everything happened to this file; .html is a page, .trace.json opens in Perfetto, .json is for programs
    #[arg(long, value_name = "FILE")]
    timeline: Option<TimelineFile>,
    /// Do not show logs
    #[arg(long)]
    no_logs: bool,
    /// Behave as the kubelet's removed --runonce mode did
    #[arg(long, conflicts_with_all = ["until", "timeout", "foreground", "exit_code_from", "dry_run", "timeline"])]
    kubelet_compat: bool,
}

/// `--validate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strictness {
    /// They are errors
    Strict,
    /// They are warnings
    Warn,
    /// Say nothing
    Ignore,
}

impl From<Strictness> for Validate {
    fn from(strictness: Strictness) -> Self {
        match strictness {
            Strictness::Strict => Self::Strict,
            Strictness::Warn => Self::Warn,
            Strictness::Ignore => Self::Ignore,
        }
    }
}

/// Runs manifests.
pub(crate) async fn run(args: &RunArgs, client: &Client) -> Outcome {
    let begun = tokio::time::Instant::now();
    let sources: Vec<Source> = args.sources.iter().map(|text| source(text)).collect();
    if args.kubelet_compat {
        return compat::run(&sources, args.validate.into(), client.place()).await;
    }
    let manifests = load(&sources, args.validate.into()).await.map_err(|error| diagnostics::fail(&error))?;
    if !args.quiet {
        diagnostics::print(&manifests.warnings);
    }
    let code_from = args.exit_code_from.as_deref().map(|text| CodeFrom::find(text, &manifests)).transpose()?;
    if args.until == Until::Completed {
        let pods: Vec<_> = manifests.pods().cloned().collect();
        if let [first, ..] = goal::never_completing(&pods).as_slice() {
            return Err(Failure::usage(format!("pod {first} is always restarted and never completes"))
                .hint("use --until running, or set restartPolicy to OnFailure or Never"));
        }
    }
    if args.dry_run {
        return dry_run(&manifests, args.quiet);
    }

    let wish = Wish { until: args.until, foreground: args.foreground };
    let session = Session::new(&manifests.groups, wish, SystemClock.now());
    let logs = !args.no_logs && (args.foreground || args.until == Until::Completed);
    let view = view::View::new(client.place().logs.clone(), args.quiet, logs, args.output.is_document());
    let deadline = args.timeout.map(|timeout| begun + timeout);
    let (session, exit) = drive::drive(client, session, view, manifests.objects, deadline).await?;

    if let Some(file) = &args.timeline {
        timeline(file, client, &session).await?;
    }
    let exit = match &code_from {
        Some(from) => from.exit(session.pods()).filter(|_| code_counts(exit)).unwrap_or(exit),
        None => exit,
    };
    let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let result = run_result(args.until, exit, session.goal(), duration, session.pods());
    let text = match args.output {
        Format::Json => document(&result, false)?,
        Format::Yaml => document(&result, true)?,
        Format::Table | Format::Wide if args.quiet => String::new(),
        Format::Table => table::of_containers(&result.pods),
        Format::Wide => table::of_pods(&result.pods, true, SystemClock.now()),
    };
    stdout::print(&text)?;
    if let Goal::Failed(blocked) = session.goal() {
        for blocked in blocked {
            eprintln!("error: {blocked}\n  hint: {}", blocked.why.cause.remedy());
        }
    }
    if exit == Exit::Timeout {
        eprintln!("error: not {} in time; what was started stays: `minke ps` shows it", goal_words(args.until));
    }
    Ok(exit)
}

/// Writes when everything happened to the Pods of this run, as far as its agent knows.
async fn timeline(file: &TimelineFile, client: &Client, session: &Session) -> Result<(), Failure> {
    let uids: Vec<_> = session.pods().iter().map(|tracked| tracked.key.uid.clone()).collect();
    let timelines = client.ask(async |connection| connection.timelines(Some(uids.clone())).await).await?;
    file.write(&timelines)
}

/// A directory of manifests, or whatever else the text names.
pub(super) fn source(text: &str) -> Source {
    text.parse().unwrap_or_else(|_: std::convert::Infallible| Source::Path(PathBuf::from(text)))
}

fn goal_words(until: Until) -> &'static str {
    match until {
        Until::Running => "all running",
        Until::Completed => "all completed",
    }
}

fn dry_run(manifests: &Manifests, quiet: bool) -> Outcome {
    if !quiet {
        let names: Vec<String> = manifests
            .pods()
            .filter_map(|pod| minke_core::identity::PodKey::of(pod).ok())
            .map(|key| format!("{key}\n"))
            .collect();
        stdout::print(&names.concat())?;
    }
    Ok(Exit::Reached)
}

/// Whether the named container's own code may stand for the result.
fn code_counts(exit: Exit) -> bool {
    match exit {
        Exit::Reached | Exit::ContainerFailed => true,
        Exit::Unfit
        | Exit::Usage
        | Exit::Timeout
        | Exit::Rejected
        | Exit::System
        | Exit::Configuration
        | Exit::External
        | Exit::Cancelled
        | Exit::Interrupted(_)
        | Exit::Container(_) => false,
    }
}

/// The container of `--exit-code-from`.
#[derive(Debug)]
struct CodeFrom {
    pod: String,
    container: String,
}

impl CodeFrom {
    fn find(text: &str, manifests: &Manifests) -> Result<Self, Failure> {
        let (pod, container) = text.rsplit_once('/').ok_or_else(|| {
            Failure::usage(format!("--exit-code-from {text:?} does not name a container: write POD/CONTAINER"))
        })?;
        let full = if pod.contains('/') { pod.to_owned() } else { format!("default/{pod}") };
        let named = manifests
            .pods()
            .filter(|p| minke_core::identity::PodKey::of(p).is_ok_and(|k| k.full_name() == full || *k.name == *pod));
        let mut found = named.filter(|p| {
            let spec = p.spec.as_ref();
            let init = spec.into_iter().flat_map(|s| s.init_containers.iter().flatten());
            init.chain(spec.into_iter().flat_map(|s| &s.containers)).any(|c| c.name == container)
        });
        match (found.next(), found.next()) {
            (Some(pod), None) => {
                let key = minke_core::identity::PodKey::of(pod).map_err(|e| Failure::from_error(&e))?;
                Ok(Self { pod: key.full_name(), container: container.to_owned() })
            }
            (None, _) => Err(Failure::usage(format!("--exit-code-from: the manifests have no container {text:?}"))),
            (Some(_), Some(_)) => {
                Err(Failure::usage(format!("--exit-code-from: several pods have a container {text:?}"))
                    .hint("write NAMESPACE/POD/CONTAINER"))
            }
        }
    }

    /// The container's code, if it has ended.
    fn exit(&self, pods: &[Tracked]) -> Option<Exit> {
        let pod = pods.iter().find(|p| p.key.full_name() == self.pod)?;
        let result = PodResult::of_tracked(pod);
        let container: &ContainerResult = result.containers.iter().find(|c| c.name == self.container)?;
        let code = container.exit_code.filter(|_| container.state == "Terminated")?;
        Some(match u8::try_from(code) {
            Ok(0) => Exit::Reached,
            Ok(code) => Exit::Container(code),
            Err(_) => Exit::ContainerFailed,
        })
    }
}

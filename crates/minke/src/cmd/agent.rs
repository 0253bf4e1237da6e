//! `minke agent`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use minke_kubelet::housekeeping::ImageGcPolicy;
use minke_kubelet::source::Source;
use minke_kubelet::{RelistMode, StaticSource};

use super::node::NodeArgs;
use crate::agent::{self, AgentError, Alone, Mode, Overrides, Readiness, Ready, Settings};
use crate::client::Client;
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::stdout;

/// Run the agent that supervises Pods, in the foreground
///
/// Commands start one in the background when they need it; run it yourself to have it as a service. It can end and
/// start at any time: Pods keep running meanwhile, and the next agent adopts them.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Take the place of the agent that runs, for example after an upgrade; Pods keep running meanwhile
    #[arg(long)]
    replace: bool,
    /// Run it in the background instead, until its last Pod has ended
    #[arg(long)]
    background: bool,
    /// How changes in the runtime are noticed
    #[arg(long, value_enum, default_value_t = Relist::Evented, value_name = "MODE")]
    relist: Relist,
    /// Remove images that nothing uses when this much of their disk is used, in percent; 100: never [default: 85, and 100
    /// for an agent that a command starts by itself]
    #[arg(long, value_name = "PERCENT")]
    image_gc_high_threshold: Option<u8>,
    /// And go on until no more than this much is used, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    image_gc_low_threshold: u8,
    /// Leave an image at least this long after it was seen first (2m, 12h)
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = durations::duration)]
    image_gc_min_age: Duration,
    #[command(flatten)]
    node: NodeArgs,
    /// Run the Pods of the manifests in this directory (or of this one manifest), as it has them at any time; repeatable
    #[arg(long, value_name = "PATH", conflicts_with_all = ["background", "on_demand"])]
    manifests: Vec<PathBuf>,
    /// Run the Pods of the manifest at this http:// or https:// address, asked every 20 s; repeatable
    #[arg(long, value_name = "URL", conflicts_with_all = ["background", "on_demand"])]
    manifest_url: Vec<String>,
    /// Started by a command: say on standard output when ready, end when not needed
    #[arg(long, hide = true)]
    pub(crate) on_demand: bool,
}

/// No disk is so full that images are removed: on a machine of one's own they may have been imported by hand.
pub(super) const NEVER: u8 = 100;

/// How changes in the runtime are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Relist {
    /// A full relist each second; events are not read
    Generic,
    /// A full relist each second, and events
    Hinted,
    /// Events; full relists slow down while their stream is healthy
    Evented,
}

impl From<Relist> for RelistMode {
    fn from(relist: Relist) -> Self {
        match relist {
            Relist::Generic => Self::Generic,
            Relist::Hinted => Self::Hinted,
            Relist::Evented => Self::Evented,
        }
    }
}

impl AgentArgs {
    /// The settings as arguments of another agent.
    fn as_arguments(&self) -> Vec<String> {
        let mut arguments = self.node.as_arguments();
        if let Some(relist) = self.relist.to_possible_value() {
            arguments.push(format!("--relist={}", relist.get_name()));
        }
        let high = self.image_gc_high_threshold.unwrap_or(ImageGcPolicy::default().high_percent);
        arguments.push(format!("--image-gc-high-threshold={high}"));
        arguments.push(format!("--image-gc-low-threshold={}", self.image_gc_low_threshold));
        arguments.push(format!("--image-gc-min-age={}ms", self.image_gc_min_age.as_millis()));
        arguments
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let (node, eviction) = (self.node.options()?, self.node.eviction(self.on_demand)?);
        let (image_gc, static_sources) = (self.image_gc()?, self.static_sources()?);
        let overrides = Overrides::default();
        Ok(Settings { relist: self.relist.into(), node, eviction, image_gc, static_sources, overrides })
    }

    fn image_gc(&self) -> Result<ImageGcPolicy, Failure> {
        // On a machine of one's own an image that was imported by hand can't be had again by a pull.
        let default = if self.on_demand { NEVER } else { ImageGcPolicy::default().high_percent };
        let policy = ImageGcPolicy {
            high_percent: self.image_gc_high_threshold.unwrap_or(default),
            low_percent: self.image_gc_low_threshold,
            min_age: self.image_gc_min_age,
            ..ImageGcPolicy::default()
        };
        policy.check().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(policy)
    }

    fn static_sources(&self) -> Result<Vec<StaticSource>, Failure> {
        let path = |path: &PathBuf| {
            let absolute = std::path::absolute(path);
            absolute.map(StaticSource::Path).map_err(|e| Failure::usage(format!("can't use {}: {e}", path.display())))
        };
        let url = |url: &String| match url.parse::<Source>() {
            Ok(Source::Url(url)) => Ok(StaticSource::Url(url)),
            Ok(Source::Path(_) | Source::Stdin) | Err(_) => {
                Err(Failure::usage(format!("--manifest-url {url} is no http:// or https:// address"))
                    .hint("paths are given with --manifests"))
            }
        };
        self.manifests.iter().map(path).chain(self.manifest_url.iter().map(url)).collect()
    }
}

/// Runs the agent until it ends.
pub(crate) async fn run(args: &AgentArgs, client: &Client) -> Outcome {
    let settings = args.settings();
    if args.on_demand {
        return on_demand(client, settings).await;
    }
    let settings = settings?;
    if args.replace {
        end_running(client).await?;
    }
    if args.background {
        drop(client.with_agent_arguments(args.as_arguments()).connect().await?);
        stdout::print("the agent runs in the background\n")?;
        return Ok(Exit::Reached);
    }
    // The agent that was told to end lets go of its lock a moment after its socket.
    let mode = if args.replace { Mode::Replacement } else { Mode::Service };
    agent::run(client.place(), mode, &settings, &mut Readiness::Nobody, &mut Alone)
        .await
        .map_err(|error| failure(&error))?;
    Ok(Exit::Reached)
}

/// Ends the agent that runs, if there is one, for another one to take its place.
pub(crate) async fn end_running(client: &Client) -> Result<(), Failure> {
    let Some(connection) = client.greet_running().await? else { return Ok(()) };
    let agent = connection.agent();
    // The next one would refuse, and nobody would supervise the Pods.
    if let Some(has) = client.other_runtime(agent)
        && client.may_have_pods()
    {
        return Err(Failure::usage(format!("the agent that runs has pods on the container runtime {has}"))
            .hint("remove them first (`minke rm --all --force` without --runtime), or use another --state-dir"));
    }
    tracing::info!(version = agent.version, pid = agent.pid, "ending the agent that runs");
    connection.shutdown().await?;
    Ok(())
}

async fn on_demand(client: &Client, settings: Result<Settings, Failure>) -> Outcome {
    // Its own session: a terminal that goes away, or an interrupt typed there, is not meant for the agent.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "the agent leads a session already");
    }
    let mut ready = Readiness::Stdout;
    let ended = match settings {
        Ok(settings) => {
            let ran = agent::run(client.place(), Mode::OnDemand, &settings, &mut ready, &mut Alone).await;
            ran.map_err(|error| failure(&error))
        }
        Err(failure) => Err(failure),
    };
    match ended {
        Ok(()) => Ok(Exit::Reached),
        Err(failure) => {
            ready.tell(&Ready::Failed { message: failure.message.clone(), hint: failure.hint.clone() });
            Err(failure)
        }
    }
}

pub(crate) fn failure(error: &AgentError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        AgentError::Companion(failure) => failure.clone(),
        AgentError::Lock(_) => failure.hint("`minke agent --replace` takes its place"),
        AgentError::Down => failure.hint("`minke up` begins it again, with the pods that it had"),
        AgentError::Core(_)
        | AgentError::Directory { .. }
        | AgentError::Revive(_)
        | AgentError::Listen { .. }
        | AgentError::Signals(_) => failure,
    }
}

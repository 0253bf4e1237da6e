//! The command line: parses it, sets up logging and the async runtime, and hands over to the subcommand.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::client::Client;
use crate::cmd;
use crate::exit::{Failure, Outcome};
use crate::logging;
use crate::place::{Place, PlaceArgs};
use crate::spans::{OtlpArgs, Spans};

/// Run Kubernetes Pods on one machine, with nothing else installed
#[derive(Debug, Parser)]
#[command(name = "minke", version, max_term_width = 110, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 goal reached, 1 a container failed, 2 bad usage or manifest, 3 timeout, \
                        4 rejected, 5 runtime or system error, 128+n interrupted by signal n.")]
pub(crate) struct Cli {
    #[command(flatten)]
    place: PlaceArgs,
    /// What to log on standard error, as a level (error, warn, info, debug, trace) or a tracing filter
    #[arg(long, global = true, value_name = "LEVEL", env = "MINKE_LOG", help_heading = "Instance")]
    log_level: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(cmd::run::RunArgs),
    Ps(cmd::ps::PsArgs),
    Logs(cmd::logs::LogsArgs),
    Exec(cmd::exec::ExecArgs),
    Attach(cmd::attach::AttachArgs),
    PortForward(cmd::port_forward::PortForwardArgs),
    Stop(cmd::stop::StopArgs),
    Rm(cmd::rm::RmArgs),
    Inspect(cmd::inspect::InspectArgs),
    Top(cmd::top::TopArgs),
    Metrics(cmd::metrics::MetricsArgs),
    Timeline(cmd::timeline::TimelineArgs),
    Watch(cmd::watch::WatchArgs),
    /// Pull, import, list and remove images
    #[command(subcommand)]
    Image(cmd::image::ImageCommand),
    Agent(cmd::agent::AgentArgs),
    Api(cmd::api::ApiArgs),
    Node(Box<cmd::node::serve::NodeCommand>),
    Up(Box<cmd::up::UpArgs>),
    Down(cmd::down::DownArgs),
    Runners(Box<cmd::runners::RunnersArgs>),
    Doctor(cmd::doctor::DoctorArgs),
    Completion(cmd::completion::CompletionArgs),
    /// Say which version this is, and which the agent has
    Version,
}

impl Command {
    /// Whether this process goes on and serves: its log is read afterwards, and one long step must not keep others waiting.
    fn serves(&self) -> bool {
        match self {
            Self::Agent(_) | Self::Api(_) | Self::Node(_) => true,
            Self::Up(args) => args.serves(),
            Self::Runners(args) => args.serves(),
            Self::Run(_)
            | Self::Ps(_)
            | Self::Logs(_)
            | Self::Exec(_)
            | Self::Attach(_)
            | Self::PortForward(_)
            | Self::Stop(_)
            | Self::Rm(_)
            | Self::Inspect(_)
            | Self::Top(_)
            | Self::Metrics(_)
            | Self::Timeline(_)
            | Self::Watch(_)
            | Self::Image(_)
            | Self::Down(_)
            | Self::Doctor(_)
            | Self::Completion(_)
            | Self::Version => false,
        }
    }
}

impl Command {
    /// Where this process sends traces, if it does work on Pods that are told by them.
    fn traces(&self) -> Option<&OtlpArgs> {
        if let Self::Node(args) = self {
            return Some(&args.otlp);
        }
        if let Self::Up(args) = self
            && args.serves()
        {
            return Some(&args.otlp);
        }
        None
    }
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse_from(arguments(std::env::args_os()));
    let outcome = start(&cli);
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit
        }
    };
    exit.into()
}

/// As a plugin of kubectl (`kubectl minke-watch`) the program is called `kubectl-minke_watch`, and means `minke watch`.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    let called = arguments.first().and_then(|program| Path::new(program).file_name());
    if called.is_some_and(|name| name == "kubectl-minke_watch") {
        arguments.insert(1, "watch".into());
    }
    arguments
}

fn start(cli: &Cli) -> Outcome {
    let level = if cli.command.serves() { "info" } else { "warn" };
    let endpoint = cli.command.traces().map(OtlpArgs::endpoint).transpose()?.flatten();
    let spans = endpoint.map(Spans::to);
    let layer = spans.as_ref().map(Spans::layer);
    logging::init(cli.log_level.as_deref().unwrap_or(level), layer).map_err(Failure::usage)?;
    let place = Place::resolve(&cli.place).map_err(|e| Failure::usage(minke_core::runtime::error_chain(&e)))?;
    // ring is the only provider compiled in; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = if cli.command.serves() {
        // Two threads, so that one long step never keeps the other Pods waiting; more would only cost memory.
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
    } else {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    };
    let runtime = runtime.map_err(|e| Failure::system(format!("can't start the async runtime: {e}")))?;
    let client = Client::new(place, cli.log_level.as_deref().unwrap_or("info"));
    let outcome = runtime.block_on(async {
        let exporting = spans.map(Spans::export).transpose()?;
        let outcome = dispatch(&cli.command, &client).await;
        if let Some(exporting) = exporting {
            exporting.end().await;
        }
        outcome
    });
    // A thread that waits for a lock or for standard input must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(command: &Command, client: &Client) -> Outcome {
    match command {
        Command::Run(args) => cmd::run::run(args, client).await,
        Command::Ps(args) => cmd::ps::run(args, client).await,
        Command::Logs(args) => cmd::logs::run(args, client).await,
        Command::Exec(args) => cmd::exec::run(args, client).await,
        Command::Attach(args) => cmd::attach::run(args, client).await,
        Command::PortForward(args) => cmd::port_forward::run(args, client).await,
        Command::Stop(args) => cmd::stop::run(args, client).await,
        Command::Rm(args) => cmd::rm::run(args, client).await,
        Command::Inspect(args) => cmd::inspect::run(args, client).await,
        Command::Top(args) => cmd::top::run(args, client).await,
        Command::Metrics(args) => cmd::metrics::run(args, client).await,
        Command::Timeline(args) => cmd::timeline::run(args, client).await,
        Command::Watch(args) => cmd::watch::run(args).await,
        Command::Image(command) => cmd::image::run(command, client).await,
        Command::Agent(args) => cmd::agent::run(args, client).await,
        Command::Api(args) => cmd::api::run(args).await,
        Command::Node(args) => cmd::node::serve::run(args, client).await,
        Command::Up(args) => cmd::up::run(args, client).await,
        Command::Down(args) => cmd::down::run(args, client).await,
        Command::Runners(args) => cmd::runners::run(args, client).await,
        Command::Doctor(args) => cmd::doctor::run(args, client).await,
        Command::Completion(args) => cmd::completion::run(args),
        Command::Version => cmd::version::run(client).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_mistakes_end_with_2() {
        for arguments in [
            &["minke", "run"][..],
            &["minke", "run", "x", "--until", "never"],
            &["minke", "run", "x", "--timeout", "soon"],
            &["minke", "run", "x", "--kubelet-compat", "--foreground"],
            &["minke", "run", "x", "--timeline", "picture.png"],
            &["minke", "stop"],
            &["minke", "rm", "web", "--all"],
            &["minke", "logs", "web", "--previous", "--follow"],
            &["minke", "exec", "web"],
            &["minke", "exec", "web", "ls"],
            &["minke", "port-forward", "web"],
            &["minke", "port-forward", "web", "http"],
            &["minke", "attach"],
            &["minke", "watch"],
            &["minke", "watch", "web", "--for", "never"],
            &["minke", "watch", "web", "--budget", "nope=1s"],
            &["minke", "watch", "web", "-l", "app=web"],
            &["minke", "runners", "--webhook-listen", "127.0.0.1:0"],
            &["minke", "runners", "plan"],
            &["minke", "runners", "simulate", "x.json", "--max", "many"],
            &["minke", "nope"],
        ] {
            let error = Cli::try_parse_from(arguments).unwrap_err();
            assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{arguments:?}");
        }
    }

    #[test]
    fn as_a_plugin_of_kubectl_it_watches() {
        let given = |program: &str| arguments([program.into(), "web".into()].into_iter());
        assert_eq!(given("/usr/local/bin/kubectl-minke_watch"), ["/usr/local/bin/kubectl-minke_watch", "watch", "web"]);
        assert_eq!(given("/usr/local/bin/minke"), ["/usr/local/bin/minke", "web"]);
        assert!(Cli::try_parse_from(given("kubectl-minke_watch")).is_ok());
    }

    #[test]
    fn the_instance_can_be_named_before_or_after_the_subcommand() {
        for arguments in [["minke", "--state-dir", "/s", "ps"], ["minke", "ps", "--state-dir", "/s"]] {
            let cli = Cli::try_parse_from(arguments).unwrap();
            assert_eq!(cli.place.state_dir.unwrap(), Path::new("/s"));
        }
    }
}

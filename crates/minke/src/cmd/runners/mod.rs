//! `minke runners`: pools of ephemeral CI runners, and what they would do.

mod demo;
mod plan;
mod serve;
mod simulate;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::exit::Outcome;

/// Keep the right number of ephemeral CI runners, on any Kubernetes cluster
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Without a subcommand it is the controller of the cluster's RunnerSets, until it is told to end. \
                        packaging/runners has the kind, the roles and a Deployment."
)]
pub(crate) struct RunnersArgs {
    #[command(subcommand)]
    command: Option<RunnersCommand>,
    /// The same as the subcommand demo
    #[arg(long, exclusive = true)]
    demo: bool,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum RunnersCommand {
    Demo(demo::DemoArgs),
    Plan(plan::PlanArgs),
    Simulate(simulate::SimulateArgs),
    /// Print the definition of the kind RunnerSet
    Crd,
}

impl RunnersArgs {
    /// Whether this process goes on and serves.
    pub(crate) fn serves(&self) -> bool {
        self.command.is_none() && !self.demo
    }
}

pub(crate) async fn run(args: &RunnersArgs, client: &Client) -> Outcome {
    match &args.command {
        None if args.demo => demo::run(&demo::DemoArgs::default(), client).await,
        None => serve::run(&args.serve).await,
        Some(RunnersCommand::Demo(args)) => demo::run(args, client).await,
        Some(RunnersCommand::Plan(args)) => plan::run(args).await,
        Some(RunnersCommand::Simulate(args)) => simulate::run(args),
        Some(RunnersCommand::Crd) => {
            crate::output::stdout::print(&minke_runners::set::manifest())?;
            Ok(crate::exit::Exit::Reached)
        }
    }
}

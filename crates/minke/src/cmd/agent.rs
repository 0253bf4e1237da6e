//! `minke agent`.

use clap::Args;

use crate::agent::{self, AgentError, Mode, Readiness, Ready};
use crate::client::Client;
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
    /// Started by a command: say on standard output when ready, end when not needed
    #[arg(long, hide = true)]
    pub(crate) on_demand: bool,
}

/// Runs the agent until it ends.
pub(crate) async fn run(args: &AgentArgs, client: &Client) -> Outcome {
    if args.on_demand {
        return on_demand(client).await;
    }
    if args.replace
        && let Some((connection, agent)) = client.greet_running().await?
    {
        tracing::info!(version = agent.version, pid = agent.pid, "ending the agent that runs");
        connection.shutdown().await?;
    }
    if args.background {
        drop(client.connect().await?);
        stdout::print("the agent runs in the background\n")?;
        return Ok(Exit::Reached);
    }
    // The agent that was told to end lets go of its lock a moment after its socket.
    let mode = if args.replace { Mode::Replacement } else { Mode::Service };
    agent::run(client.place(), mode, &mut Readiness::Nobody).await.map_err(|error| failure(&error))?;
    Ok(Exit::Reached)
}

async fn on_demand(client: &Client) -> Outcome {
    // Its own session: a terminal that goes away, or an interrupt typed there, is not meant for the agent.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "the agent leads a session already");
    }
    let mut ready = Readiness::Stdout;
    match agent::run(client.place(), Mode::OnDemand, &mut ready).await {
        Ok(()) => Ok(Exit::Reached),
        Err(error) => {
            let failure = failure(&error);
            ready.tell(&Ready::Failed { message: failure.message.clone(), hint: failure.hint.clone() });
            Err(failure)
        }
    }
}

fn failure(error: &AgentError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        AgentError::Lock(_) => failure.hint("`minke agent --replace` takes its place"),
        AgentError::Core(_) | AgentError::Directory { .. } | AgentError::Listen { .. } | AgentError::Signals(_) => {
            failure
        }
    }
}

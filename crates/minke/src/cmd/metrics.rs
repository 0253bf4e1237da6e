//! `minke metrics`.

use clap::Args;

use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::stdout;

/// Print the agent's metrics, as Prometheus reads them
#[derive(Debug, Args)]
#[command(after_help = "The format is OpenMetrics text. Nothing listens on the network: let a collector run this \
                        command, for example into the text file directory of node_exporter.")]
pub(crate) struct MetricsArgs {}

/// Prints what the running agent has counted. Metrics are of one agent; none is started to have none.
pub(crate) async fn run(_args: &MetricsArgs, client: &Client) -> Outcome {
    let Some(mut connection) = client.connect_running().await? else {
        return Err(Failure::system("no agent runs here, so there are no metrics")
            .hint("`minke agent` starts one that stays; `minke run` one that stays as long as its Pods"));
    };
    stdout::print(&connection.metrics().await?)?;
    Ok(Exit::Reached)
}

//! `minke timeline`.

use clap::Args;
use minke_core::identity::PodKey;

use crate::client::Client;
use crate::exit::{Exit, Outcome};
use crate::output::stdout;
use crate::timeline::{self, TimelineFile};

/// Show when everything happened to Pods: pulls, starts, exits, restarts, stops
///
/// The agent keeps the first transitions of each Pod and the newest, in memory only: an agent that was started anew
/// knows what it saw itself.
#[derive(Debug, Args)]
pub(crate) struct TimelineArgs {
    /// A name, namespace/name, or the beginning of a uid; all Pods without any
    #[arg(value_name = "POD")]
    pods: Vec<String>,
    /// Write to this file instead; .html is a page, .trace.json opens in Perfetto, .json is for programs
    #[arg(long, short, value_name = "FILE")]
    file: Option<TimelineFile>,
}

/// Shows or writes the timelines.
pub(crate) async fn run(args: &TimelineArgs, client: &Client) -> Outcome {
    // An agent that would be started now has seen nothing but what it adopts.
    if !client.may_have_pods() && client.connect_running().await?.is_none() {
        eprintln!("no pods");
        return Ok(Exit::Reached);
    }
    let all = client.ask(async |connection| connection.timelines(None).await).await?;
    // Those that were forgotten lately can be named as well, so they are chosen from what the agent gave.
    let keys: Vec<PodKey> = all.pods.iter().map(|p| p.pod.clone()).collect();
    let wanted = super::select_all(&args.pods, &keys)?;
    let mut shown = all;
    if !wanted.is_empty() {
        shown.pods.retain(|p| wanted.contains(&p.pod));
    }
    match &args.file {
        Some(file) => file.write(&shown)?,
        None if shown.pods.is_empty() => eprintln!("no pods"),
        None => stdout::print(&timeline::text(&shown))?,
    }
    Ok(Exit::Reached)
}

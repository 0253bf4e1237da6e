//! `minke ps`.

use clap::Args;
use minke_core::clock::{Clock, SystemClock};
use minke_core::identity::PodKey;
use minke_kubelet::{PodReport, PodStage};

use crate::client::Client;
use crate::exit::{Exit, Outcome};
use crate::output::result::PodResult;
use crate::output::{Format, document, stdout, table};

/// List Pods
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Those that have ended, too
    #[arg(short, long)]
    all: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Lists the Pods of the instance, sorted by namespace and name. The formats for programs always have all.
pub(crate) async fn run(args: &PsArgs, client: &Client) -> Outcome {
    let reports = super::reports(client).await?;
    let all = args.all || args.output.is_document();
    let mut shown: Vec<(PodKey, &PodReport)> = reports
        .iter()
        .filter(|r| all || !matches!(r.stage, PodStage::Terminated | PodStage::Finished))
        .filter_map(|r| Some((PodKey::of(&r.pod).ok()?, r)))
        .collect();
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    let pods: Vec<PodResult> = shown.iter().map(|(key, report)| PodResult::of_report(key, report)).collect();
    let text = match args.output {
        Format::Json => document(&pods, false)?,
        Format::Yaml => document(&pods, true)?,
        Format::Table | Format::Wide if pods.is_empty() => {
            eprintln!("no pods{}", if reports.is_empty() { "" } else { " are live; `minke ps -a` shows all" });
            return Ok(Exit::Reached);
        }
        Format::Table => table::of_pods(&pods, false, SystemClock.now()),
        Format::Wide => table::of_pods(&pods, true, SystemClock.now()),
    };
    stdout::print(&text)?;
    if !args.output.is_document() {
        super::top::tell_pressure(client).await?;
    }
    Ok(Exit::Reached)
}

//! `minke inspect`.

use clap::Args;
use minke_core::identity::PodKey;
use minke_kubelet::PodReport;
use serde::Serialize;
use serde_json::Value;

use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::result::TimingsResult;
use crate::output::{Format, document, stdout};

/// Show Pods in full: spec, status and timings
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(required = true, value_name = "POD")]
    pods: Vec<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

/// A Pod as Kubernetes would show it, and what Minke knows besides.
#[derive(Debug, Serialize)]
struct Inspection {
    #[serde(flatten)]
    pod: Value,
    minke: Extras,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Extras {
    stage: minke_kubelet::PodStage,
    timings: TimingsResult,
    log_directory: String,
}

/// Prints the Pods.
pub(crate) async fn run(args: &InspectArgs, client: &Client) -> Outcome {
    let reports = super::reports(client).await?;
    let wanted = super::select_all(&args.pods, &super::keys(&reports))?;
    let mut found = Vec::new();
    for key in &wanted {
        let report = reports.iter().find(|r| r.pod.metadata.uid.as_deref() == Some(key.uid.as_str()));
        found.extend(report.map(|report| inspection(key, report, client)).transpose()?);
    }
    let yaml = match args.output {
        Format::Json => false,
        Format::Yaml | Format::Table | Format::Wide => true,
    };
    let text = match found.as_slice() {
        [one] => document(one, yaml)?,
        several if yaml => {
            let documents = several.iter().map(|one| document(one, true)).collect::<Result<Vec<_>, _>>()?;
            documents.join("---\n")
        }
        several => document(&several, false)?,
    };
    stdout::print(&text)?;
    Ok(Exit::Reached)
}

fn inspection(key: &PodKey, report: &PodReport, client: &Client) -> Result<Inspection, Failure> {
    let pod = serde_json::to_value(&*report.pod).map_err(|e| Failure::from_error(&e))?;
    let log_directory = client.place().logs.join(key.log_directory()).display().to_string();
    Ok(Inspection {
        pod,
        minke: Extras { stage: report.stage, timings: TimingsResult::from(&report.timings), log_directory },
    })
}

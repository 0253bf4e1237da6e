//! `minke rm`.

use clap::Args;
use minke_core::identity::{PodKey, PodUid};

use super::stop::{self, Stop};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};

/// Remove Pods with their containers, volumes and logs
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(required_unless_present = "all", value_name = "POD")]
    pods: Vec<String>,
    /// Every Pod of this instance that has ended; with --force, every Pod
    #[arg(long, conflicts_with = "pods")]
    all: bool,
    /// Kill Pods that have not ended
    #[arg(long, short)]
    force: bool,
}

impl RmArgs {
    /// Every Pod, whether it has ended or not.
    pub(super) fn everything() -> Self {
        Self { pods: Vec::new(), all: true, force: true }
    }
}

/// Removes Pods and waits until they are gone. Without `--force`, one that has not ended is not touched, nor is
/// any other Pod of the same command.
pub(crate) async fn run(args: &RmArgs, client: &Client) -> Outcome {
    let reports = super::reports(client).await?;
    let keys = super::keys(&reports);
    let live: Vec<&PodKey> = keys
        .iter()
        .filter(|key| {
            let report = reports.iter().find(|r| r.pod.metadata.uid.as_deref() == Some(key.uid.as_str()));
            report.is_some_and(|r| !stop::is_over(r))
        })
        .collect();
    let wanted: Vec<PodKey> = if args.all {
        keys.iter().filter(|key| args.force || !live.contains(key)).cloned().collect()
    } else {
        super::select_all(&args.pods, &keys)?
    };
    if !args.force
        && let Some(key) = wanted.iter().find(|key| live.contains(key))
    {
        return Err(Failure::usage(format!("pod {key} has not ended; nothing was removed"))
            .hint("stop it with `minke stop`, or kill it with --force"));
    }
    let uids: Vec<PodUid> = wanted.into_iter().map(|key| key.uid).collect();
    if uids.is_empty() {
        return Ok(Exit::Reached);
    }
    let grace = args.force.then_some(std::time::Duration::ZERO);
    Stop { grace, remove: true }.perform(client, uids, |report| report.is_none()).await?;
    Ok(Exit::Reached)
}

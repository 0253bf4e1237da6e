//! `minke stop`.

use std::time::Duration;

use clap::Args;
use minke_core::identity::PodUid;
use minke_kubelet::{PodReport, PodStage};

use crate::client::{Client, Connection, RequestError, Update, Watch};
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};
use crate::protocol::Request;

/// Stop Pods; their status and logs stay until they are removed
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(required_unless_present = "all", value_name = "POD")]
    pods: Vec<String>,
    /// Every Pod of this instance
    #[arg(long, conflicts_with = "pods")]
    all: bool,
    /// Instead of the Pod's own grace period; 0 kills at once
    #[arg(long, short, value_name = "DURATION", value_parser = durations::duration)]
    grace: Option<Duration>,
    /// Do not wait until they have stopped
    #[arg(long)]
    no_wait: bool,
}

/// Stops Pods and waits until nothing of them runs.
pub(crate) async fn run(args: &StopArgs, client: &Client) -> Outcome {
    let reports = super::reports(client).await?;
    let keys = super::keys(&reports);
    let wanted = if args.all { keys } else { super::select_all(&args.pods, &keys)? };
    let uids: Vec<PodUid> = wanted.into_iter().map(|key| key.uid).collect();
    if uids.is_empty() {
        return Ok(Exit::Reached);
    }
    if args.no_wait {
        request(client, &uids, args.grace).await?;
    } else {
        let stop = Stop { grace: args.grace, remove: false };
        stop.perform(client, uids, |report| report.is_none_or(is_over)).await?;
    }
    Ok(Exit::Reached)
}

/// Asks for the stop of each Pod. One that is gone by now is stopped, and asking twice changes nothing.
async fn request(client: &Client, uids: &[PodUid], grace: Option<Duration>) -> Result<(), Failure> {
    let ask_all = async |connection: &mut Connection| {
        for uid in uids {
            match connection.stop(uid, grace, false).await {
                Ok(()) | Err(RequestError::UnknownPod(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    client.ask(ask_all).await
}

/// What is asked for Pods, and waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    /// Instead of the Pods' own grace periods.
    pub(super) grace: Option<Duration>,
    /// Forget them afterwards.
    pub(super) remove: bool,
}

impl Stop {
    /// Asks until every Pod is as wanted: `done` says so of a report, or of `None` for a Pod that is no longer there.
    /// An agent may be killed between hearing a request and writing it down, so every next one is asked again.
    pub(super) async fn perform(
        self,
        client: &Client,
        uids: Vec<PodUid>,
        done: impl Fn(Option<&PodReport>) -> bool,
    ) -> Result<(), Failure> {
        let grace_ms = self.grace.map(|g| u64::try_from(g.as_millis()).unwrap_or(u64::MAX));
        let mut watch = Watch::begin(client, Some(uids.clone())).await?;
        let mut waiting = uids;
        while !waiting.is_empty() {
            match watch.next().await? {
                Update::All(reports) => {
                    waiting.retain(|uid| !done(reports.iter().find(|r| is_of(r, uid))));
                    for uid in waiting.clone() {
                        watch.send(&Request::Stop { uid, grace_ms, remove: self.remove }).await?;
                    }
                }
                Update::Changed(report) => waiting.retain(|uid| !is_of(&report, uid) || !done(Some(&report))),
                Update::Removed(gone) => waiting.retain(|uid| *uid != gone || !done(None)),
                Update::Refused(message) => return Err(Failure::system(message)),
                Update::Progress(_) | Update::Admissions(_) => {}
            }
        }
        Ok(())
    }
}

fn is_of(report: &PodReport, uid: &PodUid) -> bool {
    report.pod.metadata.uid.as_deref() == Some(uid.as_str())
}

pub(super) fn is_over(report: &PodReport) -> bool {
    matches!(report.stage, PodStage::Terminated | PodStage::Finished)
}

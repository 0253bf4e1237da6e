//! The subcommands, one file each.

pub(crate) mod agent;
pub(crate) mod api;
pub(crate) mod attach;
pub(crate) mod completion;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod exec;
pub(crate) mod image;
mod image_cri;
pub(crate) mod inspect;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod port_forward;
pub(crate) mod ps;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod runners;
pub(crate) mod stop;
pub(crate) mod timeline;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod watch;

use minke_core::identity::PodKey;
use minke_kubelet::PodReport;

use crate::client::Client;
use crate::exit::Failure;
use crate::select::{SelectError, select};

/// The keys of reports, those without an identity left out.
pub(crate) fn keys(reports: &[PodReport]) -> Vec<PodKey> {
    reports.iter().filter_map(|r| PodKey::of(&r.pod).ok()).collect()
}

/// All Pods of the instance; starts an agent only where there may be any.
pub(crate) async fn reports(client: &Client) -> Result<Vec<PodReport>, Failure> {
    if !client.may_have_pods() && client.connect_running().await?.is_none() {
        return Ok(Vec::new());
    }
    client.ask(async |connection| connection.list().await).await
}

/// The Pods that these texts point to, each once. All texts must be good before anything is done.
pub(crate) fn select_all(wanted: &[String], pods: &[PodKey]) -> Result<Vec<PodKey>, Failure> {
    let mut found: Vec<PodKey> = Vec::new();
    for text in wanted {
        let key = select(text, pods)?;
        if !found.contains(key) {
            found.push(key.clone());
        }
    }
    Ok(found)
}

impl From<SelectError> for Failure {
    fn from(error: SelectError) -> Self {
        let failure = Self::usage(error.to_string());
        match error {
            SelectError::Unknown { nearest: Some(nearest), .. } => failure.hint(format!("did you mean {nearest:?}?")),
            SelectError::Unknown { nearest: None, .. } => failure.hint("`minke ps` lists all pods"),
            SelectError::Ambiguous { .. } => failure,
        }
    }
}

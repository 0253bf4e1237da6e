//! What the kubelet core tells people of the API's Pods, as Events of that API: `Pulled`, `Created`, `Started`, `BackOff`, …

use std::sync::Arc;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::error_chain;
use minke_kubelet::provider::is_of_api;
use minke_kubelet::{Kubelet, Progress};
use minke_node::api::{PodApi, Record, Teller};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Longest call; an API that is away for longer misses events, which are best effort.
const LONGEST: Duration = Duration::from_secs(10);

/// Relays what was told since `progress` was asked for, until the kubelet core is gone.
pub(super) async fn relay(kubelet: Kubelet, mut progress: Receiver<Progress>, api: Arc<dyn PodApi>) {
    loop {
        let record = match progress.recv().await {
            Ok(Progress::Event { pod, container, reason, message, warning }) => {
                record(&kubelet, &pod, container, reason, message, warning)
            }
            Ok(Progress::Pull { .. }) => None,
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "events of pods were too many to be told to the API");
                None
            }
            Err(RecvError::Closed) => return,
        };
        let Some(record) = record else { continue };
        match tokio::time::timeout(LONGEST, api.record(&record)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = error_chain(&error), "an event could not be told to the API"),
            Err(_) => tracing::debug!("the API does not take an event"),
        }
    }
}

/// `None` for Pods that the API does not know.
fn record(
    kubelet: &Kubelet,
    uid: &PodUid,
    container: Option<String>,
    reason: String,
    message: String,
    warning: bool,
) -> Option<Record> {
    let pod = kubelet.report(uid)?.pod;
    is_of_api(&pod).then(|| Record { teller: Teller::Kubelet, pod, container, warning, reason: reason.into(), message })
}

//! What the kubelet core tells people of the API's Pods, as Events of that API: `Pulled`, `Created`, `Started`, `BackOff`, …

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::error_chain;
use minke_kubelet::provider::is_of_api;
use minke_kubelet::{Kubelet, Progress};
use minke_node::api::{PodApi, Record, Teller};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Longest call; an API that is away for longer misses events, which are best effort.
const LONGEST: Duration = Duration::from_secs(10);

/// Pods are told of beside each other, so that one that ends is explained soon although many others start; what is told of one Pod
/// keeps its order.
const LANES: usize = 8;
/// Events that wait in a lane. They are best effort.
const WAITING: usize = 256;

/// Relays what was told since `progress` was asked for, until the kubelet core is gone.
pub(super) async fn relay(kubelet: Kubelet, mut progress: Receiver<Progress>, api: Arc<dyn PodApi>) {
    let mut tasks = JoinSet::new();
    let lanes: [mpsc::Sender<Record>; LANES] = std::array::from_fn(|_| {
        let (sender, waiting) = mpsc::channel(WAITING);
        tasks.spawn(lane(waiting, Arc::clone(&api)));
        sender
    });
    loop {
        let (lane, record) = match progress.recv().await {
            Ok(Progress::Event { pod, container, reason, message, warning }) => {
                (lane_of(&pod), record(&kubelet, &pod, container, reason, message, warning))
            }
            Ok(Progress::Pull { .. }) => continue,
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "events of pods were too many to be told to the API");
                continue;
            }
            Err(RecvError::Closed) => break,
        };
        if let Some(record) = record
            && lanes[lane].try_send(record).is_err()
        {
            tracing::debug!("events of pods are told to the API too slowly: one is left out");
        }
    }
    drop(lanes);
    tasks.join_all().await;
}

/// Always the same for a Pod.
fn lane_of(pod: &PodUid) -> usize {
    let mut hasher = DefaultHasher::new();
    pod.as_str().hash(&mut hasher);
    // Less than the number of lanes.
    usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default()
}

/// Tells the API of some Pods, one event after the other.
async fn lane(mut waiting: mpsc::Receiver<Record>, api: Arc<dyn PodApi>) {
    while let Some(record) = waiting.recv().await {
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

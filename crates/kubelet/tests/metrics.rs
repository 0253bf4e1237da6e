//! The metrics of a whole kubelet, against their documentation.

#![cfg(test)]

mod support;

use std::collections::BTreeSet;

use minke_kubelet::{PodStage, StopRequest};
use serde_json::json;
use support::{Bed, simple, uid, until, until_stage};

/// The first cells of the table in the documentation.
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    let there: BTreeSet<String> = kubelet.metrics().names().into_iter().collect();
    assert_eq!(there, documented());
    kubelet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_follow_a_pod() {
    let bed = Bed::new();
    let kubelet = bed.kubelet().await;
    kubelet.apply(vec![simple("a", "Always")]).await;
    until(&kubelet, &uid("a"), "runs", |r| support::phase(r) == "Running").await;
    let text = kubelet.metrics().text();
    let counted = ["kubelet_pod_start_duration_seconds_count 1", "kubelet_pod_worker_start_duration_seconds_count 1"];
    for line in counted {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing in\n{text}");
    }
    let syncs = |work: &str| {
        let count = format!("kubelet_pod_worker_duration_seconds_count{{operation_type=\"{work}\"}} ");
        kubelet.metrics().text().lines().find_map(|l| l.strip_prefix(&count)?.parse::<u64>().ok()).unwrap_or(0)
    };
    assert_eq!((syncs("create"), syncs("update"), syncs("kill")), (1, 0, 0));
    assert!(syncs("sync") > 0);
    for line in ["kubelet_running_pods 1", "kubelet_pleg_discard_events 0", "minke_pleg_hanging_calls 0.0"] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing in\n{text}");
    }
    kubelet.apply(vec![support::pod("a", json!({"containers": [{"name": "main", "image": "image:2"}]}))]).await;
    until(&kubelet, &uid("a"), "is updated", |r| {
        r.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten()).any(|c| c.image == "image:2")
    })
    .await;
    assert_eq!((syncs("create"), syncs("update")), (1, 1));
    kubelet.stop(&uid("a"), StopRequest::default()).unwrap();
    until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!(syncs("kill"), 5, "one for each step");
    kubelet.shutdown().await;
}

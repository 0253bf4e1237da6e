//! What a pod controller counts: its queues, the calls on its provider, its writes, and how long a status takes to the API.
//!
//! Queues have client-go's names, the latency of a status the kubelet's. No label is a Pod's.

use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use minke_core::identity::PodKey;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::pod::Lane;

/// In seconds: from what a mock takes to what a stuck back end does.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    name: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
    result: &'static str,
}

/// Shared by a controller and who tells of it.
#[derive(Debug)]
pub struct ControllerMetrics {
    registry: Registry,
    depth: Family<Queue, Gauge<i64, AtomicI64>>,
    work: Histograms<Queue>,
    calls: Histograms<Operation>,
    status: Histogram,
    pods: Gauge<i64, AtomicI64>,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let depth = Family::default();
        registry.register("workqueue_depth", "Pods that wait for a turn, by queue", depth.clone());
        let work = Histograms::new_with_constructor(histogram as fn() -> Histogram);
        let help = "How long turns take, by queue, in seconds";
        registry.register("workqueue_work_duration_seconds", help, work.clone());
        let calls = Histograms::new_with_constructor(histogram as fn() -> Histogram);
        let help = "Calls on the provider, by operation and result, in seconds";
        registry.register("minke_node_provider_call_duration_seconds", help, calls.clone());
        let status = histogram();
        let help = "From the provider's word on a Pod until the API has it, in seconds";
        registry.register("kubelet_pod_status_sync_duration_seconds", help, status.clone());
        let pods = Gauge::default();
        registry.register("minke_node_pods", "Pods that the controller knows", pods.clone());
        Self { registry, depth, work, calls, status, pods }
    }
}

fn queue(lane: Lane) -> Queue {
    Queue {
        name: match lane {
            Lane::Provider => "provider",
            Lane::Api => "api",
        },
    }
}

impl ControllerMetrics {
    /// As Prometheus reads it, without an end mark.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = text::encode_registry(&mut text, &self.registry);
        text
    }

    pub(super) fn pods(&self, pods: usize, provider_waits: usize, api_waits: usize) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.pods.set(count(pods));
        self.depth.get_or_create(&queue(Lane::Provider)).set(count(provider_waits));
        self.depth.get_or_create(&queue(Lane::Api)).set(count(api_waits));
    }

    pub(super) fn turn(&self, lane: Lane, took: Duration) {
        self.work.get_or_create(&queue(lane)).observe(took.as_secs_f64());
    }

    pub(super) fn call(&self, operation: &'static str, result: &'static str, took: Duration) {
        self.calls.get_or_create(&Operation { operation, result }).observe(took.as_secs_f64());
    }
}

/// Since when the provider's word on a Pod waits to be known to the API. Words on one Pod that come meanwhile count as one, as
/// upstream counts them.
#[derive(Debug, Default)]
pub(super) struct Untold(HashMap<PodKey, Instant>);

impl Untold {
    pub(super) fn heard(&mut self, key: &PodKey, now: Instant) {
        self.0.entry(key.clone()).or_insert(now);
    }

    /// The API has it.
    pub(super) fn told(&mut self, key: &PodKey, now: Instant, metrics: &ControllerMetrics) {
        if let Some(since) = self.0.remove(key) {
            metrics.status.observe(now.duration_since(since).as_secs_f64());
        }
    }

    /// There was nothing to tell, or nobody is left to tell it of.
    pub(super) fn dropped(&mut self, key: &PodKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use minke_core::identity::PodUid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_status_is_late_from_its_first_word_on() {
        let (metrics, mut untold) = (ControllerMetrics::default(), Untold::default());
        let key = |name: &str| PodKey::new("ns", name, PodUid::new(name).unwrap());
        let start = Instant::now();
        untold.heard(&key("a"), start);
        untold.heard(&key("a"), start + Duration::from_secs(1));
        untold.heard(&key("b"), start);
        untold.told(&key("a"), start + Duration::from_secs(2), &metrics);
        untold.dropped(&key("b"));
        for name in ["a", "b", "never"] {
            untold.told(&key(name), start + Duration::from_secs(9), &metrics);
        }
        let text = metrics.text();
        assert!(text.contains("kubelet_pod_status_sync_duration_seconds_sum 2.0\n"), "{text}");
        assert!(text.contains("kubelet_pod_status_sync_duration_seconds_count 1\n"), "{text}");
    }

    #[test]
    fn queues_and_calls_are_told_by_name() {
        let metrics = ControllerMetrics::default();
        metrics.pods(3, 2, 1);
        metrics.turn(Lane::Api, Duration::from_millis(2));
        metrics.call("create", "success", Duration::from_millis(2));
        let text = metrics.text();
        for line in [
            "minke_node_pods 3\n",
            "workqueue_depth{name=\"provider\"} 2\n",
            "workqueue_depth{name=\"api\"} 1\n",
            "workqueue_work_duration_seconds_count{name=\"api\"} 1\n",
            "minke_node_provider_call_duration_seconds_count{operation=\"create\",result=\"success\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("# EOF"));
    }
}

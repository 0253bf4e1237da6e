//! What is counted of eviction and preemption.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;

use crate::metrics::{Metrics, PlainCounter};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByEviction {
    eviction_signal: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPreemption {
    preemption_signal: String,
}

/// Counts under upstream's names. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RoomMetrics {
    evictions: Family<ByEviction, PlainCounter>,
    preemptions: Family<ByPreemption, PlainCounter>,
}

impl RoomMetrics {
    /// Registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let evictions = metrics.register("kubelet_evictions", "Pods evicted, by signal", Family::default());
        let preemptions =
            metrics.register("kubelet_preemptions", "Preemptions, by the resource that was short", Family::default());
        Self { evictions, preemptions }
    }

    /// A Pod was evicted.
    pub(crate) fn evicted(&self, signal: &str) {
        self.evictions.get_or_create(&ByEviction { eviction_signal: signal.to_owned() }).inc();
    }

    /// Room was made for want of this resource.
    pub(crate) fn preempted(&self, resource: &str) {
        self.preemptions.get_or_create(&ByPreemption { preemption_signal: resource.to_owned() }).inc();
    }
}

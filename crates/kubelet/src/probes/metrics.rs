//! What probes came to, in numbers. Without upstream's labels for container, Pod, namespace and uid: those grow without
//! bound, and `minke ps` knows which Pod is not well.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::{Outcome, ProbeKind};
use crate::metrics::{Histograms, Metrics, histograms};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    probe_type: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByType {
    probe_type: &'static str,
}

/// The metrics of probes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProbeMetrics {
    total: Family<ByResult, Counter>,
    duration: Histograms<ByType>,
}

impl ProbeMetrics {
    /// Registers them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let total =
            metrics.register("prober_probe_total", "Probes that were run, by type and result", Family::default());
        let help = "Durations of probes that succeeded, by type";
        Self { total, duration: metrics.register("prober_probe_duration_seconds", help, histograms()) }
    }

    /// A probe came to this. One that could not be asked is not counted, and only success has a duration: as upstream.
    pub(super) fn count(&self, kind: ProbeKind, outcome: Outcome, took: Duration) {
        let probe_type = kind.name();
        let result = match outcome {
            Outcome::Success => "successful",
            Outcome::Failure => "failed",
            Outcome::Error => return,
        };
        self.total.get_or_create(&ByResult { probe_type, result }).inc();
        if outcome == Outcome::Success {
            self.duration.get_or_create(&ByType { probe_type }).observe(took.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_counted_by_type_and_result() {
        let registry = Metrics::default();
        let metrics = ProbeMetrics::new(&registry);
        for (kind, outcome) in [
            (ProbeKind::Liveness, Outcome::Success),
            (ProbeKind::Liveness, Outcome::Success),
            (ProbeKind::Readiness, Outcome::Failure),
            (ProbeKind::Startup, Outcome::Error),
        ] {
            metrics.count(kind, outcome, Duration::from_millis(20));
        }
        let text = registry.text();
        for line in [
            "prober_probe_total{probe_type=\"Liveness\",result=\"successful\"} 2",
            "prober_probe_total{probe_type=\"Readiness\",result=\"failed\"} 1",
            "prober_probe_duration_seconds_count{probe_type=\"Liveness\"} 2",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("Startup"), "{text}");
    }
}

//! What became of spans, as a metric.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What became of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The collector has it.
    Sent,
    /// It never came into the queue, which was full.
    QueueFull,
    /// The collector does not want it.
    Refused,
    /// The collector did not answer for too long.
    Unreachable,
}

impl Fate {
    const ALL: [Self; 4] = [Self::Sent, Self::QueueFull, Self::Refused, Self::Unreachable];

    fn label(self) -> Result {
        let result = match self {
            Self::Sent => "sent",
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        };
        Result { result }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Result {
    result: &'static str,
}

/// Spans by what became of them.
#[derive(Debug)]
pub(super) struct Counts {
    registry: Registry,
    spans: Family<Result, Counter>,
}

impl Default for Counts {
    fn default() -> Self {
        let mut registry = Registry::default();
        let spans = Family::<Result, Counter>::default();
        // All are there from the start: a rate of what is not there can't be seen to rise.
        for fate in Fate::ALL {
            drop(spans.get_or_create(&fate.label()));
        }
        registry.register("minke_otlp_spans", "Spans that ended, by what became of them", spans.clone());
        Self { registry, spans }
    }
}

impl Counts {
    pub(super) fn add(&self, fate: Fate, spans: u64) {
        if spans > 0 {
            self.spans.get_or_create(&fate.label()).inc_by(spans);
        }
    }

    #[cfg(test)]
    pub(super) fn of(&self, fate: Fate) -> u64 {
        self.spans.get_or_create(&fate.label()).get()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = text::encode_registry(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_told_by_their_cause_and_from_the_start() {
        let counts = Counts::default();
        counts.add(Fate::Sent, 3);
        counts.add(Fate::QueueFull, 2);
        let text = counts.text();
        for line in [
            "# TYPE minke_otlp_spans counter\n",
            "minke_otlp_spans_total{result=\"sent\"} 3\n",
            "minke_otlp_spans_total{result=\"queue_full\"} 2\n",
            "minke_otlp_spans_total{result=\"refused\"} 0\n",
            "minke_otlp_spans_total{result=\"unreachable\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("# EOF"));
    }
}

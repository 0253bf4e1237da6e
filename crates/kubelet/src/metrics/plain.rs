//! A count under a name that does not end in `_total`.

use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A counter whose name is written as it is. Many of upstream's names lack the suffix that the format asks of a
/// counter, so the type is given as `unknown`; queries treat it as the counter that it is. Clones are the same count.
#[derive(Debug, Clone, Default)]
pub struct PlainCounter(Counter);

impl PlainCounter {
    /// One more.
    pub fn inc(&self) {
        self.0.inc();
    }

    /// So many more.
    pub fn inc_by(&self, n: u64) {
        self.0.inc_by(n);
    }

    /// How many so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

impl TypedMetric for PlainCounter {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for PlainCounter {
    fn encode(&self, mut encoder: MetricEncoder) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&self.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

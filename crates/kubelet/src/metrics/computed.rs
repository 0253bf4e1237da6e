//! A gauge that is computed when it is looked at.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

/// See [`super::Metrics::computed`].
#[derive(Clone)]
pub(super) struct Computed(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Computed {
    pub(super) fn new(value: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(value))
    }
}

impl EncodeMetric for Computed {
    fn encode(&self, mut encoder: MetricEncoder) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&(self.0)())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Computed(…)")
    }
}

//! The agent's metrics: families under upstream's names, in the OpenMetrics text format.
//!
//! [`Metrics`] is one registry a kubelet. It is not a global: a test makes its own. To add a family,
//!
//! 1. keep its handle in a struct of the room that counts (`EvictionMetrics { evictions: Family<…, PlainCounter> }`);
//!    handles are cheap to clone and count without a lock of ours;
//! 2. make that struct in a `new(metrics: &Metrics)` by [`Metrics::register`], with the *whole* name as people will see
//!    it, and upstream's where upstream has it:
//!
//!    ```text
//!    let evictions = metrics.register("kubelet_evictions", "Pods evicted, by signal", Family::default());
//!    evictions.get_or_create(&BySignal { eviction_signal: "memory.available" }).inc();
//!    ```
//!
//!    | what | type |
//!    |---|---|
//!    | a count whose name ends in `_total` | `Counter` |
//!    | a count whose name does not (many of upstream's) | [`PlainCounter`] |
//!    | a value that is set | `Gauge` |
//!    | a value that is known only when asked (an age) | [`Metrics::computed`] |
//!    | durations, in seconds | [`histogram`]; by labels [`histograms`] |
//!    | the same by labels | `Family<Labels, …>`, `Labels` deriving `EncodeLabelSet` |
//!
//! 3. call that `new` once, in `Kubelet::start_with`, which has the registry (`WorkerContext::metrics` later on);
//! 4. give it a row in `docs/metrics.md`; a test compares.
//!
//! Labels are few and bounded: no Pod names or uids, which would grow for ever. Nothing listens on the network:
//! `minke metrics` asks the agent over its socket.

mod computed;
mod plain;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use computed::Computed;
pub use plain::PlainCounter;

/// Prometheus' default buckets, in seconds: upstream uses them for everything that has none of its own.
pub const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A histogram with [`DEFAULT_BUCKETS`].
#[must_use]
pub fn histogram() -> Histogram {
    Histogram::new(DEFAULT_BUCKETS)
}

/// Histograms by labels.
pub type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// Histograms by labels, each with [`DEFAULT_BUCKETS`].
#[must_use]
pub fn histograms<Labels: Clone + Eq + std::hash::Hash>() -> Histograms<Labels> {
    Family::new_with_constructor(histogram)
}

#[derive(Default)]
struct Families {
    registry: Registry,
    names: BTreeSet<String>,
}

/// The registry. Cheap to clone; clones are the same registry.
#[derive(Clone, Default)]
pub struct Metrics {
    families: Arc<Mutex<Families>>,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, Families> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a family and gives its handle back. `name` is what people see, `help` one sentence without a full stop.
    ///
    /// A name that is there already is not added again (two of one name would make the whole text unreadable): the
    /// handle counts, and nobody sees it. That is a mistake in the program and is logged.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        let mut families = self.lock();
        if !families.names.insert(name.to_owned()) {
            tracing::error!(name, "a metric of this name is registered already; this one is not shown");
            return metric;
        }
        // The format's counters end in `_total`, and the encoder adds it.
        let counter = matches!(metric.metric_type(), MetricType::Counter);
        let stem = if counter { name.strip_suffix("_total").unwrap_or(name) } else { name };
        families.registry.register(stem, help, metric.clone());
        metric
    }

    /// Adds a gauge that is computed whenever somebody looks. `value` must be quick and must not wait.
    pub fn computed(&self, name: &str, help: &str, value: impl Fn() -> f64 + Send + Sync + 'static) {
        self.register(name, help, Computed::new(value));
    }

    /// The names of all families, as people see them, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.lock().names.iter().cloned().collect()
    }

    /// Everything, in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail, and no family of ours refuses to be written.
        if text::encode(&mut text, &self.lock().registry).is_err() {
            tracing::error!("a metric can't be written; the text is cut short");
        }
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("names", &self.lock().names).finish()
    }
}

#[cfg(test)]
mod tests;

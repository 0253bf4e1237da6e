//! How long workers take, as metrics under upstream's names.

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use crate::metrics::{Histograms, Metrics, histogram, histograms};

/// Upstream's buckets for the start of a Pod, in seconds.
const POD_START_BUCKETS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0,
    600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// What a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The first sync by this agent.
    Create,
    /// The first sync of what is wanted now.
    Update,
    /// Any other sync.
    Sync,
    /// A step of the Pod's end.
    Kill,
}

impl Work {
    /// In upstream's word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation_type: &'static str,
}

/// The handles.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    duration: Histograms<Operation>,
    worker_start: Histogram,
    pod_start: Histogram,
}

impl WorkerMetrics {
    /// Registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            duration: metrics.register(
                "kubelet_pod_worker_duration_seconds",
                "Duration of one sync or teardown step of a Pod, waiting for an observation included",
                histograms(),
            ),
            worker_start: metrics.register(
                "kubelet_pod_worker_start_duration_seconds",
                "Time from taking a Pod on to the start of its worker",
                histogram(),
            ),
            pod_start: metrics.register(
                "kubelet_pod_start_duration_seconds",
                "Time from taking a Pod on until all of its containers ran or it completed",
                Histogram::new(POD_START_BUCKETS),
            ),
        }
    }

    /// Times a job from now to its end; one that is cancelled is not counted.
    pub(super) fn time<T: 'static>(&self, work: Work, job: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        let begun = Instant::now();
        let histogram = self.duration.get_or_create_owned(&Operation { operation_type: work.word() });
        job.inspect(move |_| histogram.observe(begun.elapsed().as_secs_f64())).boxed()
    }

    /// A worker begins, for a Pod that came then.
    pub(super) fn worker_started(&self, since: Instant) {
        self.worker_start.observe(since.elapsed().as_secs_f64());
    }

    /// A Pod runs for the first time. By the wall clock, as both times may be from before this agent.
    pub(super) fn pod_started(&self, admitted: Timestamp, running: Timestamp) {
        self.pod_start.observe(running.duration_since(admitted).as_secs_f64().max(0.0));
    }
}

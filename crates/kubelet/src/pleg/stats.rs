//! What the PLEG has done, in numbers; the same numbers are its metrics.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use minke_core::clock::Clock;
use minke_core::runtime::{Runtime, Silence};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::calls::Calls;
use super::period::StreamState;
use crate::metrics::{Metrics, PlainCounter, histogram};

/// Counts since the start, and a few facts of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlegStats {
    /// Full relists that succeeded.
    pub relists: u64,
    /// Full relists that failed.
    pub relist_errors: u64,
    /// Relists of single Pods.
    pub pod_relists: u64,
    /// Inspections that failed.
    pub inspection_errors: u64,
    /// Events that the runtime sent.
    pub events_received: u64,
    /// Relists on a hint that found a change.
    pub hints_useful: u64,
    /// Changes that a full relist found and no event told of within a second, although the stream was up.
    pub events_missed: u64,
    /// Streams opened.
    pub stream_connects: u64,
    /// Streams that failed to open, erred or ended.
    pub stream_errors: u64,
    /// The stream now.
    pub stream: StreamState,
    /// Pods with a ready sandbox.
    pub running_pods: usize,
    /// Containers that run.
    pub running_containers: usize,
    /// Runtime calls that last longer than they should, now.
    pub hanging: usize,
    /// How long the oldest runtime call has lasted; zero when there is none.
    pub oldest_call: Duration,
}

/// A full list that lasts so long is not answered; the bound on it is far longer, because a busy runtime may still answer.
const HANGS: Duration = Duration::from_secs(10);

/// The label of `kubelet_running_containers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InState {
    /// Upstream's word for the state.
    pub(super) container_state: &'static str,
}

#[derive(Debug)]
struct Facts {
    stream: StreamState,
    last_relist: Option<Instant>,
    /// When the full list began that is under way.
    listing: Option<Instant>,
    /// Since when full relists have failed, and how the first of them did.
    silent: Option<(Instant, String)>,
}

/// Handles of every number. Counting takes no lock of ours.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) relists: Counter,
    pub(super) relist_errors: Counter,
    pub(super) relist_duration: Histogram,
    pub(super) relist_interval: Histogram,
    pub(super) pod_relist_duration: Histogram,
    pub(super) pod_relists: Counter,
    pub(super) inspection_errors: Counter,
    pub(super) events_received: PlainCounter,
    pub(super) hints_useful: PlainCounter,
    pub(super) events_missed: PlainCounter,
    pub(super) stream_connects: PlainCounter,
    pub(super) stream_errors: PlainCounter,
    pub(super) event_latency: Histogram,
    pub(super) running_pods: Gauge,
    pub(super) containers: Family<InState, Gauge>,
    pub(super) calls: Arc<Calls>,
    patience: Duration,
    facts: Mutex<Facts>,
}

impl Counters {
    /// All zero. A call that lasts longer than `patience` hangs.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            relists: Counter::default(),
            relist_errors: Counter::default(),
            relist_duration: histogram(),
            relist_interval: histogram(),
            pod_relist_duration: histogram(),
            pod_relists: Counter::default(),
            inspection_errors: Counter::default(),
            events_received: PlainCounter::default(),
            hints_useful: PlainCounter::default(),
            events_missed: PlainCounter::default(),
            stream_connects: PlainCounter::default(),
            stream_errors: PlainCounter::default(),
            event_latency: histogram(),
            running_pods: Gauge::default(),
            containers: Family::default(),
            calls: Arc::default(),
            patience,
            facts: Mutex::new(Facts { stream: StreamState::Down, last_relist: None, listing: None, silent: None }),
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stream(&self) -> StreamState {
        self.facts().stream
    }

    pub(super) fn set_stream(&self, stream: StreamState) {
        self.facts().stream = stream;
    }

    pub(super) fn last_relist(&self) -> Option<Instant> {
        self.facts().last_relist
    }

    /// A full relist begins.
    pub(super) fn lists(&self, begun: Instant) {
        self.facts().listing = Some(begun);
    }

    /// A full relist succeeded. Whether one had failed before it.
    pub(super) fn relisted(&self, begun: Instant) -> bool {
        self.relists.inc();
        let mut facts = self.facts();
        facts.listing = None;
        facts.last_relist = Some(begun);
        facts.silent.take().is_some()
    }

    /// A full relist failed.
    pub(super) fn relist_failed(&self, now: Instant, why: String) {
        self.relist_errors.inc();
        let mut facts = self.facts();
        facts.listing = None;
        facts.silent.get_or_insert((now, why));
    }

    /// Whether full relists fail, or the one under way takes so long that its runtime must hang.
    pub(super) fn silence(&self) -> Option<Silence> {
        let facts = self.facts();
        let failed = facts.silent.as_ref().map(|(since, why)| (since.elapsed(), why.clone()));
        let hangs = facts.listing.map(|begun| begun.elapsed()).filter(|lasts| *lasts >= HANGS);
        let hangs = hangs.map(|lasts| (lasts, "a list of what runs is not answered".to_owned()));
        failed.or(hangs).map(|(lasts, why)| Silence { lasts, why })
    }

    /// The same, and what the runtime's adapter knows by itself; whichever has lasted longer.
    pub(super) fn silence_with(&self, runtime: &dyn Runtime) -> Option<Silence> {
        [self.silence(), runtime.silence()].into_iter().flatten().max_by_key(|silence| silence.lasts)
    }

    pub(super) fn read(&self) -> PlegStats {
        let count = |n: i64| usize::try_from(n).unwrap_or(0);
        let running = InState { container_state: "running" };
        PlegStats {
            relists: self.relists.get(),
            relist_errors: self.relist_errors.get(),
            pod_relists: self.pod_relists.get(),
            inspection_errors: self.inspection_errors.get(),
            events_received: self.events_received.get(),
            hints_useful: self.hints_useful.get(),
            events_missed: self.events_missed.get(),
            stream_connects: self.stream_connects.get(),
            stream_errors: self.stream_errors.get(),
            stream: self.stream(),
            running_pods: count(self.running_pods.get()),
            running_containers: self.containers.get(&running).map_or(0, |gauge| count(gauge.get())),
            hanging: self.calls.hanging(self.patience),
            oldest_call: self.calls.oldest(),
        }
    }

    /// Shows the numbers, under upstream's names where upstream has the number.
    pub(super) fn register(self: &Arc<Self>, metrics: &Metrics, clock: &Arc<dyn Clock>, runtime: Arc<dyn Runtime>) {
        let add = metrics;
        add.register(
            "kubelet_pleg_relist_duration_seconds",
            "Duration of full relists in the PLEG, failed ones included",
            self.relist_duration.clone(),
        );
        add.register(
            "kubelet_pleg_relist_interval_seconds",
            "Time from the start of a full relist to the start of the next",
            self.relist_interval.clone(),
        );
        add.register(
            "kubelet_pleg_pod_relist_duration_seconds",
            "Duration of relists of single Pods",
            self.pod_relist_duration.clone(),
        );
        add.register(
            "kubelet_pleg_discard_events",
            "Events that the PLEG discarded; always 0, because events coalesce by Pod and have no channel to overflow",
            PlainCounter::default(),
        );
        add.register("kubelet_running_pods", "Pods that have a ready sandbox", self.running_pods.clone());
        add.register("kubelet_running_containers", "Containers, by state", self.containers.clone());
        self.register_stream(metrics);
        add.register("minke_pleg_relist_errors_total", "Full relists that failed", self.relist_errors.clone());
        add.register(
            "minke_pleg_inspection_errors_total",
            "Relists and inspections of single Pods that failed",
            self.inspection_errors.clone(),
        );
        self.register_computed(metrics, clock);
        let counters = self.clone();
        metrics.computed(
            "minke_runtime_answers",
            "Whether the container runtime answers: 1, or 0 while it does not",
            move || if counters.silence_with(&*runtime).is_some() { 0.0 } else { 1.0 },
        );
    }

    fn register_stream(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_evented_pleg_connection_success_count",
            "Event streams of the runtime that were opened",
            self.stream_connects.clone(),
        );
        metrics.register(
            "kubelet_evented_pleg_connection_error_count",
            "Event streams of the runtime that failed to open, erred or ended",
            self.stream_errors.clone(),
        );
        metrics.register(
            "kubelet_evented_pleg_connection_latency_seconds",
            "Time from the creation of an event to its arrival, by the wall clock",
            self.event_latency.clone(),
        );
        metrics.register(
            "evented_pleg_notifications_received",
            "Events that the runtime sent",
            self.events_received.clone(),
        );
        metrics.register(
            "evented_pleg_notifications_useful",
            "Relists of single Pods, by an event or an action of our own, that found a change",
            self.hints_useful.clone(),
        );
        metrics.register(
            "kube_pod_missed_events",
            "Changes that a full relist found and no event told of although the event stream was up",
            self.events_missed.clone(),
        );
    }

    fn register_computed(self: &Arc<Self>, metrics: &Metrics, clock: &Arc<dyn Clock>) {
        let (counters, clock) = (self.clone(), clock.clone());
        metrics.computed(
            "kubelet_pleg_last_seen_seconds",
            "When the newest full relist that succeeded began, in seconds since 1970; 0 before the first",
            move || {
                let Some(last) = counters.last_relist() else { return 0.0 };
                clock.now().as_duration().as_secs_f64() - last.elapsed().as_secs_f64()
            },
        );
        let (calls, patience) = (self.calls.clone(), self.patience);
        #[expect(clippy::cast_precision_loss, reason = "a count of calls is far below 2^52")]
        metrics.computed(
            "minke_pleg_hanging_calls",
            "Runtime calls of the PLEG that last longer than a second, now",
            move || calls.hanging(patience) as f64,
        );
        let calls = self.calls.clone();
        metrics.computed(
            "minke_pleg_oldest_call_seconds",
            "How long the oldest runtime call of the PLEG has lasted, now; 0 when there is none",
            move || calls.oldest().as_secs_f64(),
        );
    }
}

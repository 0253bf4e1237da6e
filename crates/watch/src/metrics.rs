//! What watchers count, for a registry of the caller's.
//!
//! Labels are few and bounded: no Pods, no namespaces. Several watchers may share one [`Metrics`]; what they have at the
//! moment (watches, subscribers, Pods) is then the sum. `docs/watch.md` has the table; a test compares.

use std::time::Duration;

use minke_core::judgement::Cause;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::machine::{ApiFault, Observer};

/// One label, a word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// How well the cluster is seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// Why something was done again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// A final verdict; without a cause where there was none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    verdict: &'static str,
    cause: &'static str,
    category: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Whose {
    category: &'static str,
}

/// Handles of all families; cheap to clone, and clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    open: Gauge,
    subscribers: Gauge,
    pods: Gauge,
    observers: Family<State, Gauge>,
    requests: Family<Kind, Counter>,
    reconnects: Family<Reason, Counter>,
    events: Family<Kind, Counter>,
    verdicts: Family<End, Counter>,
    reports: Histogram,
    detections: Family<Whose, Histogram, fn() -> Histogram>,
}

/// From 10 µs to about 10 s.
fn report_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_01, 2.0, 21))
}

/// From 50 ms to about seven minutes.
fn detection_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.05, 2.0, 14))
}

impl Default for Metrics {
    /// Counted, and shown nowhere.
    fn default() -> Self {
        Self {
            open: Gauge::default(),
            subscribers: Gauge::default(),
            pods: Gauge::default(),
            observers: Family::default(),
            requests: Family::default(),
            reconnects: Family::default(),
            events: Family::default(),
            verdicts: Family::default(),
            reports: report_buckets(),
            detections: Family::new_with_constructor(detection_buckets),
        }
    }
}

impl Metrics {
    /// New families in this registry. Once a registry: the names are taken afterwards.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register("minke_watch_open_watches", "Watches that flow, now", own.open.clone());
        registry.register("minke_watch_subscribers", "Subscriptions to Pods, now", own.subscribers.clone());
        registry.register("minke_watch_pods", "Pods that are kept, now", own.pods.clone());
        let help = "Watchers, now, by how well they see their cluster";
        registry.register("minke_watch_observers", help, own.observers.clone());
        registry.register("minke_watch_requests", "Requests to clusters, by kind", own.requests.clone());
        let help = "Watches that were opened anew, by why the one before was over";
        registry.register("minke_watch_reconnects", help, own.reconnects.clone());
        registry.register("minke_watch_events", "What watches told, by kind", own.events.clone());
        registry.register("minke_watch_verdicts", "Final verdicts, one a subscription", own.verdicts.clone());
        let help = "From the arrival of something about a Pod to the report of it";
        registry.register("minke_watch_report_seconds", help, own.reports.clone());
        let help = "From the time at which the cluster says that a Pod failed to the final verdict, by two clocks";
        registry.register("minke_watch_detection_seconds", help, own.detections.clone());
        own
    }

    pub(crate) fn request(&self, kind: &'static str) {
        self.requests.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn reconnect(&self, reason: &'static str) {
        self.reconnects.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn event(&self, kind: &'static str) {
        self.events.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn reported(&self, after: Duration) {
        self.reports.observe(after.as_secs_f64());
    }

    /// A final verdict; `after`: since the cluster says that it happened.
    pub(crate) fn verdict(&self, cause: Option<Cause>, after: Option<Duration>) {
        let (verdict, category) = match cause {
            Some(cause) => ("Failed", cause.category().as_str()),
            None => ("Succeeded", ""),
        };
        let cause = cause.map_or("", Cause::as_str);
        self.verdicts.get_or_create(&End { verdict, cause, category }).inc();
        if let Some(after) = after {
            self.detections.get_or_create(&Whose { category }).observe(after.as_secs_f64());
        }
    }

    /// Counts an open watch while it is held.
    pub(crate) fn open(&self) -> Open {
        self.open.inc();
        Open(self.open.clone())
    }
}

/// See [`Metrics::open`].
#[derive(Debug)]
pub(crate) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What one watcher adds to the sums; taken back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    metrics: Metrics,
    subscribers: i64,
    pods: i64,
    state: Option<&'static str>,
}

impl Share {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, subscribers: 0, pods: 0, state: None }
    }

    /// What the watcher has now.
    pub(crate) fn set(&mut self, subscribers: usize, pods: usize, observer: Option<&Observer>) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics
            .subscribers
            .inc_by(count(subscribers) - std::mem::replace(&mut self.subscribers, count(subscribers)));
        self.metrics.pods.inc_by(count(pods) - std::mem::replace(&mut self.pods, count(pods)));
        let state = observer.map(word);
        if state != self.state {
            let before = std::mem::replace(&mut self.state, state);
            before.map(|state| self.metrics.observers.get_or_create(&State { state }).dec());
            state.map(|state| self.metrics.observers.get_or_create(&State { state }).inc());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0, 0, None);
    }
}

fn word(observer: &Observer) -> &'static str {
    match observer {
        Observer::Starting => "starting",
        Observer::Current => "current",
        Observer::Stale => "stale",
        Observer::Polling(_) => "polling",
        Observer::Blind(_) => "blind",
    }
}

/// Why a watch that failed is opened anew.
pub(crate) fn fault_word(fault: &ApiFault) -> &'static str {
    match fault {
        ApiFault::Expired => "expired",
        ApiFault::Denied(_) => "denied",
        ApiFault::Throttled(_) => "throttled",
        ApiFault::Unreachable(_) => "unreachable",
        ApiFault::Other(_) => "other",
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/watch.md");

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_documented_families_are_those_that_are_registered() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.request("list");
        metrics.reconnect("ended");
        metrics.event("seen");
        metrics.verdict(Some(Cause::OomKilled), Some(Duration::from_secs(1)));
        let mut share = Share::new(metrics);
        share.set(1, 1, Some(&Observer::Current));
        let text = shown(&registry);
        let total = |line: &str| if line.ends_with(" counter") { "_total" } else { "" };
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut families: Vec<String> =
            types.map(|line| format!("{}{}", line.split(' ').next().unwrap(), total(line))).collect();
        let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `minke_watch_"));
        let mut documented: Vec<String> =
            rows.map(|row| format!("minke_watch_{}", row.split('`').next().unwrap())).collect();
        families.sort();
        documented.sort();
        assert_eq!(families, documented);
    }

    #[test]
    fn what_several_watchers_have_is_summed_and_taken_back() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let mut one = Share::new(metrics.clone());
        let mut two = Share::new(metrics.clone());
        one.set(3, 5, Some(&Observer::Current));
        two.set(1, 2, Some(&Observer::Stale));
        one.set(2, 6, Some(&Observer::Stale));
        let open = metrics.open();
        let text = shown(&registry);
        for line in [
            "minke_watch_subscribers 3",
            "minke_watch_pods 8",
            "minke_watch_observers{state=\"stale\"} 2",
            "minke_watch_observers{state=\"current\"} 0",
            "minke_watch_open_watches 1",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in {text}");
        }
        drop((one, two, open));
        let text = shown(&registry);
        assert!(
            text.contains("minke_watch_subscribers 0\n") && text.contains("minke_watch_open_watches 0\n"),
            "{text}"
        );
    }

    #[test]
    fn verdicts_have_cause_and_category() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.verdict(Some(Cause::ImageNotFound), None);
        metrics.verdict(None, None);
        let text = shown(&registry);
        let failed =
            "minke_watch_verdicts_total{verdict=\"Failed\",cause=\"ImageNotFound\",category=\"configuration\"} 1";
        let succeeded = "minke_watch_verdicts_total{verdict=\"Succeeded\",cause=\"\",category=\"\"} 1";
        assert!(text.contains(failed) && text.contains(succeeded), "{text}");
    }
}

//! The controller's metrics. Labels are few: sets by namespace and name, never Pods, runners or jobs.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;
use minke_core::judgement::Cause;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::failures::{NAMELESS, UNKNOWN};
use super::stages::Stage;
use crate::demand::SetKey;
use crate::plan::{Counts, Hold, HoldReason};

/// From a tenth of a second to an hour.
const BUCKETS: [f64; 14] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// Of one set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSet {
    namespace: String,
    runnerset: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    namespace: String,
    runnerset: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AtStage {
    namespace: String,
    runnerset: String,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeldBy {
    namespace: String,
    runnerset: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCause {
    namespace: String,
    runnerset: String,
    cause: &'static str,
    category: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCall {
    call: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCredential {
    credential: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn histograms<L: Clone + Eq + std::hash::Hash>() -> Histograms<L> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

/// The families. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    runners: Family<InState, Gauge>,
    desired: Family<OfSet, Gauge>,
    queued: Family<OfSet, Gauge>,
    holds: Family<HeldBy, Gauge>,
    orphans: Family<OfSet, Gauge>,
    claims: Family<OfSet, Gauge>,
    stray: Gauge,
    failed: Family<ByCause, Counter>,
    troubled: Family<ByCause, Gauge>,
    took: Histograms<AtStage>,
    waits: Histogram,
    pass: Histogram,
    forge: Family<OfCall, Counter>,
    cluster: Family<OfCall, Counter>,
    budget: Family<OfCredential, Gauge>,
    deliveries: Family<OfCall, Counter>,
    unserved: Gauge,
    foreign: Counter,
    leader: Gauge,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("minke_runners");
        let metrics = Self {
            registry: Arc::default(),
            runners: Family::default(),
            desired: Family::default(),
            queued: Family::default(),
            holds: Family::default(),
            orphans: Family::default(),
            claims: Family::default(),
            stray: Gauge::default(),
            failed: Family::default(),
            troubled: Family::default(),
            took: histograms(),
            waits: Histogram::new(BUCKETS),
            pass: Histogram::new([0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0]),
            forge: Family::default(),
            cluster: Family::default(),
            budget: Family::default(),
            deliveries: Family::default(),
            unserved: Gauge::default(),
            foreign: Counter::default(),
            leader: Gauge::default(),
        };
        registry.register("runners", "Runners, by state", metrics.runners.clone());
        registry.register("desired", "Runners that are wanted, within the limits", metrics.desired.clone());
        registry.register("queued_jobs", "Jobs without a runner", metrics.queued.clone());
        registry.register("holds", "Whether something that is wanted is not done, by reason", metrics.holds.clone());
        let leaks = "Registrations at the forge without a Pod, which are being removed";
        registry.register("orphaned_registrations", leaks, metrics.orphans.clone());
        registry.register("claims", "Claims for work volumes", metrics.claims.clone());
        registry.register("stray_pods", "Pods of sets that are no more", metrics.stray.clone());
        let failed = "Runners that failed before their first job, by the cause that the Pod shows";
        registry.register("failed_runners", failed, metrics.failed.clone());
        let troubled = "Runners on their way whose Pods are in trouble, by cause";
        registry.register("troubled_runners", troubled, metrics.troubled.clone());
        let took = "Seconds from when a runner was wanted until it got this far";
        registry.register("stage_seconds", took, metrics.took.clone());
        let waits = "Seconds from a job's queueing until it got a runner";
        registry.register("job_wait_seconds", waits, metrics.waits.clone());
        registry.register("pass_seconds", "Seconds that one decision over a set took", metrics.pass.clone());
        registry.register("forge_calls", "Calls to the forge, by outcome", metrics.forge.clone());
        registry.register("api_calls", "Calls to the cluster, by outcome", metrics.cluster.clone());
        let budget = "Requests that a credential has left, as the forge last said";
        registry.register("forge_budget_remaining", budget, metrics.budget.clone());
        registry.register("deliveries", "Webhook deliveries, by outcome", metrics.deliveries.clone());
        registry.register("unserved_jobs", "Queued jobs that no set serves", metrics.unserved.clone());
        registry.register("foreign_deliveries", "Deliveries about repositories of no set", metrics.foreign.clone());
        registry.register("leader", "1 on the replica that acts", metrics.leader.clone());
        *metrics.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }
}

impl Metrics {
    /// Everything, in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut written = String::new();
        // Writing to a string can't fail.
        let _ = text::encode(&mut written, &self.registry.lock().unwrap_or_else(PoisonError::into_inner));
        written
    }

    /// What a pass over a set has come to.
    pub fn pass(&self, key: &SetKey, counts: Counts, holds: &[Hold], orphans: usize, claims: usize, seconds: f64) {
        let of = || OfSet { namespace: key.namespace.clone(), runnerset: key.name.clone() };
        let states =
            [("pending", counts.pending), ("idle", counts.idle), ("busy", counts.busy), ("draining", counts.draining)];
        for (state, count) in states {
            let labels = InState { namespace: key.namespace.clone(), runnerset: key.name.clone(), state };
            self.runners.get_or_create(&labels).set(i64::from(count));
        }
        self.desired.get_or_create(&of()).set(i64::from(counts.desired));
        self.queued.get_or_create(&of()).set(i64::from(counts.queued));
        self.orphans.get_or_create(&of()).set(i64::try_from(orphans).unwrap_or(i64::MAX));
        self.claims.get_or_create(&of()).set(i64::try_from(claims).unwrap_or(i64::MAX));
        for reason in HoldReason::ALL {
            let held = holds.iter().any(|hold| hold.reason == reason);
            let labels = held_by(key, reason);
            if held || self.holds.get(&labels).is_some() {
                self.holds.get_or_create(&labels).set(i64::from(held));
            }
        }
        self.pass.observe(seconds);
    }

    /// A runner has failed before its first job.
    pub fn failed(&self, key: &SetKey, cause: &'static str, category: &'static str) {
        self.failed.get_or_create(&by_cause(key, cause, category)).inc();
    }

    /// So many runners on their way are in trouble for this.
    pub fn troubled(&self, key: &SetKey, cause: Cause, runners: usize) {
        let labels = by_cause(key, cause.as_str(), cause.category().as_str());
        self.troubled.get_or_create(&labels).set(i64::try_from(runners).unwrap_or(i64::MAX));
    }

    /// A set is no more.
    pub fn forget(&self, key: &SetKey) {
        let of = OfSet { namespace: key.namespace.clone(), runnerset: key.name.clone() };
        self.desired.remove(&of);
        self.queued.remove(&of);
        self.orphans.remove(&of);
        self.claims.remove(&of);
        for state in ["pending", "idle", "busy", "draining"] {
            self.runners.remove(&InState { namespace: key.namespace.clone(), runnerset: key.name.clone(), state });
        }
        for reason in HoldReason::ALL {
            self.holds.remove(&held_by(key, reason));
        }
        let named = Cause::ALL.iter().map(|cause| (cause.as_str(), cause.category().as_str()));
        for (cause, category) in named.chain(NAMELESS.map(|why| (why, UNKNOWN))) {
            let labels = by_cause(key, cause, category);
            self.troubled.remove(&labels);
            self.failed.remove(&labels);
        }
    }

    /// A runner got so far.
    pub fn took(&self, key: &SetKey, stage: Stage, took: SignedDuration) {
        let labels = AtStage { namespace: key.namespace.clone(), runnerset: key.name.clone(), stage: stage.word() };
        self.took.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A job has waited.
    pub fn waited(&self, wait: SignedDuration) {
        self.waits.observe(wait.as_secs_f64());
    }

    /// A call to the forge has ended.
    pub fn forge_call(&self, call: &'static str, outcome: &'static str) {
        self.forge.get_or_create(&OfCall { call, outcome }).inc();
    }

    /// A call to the cluster has ended.
    pub fn cluster_call(&self, call: &'static str, good: bool) {
        let outcome = if good { "ok" } else { "error" };
        self.cluster.get_or_create(&OfCall { call, outcome }).inc();
    }

    /// How many calls to the cluster there were, and to the forge.
    #[must_use]
    pub fn calls(&self, calls: &[&'static str]) -> u64 {
        let both = |family: &Family<OfCall, Counter>| -> u64 {
            let outcomes = ["ok", "error", "refused", "limited", "unavailable", "gone", "busy"];
            let all = calls.iter().flat_map(|call| outcomes.iter().map(|outcome| OfCall { call, outcome }));
            all.filter_map(|labels| family.get(&labels).map(|counter| counter.get())).sum()
        };
        both(&self.forge) + both(&self.cluster)
    }

    /// A delivery was answered.
    pub fn delivery(&self, outcome: &'static str) {
        self.deliveries.get_or_create(&OfCall { call: "workflow_job", outcome }).inc();
    }

    /// What credentials have left.
    pub fn budgets(&self, budgets: &[(String, u64)]) {
        for (credential, left) in budgets {
            let labels = OfCredential { credential: credential.clone() };
            self.budget.get_or_create(&labels).set(i64::try_from(*left).unwrap_or(i64::MAX));
        }
    }

    /// What the router knows of jobs that are nobody's; `foreign` since the start.
    pub fn nobodys(&self, unserved: usize, foreign: u64) {
        self.unserved.set(i64::try_from(unserved).unwrap_or(i64::MAX));
        self.foreign.inc_by(foreign.saturating_sub(self.foreign.get()));
    }

    /// How many Pods of sets that are no more there are.
    pub fn stray(&self, pods: usize) {
        self.stray.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// Whether this replica acts.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }
}

fn by_cause(key: &SetKey, cause: &'static str, category: &'static str) -> ByCause {
    ByCause { namespace: key.namespace.clone(), runnerset: key.name.clone(), cause, category }
}

fn held_by(key: &SetKey, reason: HoldReason) -> HeldBy {
    HeldBy { namespace: key.namespace.clone(), runnerset: key.name.clone(), reason: format!("{reason:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn a_set_that_is_gone_is_not_shown_any_more() {
        let metrics = Metrics::default();
        let key = SetKey { namespace: "ci".to_owned(), name: "linux".to_owned() };
        let hold = Hold { reason: HoldReason::AtMax, wake_at: Timestamp::UNIX_EPOCH };
        let counts = Counts { idle: 3, ..Counts::default() };
        metrics.pass(&key, counts, &[hold], 0, 0, 0.001);
        metrics.took(&key, Stage::Created, SignedDuration::from_millis(1500));
        metrics.troubled(&key, Cause::Unschedulable, 2);
        metrics.failed(&key, "ImageNotFound", "configuration");
        let text = metrics.text();
        let idle = r#"minke_runners_runners{namespace="ci",runnerset="linux",state="idle"} 3"#;
        let held = r#"minke_runners_holds{namespace="ci",runnerset="linux",reason="AtMax"} 1"#;
        let took = r#"minke_runners_stage_seconds_bucket{le="2.0",namespace="ci",runnerset="linux",stage="created"} 1"#;
        let troubled = r#"minke_runners_troubled_runners{namespace="ci",runnerset="linux",cause="Unschedulable",category="infrastructure"} 2"#;
        let failed = r#"minke_runners_failed_runners_total{namespace="ci",runnerset="linux",cause="ImageNotFound",category="configuration"} 1"#;
        for line in [idle, held, took, troubled, failed] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        metrics.pass(&key, counts, &[], 0, 0, 0.001);
        assert!(metrics.text().contains(&held.replace("} 1", "} 0")), "what was held is not any more");
        metrics.forget(&key);
        assert!(!metrics.text().contains(r#"state="idle""#) && !metrics.text().contains("cause="));
    }
}

//! The pod lifecycle event generator: notices what containers do, and is the only writer of the pod cache.
//!
//! A relist is the truth. The runtime's events and the workers' own actions are hints: each makes one Pod be listed
//! at once. While the event stream is up, the full relist slows down; the moment it is not, it is back at its short
//! period, and it also is when a full relist finds what events should have told.
//!
//! ```text
//!  runtime events ─► stream ─┐                 ┌─► per-Pod job: list, compare, inspect ─┐
//!  workers' actions ─────────┴─► hints ─► relister                                      ├─► cache, events ─► workers
//!  timer ──────────────────────────────────►  └─► full list: compare ─► jobs ───────────┘
//! ```
//!
//! | where | what |
//! |---|---|
//! | `relister`, `diff`, `record`, `tally` | decides (synchronous): records, comparison, whom to look at, cache, events, gauges |
//! | `task`, `inspect` | performs: lists, looks beside each other, timers |
//! | `stream`, `reconnect` | the runtime's events as hints; when a broken stream is opened again |
//! | `period`, `health` | how often everything is listed; whether the PLEG works |
//! | `hints`, `control` | what others ask for; what can be changed while it runs |
//! | `stats`, `calls` | its numbers, which are its metrics; calls that hang |
//!
//! One task owns every record; looks run beside it and come back to it, so a runtime call that hangs for one Pod
//! stalls that Pod alone. Hints coalesce by Pod, and so do events in the workers' mailboxes: nothing can overflow,
//! nothing is dropped.

mod calls;
mod control;
mod diff;
mod health;
mod hints;
mod inspect;
mod ips;
mod period;
mod reconnect;
mod record;
mod relister;
mod stats;
mod stream;
mod tally;
mod task;

use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::Clock;
use minke_core::identity::PodUid;
use minke_core::runtime::{Runtime, Silence};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use control::Periods;
pub use diff::{LifecycleEvent, diff};
pub use health::{Health, Unhealthy};
pub(crate) use inspect::bounded;
pub use inspect::read_pod;
pub use ips::preserve_ips;
pub use period::{Period, StreamState};
pub use record::{Record, State};
pub use stats::PlegStats;

use crate::RelistMode;
use crate::cache::CacheWriter;
use crate::metrics::Metrics;
use control::Control;
use hints::Hints;
use relister::Relister;
use stats::Counters;
use stream::StreamTask;
use task::RelistTask;

/// How the PLEG works.
#[derive(Debug, Clone)]
pub struct PlegConfig {
    /// Read the runtime's events.
    pub use_events: bool,
    /// Gap between full relists without a healthy event stream.
    pub relist_period: Duration,
    /// Gap between full relists with one.
    pub slow_relist_period: Duration,
    /// Unhealthy when no full relist succeeded for this long.
    pub relist_threshold: Duration,
    /// Bound on one list call.
    pub list_timeout: Duration,
    /// Bound on the inspection of one Pod.
    pub inspect_timeout: Duration,
    /// An inspection that lasts longer no longer counts among the concurrent ones: it hangs, and others go on.
    pub patience: Duration,
    /// This many inspections at a time.
    pub concurrency: usize,
}

impl PlegConfig {
    /// How it works in this mode with this gap between full relists.
    #[must_use]
    pub fn new(mode: RelistMode, relist_period: Duration) -> Self {
        let config = Self { relist_period, ..Self::default() };
        match mode {
            RelistMode::Generic => Self { use_events: false, ..config },
            RelistMode::Hinted => Self { slow_relist_period: relist_period, ..config },
            RelistMode::Evented => config,
        }
    }

    /// The same, with this gap between full relists while there is a healthy event stream. Modes that do not slow down
    /// have none.
    #[must_use]
    pub fn slow_relist(self, mode: RelistMode, slow_relist_period: Duration) -> Self {
        match mode {
            RelistMode::Generic | RelistMode::Hinted => self,
            RelistMode::Evented => Self { slow_relist_period, ..self },
        }
    }

    fn periods(&self) -> Periods {
        let Self { relist_period, slow_relist_period, relist_threshold, .. } = self;
        Periods { relist: *relist_period, slow_relist: *slow_relist_period, threshold: *relist_threshold }
    }
}

impl Default for PlegConfig {
    fn default() -> Self {
        Self {
            use_events: true,
            relist_period: Duration::from_secs(1),
            slow_relist_period: Duration::from_secs(30),
            relist_threshold: Duration::from_secs(180),
            list_timeout: Duration::from_secs(120),
            inspect_timeout: Duration::from_secs(20),
            patience: Duration::from_secs(1),
            concurrency: 8,
        }
    }
}

/// Takes what happened to Pods. Called from the PLEG's task: must not block, and must not lose anything.
pub trait EventSink: Send + Sync + 'static {
    /// The cache holds a newer status of this Pod, in which these things happened. Never empty.
    fn deliver(&self, uid: &PodUid, events: &[LifecycleEvent]);
    /// A full relist succeeded and saw these Pods, sorted.
    fn listed(&self, pods: &[PodUid]);
    /// The runtime answers again: a full relist succeeded after one had failed. What was tried in vain meanwhile need not
    /// wait any longer.
    fn returned(&self) {}
}

/// Asks the PLEG for relists. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pleg {
    hints: Arc<Hints>,
    counters: Arc<Counters>,
    control: Control,
}

impl Pleg {
    /// Starts the PLEG's tasks, until `cancel`.
    #[must_use]
    pub fn start(
        runtime: Arc<dyn Runtime>,
        cache: CacheWriter,
        sink: Arc<dyn EventSink>,
        config: PlegConfig,
        clock: Arc<dyn Clock>,
        tasks: &TaskTracker,
        cancel: &CancellationToken,
    ) -> Self {
        let hints = Arc::new(Hints::default());
        let counters = Arc::new(Counters::new(config.patience));
        let control = Control::new(config.periods());
        if config.use_events {
            let stream = StreamTask {
                runtime: runtime.clone(),
                hints: hints.clone(),
                counters: counters.clone(),
                clock,
                switch: control.switch(),
            };
            tasks.spawn(cancel.clone().run_until_cancelled_owned(stream.run()));
        }
        let Periods { relist, slow_relist, threshold: _ } = control.periods();
        let relister = Relister::new(cache, sink, counters.clone(), Period::new(relist, slow_relist));
        let task = RelistTask::new(runtime, config, hints.clone(), counters.clone(), control.switch(), relister);
        tasks.spawn(cancel.clone().run_until_cancelled_owned(task.run()));
        Self { hints, counters, control }
    }

    /// Lists this Pod soon, and inspects it if anything changed.
    pub fn request(&self, uid: &PodUid) {
        self.hints.pod(uid);
    }

    /// Inspects this Pod soon even if its list shows no change.
    pub fn request_inspection(&self, uid: &PodUid) {
        self.hints.inspection(uid);
    }

    /// Lists everything soon.
    pub fn request_all(&self) {
        self.hints.all();
    }

    /// The durations of relists now.
    #[must_use]
    pub fn periods(&self) -> Periods {
        self.control.periods()
    }

    /// Changes the durations of relists. A shorter one counts at once, from the end of the relist before; a longer one
    /// after the next.
    pub fn set_periods(&self, periods: Periods) {
        self.control.set_periods(periods);
    }

    /// Stops listing and listening until [`Pleg::resume`]. Looks that are under way still end; hints are kept. Does
    /// nothing when stopped already. Waiters of the cache reach their bounds meanwhile.
    pub fn stop(&self) {
        self.control.set_on(false);
    }

    /// Goes on after [`Pleg::stop`], with a full relist. Does nothing when it was not stopped.
    pub fn resume(&self) {
        self.control.set_on(true);
    }

    /// Whether relists succeed. Pods that can't be inspected do not matter here.
    pub fn health(&self) -> Health {
        health::judge(self.counters.last_relist(), tokio::time::Instant::now(), self.periods().threshold)
    }

    /// Shows what it has done so far in the agent's metrics.
    pub fn register(&self, metrics: &Metrics, clock: &Arc<dyn Clock>, runtime: Arc<dyn Runtime>) {
        self.counters.register(metrics, clock, runtime);
    }

    /// Whether this runtime answers, judged by full relists and by its adapter.
    #[must_use]
    pub fn silence(&self, runtime: &dyn Runtime) -> Option<Silence> {
        self.counters.silence_with(runtime)
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> PlegStats {
        self.counters.read()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

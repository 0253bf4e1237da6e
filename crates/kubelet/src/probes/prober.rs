//! The one task that runs all probes, and the handle through which workers speak to it.
//!
//! The task waits for the next probe that is due, starts it as a task of its own and takes its answer. Few start at
//! once: each takes one of [`SLOTS`] slots and keeps it for at most [`LENT`], so that a probe that hangs holds up
//! nobody but itself, and an agent with thousands of probes never does thousands of things in one moment.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use minke_core::runtime::{PodRuntimeStatus, Runtime};
use minke_core::status::ProbeResults;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};

use super::io::{Answer, ask};
use super::table::{Condemned, Now, Recovered, Run, Table};
use super::{Outcome, ProbeMetrics};
use crate::moment::at;
use crate::sync::Recorder;

/// Runs that may be in their first moments at once.
const SLOTS: usize = 64;
/// How long a run keeps its slot.
const LENT: Duration = Duration::from_millis(100);
/// How often a question that can't be asked is asked again at once.
const TRIES: u32 = 3;

/// Performs one run.
#[async_trait]
pub(super) trait Asker: Send + Sync + 'static {
    /// Asks once.
    async fn ask(&self, run: &Run) -> Answer;
}

struct RealAsker(Arc<dyn Runtime>);

#[async_trait]
impl Asker for RealAsker {
    async fn ask(&self, run: &Run) -> Answer {
        match run.probe.kind.of(&run.container) {
            Some(probe) => ask(&*self.0, probe, &run.timing, &run.container, &run.id, &run.ips).await,
            None => Answer::Error { state: "unknown", message: "there is no such probe".to_owned() },
        }
    }
}

/// Tells the worker of a Pod that its probes say something new.
pub(crate) type Tell = Box<dyn Fn(&PodUid) + Send + Sync>;

struct Inner {
    table: Mutex<Table>,
    wake: Notify,
}

/// All probes. Cheap to clone; everything but [`Prober::run`] returns at once.
#[derive(Clone)]
pub struct Prober {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").finish_non_exhaustive()
    }
}

impl Prober {
    /// A prober without Pods. Until [`Prober::run`] is polled it only remembers.
    #[must_use]
    pub fn new() -> Self {
        let table = Mutex::new(Table::new(Instant::now()));
        Self { inner: Arc::new(Inner { table, wake: Notify::new() }) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.inner.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table();
        let before = table.next();
        let result = change(&mut table);
        if table.next() != before {
            self.inner.wake.notify_one();
        }
        result
    }

    /// Takes on the probes of a Pod.
    pub(crate) fn add(&self, uid: &PodUid, pod: &Pod, recovered: &Recovered<'_>) {
        self.change(|table| table.add(uid, pod, recovered));
    }

    /// The Pod's spec has changed.
    pub(crate) fn update(&self, uid: &PodUid, pod: &Pod) {
        self.change(|table| table.update(uid, pod));
    }

    /// Whether the Pod has probes.
    pub(crate) fn has(&self, uid: &PodUid) -> bool {
        self.table().has(uid)
    }

    /// Takes what the runtime shows of a Pod that answers at these addresses; returns what its probes say of it.
    pub(crate) fn observe(
        &self,
        runtime: &PodRuntimeStatus,
        ips: Vec<IpAddr>,
        now: Now,
    ) -> BTreeMap<String, ProbeResults> {
        self.change(|table| table.observe(runtime, ips, now))
    }

    /// Runs readiness probes of a Pod that have no result yet at once.
    pub(crate) fn poke(&self, uid: &PodUid) {
        self.change(|table| table.poke(uid, Instant::now()));
    }

    /// Containers of a Pod that are condemned.
    pub(crate) fn condemned(&self, uid: &PodUid) -> Condemned {
        self.table().condemned(uid)
    }

    /// The Pod ends: liveness and startup are no longer asked for; readiness is.
    pub(crate) fn stop_fatal(&self, uid: &PodUid) {
        self.change(|table| table.stop_fatal(uid));
    }

    /// Forgets a Pod.
    pub(crate) fn remove(&self, uid: &PodUid) {
        self.change(|table| drop(table.remove(uid)));
    }

    /// Runs probes for as long as it is polled.
    pub(crate) async fn run(self, runtime: Arc<dyn Runtime>, recorder: Recorder, metrics: ProbeMetrics, tell: Tell) {
        self.run_with(Arc::new(RealAsker(runtime)), recorder, metrics, tell).await;
    }

    async fn run_with(self, asker: Arc<dyn Asker>, recorder: Recorder, metrics: ProbeMetrics, tell: Tell) {
        let slots = Arc::new(Semaphore::new(SLOTS));
        let (tasks, going) = (JoinSet::new(), HashMap::new());
        let mut runs = Runs { prober: self, asker, recorder, metrics, tell, tasks, going };
        loop {
            let next = runs.prober.table().next();
            let due = next.is_some_and(|at| at <= Instant::now());
            tokio::select! {
                biased;
                Some(ended) = runs.tasks.join_next_with_id() => runs.ended(ended),
                slot = slots.clone().acquire_owned(), if due => match slot {
                    Ok(slot) => runs.begin(slot),
                    // Nobody closes it.
                    Err(_) => return,
                },
                () = runs.prober.inner.wake.notified() => {}
                () = at(next), if !due => {}
            }
        }
    }
}

impl Default for Prober {
    fn default() -> Self {
        Self::new()
    }
}

struct Runs {
    prober: Prober,
    asker: Arc<dyn Asker>,
    recorder: Recorder,
    metrics: ProbeMetrics,
    tell: Tell,
    tasks: JoinSet<(Answer, Duration)>,
    going: HashMap<Id, Run>,
}

impl Runs {
    fn begin(&mut self, slot: OwnedSemaphorePermit) {
        let mut table = self.prober.table();
        let Some(run) = table.begin(Instant::now()) else { return };
        let task = self.tasks.spawn(perform(self.asker.clone(), run.clone(), slot));
        table.began(&run.probe, task.clone());
        self.going.insert(task.id(), run);
    }

    fn ended(&mut self, ended: Result<(Id, (Answer, Duration)), JoinError>) {
        let (id, answer, took) = match ended {
            Ok((id, (answer, took))) => (id, answer, took),
            // It was ended because it no longer counts; or it panicked, which is no answer.
            Err(error) => {
                let message = "the probe was cut off".to_owned();
                (error.id(), Answer::Error { state: "unknown", message }, Duration::ZERO)
            }
        };
        let Some(run) = self.going.remove(&id) else { return };
        let outcome = match &answer {
            Answer::Success | Answer::Warning(_) => Outcome::Success,
            Answer::Failure(_) => Outcome::Failure,
            Answer::Error { .. } => Outcome::Error,
        };
        let Some(changed) = self.prober.table().ran(&run.probe, run.run, outcome, Instant::now()) else { return };
        self.record(&run, &answer);
        self.metrics.count(run.probe.kind, outcome, took);
        if changed {
            (self.tell)(&run.probe.uid);
        }
    }

    /// Tells people, in upstream's words.
    fn record(&self, run: &Run, answer: &Answer) {
        let kind = run.probe.kind.name();
        let (reason, message) = match answer {
            Answer::Success => return,
            Answer::Warning(text) => ("ProbeWarning", format!("{kind} probe warning: {text}")),
            Answer::Failure(text) => ("Unhealthy", format!("{kind} probe failed: {text}")),
            Answer::Error { state, message } => {
                ("Unhealthy", format!("{kind} probe errored and resulted in {state} state: {message}"))
            }
        };
        self.recorder.warning(&run.probe.uid, Some(&run.probe.container), reason, message);
    }
}

/// Asks until there is an answer, a few times; returns how long that took.
async fn perform(asker: Arc<dyn Asker>, run: Run, slot: OwnedSemaphorePermit) -> (Answer, Duration) {
    let begun = Instant::now();
    let asked = async {
        let mut answer = asker.ask(&run).await;
        for _ in 1..TRIES {
            if !matches!(answer, Answer::Error { .. }) {
                break;
            }
            answer = asker.ask(&run).await;
        }
        answer
    };
    tokio::pin!(asked);
    let answer = tokio::select! {
        biased;
        answer = &mut asked => answer,
        () = sleep(LENT) => {
            drop(slot);
            asked.await
        }
    };
    (answer, begun.elapsed())
}

#[cfg(test)]
mod tests;

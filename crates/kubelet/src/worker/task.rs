//! The task of one Pod: feeds the state machine and performs what it says.
//!
//! At most one job (a sync or a teardown step) runs at a time, inside this task, so cancelling it is dropping it.
//! Checkpoints of status are written beside it, newest wins; a change of stage is saved before what follows from it
//! begins.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use jiff::SignedDuration;
use minke_core::identity::PodKey;
use minke_core::runtime::{PodRuntimeStatus, error_chain};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

use super::lifecycle::{Cause, Lifecycle, Mode, SavedLifecycle, Step};
use super::machine::{Action, Event, Machine, SyncOutcome};
use super::mailbox::Mailbox;
use super::metrics::Work;
use super::questions::PodFacts;
use super::spans;
use super::steps::StepJob;
use super::{NewPod, WorkerContext, WorkerHandle};
use crate::cache::Stamp;
use crate::checkpoint::{CheckpointError, SavedState};
use crate::moment::at;
use crate::probes::Recovered;
use crate::sync::{Outlook, PodMemory, SharedMemory, compute_now, sync_pod};
use crate::timeline::Transition;
use crate::{DesiredPod, PodReport, PodStage};

/// Longest wait for an observation that is newer than the last sync.
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Before a checkpoint that could not be written is tried again.
const SAVE_RETRY: Duration = Duration::from_secs(1);

/// A job on its way, and the stamp that it leaves behind.
type Job = BoxFuture<'static, (Event, Option<Stamp>)>;

pub(super) struct Worker {
    ctx: Arc<WorkerContext>,
    key: PodKey,
    desired: DesiredPod,
    memory: SharedMemory,
    mailbox: Arc<Mailbox>,
    machine: Machine,
    job: Option<Job>,
    /// What the next sync is for.
    work: Work,
    /// Observations must be newer than this.
    synced: Stamp,
    save: Option<BoxFuture<'static, Result<(), CheckpointError>>>,
    save_after: Option<Instant>,
    /// A job that goes on has something to be saved.
    unsaved: Arc<Notify>,
    handle: WorkerHandle,
    /// The start of the Pod was counted, by this agent or an earlier one.
    started: bool,
}

/// Polls a future that may be absent.
async fn present<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl Worker {
    pub(super) fn new(ctx: Arc<WorkerContext>, new: NewPod, handle: WorkerHandle) -> (Self, Vec<Action>) {
        let NewPod { key, desired, state, newer_than } = new;
        let SavedState { lifecycle, status, timings, condemned } = state;
        let status = (status != k8s_openapi::api::core::v1::PodStatus::default()).then_some(status);
        let (fresh, started) = (status.is_none(), timings.running_at.is_some());
        if matches!(lifecycle, SavedLifecycle::Syncing | SavedLifecycle::Terminating { .. }) {
            let recovered = Recovered { status: status.as_ref(), condemned: &condemned };
            ctx.sync.probes.add(&key.uid, &desired.pod, &recovered);
        }
        let memory = SharedMemory::new(PodMemory::new(&desired.pod, status, timings));
        if fresh {
            // A Pod is reported as pending from the start, whatever becomes of it.
            let nothing = PodRuntimeStatus::empty(key.uid.clone());
            compute_now(&ctx.sync, &desired, &memory, &nothing, Outlook::Going);
        }
        let (machine, actions) = Machine::start(desired.pod.clone(), lifecycle);
        let (mailbox, synced) = (handle.mailbox.clone(), newer_than);
        let (job, save, save_after) = (None, None, None);
        let unsaved = Arc::default();
        let worker = Self {
            ctx,
            key,
            desired,
            memory,
            mailbox,
            machine,
            job,
            work: Work::Create,
            synced,
            save,
            save_after,
            unsaved,
            handle,
            started,
        };
        (worker, actions)
    }

    /// Runs until the Pod is forgotten; it came at `came`.
    pub(super) async fn run(mut self, actions: Vec<Action>, came: Instant) {
        self.ctx.timing.worker_started(came);
        if self.perform(actions).await {
            return;
        }
        loop {
            self.begin_save();
            let (timer, deadline) = (self.machine.timer(), self.deadline());
            let retry_save = self.save_after;
            let event = tokio::select! {
                biased;
                event = self.mailbox.next() => event,
                (event, stamp) = present(&mut self.job), if self.job.is_some() => {
                    self.job = None;
                    self.synced = stamp.unwrap_or(self.synced);
                    self.count_start();
                    event
                }
                result = present(&mut self.save), if self.save.is_some() => {
                    self.save = None;
                    self.saved(result);
                    continue;
                }
                () = self.unsaved.notified() => continue,
                () = at(retry_save), if retry_save.is_some() => {
                    self.save_after = None;
                    continue;
                }
                () = at(deadline), if deadline.is_some() => Event::Deadline,
                () = at(timer), if timer.is_some() => Event::Timer,
            };
            if let Event::Updated(desired) = &event {
                self.take_over(desired);
            }
            let actions = self.machine.step(event, Instant::now());
            if self.perform(actions).await {
                return;
            }
        }
    }

    /// Counts how long the Pod took to start, once.
    fn count_start(&mut self) {
        let (admitted, running) = {
            let memory = self.memory.lock();
            (memory.timings.admitted_at, memory.timings.running_at)
        };
        if let (false, Some(admitted), Some(running)) = (self.started, admitted, running) {
            self.started = true;
            self.ctx.timing.pod_started(admitted, running);
        }
    }

    /// Something else is wanted; the job that runs goes on with what was wanted when it began.
    fn take_over(&mut self, desired: &DesiredPod) {
        match self.machine.lifecycle() {
            Lifecycle::Syncing(_) | Lifecycle::Terminating { .. } => {
                self.desired = desired.clone();
                self.work = Work::Update;
                self.memory.lock().wanted(&desired.pod);
                self.ctx.sync.probes.update(&self.key.uid, &desired.pod);
                self.publish();
            }
            Lifecycle::Terminated { .. }
            | Lifecycle::Finished { .. }
            | Lifecycle::Removing { .. }
            | Lifecycle::Removed => {}
        }
    }

    /// Performs actions in order; returns whether the worker has ended.
    async fn perform(&mut self, actions: Vec<Action>) -> bool {
        for action in actions {
            match action {
                Action::Cancel => self.job = None,
                Action::Sync(mode) => {
                    let work = std::mem::replace(&mut self.work, Work::Sync);
                    self.begin(work, self.sync(mode));
                }
                Action::Step(step) => {
                    // Nothing may write the checkpoint once it is to go.
                    if step == Step::Checkpoint
                        && let Some(save) = self.save.take()
                    {
                        drop(save.await);
                    }
                    self.begin(Work::Kill, self.step(step));
                }
                Action::Save => self.save_now().await,
                Action::Publish => {
                    self.tell_stage();
                    self.publish();
                }
                Action::Refresh => self.refresh(),
                Action::End => {
                    self.ctx.forget(&self.key, &self.handle);
                    return true;
                }
            }
        }
        self.handle.set_facts(PodFacts::of(self.machine.lifecycle()));
        false
    }

    /// Timed, and told as a span if anybody listens.
    fn begin(&mut self, work: Work, job: Job) {
        let span = spans::job(&self.ctx.node_name, &self.key, work);
        let job = if span.is_disabled() { job } else { job.instrument(span).boxed() };
        self.job = Some(self.ctx.timing.time(work, job));
    }

    fn report(&self) -> PodReport {
        report(&self.desired, &self.memory, self.machine.lifecycle())
    }

    pub(super) fn publish(&self) {
        self.ctx.hub.publish(&self.key.uid, self.report());
        self.handle.set_facts(PodFacts::of(self.machine.lifecycle()));
    }

    /// Records a stage that was just entered, or that the Pod was found in.
    pub(super) fn tell_stage(&self) {
        let lifecycle = self.machine.lifecycle();
        let transition = match lifecycle.stage() {
            PodStage::Syncing => return,
            PodStage::Terminating => {
                Transition::Terminating { reason: lifecycle.cause().map(Cause::word).unwrap_or_default().to_owned() }
            }
            PodStage::Terminated => Transition::Terminated,
            PodStage::Finished => Transition::Finished,
        };
        self.ctx.sync.recorder.timeline().record(&self.key.uid, None, transition);
    }

    fn refresh(&self) {
        let Some(observed) = self.memory.lock().observed.clone() else { return };
        let lifecycle = self.machine.lifecycle();
        let outlook = match lifecycle {
            Lifecycle::Syncing(_) => Outlook::Going,
            Lifecycle::Terminating { cause, .. } => Outlook::Ending(Some(cause)),
            Lifecycle::Terminated { .. }
            | Lifecycle::Finished { .. }
            | Lifecycle::Removing { .. }
            | Lifecycle::Removed => return,
        };
        if compute_now(&self.ctx.sync, &self.desired, &self.memory, &observed, outlook).changed {
            self.memory.lock().unsaved = true;
            self.publish();
        }
    }

    fn sync(&self, mode: Mode) -> Job {
        let (ctx, key, desired, memory) =
            (self.ctx.clone(), self.key.clone(), self.desired.clone(), self.memory.clone());
        let (min, unsaved) = (self.synced, self.unsaved.clone());
        async move {
            let failed = |message: String| {
                spans::synced(SyncOutcome::Failed, std::slice::from_ref(&message));
                ctx.sync.recorder.warning(&key.uid, None, "FailedSync", message);
                (Event::Synced(SyncOutcome::Failed), None)
            };
            let read = match ctx.cache.get_newer_than(&key.uid, min) {
                Some(read) => read,
                None => {
                    ctx.pleg.request(&key.uid);
                    match ctx.cache.newer_than(&key.uid, min, OBSERVATION_TIMEOUT).await {
                        Ok(read) => read,
                        Err(error) => return failed(error.to_string()),
                    }
                }
            };
            if let Some(error) = &read.error {
                return failed(format!("can't see what runs: {}", error_chain(&**error)));
            }
            let publish = || {
                memory.lock().unsaved = true;
                unsaved.notify_one();
                let stage = PodStage::Syncing;
                ctx.hub.publish(&key.uid, report_as(&desired, &memory, stage));
            };
            let report = sync_pod(&ctx.sync, &desired, &memory, &read.status, mode, &publish).await;
            for message in &report.failures {
                tracing::debug!(pod = %key, message, "sync failed");
            }
            spans::synced(report.outcome, &report.failures);
            if !report.acted {
                return (Event::Synced(report.outcome), None);
            }
            let stamp = ctx.cache.stamp();
            ctx.pleg.request(&key.uid);
            (Event::Synced(report.outcome), Some(stamp))
        }
        .boxed()
    }

    fn step(&self, step: Step) -> Job {
        let job = StepJob {
            ctx: self.ctx.clone(),
            key: self.key.clone(),
            desired: self.desired.clone(),
            memory: self.memory.clone(),
            cause: self.machine.lifecycle().cause().cloned(),
        };
        async move {
            let outcome = job.perform(step).await;
            spans::stepped(step, outcome);
            (Event::Stepped(outcome), None)
        }
        .boxed()
    }

    /// When the Pod's `activeDeadlineSeconds` are over.
    fn deadline(&self) -> Option<Instant> {
        if !matches!(self.machine.lifecycle(), Lifecycle::Syncing(_)) {
            return None;
        }
        let seconds = self.desired.pod.spec.as_ref()?.active_deadline_seconds?;
        let start = self.memory.lock().status.as_ref()?.start_time.as_ref()?.0;
        let left = SignedDuration::from_secs(seconds) - self.ctx.sync.clock.now().duration_since(start);
        Some(Instant::now() + Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    fn state(&self) -> SavedState {
        let mut memory = self.memory.lock();
        memory.unsaved = false;
        SavedState {
            lifecycle: self.machine.lifecycle().saved(),
            status: memory.status.as_deref().cloned().unwrap_or_default(),
            timings: memory.timings.clone(),
            condemned: self.ctx.sync.probes.condemned(&self.key.uid),
        }
    }

    fn begin_save(&mut self) {
        let going = match self.machine.lifecycle() {
            Lifecycle::Removing { .. } | Lifecycle::Removed => true,
            Lifecycle::Syncing(_)
            | Lifecycle::Terminating { .. }
            | Lifecycle::Terminated { .. }
            | Lifecycle::Finished { .. } => false,
        };
        if going || self.save.is_some() || self.save_after.is_some() || !self.memory.lock().unsaved {
            return;
        }
        let (checkpoints, uid, state) = (self.ctx.checkpoints.clone(), self.key.uid.clone(), self.state());
        self.save = Some(async move { checkpoints.save_state(&uid, &state).await }.boxed());
    }

    fn saved(&mut self, result: Result<(), CheckpointError>) {
        if let Err(error) = result {
            tracing::warn!(pod = %self.key, error = error_chain(&error), "can't save how far the pod is");
            self.memory.lock().unsaved = true;
            self.save_after = Some(Instant::now() + SAVE_RETRY);
        }
    }

    async fn save_now(&mut self) {
        // In order: an older state must not be written over a newer one.
        if let Some(save) = self.save.take() {
            drop(save.await);
        }
        let state = self.state();
        let result = self.ctx.checkpoints.save_state(&self.key.uid, &state).await;
        self.saved(result);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ctx.running.fetch_sub(1, Ordering::Relaxed);
    }
}

fn report(desired: &DesiredPod, memory: &SharedMemory, lifecycle: &Lifecycle) -> PodReport {
    report_as(desired, memory, lifecycle.stage())
}

fn report_as(desired: &DesiredPod, memory: &SharedMemory, stage: PodStage) -> PodReport {
    let memory = memory.lock();
    let mut pod = (*desired.pod).clone();
    pod.status = memory.status.as_deref().cloned();
    PodReport { pod: Arc::new(pod), stage, timings: memory.timings.clone() }
}

//! The task that owns every record: starts lists and inspections, compares, writes the cache, tells the workers.
//!
//! For each Pod:
//! ```text
//!  Idle ──hint, or a full list that differs──► Busy{again: no} ──job done──► Idle
//!                                                │        ▲
//!                                        hint    ▼        │ job done: start over
//!                                              Busy{again: yes}
//! ```
//! A record is promoted only together with the cache entry made from it, so a failed inspection is tried again and
//! finds the same change again.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use minke_core::identity::PodUid;
use minke_core::runtime::{
    ContainerInfo, ContainerPhase, ListFilter, PodRuntimeStatus, Runtime, RuntimeError, SandboxInfo, SandboxState,
    error_chain,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::hints::{Batch, Hints, Want};
use super::inspect::{bounded, inspect, list, list_pod};
use super::period::{Period, StreamState};
use super::record::{Record, group};
use super::stats::{Counters, InState};
use super::{EventSink, LifecycleEvent, PlegConfig, diff, preserve_ips};
use crate::cache::{CacheWriter, Stamp};

type Listing = Result<(Vec<SandboxInfo>, Vec<ContainerInfo>), RuntimeError>;

/// What is known of one Pod.
#[derive(Debug, Default)]
struct Tracked {
    /// As of the newest cache entry.
    record: Record,
    /// When that was observed; a full list that began before has nothing to add.
    observed: Stamp,
    /// The newest inspection failed, or one was asked for: inspect even without a change.
    reinspect: bool,
    job: Job,
}

#[derive(Debug, Default)]
enum Job {
    #[default]
    Idle,
    Busy {
        again: Option<Want>,
    },
}

/// What a job found out about a Pod.
struct Found {
    uid: PodUid,
    stamp: Stamp,
    hinted: bool,
    outcome: Outcome,
}

enum Outcome {
    /// The list shows no change, and nobody wanted more.
    Unchanged,
    /// Listed and inspected.
    Inspected { record: Record, status: Result<PodRuntimeStatus, RuntimeError> },
    /// It could not even be listed.
    NotListed(RuntimeError),
}

pub(super) struct Relister {
    runtime: Arc<dyn Runtime>,
    cache: CacheWriter,
    sink: Arc<dyn EventSink>,
    config: PlegConfig,
    hints: Arc<Hints>,
    counters: Arc<Counters>,
    period: Period,
    pods: HashMap<PodUid, Tracked>,
    /// When a Pod was last found gone.
    gone: Stamp,
    jobs: JoinSet<Found>,
    permits: Arc<Semaphore>,
}

/// The full relist: due at some time, or going on.
enum Full {
    Due(Instant),
    Listing { begun: Instant, stamp: Stamp, call: BoxFuture<'static, Listing>, again: bool },
}

impl Relister {
    pub(super) fn new(
        runtime: Arc<dyn Runtime>,
        cache: CacheWriter,
        sink: Arc<dyn EventSink>,
        config: PlegConfig,
        hints: Arc<Hints>,
        counters: Arc<Counters>,
    ) -> Self {
        let period = Period::new(config.relist_period, config.slow_relist_period);
        let permits = Arc::new(Semaphore::new(config.concurrency.max(1)));
        let (pods, jobs) = (HashMap::new(), JoinSet::new());
        Self { runtime, cache, sink, config, hints, counters, period, pods, gone: Stamp::ZERO, jobs, permits }
    }

    pub(super) async fn run(mut self) {
        let mut full = Full::Due(Instant::now());
        let mut retry = Instant::now();
        loop {
            let due = match full {
                Full::Due(at) => Some(at),
                Full::Listing { .. } => None,
            };
            // Pods that could not be inspected are looked at again without listing everything.
            let retries = self.pods.values().any(|p| p.reinspect && matches!(p.job, Job::Idle));
            tokio::select! {
                biased;
                Some(found) = self.jobs.join_next(), if !self.jobs.is_empty() => match found {
                    Ok(found) => self.finish(found),
                    Err(error) => tracing::error!(%error, "an inspection ended abnormally"),
                },
                batch = self.hints.take() => self.take_hints(batch, &mut full),
                listing = next_listing(&mut full) => {
                    full = self.finish_full(std::mem::replace(&mut full, Full::Due(Instant::now())), listing);
                }
                () = maybe_sleep_until(due), if due.is_some() => full = self.start_full(),
                () = sleep_until(retry), if retries => {
                    retry = Instant::now() + self.period.retry();
                    self.retry();
                }
            }
        }
    }

    fn take_hints(&mut self, batch: Batch, full: &mut Full) {
        for (uid, want) in batch.pods {
            self.start(uid, want, None);
        }
        if batch.all {
            match full {
                Full::Due(at) => *at = Instant::now(),
                Full::Listing { again, .. } => *again = true,
            }
        }
    }

    fn start_full(&self) -> Full {
        let (stamp, runtime, after) = (self.cache.stamp(), self.runtime.clone(), self.config.list_timeout);
        let under_way = self.counters.calls.begin();
        let call = async move {
            let listing = list(&*runtime, &ListFilter::default(), after).await;
            drop(under_way);
            listing
        }
        .boxed();
        Full::Listing { begun: Instant::now(), stamp, call, again: false }
    }

    fn finish_full(&mut self, full: Full, listing: Listing) -> Full {
        let now = Instant::now();
        let Full::Listing { begun, stamp, again, call: _ } = full else { return full };
        let stream = self.counters.stream();
        let gap = match listing {
            Ok((sandboxes, containers)) => {
                self.counters.relisted(begun);
                self.gauge(&sandboxes, &containers);
                if self.compare(group(&sandboxes, &containers), stamp) && stream == StreamState::Up && !again {
                    self.period.missed(now);
                }
                self.period.gap(stream, now)
            }
            // Neither the relist time nor any stamp advances, and the records stay.
            Err(error) => {
                self.counters.relist_errors.inc();
                tracing::warn!(error = error_chain(&error), "can't list what runs");
                self.period.retry()
            }
        };
        Full::Due(if again { now } else { now + gap })
    }

    fn gauge(&self, sandboxes: &[SandboxInfo], containers: &[ContainerInfo]) {
        let ready = sandboxes.iter().filter(|s| s.state == SandboxState::Ready);
        let mut pods: Vec<&PodUid> = ready.map(|s| &s.pod.uid).collect();
        pods.sort();
        pods.dedup();
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.counters.running_pods.set(gauge(pods.len()));
        for (phase, container_state) in [
            (ContainerPhase::Created, "created"),
            (ContainerPhase::Running, "running"),
            (ContainerPhase::Exited, "exited"),
            (ContainerPhase::Unknown, "unknown"),
        ] {
            let count = containers.iter().filter(|c| c.phase == phase).count();
            self.counters.containers.get_or_create(&InState { container_state }).set(gauge(count));
        }
    }

    /// Starts inspections of the Pods that changed. Returns whether there was a change that no hint had told of.
    fn compare(&mut self, mut listed: HashMap<PodUid, Record>, stamp: Stamp) -> bool {
        let mut uids: Vec<PodUid> = listed.keys().cloned().collect();
        uids.sort();
        let vanished = self.pods.iter().filter(|(uid, pod)| !listed.contains_key(*uid) && !pod.record.is_empty());
        let vanished: Vec<PodUid> = vanished.map(|(uid, _)| uid.clone()).collect();
        listed.extend(vanished.into_iter().map(|uid| (uid, Record::default())));
        let first = self.counters.relists.get() == 1;
        let mut missed = false;
        for (uid, record) in listed {
            let known = self.pods.contains_key(&uid);
            let tracked = self.pods.entry(uid.clone()).or_default();
            if tracked.record == record && !tracked.reinspect {
                continue;
            }
            // The Pod was looked at after this list began: the list may be the older of the two.
            if tracked.observed > stamp || (!known && self.gone > stamp) {
                self.start(uid, Want::List, None);
                continue;
            }
            let told = diff(&tracked.record, &record).iter().any(LifecycleEvent::is_told);
            if matches!(tracked.job, Job::Idle) && told && !first && self.counters.stream() == StreamState::Up {
                self.counters.events_missed.inc();
                missed = true;
            }
            self.start(uid, Want::List, Some((stamp, record)));
        }
        // Last, so that every Pod whose inspection has just begun is held.
        self.cache.update_time(stamp);
        self.sink.listed(&uids);
        missed
    }

    fn retry(&mut self) {
        let failed = self.pods.iter().filter(|(_, pod)| pod.reinspect && matches!(pod.job, Job::Idle));
        let failed: Vec<PodUid> = failed.map(|(uid, _)| uid.clone()).collect();
        for uid in failed {
            self.start(uid, Want::List, None);
        }
    }

    /// Starts a job for this Pod, or lets the one that runs be followed by another.
    fn start(&mut self, uid: PodUid, want: Want, listed: Option<(Stamp, Record)>) {
        let tracked = self.pods.entry(uid.clone()).or_default();
        match &mut tracked.job {
            Job::Busy { again } => {
                *again = (*again).max(Some(want));
                return;
            }
            job @ Job::Idle => *job = Job::Busy { again: None },
        }
        tracked.reinspect |= want == Want::Inspect;
        let (old, reinspect) = (tracked.record.clone(), tracked.reinspect);
        self.cache.hold(&uid);
        let hinted = listed.is_none();
        let (stamp, listed) = match listed {
            Some((stamp, record)) => (stamp, Some(record)),
            None => {
                self.counters.pod_relists.inc();
                (self.cache.stamp(), None)
            }
        };
        let (runtime, config, permits) = (self.runtime.clone(), self.config.clone(), self.permits.clone());
        let counters = self.counters.clone();
        let work = async move {
            let record = match listed {
                Some(record) => record,
                None => match list_pod(&*runtime, &uid, config.list_timeout.min(config.inspect_timeout)).await {
                    Ok(record) => record,
                    Err(error) => return Found { uid, stamp, hinted, outcome: Outcome::NotListed(error) },
                },
            };
            let outcome = if record == old && !reinspect {
                Outcome::Unchanged
            } else if record.is_empty() {
                Outcome::Inspected { status: Ok(PodRuntimeStatus::empty(uid.clone())), record }
            } else {
                let status = bounded("pod status", config.inspect_timeout, inspect(&*runtime, &uid, &record)).await;
                Outcome::Inspected { record, status }
            };
            Found { uid, stamp, hinted, outcome }
        };
        self.jobs.spawn(patiently(work, permits, self.config.patience, counters));
    }

    fn finish(&mut self, found: Found) {
        let Found { uid, stamp, hinted, outcome } = found;
        let Some(tracked) = self.pods.get_mut(&uid) else { return };
        match outcome {
            Outcome::Unchanged => self.cache.set_observed(&uid, stamp),
            Outcome::NotListed(error) => {
                self.counters.inspection_errors.inc();
                tracing::debug!(pod = %uid, error = error_chain(&error), "can't list the pod");
                tracked.reinspect = true;
                self.cache.set_error(&uid, error, stamp);
            }
            Outcome::Inspected { status: Err(error), .. } => {
                self.counters.inspection_errors.inc();
                tracing::debug!(pod = %uid, error = error_chain(&error), "can't inspect the pod");
                tracked.reinspect = true;
                self.cache.set_error(&uid, error, stamp);
            }
            Outcome::Inspected { record, status: Ok(mut status) } => {
                let mut events = diff(&tracked.record, &record);
                let asked = std::mem::take(&mut tracked.reinspect);
                if events.is_empty() && asked {
                    events.push(LifecycleEvent::Sync);
                }
                tracked.record = record;
                tracked.observed = stamp;
                if tracked.record.is_empty() {
                    self.gone = self.gone.max(stamp);
                    self.cache.delete(&uid);
                    self.cache.set_observed(&uid, stamp);
                } else {
                    status.ips = preserve_ips(&status, &self.cache.get(&uid).status.ips);
                    self.cache.set(&uid, status, stamp);
                }
                events.retain(LifecycleEvent::is_told);
                if !events.is_empty() {
                    if hinted {
                        self.counters.hints_useful.inc();
                    }
                    self.sink.deliver(&uid, &events);
                }
            }
        }
        let again = match std::mem::take(&mut tracked.job) {
            Job::Busy { again } => again,
            Job::Idle => None,
        };
        if again.is_none() && tracked.record.is_empty() && !tracked.reinspect {
            self.pods.remove(&uid);
        }
        match again {
            Some(want) => self.start(uid, want, None),
            None => self.cache.release(&uid),
        }
    }
}

/// Runs a job with a permit, and takes the permit away when it lasts too long: then it hangs, is counted as hanging,
/// and others take its place.
async fn patiently<T>(
    work: impl Future<Output = T>,
    permits: Arc<Semaphore>,
    patience: std::time::Duration,
    counters: Arc<Counters>,
) -> T {
    let mut work = std::pin::pin!(work);
    // The semaphore is never closed.
    let permit = permits.acquire().await;
    let _under_way = counters.calls.begin();
    if let Ok(done) = tokio::time::timeout(patience, work.as_mut()).await {
        return done;
    }
    drop(permit);
    work.await
}

async fn next_listing(full: &mut Full) -> Listing {
    match full {
        Full::Due(_) => std::future::pending().await,
        Full::Listing { call, .. } => call.await,
    }
}

async fn maybe_sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

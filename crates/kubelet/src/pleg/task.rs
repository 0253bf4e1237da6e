//! Performs what the relister decides: lists, looks at Pods beside each other, takes hints, keeps time.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use minke_core::identity::PodUid;
use minke_core::runtime::{ListFilter, Runtime, RuntimeError, error_chain};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::PlegConfig;
use super::control::Switch;
use super::hints::{Batch, Hints};
use super::inspect::{list, list_pod, look};
use super::record::{Record, group};
use super::relister::{Found, Look, Outcome, Relister};
use super::stats::Counters;
use crate::cache::Stamp;
use crate::moment::at;

type Listing = Result<HashMap<PodUid, Record>, RuntimeError>;

/// The full relist: due at some time, or going on.
enum Full {
    /// So long after the one before it, which ended then.
    Due {
        since: Instant,
        gap: Duration,
    },
    Listing {
        begun: Instant,
        stamp: Stamp,
        call: BoxFuture<'static, Listing>,
        again: bool,
    },
}

impl Full {
    fn now() -> Self {
        Self::Due { since: Instant::now(), gap: Duration::ZERO }
    }

    fn due(&self) -> Option<Instant> {
        match self {
            Self::Due { since, gap } => Some(*since + *gap),
            Self::Listing { .. } => None,
        }
    }
}

pub(super) struct RelistTask {
    runtime: Arc<dyn Runtime>,
    config: PlegConfig,
    hints: Arc<Hints>,
    counters: Arc<Counters>,
    switch: Switch,
    relister: Relister,
    jobs: JoinSet<Found>,
    permits: Arc<Semaphore>,
    /// The start of the newest full relist.
    last: Option<Instant>,
    /// Whether it was on when last looked at.
    on: bool,
}

impl RelistTask {
    pub(super) fn new(
        runtime: Arc<dyn Runtime>,
        config: PlegConfig,
        hints: Arc<Hints>,
        counters: Arc<Counters>,
        switch: Switch,
        relister: Relister,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(config.concurrency.max(1)));
        let (jobs, last, on) = (JoinSet::new(), None, true);
        Self { runtime, config, hints, counters, switch, relister, jobs, permits, last, on }
    }

    /// Runs for ever. While the PLEG is stopped nothing new is begun; hints are kept.
    pub(super) async fn run(mut self) {
        let mut full = Full::now();
        let mut retry = Instant::now();
        loop {
            let (on, due) = (self.switch.is_on(), full.due());
            let failing = self.relister.is_failing();
            // What is rare comes first: neither a storm of hints nor a crowd of jobs may keep it waiting.
            tokio::select! {
                biased;
                () = self.switch.changed() => self.control(&mut full),
                listing = next_listing(&mut full) => {
                    full = self.end_full(std::mem::replace(&mut full, Full::now()), listing);
                }
                () = at(due), if on && due.is_some() => full = self.begin_full(),
                () = sleep_until(retry), if on && failing => {
                    retry = Instant::now() + self.relister.retry_gap();
                    let looks = self.relister.retry();
                    self.begin(looks);
                }
                Some(found) = self.jobs.join_next(), if !self.jobs.is_empty() => match found {
                    Ok(found) => {
                        let next = self.relister.found(found);
                        self.begin(next);
                    }
                    Err(error) => tracing::error!(%error, "a look at a pod ended abnormally"),
                },
                batch = self.hints.take(), if on => self.take_hints(batch, &mut full),
            }
        }
    }

    /// Periods were changed, or it was switched off or on.
    fn control(&mut self, full: &mut Full) {
        let periods = self.switch.periods();
        self.relister.set_periods(periods.relist, periods.slow_relist);
        let was_on = std::mem::replace(&mut self.on, self.switch.is_on());
        if self.on && !was_on {
            // Whatever happened meanwhile, nobody was listening.
            self.take_hints(Batch { all: true, ..Batch::default() }, full);
        } else if let Full::Due { gap, .. } = full {
            *gap = (*gap).min(self.relister.gap(Instant::now()));
        }
    }

    fn take_hints(&mut self, batch: Batch, full: &mut Full) {
        let looks = self.relister.hinted(batch.pods, &batch.events);
        self.begin(looks);
        if batch.all {
            match full {
                Full::Due { .. } => *full = Full::now(),
                Full::Listing { again, .. } => *again = true,
            }
        }
    }

    fn begin_full(&mut self) -> Full {
        let begun = Instant::now();
        if let Some(last) = self.last.replace(begun) {
            self.counters.relist_interval.observe((begun - last).as_secs_f64());
        }
        let (stamp, runtime, after) = (self.relister.stamp(), self.runtime.clone(), self.config.list_timeout);
        let under_way = self.counters.calls.begin();
        self.counters.lists(begun);
        let call = async move {
            let listing = list(&*runtime, &ListFilter::default(), after).await;
            drop(under_way);
            listing.map(|(sandboxes, containers)| group(&sandboxes, &containers))
        };
        Full::Listing { begun, stamp, call: call.boxed(), again: false }
    }

    fn end_full(&mut self, full: Full, listing: Listing) -> Full {
        let now = Instant::now();
        let Full::Listing { begun, stamp, again, call: _ } = full else { return full };
        self.counters.relist_duration.observe((now - begun).as_secs_f64());
        let gap = match listing {
            Ok(listed) => {
                let returned = self.counters.relisted(begun);
                let looks = self.relister.listed(listed, stamp, now);
                self.begin(looks);
                if returned {
                    self.relister.returned();
                }
                self.relister.gap(now)
            }
            // Neither the relist time nor any stamp advances, and the records stay.
            Err(error) => {
                let why = error_chain(&error);
                tracing::warn!(error = why, "can't list what runs");
                self.counters.relist_failed(now, why);
                self.relister.retry_gap()
            }
        };
        Full::Due { since: now, gap: if again { Duration::ZERO } else { gap } }
    }

    fn begin(&mut self, looks: impl IntoIterator<Item = Look>) {
        for look in looks {
            let (runtime, config) = (self.runtime.clone(), self.config.clone());
            let (permits, counters) = (self.permits.clone(), self.counters.clone());
            self.jobs.spawn(async move {
                let (uid, stamp, alone) = (look.uid.clone(), look.stamp, look.listed.is_none());
                let work = patiently(perform(&*runtime, &config, look), permits, config.patience, &counters);
                let begun = Instant::now();
                // A Pod must not stay busy for ever because a runtime client has a bug.
                let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                    Outcome::NotListed(RuntimeError::failed("pod status", "the runtime client panicked"))
                });
                if alone {
                    counters.pod_relist_duration.observe(begun.elapsed().as_secs_f64());
                }
                Found { uid, stamp, alone, outcome }
            });
        }
    }
}

/// Lists the Pod if need be, and inspects it if it changed.
async fn perform(runtime: &dyn Runtime, config: &PlegConfig, pod: Look) -> Outcome {
    let Look { uid, stamp: _, listed, known, inspect } = pod;
    let record = match listed {
        Some(record) => record,
        None => match list_pod(runtime, &uid, config.list_timeout.min(config.inspect_timeout)).await {
            Ok(record) => record,
            Err(error) => return Outcome::NotListed(error),
        },
    };
    if record == known && !inspect {
        return Outcome::Unchanged;
    }
    look(runtime, &uid, record, config.inspect_timeout).await
}

/// Runs a job with a permit, and takes the permit away when it lasts too long: then it hangs, and others take its
/// place.
async fn patiently(
    work: impl Future<Output = Outcome>,
    permits: Arc<Semaphore>,
    patience: Duration,
    counters: &Counters,
) -> Outcome {
    let mut work = std::pin::pin!(work);
    // The semaphore is never closed.
    let permit = permits.acquire().await;
    let _under_way = counters.calls.begin();
    match tokio::time::timeout(patience, work.as_mut()).await {
        Ok(outcome) => outcome,
        Err(_) => {
            drop(permit);
            work.await
        }
    }
}

async fn next_listing(full: &mut Full) -> Listing {
    match full {
        Full::Due { .. } => std::future::pending().await,
        Full::Listing { call, .. } => call.await,
    }
}

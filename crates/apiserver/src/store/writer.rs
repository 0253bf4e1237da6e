//! The one writer: a thread that takes what waits, decides, commits, publishes, answers. In this order.
//!
//! A thread and no task, because a commit blocks on the disk. While one commit is on its way, proposals gather; the next
//! commit takes all of them, so the cost of a sync is shared by whoever writes at the same time.

use std::sync::{Arc, RwLock};

use tokio::sync::{mpsc, oneshot};

use super::batch::{Batch, Proposal};
use super::handle::{Shared, StoreError};
use super::log::Log;
use super::{Event, HistoryLimits};

/// Most proposals in one commit.
const MOST: usize = 256;

pub(crate) type Answer = Result<Arc<Event>, StoreError>;
pub(crate) type Request = (Proposal, oneshot::Sender<Answer>);

/// Runs until every handle is gone.
pub(crate) fn run(shared: &Shared, log: &mut dyn Log, limits: HistoryLimits, requests: &mut mpsc::Receiver<Request>) {
    while let Some(first) = requests.blocking_recv() {
        let more = std::iter::from_fn(|| requests.try_recv().ok());
        round(shared, log, limits, std::iter::once(first).chain(more).take(MOST));
    }
}

fn round(shared: &Shared, log: &mut dyn Log, limits: HistoryLimits, requests: impl Iterator<Item = Request>) {
    let mut answers = Vec::new();
    let commit = {
        let state = read(&shared.state);
        let mut batch = Batch::new(&state);
        for (proposal, answer) in requests {
            let result = match shared.failed() {
                Some(error) => Err(error),
                None => batch.propose(&state, proposal).map_err(StoreError::Refused),
            };
            answers.push((result, answer));
        }
        batch.finish(&state, limits)
    };
    if !commit.events.is_empty() {
        let committed = log.commit(&commit);
        match committed {
            Ok(()) => {
                let mut touched: Vec<Arc<str>> = commit.events.iter().map(|event| event.key.resource.clone()).collect();
                touched.sort();
                touched.dedup();
                let revision = commit.revision;
                write(&shared.state).publish(commit);
                shared.wake(&touched, revision);
            }
            Err(error) => {
                // How much of it is on disk is unknown: a later commit could give its revisions away a second time.
                let error = shared.fail(error);
                for (result, _) in answers.iter_mut().filter(|(result, _)| result.is_ok()) {
                    *result = Err(error.clone());
                }
            }
        }
    }
    for (result, answer) in answers {
        // Whoever asked may have gone; what was decided stands.
        drop(answer.send(result));
    }
}

/// A lock that a panic elsewhere does not spoil: publishing is the only writing, and it does not panic half-way.
pub(crate) fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

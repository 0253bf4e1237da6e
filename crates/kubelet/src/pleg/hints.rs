//! What somebody wants listed. A set, so that a storm of hints about a Pod is one relist.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use minke_core::identity::PodUid;
use tokio::sync::Notify;

/// What is asked for one Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Want {
    /// List it; inspect it if it changed.
    List,
    /// List and inspect it.
    Inspect,
}

/// A batch of hints.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) pods: HashMap<PodUid, Want>,
    /// Sandboxes and containers that events told of.
    pub(super) events: HashSet<String>,
    pub(super) all: bool,
}

#[derive(Debug, Default)]
pub(super) struct Hints {
    batch: Mutex<Batch>,
    wake: Notify,
}

impl Hints {
    fn add(&self, change: impl FnOnce(&mut Batch)) {
        change(&mut self.batch.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    pub(super) fn pod(&self, uid: &PodUid) {
        self.add(|batch| {
            batch.pods.entry(uid.clone()).or_insert(Want::List);
        });
    }

    /// An event of the runtime: the same as [`Hints::pod`], and what it is about was not missed.
    pub(super) fn event(&self, uid: &PodUid, id: &str) {
        self.add(|batch| {
            batch.pods.entry(uid.clone()).or_insert(Want::List);
            batch.events.insert(id.to_owned());
        });
    }

    pub(super) fn inspection(&self, uid: &PodUid) {
        self.add(|batch| {
            batch.pods.insert(uid.clone(), Want::Inspect);
        });
    }

    pub(super) fn all(&self) {
        self.add(|batch| batch.all = true);
    }

    /// Waits for hints and takes them all. Cancel-safe: a dropped wait takes none.
    pub(super) async fn take(&self) -> Batch {
        loop {
            let batch = std::mem::take(&mut *self.batch.lock().unwrap_or_else(PoisonError::into_inner));
            if batch != Batch::default() {
                return batch;
            }
            self.wake.notified().await;
        }
    }
}

//! From the PLEG to the workers: a change of a Pod wakes its worker; a Pod that has none may be an orphan; one of
//! which a container died gets tidied up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use minke_core::identity::PodUid;
use tokio::sync::Notify;

use crate::housekeeping::Deaths;
use crate::pleg::{EventSink, LifecycleEvent};
use crate::worker::Registry;

/// Pods that the runtime has and no worker knows. A set, so it can't grow beyond what the runtime has.
#[derive(Debug, Clone, Default)]
pub(super) struct Unknown {
    inner: Arc<(Mutex<BTreeSet<PodUid>>, Notify)>,
}

impl Unknown {
    fn add(&self, uid: &PodUid) {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        self.inner.1.notify_one();
    }

    /// Waits for some and takes them all. Cancel-safe.
    pub(super) async fn take(&self) -> BTreeSet<PodUid> {
        loop {
            let found = std::mem::take(&mut *self.inner.0.lock().unwrap_or_else(PoisonError::into_inner));
            if !found.is_empty() {
                return found;
            }
            self.inner.1.notified().await;
        }
    }
}

#[derive(Debug)]
pub(super) struct Dispatcher {
    registry: Registry,
    unknown: Unknown,
    deaths: Deaths,
}

impl Dispatcher {
    pub(super) fn new(registry: Registry) -> (Self, Unknown, Deaths) {
        let (unknown, deaths) = (Unknown::default(), Deaths::default());
        (Self { registry, unknown: unknown.clone(), deaths: deaths.clone() }, unknown, deaths)
    }
}

impl EventSink for Dispatcher {
    fn deliver(&self, uid: &PodUid, events: &[LifecycleEvent]) {
        if events.iter().any(|event| matches!(event, LifecycleEvent::Died(_))) {
            self.deaths.add(uid);
        }
        match self.registry.get(uid) {
            Some(worker) => worker.mailbox.changed(),
            None => self.unknown.add(uid),
        }
    }

    fn listed(&self, pods: &[PodUid]) {
        self.registry.set_synced();
        for uid in pods.iter().filter(|uid| self.registry.get(uid).is_none()) {
            self.unknown.add(uid);
        }
    }
}

//! From the PLEG to the workers: a change of a Pod wakes its worker; a Pod that has none may be an orphan; one of
//! which a container died gets tidied up.

use minke_core::identity::PodUid;

use crate::pleg::{EventSink, LifecycleEvent};
use crate::pod_set::PodSet;
use crate::worker::Registry;

#[derive(Debug)]
pub(super) struct Dispatcher {
    registry: Registry,
    /// Pods that the runtime has and no worker knows.
    unknown: PodSet,
    /// Pods of which a container died.
    deaths: PodSet,
}

impl Dispatcher {
    /// Also returns the Pods that nobody knows, and those of which a container died.
    pub(super) fn new(registry: Registry) -> (Self, PodSet, PodSet) {
        let (unknown, deaths) = (PodSet::default(), PodSet::default());
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

    fn returned(&self) {
        self.registry.all().iter().for_each(|worker| worker.mailbox.returned());
    }
}

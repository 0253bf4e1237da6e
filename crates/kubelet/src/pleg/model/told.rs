//! Who hears of changes, as workers do: believes what it is told, and checks that it can be.

use std::collections::HashMap;
use std::sync::Mutex;

use minke_core::identity::PodUid;

use crate::pleg::{EventSink, LifecycleEvent};

/// What each was last told to have done, in order.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<String, Vec<&'static str>>>);

impl Told {
    /// What was said last of this sandbox or container.
    pub(super) fn last(&self, id: &str) -> Option<&'static str> {
        self.0.lock().unwrap().get(id).and_then(|told| told.last().copied())
    }
}

impl EventSink for Told {
    fn deliver(&self, _uid: &PodUid, events: &[LifecycleEvent]) {
        assert!(!events.is_empty());
        for event in events {
            let (id, what) = match event {
                LifecycleEvent::Started(id) => (id, "started"),
                LifecycleEvent::Died(id) => (id, "died"),
                LifecycleEvent::Removed(id) => (id, "removed"),
                LifecycleEvent::Changed(_) => panic!("{event:?} is not for workers"),
                LifecycleEvent::Sync => continue,
            };
            let mut told = self.0.lock().unwrap();
            let so_far = told.entry(id.clone()).or_default();
            let fits = match so_far.last() {
                None => what != "removed",
                Some(&"started") => what == "died",
                Some(&"died") => what == "removed",
                Some(_) => false,
            };
            assert!(fits, "{id}: {what} after {so_far:?}");
            so_far.push(what);
        }
    }

    fn listed(&self, _pods: &[PodUid]) {}
}

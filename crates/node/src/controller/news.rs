//! What the provider told and nobody has taken up yet, coalesced by Pod.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use minke_core::identity::PodKey;
use minke_core::provider::StatusSink;
use tokio::sync::Notify;

use crate::pod::PodEvent;

#[derive(Debug, Default)]
struct PodNews {
    status: Option<PodStatus>,
    evicted: Option<Duration>,
    forgotten: bool,
}

/// Has one reader.
#[derive(Debug, Default)]
pub(super) struct News {
    pods: Mutex<BTreeMap<PodKey, PodNews>>,
    wake: Notify,
}

impl News {
    fn add(&self, key: &PodKey, add: impl FnOnce(&mut PodNews)) {
        add(self.pods.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default());
        self.wake.notify_one();
    }

    /// Waits for news. Cancel-safe.
    pub(super) async fn any(&self) {
        self.wake.notified().await;
    }

    /// Takes all of them, each Pod's in the order in which they belong.
    pub(super) fn take(&self) -> Vec<(PodKey, PodEvent)> {
        let pods = std::mem::take(&mut *self.pods.lock().unwrap_or_else(PoisonError::into_inner));
        let mut events = Vec::new();
        for (key, PodNews { status, evicted, forgotten }) in pods {
            events.extend(status.map(|status| (key.clone(), PodEvent::Status(Box::new(status)))));
            events.extend(evicted.map(|grace| (key.clone(), PodEvent::Evicted(grace))));
            events.extend(forgotten.then_some((key, PodEvent::Forgotten)));
        }
        events
    }
}

impl StatusSink for News {
    fn changed(&self, key: &PodKey, status: PodStatus) {
        self.add(key, |news| news.status = Some(status));
    }

    fn forgotten(&self, key: &PodKey) {
        self.add(key, |news| news.forgotten = true);
    }

    fn evicted(&self, key: &PodKey, grace: Duration) {
        self.add(key, |news| news.evicted = Some(grace));
    }
}

//! The one place where reports are published.
//!
//! Workers write, anyone subscribes. Each subscription holds the set of Pods that changed since it last looked, never
//! the reports themselves: a slow reader costs a uid a Pod, sees the newest report of each, and misses none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use minke_core::identity::PodUid;
use tokio::sync::Notify;

use crate::{PodChange, PodReport};

#[derive(Debug, Default)]
struct Pending {
    order: VecDeque<PodUid>,
    members: HashSet<PodUid>,
}

#[derive(Debug, Default)]
struct Subscriber {
    pending: Mutex<Pending>,
    wake: Notify,
}

impl Subscriber {
    fn push(&self, uid: &PodUid) {
        let mut pending = lock(&self.pending);
        if pending.members.insert(uid.clone()) {
            pending.order.push_back(uid.clone());
        }
        drop(pending);
        self.wake.notify_one();
    }

    fn pop(&self) -> Option<PodUid> {
        let mut pending = lock(&self.pending);
        let uid = pending.order.pop_front()?;
        pending.members.remove(&uid);
        Some(uid)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hears each report as it is published, under the hub's lock: it may neither block nor ask back.
pub(crate) trait Listener: std::fmt::Debug + Send + Sync + 'static {
    /// The Pod is like this.
    fn published(&self, report: &PodReport);
    /// The Pod, which was last like this, is forgotten.
    fn forgotten(&self, last: &PodReport);
}

#[derive(Debug, Default)]
struct State {
    reports: HashMap<PodUid, PodReport>,
    subscribers: Vec<Weak<Subscriber>>,
    listener: Option<Arc<dyn Listener>>,
}

impl State {
    fn tell(&mut self, uid: &PodUid) {
        self.subscribers.retain(|subscriber| match subscriber.upgrade() {
            Some(subscriber) => {
                subscriber.push(uid);
                true
            }
            None => false,
        });
    }
}

/// Reports of all Pods. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub {
    state: Arc<Mutex<State>>,
}

impl Hub {
    pub(crate) fn publish(&self, uid: &PodUid, report: PodReport) {
        let mut state = lock(&self.state);
        if state.reports.get(uid) == Some(&report) {
            return;
        }
        if let Some(listener) = &state.listener {
            listener.published(&report);
        }
        state.reports.insert(uid.clone(), report);
        state.tell(uid);
    }

    /// Whoever has to hear every report, the last one of a Pod that is forgotten included, from now on.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) {
        lock(&self.state).listener = Some(listener);
    }

    pub(crate) fn remove(&self, uid: &PodUid) {
        let mut state = lock(&self.state);
        if let Some(last) = state.reports.remove(uid) {
            if let Some(listener) = &state.listener {
                listener.forgotten(&last);
            }
            state.tell(uid);
        }
    }

    pub(crate) fn get(&self, uid: &PodUid) -> Option<PodReport> {
        lock(&self.state).reports.get(uid).cloned()
    }

    /// Sorted by namespace, name and uid.
    pub(crate) fn all(&self) -> Vec<PodReport> {
        let mut reports: Vec<PodReport> = lock(&self.state).reports.values().cloned().collect();
        reports.sort_by(|a, b| {
            let key = |r: &PodReport| {
                (r.pod.metadata.namespace.clone(), r.pod.metadata.name.clone(), r.pod.metadata.uid.clone())
            };
            key(a).cmp(&key(b))
        });
        reports
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        let subscriber = Arc::new(Subscriber::default());
        let mut state = lock(&self.state);
        let mut uids: Vec<&PodUid> = state.reports.keys().collect();
        uids.sort();
        for uid in uids {
            subscriber.push(uid);
        }
        state.subscribers.push(Arc::downgrade(&subscriber));
        Subscription { hub: self.clone(), subscriber }
    }
}

/// Changes of all Pods, coalesced by Pod. The first changes are the reports of all Pods as they are.
#[derive(Debug)]
pub struct Subscription {
    hub: Hub,
    subscriber: Arc<Subscriber>,
}

impl Subscription {
    /// The next change. Cancel-safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> PodChange {
        loop {
            if let Some(change) = self.try_next() {
                return change;
            }
            // A change that comes in between leaves its permit.
            self.subscriber.wake.notified().await;
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Option<PodChange> {
        let uid = self.subscriber.pop()?;
        Some(match self.hub.get(&uid) {
            Some(report) => PodChange::Updated(report),
            None => PodChange::Removed(uid),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PodStage, PodTimings};
    use k8s_openapi::api::core::v1::Pod;

    fn uid(s: &str) -> PodUid {
        PodUid::new(s).unwrap()
    }

    fn report(name: &str, stage: PodStage) -> PodReport {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.uid = Some(name.to_owned());
        PodReport { pod: Arc::new(pod), stage, timings: PodTimings::default() }
    }

    #[tokio::test]
    async fn a_subscription_begins_with_all_reports() {
        let hub = Hub::default();
        for name in ["b", "a"] {
            hub.publish(&uid(name), report(name, PodStage::Syncing));
        }
        let mut subscription = hub.subscribe();
        assert_eq!(subscription.next().await, PodChange::Updated(report("a", PodStage::Syncing)));
        assert_eq!(subscription.next().await, PodChange::Updated(report("b", PodStage::Syncing)));
        assert!(subscription.try_next().is_none());
    }

    #[tokio::test]
    async fn changes_of_one_pod_coalesce_and_the_newest_wins() {
        let hub = Hub::default();
        let mut subscription = hub.subscribe();
        for stage in [PodStage::Syncing, PodStage::Terminating, PodStage::Finished] {
            hub.publish(&uid("a"), report("a", stage));
        }
        hub.publish(&uid("b"), report("b", PodStage::Syncing));
        assert_eq!(subscription.next().await, PodChange::Updated(report("a", PodStage::Finished)));
        assert_eq!(subscription.next().await, PodChange::Updated(report("b", PodStage::Syncing)));
        hub.remove(&uid("a"));
        assert_eq!(subscription.next().await, PodChange::Removed(uid("a")));
        assert!(subscription.try_next().is_none());
    }

    #[tokio::test]
    async fn the_same_report_twice_is_no_change() {
        let hub = Hub::default();
        let mut subscription = hub.subscribe();
        hub.publish(&uid("a"), report("a", PodStage::Syncing));
        assert!(subscription.try_next().is_some());
        hub.publish(&uid("a"), report("a", PodStage::Syncing));
        assert!(subscription.try_next().is_none());
    }

    #[tokio::test]
    async fn a_dropped_wait_loses_nothing_and_a_dropped_subscription_costs_nothing() {
        let hub = Hub::default();
        let mut subscription = hub.subscribe();
        drop(tokio::time::timeout(std::time::Duration::ZERO, subscription.next()).await);
        hub.publish(&uid("a"), report("a", PodStage::Syncing));
        assert!(matches!(subscription.next().await, PodChange::Updated(_)));
        drop(subscription);
        hub.publish(&uid("b"), report("b", PodStage::Syncing));
        assert!(lock(&hub.state).subscribers.is_empty());
    }
}

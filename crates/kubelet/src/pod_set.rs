//! Pods that wait for somebody: what the PLEG hands to those who need not keep up with it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minke_core::identity::PodUid;
use tokio::sync::Notify;

/// A set of Pods with one reader. It can't grow beyond the Pods there are, and a Pod that comes again while it waits
/// waits once. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodSet {
    inner: Arc<(Mutex<BTreeSet<PodUid>>, Notify)>,
}

impl PodSet {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<PodUid>> {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, uid: &PodUid) {
        self.lock().insert(uid.clone());
        self.inner.1.notify_one();
    }

    /// Waits for a Pod and takes it. Cancel-safe.
    pub(crate) async fn next(&self) -> PodUid {
        loop {
            let first = self.lock().pop_first();
            if let Some(uid) = first {
                return uid;
            }
            self.inner.1.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(s: &str) -> PodUid {
        PodUid::new(s).unwrap()
    }

    #[tokio::test]
    async fn a_pod_that_comes_often_waits_once() {
        let set = PodSet::default();
        for _ in 0..100 {
            set.add(&uid("a"));
        }
        set.add(&uid("b"));
        assert_eq!([set.next().await, set.next().await], [uid("a"), uid("b")]);
        let more = tokio::time::timeout(std::time::Duration::ZERO, set.next()).await;
        assert!(more.is_err(), "nothing is left");
        set.add(&uid("a"));
        assert_eq!(set.next().await, uid("a"), "a dropped wait loses nothing");
    }
}

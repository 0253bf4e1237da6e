//! What others want a worker to know. Coalesces, so it can't overflow and no sender ever waits.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::machine::Event;
use crate::{DesiredPod, Eviction, StopRequest};

#[derive(Debug, Default)]
struct Letters {
    changed: bool,
    probed: bool,
    returned: bool,
    /// The newest.
    update: Option<DesiredPod>,
    /// [`Event::Stop`] and [`Event::Evict`].
    ends: VecDeque<Event>,
}

/// The mailbox of one worker.
#[derive(Debug, Default)]
pub struct Mailbox {
    letters: Mutex<Letters>,
    wake: Notify,
}

impl Mailbox {
    fn add(&self, change: impl FnOnce(&mut Letters)) {
        change(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    /// The runtime changed something.
    pub fn changed(&self) {
        self.add(|letters| letters.changed = true);
    }

    /// Probes say something new.
    pub fn probed(&self) {
        self.add(|letters| letters.probed = true);
    }

    /// The runtime answers again.
    pub fn returned(&self) {
        self.add(|letters| letters.returned = true);
    }

    /// Something else is wanted. Only the newest counts.
    pub fn update(&self, desired: DesiredPod) {
        self.add(|letters| letters.update = Some(desired));
    }

    /// The Pod is to stop. Requests are not merged, because the order of grace periods matters; the same one twice
    /// is one.
    pub fn stop(&self, request: StopRequest) {
        self.end(Event::Stop(request));
    }

    /// The Pod is to make room.
    pub fn evict(&self, eviction: Eviction) {
        self.end(Event::Evict(eviction));
    }

    fn end(&self, event: Event) {
        self.add(|letters| {
            if letters.ends.back() != Some(&event) {
                letters.ends.push_back(event);
            }
        });
    }

    /// The next letter; stops before updates before news. Cancel-safe: a dropped call takes none.
    pub async fn next(&self) -> Event {
        loop {
            {
                let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(end) = letters.ends.pop_front() {
                    return end;
                }
                if let Some(desired) = letters.update.take() {
                    return Event::Updated(desired);
                }
                if std::mem::take(&mut letters.returned) {
                    return Event::Returned;
                }
                if std::mem::take(&mut letters.changed) {
                    return Event::Changed;
                }
                if std::mem::take(&mut letters.probed) {
                    return Event::Probed;
                }
            }
            self.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn letters_coalesce_and_stops_come_first_in_order() {
        let mailbox = Mailbox::default();
        let stop = |seconds| StopRequest { grace: Some(Duration::from_secs(seconds)), remove: false };
        for _ in 0..1000 {
            mailbox.changed();
        }
        for seconds in [9, 9, 3] {
            mailbox.stop(stop(seconds));
        }
        assert_eq!(mailbox.next().await, Event::Stop(stop(9)));
        assert_eq!(mailbox.next().await, Event::Stop(stop(3)));
        assert_eq!(mailbox.next().await, Event::Changed);
        for namespace in ["a", "b"] {
            let mut pod = k8s_openapi::api::core::v1::Pod::default();
            pod.metadata.namespace = Some(namespace.to_owned());
            mailbox.changed();
            mailbox.update(DesiredPod { pod: std::sync::Arc::new(pod), objects: std::sync::Arc::default() });
        }
        match mailbox.next().await {
            Event::Updated(desired) => assert_eq!(desired.pod.metadata.namespace.as_deref(), Some("b"), "latest wins"),
            other => panic!("{other:?}"),
        }
        assert_eq!(mailbox.next().await, Event::Changed);
        assert!(tokio::time::timeout(Duration::from_millis(1), mailbox.next()).await.is_err());
        mailbox.changed();
        assert_eq!(mailbox.next().await, Event::Changed);
    }
}

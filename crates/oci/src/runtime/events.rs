//! Events for subscribers.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use minke_core::clock::Clock;
use minke_core::identity::PodUid;
use minke_core::runtime::{EventService, RuntimeError, RuntimeEvent, RuntimeEventKind};
use tokio::sync::broadcast;

use super::EmbeddedRuntime;

/// How many events a subscriber may be behind.
const CAPACITY: usize = 1024;

/// A subscriber was too slow.
#[derive(Debug, thiserror::Error)]
#[error("{missed} events were missed; list everything again")]
struct Missed {
    missed: u64,
}

/// Where events are announced.
#[derive(Debug)]
pub(super) struct Events {
    clock: Arc<dyn Clock>,
    sender: broadcast::Sender<RuntimeEvent>,
}

impl Events {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, sender: broadcast::channel(CAPACITY).0 }
    }

    /// Announces; without subscribers it goes nowhere.
    pub(super) fn announce(&self, kind: RuntimeEventKind, id: &str, pod: &PodUid) {
        let event = RuntimeEvent { kind, id: id.to_owned(), pod: pod.clone(), created_at: self.clock.now() };
        let _ = self.sender.send(event);
    }

    fn stream(&self) -> BoxStream<'static, Result<RuntimeEvent, RuntimeError>> {
        let receiver = Some(self.sender.subscribe());
        let step = |receiver: Option<broadcast::Receiver<RuntimeEvent>>| async {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Ok(event) => Some((Ok(event), Some(receiver))),
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    Some((Err(RuntimeError::failed("subscribe", Missed { missed })), None))
                }
                Err(broadcast::error::RecvError::Closed) => None,
            }
        };
        stream::unfold(receiver, step).boxed()
    }
}

#[async_trait]
impl EventService for EmbeddedRuntime {
    fn subscribe(&self) -> Result<BoxStream<'static, Result<RuntimeEvent, RuntimeError>>, RuntimeError> {
        Ok(self.inner.events.stream())
    }
}

#[cfg(test)]
mod tests {
    use minke_core::clock::SystemClock;

    use super::*;

    #[tokio::test]
    async fn a_subscriber_that_is_too_slow_is_told_and_its_stream_ends() {
        let events = Events::new(Arc::new(SystemClock));
        let mut slow = events.stream();
        let pod = PodUid::new("u").unwrap();
        for number in 0..=CAPACITY {
            events.announce(RuntimeEventKind::Created, &number.to_string(), &pod);
        }
        let error = slow.next().await.unwrap().unwrap_err();
        assert!(minke_core::runtime::error_chain(&error).contains("events were missed"));
        assert!(slow.next().await.is_none());
    }

    #[tokio::test]
    async fn events_come_in_order_and_none_from_before() {
        let events = Events::new(Arc::new(SystemClock));
        let pod = PodUid::new("u").unwrap();
        events.announce(RuntimeEventKind::Created, "before", &pod);
        let mut stream = events.stream();
        events.announce(RuntimeEventKind::Started, "a", &pod);
        events.announce(RuntimeEventKind::Stopped, "a", &pod);
        assert_eq!(stream.next().await.unwrap().unwrap().kind, RuntimeEventKind::Started);
        assert_eq!(stream.next().await.unwrap().unwrap().kind, RuntimeEventKind::Stopped);
    }
}

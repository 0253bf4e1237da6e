//! Reads the runtime's events and turns each into a hint. Knows nothing of Pods and writes no state: of an event only
//! the Pod is believed, and of that only that it is worth a look. Kinds and times play no part, so duplicate,
//! late, forged and reordered events, and events that lack half of what they should carry, do no harm.
//!
//! [`Reconnect`] says what happens when the stream breaks.

use std::sync::Arc;

use futures_util::StreamExt;
use jiff::Timestamp;
use minke_core::clock::Clock;
use minke_core::runtime::{Runtime, RuntimeError, RuntimeEvent, error_chain};
use tokio::time::{Instant, sleep};

use super::control::Switch;
use super::hints::Hints;
use super::period::StreamState;
use super::reconnect::{GOOD_AFTER, Reconnect, UNSUPPORTED_DELAY};
use super::stats::Counters;

pub(super) struct StreamTask {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) hints: Arc<Hints>,
    pub(super) counters: Arc<Counters>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) switch: Switch,
}

impl StreamTask {
    /// Runs for ever. While the PLEG is stopped no stream is open.
    pub(super) async fn run(mut self) {
        loop {
            self.switch.on().await;
            let mut switch = self.switch.clone();
            tokio::select! {
                () = self.follow() => {}
                () = switch.off() => {}
            }
            self.counters.set_stream(StreamState::Down);
        }
    }

    async fn follow(&self) {
        let mut reconnect = Reconnect::default();
        let mut unsupported = false;
        loop {
            let good = match self.runtime.subscribe() {
                Ok(events) => {
                    unsupported = false;
                    self.read(events).await
                }
                Err(RuntimeError::Unsupported { .. }) => {
                    if !unsupported {
                        tracing::info!("the runtime has no events; polling");
                    }
                    unsupported = true;
                    self.counters.set_stream(StreamState::Unsupported);
                    self.hints.all();
                    sleep(UNSUPPORTED_DELAY).await;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(error = error_chain(&error), "can't subscribe to the runtime's events");
                    false
                }
            };
            self.counters.stream_errors.inc();
            let next = reconnect.failed(good);
            self.counters.set_stream(next.state);
            if next.gave_up {
                tracing::warn!("the runtime's event stream stays broken; polling until it is back");
            }
            if next.relist {
                self.hints.all();
            }
            sleep(next.delay).await;
        }
    }

    /// Reads until the stream breaks. Returns whether it was of use.
    async fn read(
        &self,
        mut events: impl futures_util::Stream<Item = Result<RuntimeEvent, RuntimeError>> + Unpin,
    ) -> bool {
        let opened = Instant::now();
        self.counters.stream_connects.inc();
        self.counters.set_stream(StreamState::Up);
        // What happened before the subscription is not replayed.
        self.hints.all();
        let mut received = false;
        let cause = loop {
            match events.next().await {
                Some(Ok(event)) => {
                    received = true;
                    self.counters.events_received.inc();
                    self.observe(&event);
                    self.hints.event(&event.pod, &event.id);
                }
                Some(Err(error)) => break error_chain(&error),
                None => break "it ended".to_owned(),
            }
        };
        tracing::warn!(cause, "the runtime's event stream broke");
        received || opened.elapsed() >= GOOD_AFTER
    }

    /// How late the event is, for the metric alone. A runtime that gives no time says nothing; one whose clock is ahead
    /// of ours is not early.
    fn observe(&self, event: &RuntimeEvent) {
        if event.created_at > Timestamp::UNIX_EPOCH {
            let late = self.clock.now().duration_since(event.created_at);
            self.counters.event_latency.observe(late.as_secs_f64().max(0.0));
        }
    }
}

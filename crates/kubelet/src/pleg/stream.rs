//! Reads the runtime's events and turns each into a hint. Knows nothing of Pods and writes no state.
//!
//! ```text
//!  Down ──subscribed──► Up ──error or end──► Down (full relist, back-off) ──► …
//!    └──unsupported──► Unsupported (for good: polling is all there is)
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use minke_core::runtime::{Runtime, RuntimeError, error_chain};
use tokio::time::{Instant, sleep};

use super::hints::Hints;
use super::period::StreamState;
use super::stats::Counters;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A connection that lasted this long, or brought an event, was a good one: the back-off starts over.
const GOOD_AFTER: Duration = Duration::from_secs(10);

pub(super) struct StreamTask {
    runtime: Arc<dyn Runtime>,
    hints: Arc<Hints>,
    counters: Arc<Counters>,
}

impl StreamTask {
    pub(super) fn new(runtime: Arc<dyn Runtime>, hints: Arc<Hints>, counters: Arc<Counters>) -> Self {
        Self { runtime, hints, counters }
    }

    pub(super) async fn run(self) {
        let mut delay = FIRST_DELAY;
        loop {
            let connected = Instant::now();
            let received = match self.runtime.subscribe() {
                Ok(mut events) => {
                    self.counters.stream_connects.inc();
                    self.counters.set_stream(StreamState::Up);
                    // What happened before the subscription is not replayed.
                    self.hints.all();
                    let mut received = 0_u64;
                    let error = loop {
                        match events.next().await {
                            Some(Ok(event)) => {
                                received += 1;
                                self.counters.events_received.inc();
                                self.hints.pod(&event.pod);
                            }
                            Some(Err(error)) => break Some(error),
                            None => break None,
                        }
                    };
                    let cause = error.map_or_else(|| "it ended".to_owned(), |e| error_chain(&e));
                    tracing::warn!(cause, "the runtime's event stream broke; polling until it is back");
                    received
                }
                Err(RuntimeError::Unsupported { .. }) => {
                    self.counters.set_stream(StreamState::Unsupported);
                    self.hints.all();
                    return;
                }
                Err(error) => {
                    tracing::debug!(error = error_chain(&error), "can't subscribe to the runtime's events");
                    0
                }
            };
            self.counters.stream_errors.inc();
            self.counters.set_stream(StreamState::Down);
            self.hints.all();
            if received > 0 || connected.elapsed() >= GOOD_AFTER {
                delay = FIRST_DELAY;
            }
            sleep(delay).await;
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }
}

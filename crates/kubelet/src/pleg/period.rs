//! How long until the next full relist.

use std::time::Duration;

use tokio::time::Instant;

/// Whether the runtime's event stream can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// It was not connected yet, or broke; it is being connected again.
    Down,
    /// The runtime has none.
    Unsupported,
    /// Events arrive.
    Up,
}

/// Decides the gap between full relists.
#[derive(Debug, Clone, Copy)]
pub struct Period {
    short: Duration,
    long: Duration,
    distrusted_until: Option<Instant>,
}

impl Period {
    /// `short` without events, `long` with.
    #[must_use]
    pub fn new(short: Duration, long: Duration) -> Self {
        Self { short, long: long.max(short), distrusted_until: None }
    }

    /// A full relist found a change of which the stream should have told. For one long period the stream is not
    /// relied on: a second reader may be stealing its events, or the runtime drops them.
    pub fn missed(&mut self, now: Instant) {
        self.distrusted_until = Some(now + self.long);
    }

    /// The gap from now to the next full relist.
    #[must_use]
    pub fn gap(&self, stream: StreamState, now: Instant) -> Duration {
        match stream {
            StreamState::Down | StreamState::Unsupported => self.short,
            StreamState::Up if self.distrusted_until.is_some_and(|until| now < until) => self.short,
            StreamState::Up => self.long,
        }
    }

    /// The gap after a relist that failed, and between looks at Pods that could not be inspected.
    #[must_use]
    pub fn retry(&self) -> Duration {
        self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_period_adapts_to_the_stream() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(30));
        let mut period = Period::new(short, long);
        let now = Instant::now();
        assert_eq!(period.gap(StreamState::Down, now), short);
        assert_eq!(period.gap(StreamState::Unsupported, now), short);
        assert_eq!(period.gap(StreamState::Up, now), long);
        period.missed(now);
        assert_eq!(period.gap(StreamState::Up, now), short, "a stream that misses events is not relied on");
        assert_eq!(period.gap(StreamState::Up, now + long), long, "for a while");
        assert_eq!(Period::new(long, short).gap(StreamState::Up, now), long, "never shorter than without a stream");
    }
}

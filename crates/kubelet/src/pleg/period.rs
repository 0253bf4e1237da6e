//! How long until the next full relist. Pure.
//!
//! ```text
//!  no stream ───────────────► short
//!  stream, trusted ─────────► long
//!  stream that missed things ► short, until a while has passed without a miss; the while doubles each time that
//!                              trust was given back and lost again
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// A stream that keeps missing things is not tried sooner than after this while.
const LONGEST_DISTRUST: Duration = Duration::from_secs(600);

/// Whether the runtime's event stream can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// It was not connected yet, or broke; it is being connected again.
    Down,
    /// It could not be connected several times in a row. Polling has taken over, until it is back.
    Polling,
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
    /// How long the stream is not relied on after the next miss.
    distrust: Duration,
    distrusted_until: Option<Instant>,
}

impl Period {
    /// `short` without events, `long` with.
    #[must_use]
    pub fn new(short: Duration, long: Duration) -> Self {
        let long = long.max(short);
        Self { short, long, distrust: long, distrusted_until: None }
    }

    /// Changes the durations; what is known of the stream stays.
    pub fn set(&mut self, short: Duration, long: Duration) {
        (self.short, self.long) = (short, long.max(short));
        self.distrust = self.distrust.max(self.long);
    }

    fn distrusts(&self, now: Instant) -> bool {
        self.distrusted_until.is_some_and(|until| now < until)
    }

    /// A full relist found a change of which the stream should have told: a second reader may be stealing its events,
    /// or the runtime drops them.
    pub fn missed(&mut self, now: Instant) {
        if self.distrusted_until.is_some() && !self.distrusts(now) {
            self.distrust = (self.distrust * 2).min(LONGEST_DISTRUST).max(self.long);
        }
        self.distrusted_until = Some(now + self.distrust);
    }

    /// A full relist, a long period after the one before it, found nothing that the stream had not told: it is as
    /// good as new.
    pub fn calm(&mut self, now: Instant) {
        if !self.distrusts(now) {
            (self.distrust, self.distrusted_until) = (self.long, None);
        }
    }

    /// The gap from now to the next full relist.
    #[must_use]
    pub fn gap(&self, stream: StreamState, now: Instant) -> Duration {
        match stream {
            StreamState::Down | StreamState::Polling | StreamState::Unsupported => self.short,
            StreamState::Up if self.distrusts(now) => self.short,
            StreamState::Up => self.long,
        }
    }

    /// The gap after a relist that failed, between looks at Pods that could not be inspected, and while it is not
    /// clear whether the stream missed something.
    #[must_use]
    pub fn retry(&self) -> Duration {
        self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn the_period_adapts_to_the_stream() {
        let mut period = Period::new(SHORT, LONG);
        let now = Instant::now();
        for down in [StreamState::Down, StreamState::Polling, StreamState::Unsupported] {
            assert_eq!(period.gap(down, now), SHORT);
        }
        assert_eq!(period.gap(StreamState::Up, now), LONG);
        period.missed(now);
        assert_eq!(period.gap(StreamState::Up, now), SHORT, "a stream that misses events is not relied on");
        assert_eq!(period.gap(StreamState::Up, now + LONG), LONG, "for a while");
        assert_eq!(Period::new(LONG, SHORT).gap(StreamState::Up, now), LONG, "never shorter than without a stream");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_loses_trust_again_and_again_is_trusted_ever_later() {
        let mut period = Period::new(SHORT, LONG);
        let mut now = Instant::now();
        for expected in [30, 60, 120, 240, 480, 600, 600] {
            period.missed(now);
            let expected = Duration::from_secs(expected);
            assert_eq!(period.gap(StreamState::Up, now + expected - SHORT), SHORT);
            assert_eq!(period.gap(StreamState::Up, now + expected), LONG);
            now += expected;
        }
        period.calm(now);
        period.missed(now);
        assert_eq!(period.gap(StreamState::Up, now + LONG), LONG, "a calm period makes good");
    }

    #[tokio::test(start_paused = true)]
    async fn further_misses_while_distrusted_prolong_and_do_not_double() {
        let mut period = Period::new(SHORT, LONG);
        let now = Instant::now();
        for second in 0..20 {
            period.missed(now + SHORT * second);
            period.calm(now + SHORT * second);
        }
        assert_eq!(period.gap(StreamState::Up, now + SHORT * 48), SHORT);
        assert_eq!(period.gap(StreamState::Up, now + SHORT * 49), LONG);
    }

    #[tokio::test(start_paused = true)]
    async fn the_durations_can_be_changed() {
        let mut period = Period::new(SHORT, LONG);
        let now = Instant::now();
        period.set(SHORT * 2, LONG * 10);
        assert_eq!((period.gap(StreamState::Down, now), period.gap(StreamState::Up, now)), (SHORT * 2, LONG * 10));
    }
}

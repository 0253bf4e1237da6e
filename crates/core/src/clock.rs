//! Wall-clock time through one port, so that tests and simulations decide what time it is.
//!
//! Monotonic time (timers, back-off, time-outs) is tokio's and can be paused; wall-clock time is only for what
//! people and other programs read: status timestamps, log lines, ages.

use jiff::Timestamp;

/// The wall clock.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// The time now. It may jump in either direction; nothing may rely on it to order events.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

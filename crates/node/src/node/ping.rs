//! Whether whoever knows the node answers (pure).
//!
//! It is asked once a period, and never twice at a time: one that does not answer in time counts as silent while its answer is
//! still waited for, and is asked again when that has come. Its silence is said of the node; it ends nothing.

use std::time::Duration;

use minke_core::provider::NodeDescription;
use tokio::time::Instant;

use super::conditions::Described;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle { next: Instant },
    Asked { until: Instant, told: bool },
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum PingStep {
    /// Nothing yet.
    Wait,
    /// Ask for a description.
    Ask,
    /// This is to be said of the node.
    Tell(Described),
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Ping {
    period: Duration,
    bound: Duration,
    state: State,
    last: Option<Box<NodeDescription>>,
}

impl Ping {
    /// Due at once.
    #[must_use]
    pub fn new(period: Duration, bound: Duration, now: Instant) -> Self {
        Self { period, bound, state: State::Idle { next: now }, last: None }
    }

    /// When [`Self::step`] has something to say.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            State::Idle { next } => Some(next),
            State::Asked { until, told } => (!told).then_some(until),
        }
    }

    /// Time passed.
    pub fn step(&mut self, now: Instant) -> PingStep {
        match self.state {
            State::Idle { next } if next <= now => {
                self.state = State::Asked { until: now + self.bound, told: false };
                PingStep::Ask
            }
            State::Asked { until, told: false } if until <= now => {
                self.state = State::Asked { until, told: true };
                self.silent(format!("no answer within {} s", self.bound.as_secs()))
            }
            State::Idle { .. } | State::Asked { .. } => PingStep::Wait,
        }
    }

    /// The answer came, or the call failed.
    pub fn answered(&mut self, answer: Result<NodeDescription, String>, now: Instant) -> PingStep {
        self.state = State::Idle { next: now + self.period };
        match answer {
            Ok(described) => {
                let described = Box::new(described);
                self.last = Some(described.clone());
                PingStep::Tell(Described::Now(described))
            }
            Err(why) => self.silent(why),
        }
    }

    /// Asks again soon, though the period is not over.
    pub fn hurry(&mut self, now: Instant) {
        if let State::Idle { next } = &mut self.state {
            *next = now;
        }
    }

    fn silent(&self, why: String) -> PingStep {
        PingStep::Tell(Described::Silent { before: self.last.clone(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn s18_one_question_at_a_time_and_silence_is_told_once() {
        let start = Instant::now();
        let mut ping = Ping::new(10 * SECOND, 2 * SECOND, start);
        assert_eq!(ping.step(start), PingStep::Ask);
        assert_eq!(ping.step(start + SECOND), PingStep::Wait);
        assert_eq!(ping.due(), Some(start + 2 * SECOND));
        let silent = ping.step(start + 2 * SECOND);
        let why = "no answer within 2 s".to_owned();
        assert_eq!(silent, PingStep::Tell(Described::Silent { before: None, why }));
        for later in 3..100 {
            assert_eq!(ping.step(start + later * SECOND), PingStep::Wait, "it is still being asked");
        }
        assert_eq!(ping.due(), None);
        let late = start + 100 * SECOND;
        let node = NodeDescription { hostname: "h".to_owned(), ..NodeDescription::default() };
        assert_eq!(ping.answered(Ok(node.clone()), late), PingStep::Tell(Described::Now(Box::new(node.clone()))));
        assert_eq!(ping.step(late + 9 * SECOND), PingStep::Wait);
        assert_eq!(ping.step(late + 10 * SECOND), PingStep::Ask);
        let known = Some(Box::new(node));
        let failed = ping.answered(Err("broken".to_owned()), late + 11 * SECOND);
        assert_eq!(failed, PingStep::Tell(Described::Silent { before: known, why: "broken".to_owned() }));
    }
}

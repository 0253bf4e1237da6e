//! How events reach subscribers: in order and at once, unless the plan says otherwise.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::SplitMix;
use crate::runtime::{RuntimeError, RuntimeEvent};

/// What happens to one event on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It arrives.
    Deliver,
    /// It is lost.
    Lose,
    /// It arrives twice.
    Duplicate,
    /// It arrives late.
    Delay(Duration),
    /// It arrives before the one that was made before it, if that has not been read yet.
    Overtake,
    /// The stream errs instead, and ends.
    Break,
}

/// Decides the fate of each event.
pub struct EventPlan(Box<dyn FnMut(&RuntimeEvent) -> Delivery + Send>);

/// How often, in 1000 events, each fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventRates {
    /// Lost.
    pub lose: u32,
    /// Doubled.
    pub duplicate: u32,
    /// Late, by up to 5 s.
    pub delay: u32,
    /// Out of order.
    pub overtake: u32,
    /// Stream broken.
    pub break_stream: u32,
}

impl EventPlan {
    /// Everything arrives.
    #[must_use]
    pub fn faithful() -> Self {
        Self::new(|_| Delivery::Deliver)
    }

    /// As this function says.
    pub fn new(plan: impl FnMut(&RuntimeEvent) -> Delivery + Send + 'static) -> Self {
        Self(Box::new(plan))
    }

    /// Random faults from a seed.
    #[must_use]
    pub fn seeded(seed: u64, rates: EventRates) -> Self {
        let mut random = SplitMix::new(seed);
        Self::new(move |_| {
            if random.chance(rates.lose) {
                Delivery::Lose
            } else if random.chance(rates.duplicate) {
                Delivery::Duplicate
            } else if random.chance(rates.delay) {
                Delivery::Delay(Duration::from_millis(random.below(5000)))
            } else if random.chance(rates.overtake) {
                Delivery::Overtake
            } else if random.chance(rates.break_stream) {
                Delivery::Break
            } else {
                Delivery::Deliver
            }
        })
    }

    pub(super) fn decide(&mut self, event: &RuntimeEvent) -> Delivery {
        (self.0)(event)
    }
}

impl fmt::Debug for EventPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventPlan(…)")
    }
}

/// The queue of one subscriber.
#[derive(Debug, Default)]
pub(super) struct Subscriber {
    queue: VecDeque<(Instant, RuntimeEvent)>,
    broken: bool,
}

/// What a subscriber finds when it looks.
pub(super) enum Next {
    Event(RuntimeEvent),
    /// The stream errs now and then ends.
    Broken(RuntimeError),
    /// Nothing before this moment, if any.
    Wait(Option<Instant>),
}

impl Subscriber {
    pub(super) fn push(&mut self, event: &RuntimeEvent, delivery: Delivery, now: Instant) {
        if self.broken {
            return;
        }
        match delivery {
            Delivery::Deliver => self.queue.push_back((now, event.clone())),
            Delivery::Lose => {}
            Delivery::Duplicate => {
                self.queue.push_back((now, event.clone()));
                self.queue.push_back((now, event.clone()));
            }
            Delivery::Delay(by) => self.queue.push_back((now + by, event.clone())),
            Delivery::Overtake => {
                let at = self.queue.len().saturating_sub(1);
                self.queue.insert(at, (now, event.clone()));
            }
            Delivery::Break => self.broken = true,
        }
    }

    pub(super) fn break_now(&mut self) {
        self.broken = true;
    }

    pub(super) fn next(&mut self, now: Instant) -> Next {
        if let Some(due) = self.queue.iter().position(|(at, _)| *at <= now)
            && let Some((_, event)) = self.queue.remove(due)
        {
            return Next::Event(event);
        }
        if self.broken {
            let source = "the event stream broke".into();
            return Next::Broken(RuntimeError::Unavailable { operation: "events", source });
        }
        Next::Wait(self.queue.iter().map(|(at, _)| *at).min())
    }
}

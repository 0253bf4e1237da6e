//! What is left of a credential's requests, shared by all that use it.

use jiff::{SignedDuration, Timestamp};

use super::answer::RateHeaders;

/// So many requests are kept for registrations and removals: lists wait first.
const RESERVE: u64 = 200;

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A job waits for it, or a Pod.
    High,
    /// It can be asked later.
    Low,
}

/// The budget as the last answers told it. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    remaining: Option<u64>,
    reset: Option<Timestamp>,
    /// Nothing before this: the forge said so.
    closed_until: Option<Timestamp>,
}

impl Budget {
    /// What an answer told.
    pub fn observe(&mut self, headers: &RateHeaders) {
        if headers.remaining.is_some() {
            (self.remaining, self.reset) = (headers.remaining, headers.reset);
        }
    }

    /// The forge refused for want of budget.
    pub fn close(&mut self, until: Timestamp) {
        self.closed_until = self.closed_until.max(Some(until));
    }

    /// Whether a request may be made.
    ///
    /// # Errors
    ///
    /// Not before this.
    pub fn allows(&self, priority: Priority, now: Timestamp) -> Result<(), Timestamp> {
        if let Some(until) = self.closed_until.filter(|until| now < *until) {
            return Err(until);
        }
        let kept = match priority {
            Priority::High => 0,
            Priority::Low => RESERVE,
        };
        match (self.remaining, self.reset) {
            // A second more: clocks differ.
            (Some(remaining), Some(reset)) if remaining <= kept && now < reset => {
                Err(reset + SignedDuration::from_secs(1))
            }
            _ => Ok(()),
        }
    }

    /// How many requests are left, if that was told.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn left(remaining: u64) -> Budget {
        let mut budget = Budget::default();
        let reset = Some(NOW + SignedDuration::from_mins(10));
        budget.observe(&RateHeaders { remaining: Some(remaining), reset, retry_after: None });
        budget
    }

    #[test]
    fn lists_wait_before_registrations_do() {
        let later = NOW + SignedDuration::from_secs(601);
        assert_eq!(left(201).allows(Priority::Low, NOW), Ok(()));
        assert_eq!(left(200).allows(Priority::Low, NOW), Err(later));
        assert_eq!(left(200).allows(Priority::High, NOW), Ok(()));
        assert_eq!(left(0).allows(Priority::High, NOW), Err(later));
        assert_eq!(left(0).allows(Priority::High, later), Ok(()), "a new hour");
    }

    #[test]
    fn what_the_forge_said_holds() {
        let mut budget = left(5000);
        budget.close(NOW + SignedDuration::from_secs(60));
        budget.close(NOW + SignedDuration::from_secs(30));
        assert_eq!(budget.allows(Priority::High, NOW), Err(NOW + SignedDuration::from_secs(60)));
    }
}

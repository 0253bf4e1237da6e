//! The limits that hold at a moment.

use jiff::{SignedDuration, Timestamp};

use super::schedule::Schedule;

/// How a set scales.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// So many runners at least, busy ones included.
    pub min: u32,
    /// So many at most, at every moment.
    pub max: u32,
    /// So many more than there are jobs.
    pub min_idle: u32,
    /// Other limits at certain times. For each limit, the first active entry that names it decides.
    pub schedules: Vec<Schedule>,
    /// More are wanted for so long before any is created.
    pub up: SignedDuration,
    /// Fewer are wanted for so long before any is retired.
    pub down: SignedDuration,
}

/// What holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The least; never above the most.
    pub min: u32,
    /// The most.
    pub max: u32,
    /// The idle headroom.
    pub min_idle: u32,
    /// When this may change.
    pub until: Option<Timestamp>,
}

impl Default for Scaling {
    fn default() -> Self {
        let down = SignedDuration::from_mins(1);
        Self { min: 0, max: 10, min_idle: 0, schedules: Vec::new(), up: SignedDuration::ZERO, down }
    }
}

impl Scaling {
    /// The limits at `now`.
    #[must_use]
    pub fn limits(&self, now: Timestamp) -> Limits {
        let (mut min, mut max, mut min_idle, mut until) = (None, None, None, None::<Timestamp>);
        for schedule in &self.schedules {
            let position = schedule.position(now);
            until = until.into_iter().chain(position.next).min();
            if position.active {
                min = min.or(schedule.min);
                max = max.or(schedule.max);
                min_idle = min_idle.or(schedule.min_idle);
            }
        }
        // A schedule moves within what the set allows at all: its slots.
        let max = max.unwrap_or(self.max).min(self.max);
        Limits { min: min.unwrap_or(self.min).min(max), max, min_idle: min_idle.unwrap_or(self.min_idle), until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Recurrence;
    use jiff::ToSpan;
    use jiff::civil::datetime;

    fn daily(min: Option<u32>, max: Option<u32>) -> Schedule {
        let start = datetime(2026, 1, 1, 9, 0, 0, 0);
        let mut schedule = Schedule::new(start, start + 8.hours(), "UTC", Recurrence::Daily, None).unwrap();
        (schedule.min, schedule.max) = (min, max);
        schedule
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_active_entry_that_names_a_limit_decides() {
        let schedules = vec![daily(None, Some(6)), daily(Some(4), Some(2))];
        let scaling = Scaling { schedules, ..Scaling::default() };
        let day = scaling.limits(at("2026-02-02T12:00Z"));
        assert_eq!((day.min, day.max, day.until), (4, 6, Some(at("2026-02-02T17:00Z"))));
        let night = scaling.limits(at("2026-02-02T18:00Z"));
        assert_eq!((night.min, night.max, night.until), (0, 10, Some(at("2026-02-03T09:00Z"))));
    }

    #[test]
    fn a_schedule_is_clamped_to_the_sets_maximum() {
        let scaling = Scaling { max: 5, schedules: vec![daily(Some(50), Some(60))], ..Scaling::default() };
        let limits = scaling.limits(at("2026-02-02T12:00Z"));
        assert_eq!((limits.min, limits.max), (5, 5));
    }
}

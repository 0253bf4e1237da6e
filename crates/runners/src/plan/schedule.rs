//! Limits by the clock: once, or again and again, in a time zone.
//!
//! An entry's first interval is `[start, end)` in local time; the others are whole days, weeks, months or years later, at
//! the same local time, so that nine o'clock stays nine o'clock when the clocks change. A month that has no such day is served
//! on its last.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// How often an interval comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the calendar")]
pub enum Recurrence {
    Once,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

/// Limits for some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    start: DateTime,
    end: DateTime,
    zone: TimeZone,
    recurrence: Recurrence,
    until: Option<Timestamp>,
    /// The minimum while it is active.
    pub min: Option<u32>,
    /// The idle headroom while it is active.
    pub min_idle: Option<u32>,
    /// The maximum while it is active.
    pub max: Option<u32>,
}

/// A schedule that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// It ends before it begins.
    #[error("a schedule must end after its start {start}, not at {end}")]
    Backwards {
        /// Its start.
        start: DateTime,
        /// Its end.
        end: DateTime,
    },
    /// Two intervals would overlap.
    #[error("a schedule must end before it begins again: from {start} to {end} is longer than its recurrence")]
    Overlap {
        /// Its start.
        start: DateTime,
        /// Its end.
        end: DateTime,
    },
    /// There is no such zone.
    #[error("time zone {0:?} is unknown; use a name like Europe/Berlin or UTC")]
    Zone(String),
}

/// Where a moment is in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) active: bool,
    /// When that changes next, if ever.
    pub(super) next: Option<Timestamp>,
}

impl Schedule {
    /// A schedule without limits yet.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    pub fn new(
        start: DateTime,
        end: DateTime,
        zone: &str,
        recurrence: Recurrence,
        until: Option<Timestamp>,
    ) -> Result<Self, BadSchedule> {
        let zone = TimeZone::get(zone).map_err(|_| BadSchedule::Zone(zone.to_owned()))?;
        if end <= start {
            return Err(BadSchedule::Backwards { start, end });
        }
        let schedule = Self { start, end, zone, recurrence, until, min: None, min_idle: None, max: None };
        match schedule.shifted(start, 1) {
            Some(again) if recurrence != Recurrence::Once && again < end => Err(BadSchedule::Overlap { start, end }),
            Some(_) | None => Ok(schedule),
        }
    }

    /// Whether it is active, and until when that is so.
    pub(super) fn position(&self, now: Timestamp) -> Position {
        let estimate = self.estimate(now);
        let mut next = None;
        for number in estimate.saturating_sub(1).max(0)..=estimate.saturating_add(2) {
            let Some((start, end)) = self.interval(number) else { continue };
            if self.until.is_some_and(|until| start >= until) {
                break;
            }
            if start <= now && now < end {
                return Position { active: true, next: Some(end) };
            }
            if start > now {
                next = Some(start);
                break;
            }
        }
        Position { active: false, next }
    }

    /// The interval of this number; `None` beyond the calendar's end, or when there is none.
    fn interval(&self, number: i64) -> Option<(Timestamp, Timestamp)> {
        if self.recurrence == Recurrence::Once && number != 0 {
            return None;
        }
        let moment = |local| self.zone.to_timestamp(self.shifted(local, number)?).ok();
        Some((moment(self.start)?, moment(self.end)?))
    }

    fn shifted(&self, local: DateTime, number: i64) -> Option<DateTime> {
        let span = match self.recurrence {
            Recurrence::Once => return Some(local),
            Recurrence::Daily => Span::new().try_days(number),
            Recurrence::Weekly => Span::new().try_weeks(number),
            Recurrence::Monthly => Span::new().try_months(number),
            Recurrence::Yearly => Span::new().try_years(number),
        };
        local.checked_add(span.ok()?).ok()
    }

    /// About the number of the interval that a moment is in.
    fn estimate(&self, now: Timestamp) -> i64 {
        let local = self.zone.to_datetime(now);
        let days = local.date().duration_since(self.start.date()).as_hours() / 24;
        let years = i64::from(local.year()) - i64::from(self.start.year());
        let number = match self.recurrence {
            Recurrence::Once => 0,
            Recurrence::Daily => days,
            Recurrence::Weekly => days / 7,
            Recurrence::Monthly => years * 12 + i64::from(local.month()) - i64::from(self.start.month()),
            Recurrence::Yearly => years,
        };
        number.max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::datetime;
    use jiff::{SignedDuration, ToSpan};
    use proptest::prelude::*;

    fn local(text: &str, zone: &str) -> Timestamp {
        let local: DateTime = text.parse().unwrap();
        TimeZone::get(zone).unwrap().to_timestamp(local).unwrap()
    }

    fn utc(text: &str) -> Timestamp {
        local(text, "UTC")
    }

    fn schedule(start: &str, end: &str, recurrence: Recurrence) -> Schedule {
        Schedule::new(start.parse().unwrap(), end.parse().unwrap(), "UTC", recurrence, None).unwrap()
    }

    fn position(schedule: &Schedule, at: &str) -> (bool, Option<Timestamp>) {
        let position = schedule.position(utc(at));
        (position.active, position.next)
    }

    #[test]
    fn onetime_about_to_start_started_about_to_end_ended() {
        let once = schedule("2026-03-01T09:00", "2026-03-01T17:00", Recurrence::Once);
        assert_eq!(position(&once, "2026-03-01T08:59:59"), (false, Some(utc("2026-03-01T09:00"))));
        assert_eq!(position(&once, "2026-03-01T09:00"), (true, Some(utc("2026-03-01T17:00"))));
        assert!(position(&once, "2026-03-01T16:59:59").0);
        assert_eq!(position(&once, "2026-03-01T17:00"), (false, None));
    }

    #[test]
    fn weekly_first_recurrence_and_last() {
        let start = datetime(2026, 3, 6, 0, 0, 0, 0);
        let until = Some(utc("2026-03-20T00:00"));
        let weekly = Schedule::new(start, start + 2.days(), "UTC", Recurrence::Weekly, until).unwrap();
        assert_eq!(position(&weekly, "2026-03-06T00:00"), (true, Some(utc("2026-03-08T00:00"))));
        assert_eq!(position(&weekly, "2026-03-08T00:00"), (false, Some(utc("2026-03-13T00:00"))));
        assert!(position(&weekly, "2026-03-14T23:00").0);
        assert_eq!(position(&weekly, "2026-03-15T00:00"), (false, None), "none after until");
        assert_eq!(position(&weekly, "2026-03-20T01:00"), (false, None));
    }

    #[test]
    fn repeated_forever() {
        let daily = schedule("2020-01-01T22:00", "2020-01-02T06:00", Recurrence::Daily);
        assert_eq!(position(&daily, "2077-05-05T03:00"), (true, Some(utc("2077-05-05T06:00"))));
        assert_eq!(position(&daily, "2077-05-05T06:00"), (false, Some(utc("2077-05-05T22:00"))));
    }

    #[test]
    fn monthly_first_recurrence_and_on_short_months() {
        let monthly = schedule("2026-01-31T00:00", "2026-01-31T12:00", Recurrence::Monthly);
        assert!(position(&monthly, "2026-01-31T00:00:01").0);
        assert_eq!(position(&monthly, "2026-02-01T00:00"), (false, Some(utc("2026-02-28T00:00"))));
        assert!(position(&monthly, "2026-02-28T11:59:59").0);
        assert_eq!(position(&monthly, "2026-02-28T12:00"), (false, Some(utc("2026-03-31T00:00"))));
    }

    #[test]
    fn yearly_over_the_turn_of_the_year() {
        let yearly = schedule("2024-12-24T00:00", "2025-01-02T00:00", Recurrence::Yearly);
        assert_eq!(position(&yearly, "2027-01-01T12:00"), (true, Some(utc("2027-01-02T00:00"))));
        assert_eq!(position(&yearly, "2027-06-01T00:00"), (false, Some(utc("2027-12-24T00:00"))));
    }

    #[test]
    fn nine_o_clock_stays_nine_o_clock() {
        let zone = "Europe/Berlin";
        let nine = datetime(2026, 3, 27, 9, 0, 0, 0);
        let daily = Schedule::new(nine, nine + 8.hours(), zone, Recurrence::Daily, None).unwrap();
        for day in ["2026-03-28", "2026-03-29", "2026-03-30"] {
            let start = local(&format!("{day}T09:00"), zone);
            assert!(daily.position(start).active, "{day}");
            assert!(!daily.position(start - SignedDuration::from_secs(1)).active, "{day}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let nine = datetime(2026, 3, 1, 9, 0, 0, 0);
        let new = |end, zone, recurrence| Schedule::new(nine, end, zone, recurrence, None);
        assert!(matches!(new(nine, "UTC", Recurrence::Once), Err(BadSchedule::Backwards { .. })));
        assert!(matches!(new(nine + 25.hours(), "UTC", Recurrence::Daily), Err(BadSchedule::Overlap { .. })));
        assert!(new(nine + 24.hours(), "UTC", Recurrence::Daily).is_ok());
        assert!(matches!(new(nine + 1.hour(), "Mars/Olympus", Recurrence::Once), Err(BadSchedule::Zone(_))));
    }

    proptest! {
        /// Against a model that walks day by day; and the calendar's ends don't break it.
        #[test]
        fn daily_is_what_a_walk_says(hours in 0_i64..3000, length in 1_i64..=24, far: i32) {
            let start = datetime(2026, 1, 1, 5, 0, 0, 0);
            let daily = Schedule::new(start, start + length.hours(), "UTC", Recurrence::Daily, None).unwrap();
            let first = utc("2026-01-01T05:00");
            let now = first + SignedDuration::from_hours(hours);
            prop_assert_eq!(daily.position(now).active, hours % 24 < length);
            prop_assert!(daily.position(now).next.is_some_and(|next| next > now));
            let _ = daily.position(Timestamp::from_second(i64::from(far) * 100).unwrap());
            let _ = daily.position(Timestamp::MAX);
            let _ = daily.position(Timestamp::MIN);
        }
    }
}

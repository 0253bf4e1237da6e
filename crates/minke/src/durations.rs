//! Durations and points in time as people type them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Reads `90`, `90s`, `1m30s`, `1.5h`, `250ms`. A bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration: write for example 30s, 5m, 1h30m or 250ms");
    let text_left = text.trim();
    if let Ok(seconds) = text_left.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| bad());
    }
    let mut rest = text_left;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        let unit = &rest[digits..];
        let letters = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let seconds = match &unit[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(bad()),
        };
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = &unit[letters..];
    }
    if text_left.is_empty() { Err(bad()) } else { Ok(total) }
}

/// A point in time, given as one or as an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// At this time.
    At(Timestamp),
}

impl Since {
    /// Reads a duration or an RFC 3339 time.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(ago) = duration(text) {
            return Ok(Self::Ago(ago));
        }
        text.parse()
            .map(Self::At)
            .map_err(|_| format!("{text:?} is neither a duration (10m, 2h) nor a time (2026-01-31T12:00:00Z)"))
    }

    /// The point in time, seen from `now`. An age beyond the beginning of time is that beginning.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(age) => {
                SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok()).unwrap_or(Timestamp::MIN)
            }
        }
    }
}

/// How long ago, in one or two units, as tables show it: `5s`, `3m20s`, `4h`, `12d`.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => format!("{minutes}m{}s", seconds % 60),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 48 => format!("{hours}h"),
        () => format!("{days}d"),
    }
}

/// A length of time as results show it: `850ms`, `2.41s`, `3m20s`.
pub(crate) fn short(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{:.2}s", duration.as_secs_f64()),
        _ => age(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_type_them() {
        for (text, ms) in [
            ("0", 0),
            ("90", 90_000),
            ("1.5", 1_500),
            ("250ms", 250),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("1d2h", 93_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", " ", "s", "5x", "-1", "1m-", "1..2s", "1e400", "99999999999999999999h", "5 m", "NaN", "inf"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn since_is_an_age_or_a_time() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let at = |text| Since::parse(text).map(|s| s.resolve(now).to_string());
        assert_eq!(at("1h").unwrap(), "2026-01-01T23:00:00Z");
        assert_eq!(at("2026-01-01T12:00:00+02:00").unwrap(), "2026-01-01T10:00:00Z");
        assert_eq!(at("99999999d").unwrap(), Timestamp::MIN.to_string());
        assert!(at("yesterday").unwrap_err().contains("neither"));
    }

    #[test]
    fn ages_have_at_most_two_units() {
        for (seconds, text) in [(0, "0s"), (119, "119s"), (125, "2m5s"), (3600, "60m"), (10_800, "3h"), (400_000, "4d")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
        assert_eq!(short(Duration::from_millis(52)), "52ms");
        assert_eq!(short(Duration::from_millis(2_413)), "2.41s");
    }
}

//! Repeated measurements of one thing.

use std::fmt;
use std::time::Duration;

/// In what something is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    KibiBytes,
    /// Of one core.
    Percent,
    /// Whole things.
    Number,
    /// So many a second.
    PerSecond,
}

/// Measurements of one thing; never empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    unit: Unit,
    sorted: Vec<f64>,
}

impl Sample {
    /// `None` without measurements.
    pub(crate) fn new(unit: Unit, mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self { unit, sorted: values })
    }

    pub(crate) fn of_times(times: &[Duration]) -> Option<Self> {
        Self::new(Unit::Milliseconds, times.iter().map(|time| time.as_secs_f64() * 1e3).collect())
    }

    /// The middle one; of an even number the mean of the two in the middle.
    pub(crate) fn median(&self) -> f64 {
        let half = self.sorted.len() / 2;
        if self.sorted.len() % 2 == 1 {
            self.sorted[half]
        } else {
            f64::midpoint(self.sorted[half - 1], self.sorted[half])
        }
    }
}

impl Sample {
    /// The value that this share of all does not exceed.
    fn percentile(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        let rank = (self.sorted.len() as f64 * share).ceil() as usize;
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = match self.unit {
            Unit::Milliseconds => (1.0, "ms"),
            // A thing of kilobytes is told in them.
            Unit::KibiBytes if self.median() < 100.0 => (1.0, "KiB"),
            Unit::KibiBytes => (1024.0, "MiB"),
            Unit::Percent => (1.0, "%"),
            Unit::Number => return write!(f, "{:.0}", self.median()),
            Unit::PerSecond => (1.0, "/s"),
        };
        let number = |value: f64| {
            let value = value / divisor;
            match value {
                _ if self.unit == Unit::Number => format!("{value:.0}"),
                _ if value < 1.0 => format!("{value:.2}"),
                _ if value < 100.0 => format!("{value:.1}"),
                _ => format!("{value:.0}"),
            }
        };
        write!(f, "{} {unit}", number(self.median()))?;
        if self.sorted.len() >= 100 {
            let [p99, last] = [self.percentile(0.99), self.percentile(1.0)].map(number);
            write!(f, " (p99 {p99}, most {last}, n={})", self.sorted.len())?;
        } else if let [first, .., last] = self.sorted.as_slice() {
            write!(f, " ({}–{}, n={})", number(*first), number(*last), self.sorted.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle_and_the_range_is_told() {
        let sample = Sample::new(Unit::Milliseconds, vec![30.0, 10.0, 200.0]).unwrap();
        assert_eq!(sample.to_string(), "30.0 ms (10.0–200, n=3)");
        assert_eq!(Sample::new(Unit::KibiBytes, vec![1024.0, 3072.0]).unwrap().median(), 2048.0);
        assert_eq!(Sample::new(Unit::KibiBytes, vec![1536.0]).unwrap().to_string(), "1.5 MiB");
        assert_eq!(Sample::new(Unit::Milliseconds, vec![]), None);
    }

    #[test]
    fn many_measurements_are_told_by_their_ninety_ninth_percentile() {
        let sample = Sample::new(Unit::Milliseconds, (1..=200).map(f64::from).collect()).unwrap();
        assert_eq!(sample.to_string(), "100 ms (p99 198, most 200, n=200)");
        assert_eq!(Sample::new(Unit::Percent, vec![0.123]).unwrap().to_string(), "0.12 %");
    }
}

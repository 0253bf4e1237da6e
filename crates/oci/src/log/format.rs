//! One record as text.

use jiff::Timestamp;

/// Which of the container's outputs a record came from. A terminal has only standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Self::Stdout => b"stdout",
            Self::Stderr => b"stderr",
        }
    }
}

/// Appends a time as `2006-01-02T15:04:05.000000000Z`, always nine digits, as the kubelet writes it. By hand: this
/// runs in every shim, for every line, and a calendar library would cost each shim its pages.
pub(crate) fn push_timestamp(out: &mut Vec<u8>, time: Timestamp) {
    let nanos = time.as_nanosecond();
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(0);
    let fraction = u64::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400).cast_unsigned();
    digits(out, year, 4);
    out.push(b'-');
    digits(out, month, 2);
    out.push(b'-');
    digits(out, day, 2);
    out.push(b'T');
    digits(out, second / 3600, 2);
    out.push(b':');
    digits(out, second / 60 % 60, 2);
    out.push(b':');
    digits(out, second % 60, 2);
    out.push(b'.');
    digits(out, fraction, 9);
    out.push(b'Z');
}

fn digits(out: &mut Vec<u8>, mut number: u64, count: usize) {
    let mut text = [b'0'; 9];
    for digit in text[..count].iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    out.extend_from_slice(&text[..count]);
}

/// Year, month and day of a number of days since 1970-01-01, counting years from March so that the leap day is last.
fn civil(days: i64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year.max(0).cast_unsigned(), month.cast_unsigned(), day.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(time: Timestamp) -> String {
        let mut out = Vec::new();
        push_timestamp(&mut out, time);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_have_nine_digits_and_end_with_z() {
        assert_eq!(text(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(text("2024-02-29T23:59:59.5Z".parse().unwrap()), "2024-02-29T23:59:59.500000000Z");
    }

    proptest! {
        #[test]
        fn any_time_reads_back_as_itself(seconds in -60_000_000_000_i64..250_000_000_000, nanos in 0_i32..1_000_000_000) {
            let time = Timestamp::new(seconds, nanos).unwrap();
            prop_assert_eq!(text(time).parse::<Timestamp>().unwrap(), time);
        }
    }
}

//! Times: CRI counts nanoseconds since 1970, and zero is none.

use jiff::Timestamp;

/// A time, if it is one.
pub(crate) fn time(nanoseconds: i64) -> Option<Timestamp> {
    if nanoseconds > 0 { Timestamp::from_nanosecond(i128::from(nanoseconds)).ok() } else { None }
}

/// A time that is always given; one that is not is 1970.
pub(crate) fn given(nanoseconds: i64) -> Timestamp {
    time(nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_time() {
        assert_eq!((time(0), time(i64::MIN)), (None, None));
        assert_eq!(time(1_500_000_000), Some(Timestamp::from_millisecond(1500).unwrap()));
        assert_eq!(given(0), Timestamp::UNIX_EPOCH);
        assert!(time(i64::MAX).is_some());
    }
}

//! Exact reading of Kubernetes quantities (`100m`, `1.5Gi`, `2e3`), without floating point.
//!
//! As upstream: nothing finer than a billionth (finer amounts are rounded away from zero), nothing greater than
//! 2⁶³−1 in magnitude (greater ones are capped).

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANOS: i128 = 1_000_000_000;
const MOST: i128 = i64::MAX as i128 * NANOS;

/// An amount of a resource, exact to a billionth. Arithmetic saturates at ±(2⁶³−1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Amount(i128);

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: a number with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e3)")]
pub struct QuantityError(pub String);

impl Amount {
    /// None of it.
    pub const ZERO: Self = Self(0);

    /// Whole units (bytes, cores).
    #[must_use]
    pub fn from_units(units: i64) -> Self {
        Self(i128::from(units) * NANOS).capped()
    }

    /// Thousandths of a unit (millicores).
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(i128::from(millis) * 1_000_000)
    }

    /// Reads a quantity of the API.
    ///
    /// # Errors
    /// [`QuantityError`] with the text.
    pub fn of(quantity: &Quantity) -> Result<Self, QuantityError> {
        Self::parse(&quantity.0)
    }

    /// Reads a quantity.
    ///
    /// # Errors
    /// [`QuantityError`] with the text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse(text).ok_or_else(|| QuantityError(text.to_owned()))
    }

    /// Whole units, rounded away from zero.
    #[must_use]
    pub fn value(self) -> i64 {
        clamp_i64(div_away(self.0, NANOS))
    }

    /// Thousandths, rounded away from zero, saturating.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        clamp_i64(div_away(self.0, 1_000_000))
    }

    /// Billionths.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.0
    }

    /// How many times `divisor` goes into this, rounded away from zero; `None` for a divisor of zero.
    #[must_use]
    pub fn divided_by(self, divisor: Self) -> Option<i64> {
        (divisor.0 != 0).then(|| clamp_i64(div_away(self.0, divisor.0)))
    }

    /// In binary form, as upstream writes bytes: whole units with the greatest suffix that leaves an integer (`100Mi`,
    /// `1536`); amounts that are no whole units as [`fmt::Display`] has them.
    #[must_use]
    pub fn to_binary(self) -> String {
        if self.0 % NANOS != 0 {
            return self.to_string();
        }
        let (mut number, mut suffix) = (self.0 / NANOS, 0_usize);
        let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        while number != 0 && number % 1024 == 0 && suffix + 1 < suffixes.len() {
            number /= 1024;
            suffix += 1;
        }
        format!("{number}{}", suffixes[suffix])
    }

    fn capped(self) -> Self {
        Self(self.0.clamp(-MOST, MOST))
    }
}

fn clamp_i64(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Division, rounded away from zero. `by` is not zero.
fn div_away(value: i128, by: i128) -> i128 {
    let (quotient, rest) = (value / by, value % by);
    if rest == 0 {
        quotient
    } else if (rest < 0) == (by < 0) {
        quotient + 1
    } else {
        quotient - 1
    }
}

enum Scale {
    /// Times 2 to this power.
    Binary(u32),
    /// Times 10 to this power.
    Decimal(i32),
}

fn scale(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
            if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // An exponent beyond the range of i32 is as good as its ends: the result is capped or rounded anyway.
            let magnitude = unsigned.parse::<i32>().unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
            Scale::Decimal(if digits.starts_with('-') { -magnitude } else { magnitude })
        }
    })
}

/// Significant digits that are kept: 2⁶³−1 in billionths has 28. What is cut off counts only as "a bit more".
const DIGITS: usize = 28;

fn parse(text: &str) -> Option<Amount> {
    let negative = text.starts_with('-');
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
    let (number, suffix) = body.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let scale = scale(suffix)?;

    // The digits as one integer and a power of ten, without leading zeros, cut after `DIGITS` with a sticky rest.
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').skip_while(|d| *d == 0).collect();
    let used = digits.len().min(DIGITS);
    let (kept, cut) = digits.split_at(used);
    let mantissa = kept.iter().fold(0_u128, |sum, d| sum * 10 + u128::from(*d));
    let sticky = cut.iter().any(|d| *d != 0);
    let exponent = i64::try_from(cut.len()).ok()? - i64::try_from(fraction.len()).ok()?;
    let nanos = match scale {
        Scale::Decimal(power) => scaled(mantissa, exponent + i64::from(power) + 9, 0, sticky),
        Scale::Binary(power) => scaled(mantissa, exponent + 9, power, sticky),
    };
    Some(Amount(if negative { -nanos } else { nanos }).capped())
}

/// `mantissa · 10^ten · 2^two`, rounded up where a rest remains (or `sticky` says that one was cut), capped.
fn scaled(mantissa: u128, ten: i64, two: u32, sticky: bool) -> i128 {
    let value = if let Ok(ten) = u32::try_from(ten) {
        let factor = 10_u128.checked_pow(ten).and_then(|power| power.checked_mul(1 << two));
        match factor {
            Some(factor) => mantissa.saturating_mul(factor),
            None if mantissa == 0 => 0,
            None => u128::MAX,
        }
    } else {
        // 10^n = 5^n · 2^n: the twos cancel against 2^two first, so that nothing overflows.
        let n = u32::try_from(ten.unsigned_abs()).unwrap_or(u32::MAX);
        let common = n.min(two);
        let shift = two - common;
        let divisor =
            5_u128.checked_pow(n).filter(|fives| fives.leading_zeros() > n - common).map(|f| f << (n - common));
        match divisor {
            // The rest is less than 5^n where a shift remains, so it can be shifted.
            Some(divisor) => {
                let (quotient, rest) = (mantissa / divisor, mantissa % divisor);
                let rest = rest << shift;
                let whole = quotient.saturating_mul(1 << shift).saturating_add(rest / divisor);
                whole.saturating_add(u128::from(!rest.is_multiple_of(divisor) || sticky))
            }
            // The divisor exceeds every mantissa.
            None => u128::from(mantissa != 0 || sticky),
        }
    };
    i128::try_from(value.min(MOST.unsigned_abs())).unwrap_or(MOST)
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0)).capped()
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Amount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0)).capped()
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// A quantity as upstream shows it again: in the base it was written in, with the greatest suffix that leaves an
/// integer. An unreadable one is shown as it is.
#[must_use]
pub fn canonical(quantity: &Quantity) -> String {
    match Amount::of(quantity) {
        Ok(amount) if quantity.0.ends_with('i') => amount.to_binary(),
        Ok(amount) => amount.to_string(),
        Err(_) => quantity.0.clone(),
    }
}

/// Canonical decimal form with the greatest suffix that leaves an integer: `100m`, `2`, `1500M`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut suffix) = (self.0, 0_usize);
        let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        while number != 0 && number % 1000 == 0 && suffix + 1 < suffixes.len() {
            number /= 1000;
            suffix += 1;
        }
        if number == 0 {
            return f.write_str("0");
        }
        write!(f, "{number}{}", suffixes[suffix])
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nanos(text: &str) -> i128 {
        Amount::parse(text).unwrap_or_else(|e| panic!("{e}")).nanos()
    }

    #[test]
    fn every_suffix() {
        for (text, expected) in [
            ("0", 0),
            ("1", NANOS),
            ("+1", NANOS),
            ("-1", -NANOS),
            (".5", NANOS / 2),
            ("5.", 5 * NANOS),
            ("1n", 1),
            ("1u", 1_000),
            ("100m", 100_000_000),
            ("1k", 1_000 * NANOS),
            ("1M", 1_000_000 * NANOS),
            ("1G", 1_000_000_000 * NANOS),
            ("1T", 1_000_000_000_000 * NANOS),
            ("1P", 1_000_000_000_000_000 * NANOS),
            ("1E", 1_000_000_000_000_000_000 * NANOS),
            ("1Ki", 1024 * NANOS),
            ("1.5Mi", 1_572_864 * NANOS),
            ("1Gi", (1 << 30) * NANOS),
            ("1Ti", (1 << 40) * NANOS),
            ("1Pi", (1 << 50) * NANOS),
            ("1Ei", (1 << 60) * NANOS),
            ("2e3", 2_000 * NANOS),
            ("2E3", 2_000 * NANOS),
            ("2e+3", 2_000 * NANOS),
            ("25e-1", 2_500_000_000),
            ("0.1", 100_000_000),
            ("000000000000000000000000000000000000000000012", 12 * NANOS),
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }

    #[test]
    fn finer_than_a_billionth_is_rounded_away_from_zero() {
        assert_eq!(nanos("0.1n"), 1);
        assert_eq!(nanos("-0.1n"), -1);
        assert_eq!(nanos("1.0000000001"), NANOS + 1);
        assert_eq!(nanos("1e-400"), 1);
        assert_eq!(nanos("0e-400"), 0);
        assert_eq!(nanos("0.00000000000000000000000000000000000000000000000001"), 1);
        assert_eq!(nanos("1.00000000000000000000000000000000000000000000000001"), NANOS + 1);
    }

    #[test]
    fn greater_than_the_greatest_is_capped() {
        for text in ["1e400", "99999999999999999999999999999999999999999999999", "8Ei", "10E", "1e2147483648"] {
            assert_eq!(Amount::parse(text).unwrap().value(), i64::MAX, "{text}");
            assert_eq!(Amount::parse(&format!("-{text}")).unwrap().value(), -i64::MAX, "{text}");
        }
        assert_eq!(nanos("9223372036854775807"), MOST);
    }

    #[test]
    fn what_is_no_quantity() {
        for text in [
            "", " ", "1 ", " 1", "x", "1x", "1.2.3", "--1", ".", "1ki", "1KI", "e3", "1e", "1e+", "1mi", "0x10", "½",
            "1e1.5",
        ] {
            assert!(Amount::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn values_round_up_as_upstreams() {
        assert_eq!(Amount::parse("100m").unwrap().value(), 1);
        assert_eq!(Amount::parse("-100m").unwrap().value(), -1);
        assert_eq!(Amount::parse("1500u").unwrap().milli_value(), 2);
        assert_eq!(Amount::parse("1.5Gi").unwrap().divided_by(Amount::parse("1Mi").unwrap()), Some(1536));
        assert_eq!(Amount::parse("1").unwrap().divided_by(Amount::ZERO), None);
    }

    #[test]
    fn shown_in_canonical_form() {
        for (text, shown) in
            [("0.1", "100m"), ("1000m", "1"), ("1Ki", "1024"), ("2e6", "2M"), ("0", "0"), ("-1.5", "-1500m")]
        {
            assert_eq!(Amount::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn shown_in_the_base_it_was_written_in() {
        for (text, shown) in
            [("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("500Ki", "500Ki"), ("512", "512"), ("1500M", "1500M"), ("x", "x")]
        {
            assert_eq!(canonical(&Quantity(text.to_owned())), shown);
        }
        let binary = |text: &str| Amount::parse(text).unwrap().to_binary();
        assert_eq!([binary("104857600"), binary("1000"), binary("0"), binary("100m")], ["100Mi", "1000", "0", "100m"]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = Amount::parse(&text);
        }

        #[test]
        fn numbers_with_suffixes_never_panic(text in "[+-]?[0-9]{0,60}(\\.[0-9]{0,60})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,12})?") {
            let _ = Amount::parse(&text);
        }

        #[test]
        fn agrees_with_integer_arithmetic(units in -1_000_000_i64..1_000_000, thousandths in 0_i64..1000, suffix in 0_usize..6) {
            let (name, factor) = [("", 1_i128), ("k", 1000), ("M", 1_000_000), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)][suffix];
            let sign = if units < 0 { -1 } else { 1 };
            let text = format!("{units}.{thousandths:03}{name}");
            let model = (i128::from(units) * 1000 + sign * i128::from(thousandths)) * factor * 1_000_000;
            prop_assert_eq!(nanos(&text), model);
        }

        #[test]
        fn shown_and_read_again_is_the_same(nanos in -MOST..MOST) {
            let amount = Amount(nanos);
            prop_assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
        }

        #[test]
        fn order_and_addition_agree(a in 0_i64..i64::MAX / 2, b in 0_i64..i64::MAX / 2) {
            let (x, y) = (Amount::from_units(a), Amount::from_units(b));
            prop_assert_eq!(x < y, a < b);
            prop_assert_eq!((x + y).value(), a + b);
            prop_assert_eq!((x - y).value(), a - b);
        }
    }
}

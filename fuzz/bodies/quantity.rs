//! Any text as a quantity: never a panic or an overflow, rounding away from zero, order as of the numbers.

use minke_core::resources::Amount;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (first, second) = text.split_once(' ').unwrap_or((text, "1"));
    let Ok(amount) = Amount::parse(first) else { return };
    // What is rounded away from zero is never nearer to it; amounts beyond what an i64 holds are cut off there.
    let units = i128::from(amount.value()) * 1_000_000_000;
    if amount.value() != i64::MAX && amount.value() != i64::MIN {
        assert!(units.abs() >= amount.nanos().abs(), "{text}");
        assert!(units.abs() - amount.nanos().abs() < 1_000_000_000, "{text}");
    }
    if let Ok(other) = Amount::parse(second) {
        assert_eq!(amount.cmp(&other), amount.nanos().cmp(&other.nanos()), "{text}");
        let _ = amount.divided_by(other);
    }
}

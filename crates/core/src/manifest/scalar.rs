//! What a plain YAML scalar means to Kubernetes, whose tools read YAML 1.1: `yes` is true, `0644` is octal, a date is
//! a text.

use super::tree::{Number, Value};

/// A plain scalar without a tag.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true, text.into())
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false, text.into())
        }
        _ => match number(text) {
            Some(number) => Value::Number(number, text.into()),
            None => Value::String(text.to_owned()),
        },
    }
}

/// A number in any of YAML's notations.
pub(super) fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Some(Number::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => return Some(Number::Float(f64::NEG_INFINITY)),
        ".nan" | ".NaN" | ".NAN" => return Some(Number::Float(f64::NAN)),
        _ => {}
    }
    let digits = if text.contains('_') && !text.starts_with('.') { text.replace('_', "") } else { text.to_owned() };
    integer(&digits).or_else(|| float(&digits))
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // `from_str_radix` takes a sign, which has no place here.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Number::Int);
    }
    Some(i64::try_from(magnitude).map_or(Number::UInt(magnitude), Number::Int))
}

/// `[-+]? ( .digits | digits [ . digits? ] ) ( [eE] [-+]? digits )?`
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(i) => (&unsigned[..i], Some(&unsigned[i + 1..])),
        None => (unsigned, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && all_digits(e)
    });
    if mantissa_fits && exponent_fits { text.parse().ok().map(Number::Float) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_mean_in_yaml_1_1() {
        for word in ["y", "Yes", "on", "ON", "true", "TRUE"] {
            assert_eq!(resolve(word), Value::Bool(true, word.into()));
        }
        for word in ["n", "No", "off", "OFF", "false", "FALSE"] {
            assert_eq!(resolve(word), Value::Bool(false, word.into()));
        }
        for word in ["", "~", "null", "NULL"] {
            assert_eq!(resolve(word), Value::Null);
        }
        for word in
            ["tRue", "nulL", "yess", "1a", "2024-01-01", "1.2.3", "10Mi", "-", "+", ".", "..", "0x", "1e", "1_000m"]
        {
            assert_eq!(resolve(word), Value::String(word.to_owned()), "{word}");
        }
    }

    #[test]
    fn numbers_in_every_notation() {
        let int = |i| Some(Number::Int(i));
        let cases = [
            ("0", int(0)),
            ("-7", int(-7)),
            ("+7", int(7)),
            ("0644", int(0o644)),
            ("0o644", int(0o644)),
            ("0x1F", int(31)),
            ("0b101", int(5)),
            ("1_000", int(1000)),
            ("9223372036854775807", int(i64::MAX)),
            ("-9223372036854775808", int(i64::MIN)),
            ("9223372036854775808", Some(Number::UInt(1 << 63))),
            ("18446744073709551616", Some(Number::Float(18_446_744_073_709_551_616.0))),
            ("08", Some(Number::Float(8.0))),
            ("1.5", Some(Number::Float(1.5))),
            (".5", Some(Number::Float(0.5))),
            ("-1e3", Some(Number::Float(-1000.0))),
            ("1.", Some(Number::Float(1.0))),
            ("--1", None),
            ("0x-1", None),
            ("1 2", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}

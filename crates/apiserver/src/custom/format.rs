//! `format` of texts. A format that upstream does not know says nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a text is of a format.
pub(super) fn is(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uri" => url::Url::parse(text).is_ok() || text.starts_with('/') && !text.contains(char::is_whitespace),
        "email" => email(text),
        "hostname" => hostname(text),
        "mac" => mac(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some('3')),
        "uuid4" => uuid(text, Some('4')),
        "uuid5" => uuid(text, Some('5')),
        "hexcolor" => hex_colour(text),
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        "k8s-short-name" => text.len() <= 63 && label(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(label),
        _ => true,
    }
}

/// `1h30m`, `10 s`, `1.5h`: Go's durations, and days and weeks.
fn duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        if number == 0 || rest[..number].parse::<f64>().is_err() {
            return false;
        }
        rest = rest[number..].trim_start();
        let unit = rest.len() - rest.trim_start_matches(|c: char| c.is_alphabetic()).len();
        const UNITS: [&str; 10] = ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "μs"];
        if !UNITS.contains(&&rest[..unit]) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

fn cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (Err(_), Ok(_)) => 128,
        (Err(_), Err(_)) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn email(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '@') && hostname(host)
    })
}

fn label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn hostname(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| part.len() <= 63 && label(&part.to_ascii_lowercase()))
}

fn mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8) && parts.iter().all(|part| part.len() == 2 && hex(part))
}

fn hex(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_hexdigit())
}

fn uuid(text: &str, version: Option<char>) -> bool {
    let bare = text.replace('-', "");
    bare.len() == 32 && hex(&bare) && version.is_none_or(|version| bare.chars().nth(12) == Some(version))
}

fn hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && hex(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_that_upstream_knows() {
        for (format, text) in [
            ("date-time", "2026-01-01T00:00:00Z"),
            ("date-time", "2026-01-01T00:00:00.5+01:00"),
            ("date", "2026-02-28"),
            ("duration", "1h30m"),
            ("duration", "1.5 h"),
            ("duration", "0"),
            ("ipv4", "10.0.0.1"),
            ("ipv6", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("cidr", "fd00::/64"),
            ("uri", "https://example.com/a?b"),
            ("email", "a.b@example.com"),
            ("hostname", "Host-1.example.com"),
            ("mac", "00:1A:2b:3c:4d:5e"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000"),
            ("hexcolor", "#fFf"),
            ("byte", "aGk="),
            ("k8s-long-name", "a.b-c"),
            ("whatever", "?"),
        ] {
            assert!(is(format, text), "{format} {text}");
        }
        for (format, text) in [
            ("date-time", "2026-01-01"),
            ("date", "2026-02-30"),
            ("duration", "1x"),
            ("duration", ""),
            ("ipv4", "1.2.3"),
            ("ipv6", "10.0.0.1"),
            ("cidr", "10.0.0.0/33"),
            ("uri", "not a uri"),
            ("email", "a@"),
            ("hostname", "-a"),
            ("mac", "00:1A"),
            ("uuid", "x"),
            ("uuid3", "123e4567-e89b-42d3-a456-426614174000"),
            ("hexcolor", "#ff"),
            ("byte", "a"),
            ("k8s-short-name", "a.b"),
        ] {
            assert!(!is(format, text), "{format} {text}");
        }
    }
}

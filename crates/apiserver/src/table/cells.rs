//! Values as cells: texts, ages, labels.

use jiff::Timestamp;
use serde_json::Value;

/// A text, empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or `otherwise` where there is none.
pub(super) fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// The entries of a list; none of anything else.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The texts of a list, joined.
pub(super) fn joined(value: &Value, separator: &str) -> String {
    list(value).iter().map(text).collect::<Vec<_>>().join(separator)
}

/// How many entries an object has.
pub(super) fn count(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

/// A point in time, where it is one.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// How long ago: `5m`, or `<unknown>`.
pub(super) fn age(value: &Value, now: Timestamp) -> String {
    time(value).map_or_else(|| "<unknown>".to_owned(), |time| since(time, now))
}

/// How long ago, as upstream's `HumanDuration`: two units while the first is small.
pub(super) fn since(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - time.as_second();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |big: i64, unit: &str, small: i64, below: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{below}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels(value: &Value) -> String {
    let pairs: Vec<String> =
        value.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// Whether a condition of this type is `True`; `None` where there is none.
pub(super) fn condition(conditions: &Value, kind: &str) -> Option<bool> {
    list(conditions).iter().find(|condition| condition["type"] == kind).map(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_upstreams() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (10 * minute, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour + 5 * minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (365 * 8 * day, "8y"),
        ] {
            let then = Timestamp::from_second(now.as_second() - seconds).unwrap();
            assert_eq!(since(then, now), expected, "{seconds}");
        }
    }

    #[test]
    fn labels_are_joined_in_order() {
        assert_eq!(labels(&serde_json::json!({"b": "2", "a": "1"})), "a=1,b=2");
        assert_eq!(labels(&Value::Null), "<none>");
    }
}

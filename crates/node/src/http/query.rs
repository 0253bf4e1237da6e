//! What stands after the `?`: options of logs, decoded and validated as upstream does. Pure. Those of streams are
//! [`minke_streams`]'.

use jiff::Timestamp;
use minke_core::provider::{LogOptions, LogStreams, Since};

/// Decoded parameters, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// As Kubernetes reads a flag: absent, `false` and `0` are false; anything else is true, nothing at all included.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn integer(&self, name: &str) -> Result<Option<i64>, BadLogQuery> {
        self.get(name).map(|text| text.parse().map_err(|_| BadLogQuery::Undecodable)).transpose()
    }
}

/// Options that are refused, with upstream's status and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLogQuery {
    /// A value is none of its type.
    #[error(r#"{{"message": "Unable to decode query."}}"#)]
    Undecodable,
    /// Values are out of range, or contradict each other.
    #[error(r#"{{"message": "Invalid request."}}"#)]
    Invalid,
}

impl BadLogQuery {
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Undecodable => 400,
            Self::Invalid => 422,
        }
    }
}

/// Which part of the output is wanted.
pub(crate) fn log_options(query: &Query) -> Result<LogOptions, BadLogQuery> {
    // `tail` is the name of old clients; `all` of it is no limit.
    let tail = match query.get("tail") {
        Some("all") => None,
        Some(text) if !text.is_empty() => Some(text.parse().map_err(|_| BadLogQuery::Undecodable)?),
        Some(_) | None => query.integer("tailLines")?,
    };
    let seconds = query.integer("sinceSeconds")?;
    let limit = query.integer("limitBytes")?;
    let time = match query.get("sinceTime") {
        None | Some("" | "null") => None,
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| BadLogQuery::Undecodable)?),
    };
    let stream = match query.get("stream") {
        None | Some("All") => LogStreams::All,
        Some("Stdout") => LogStreams::Stdout,
        Some("Stderr") => LogStreams::Stderr,
        Some(_) => return Err(BadLogQuery::Invalid),
    };
    let at_least = |number: Option<i64>, least: i64| match number {
        Some(number) if number < least => Err(BadLogQuery::Invalid),
        number => Ok(number.and_then(|number| u64::try_from(number).ok())),
    };
    let (tail, seconds, limit) = (at_least(tail, 0)?, at_least(seconds, 1)?, at_least(limit, 1)?);
    if tail.is_some() && stream != LogStreams::All {
        return Err(BadLogQuery::Invalid);
    }
    let since = match (seconds, time) {
        (Some(_), Some(_)) => return Err(BadLogQuery::Invalid),
        (Some(seconds), None) => Some(Since::Seconds(seconds)),
        (None, time) => time.map(Since::Time),
    };
    Ok(LogOptions {
        tail_lines: tail,
        limit_bytes: limit,
        since,
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        stream,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<LogOptions, BadLogQuery> {
        log_options(&Query::parse(text))
    }

    #[test]
    fn log_options_are_read_row_by_row() {
        let none = LogOptions::default();
        let time = "2026-11-22T07:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("", none.clone()),
            ("unknown=1", none.clone()),
            ("tailLines=0", LogOptions { tail_lines: Some(0), ..none.clone() }),
            ("tailLines=100", LogOptions { tail_lines: Some(100), ..none.clone() }),
            ("tail=5", LogOptions { tail_lines: Some(5), ..none.clone() }),
            ("tail=all&tailLines=5", none.clone()),
            ("tail=&tailLines=5", LogOptions { tail_lines: Some(5), ..none.clone() }),
            ("limitBytes=1", LogOptions { limit_bytes: Some(1), ..none.clone() }),
            ("sinceSeconds=1", LogOptions { since: Some(Since::Seconds(1)), ..none.clone() }),
            ("sinceTime=2026-11-22T07:00:00Z", LogOptions { since: Some(Since::Time(time)), ..none.clone() }),
            ("sinceTime=2026-11-22T09:00:00%2B02:00", LogOptions { since: Some(Since::Time(time)), ..none.clone() }),
            ("sinceTime=", none.clone()),
            ("follow", LogOptions { follow: true, ..none.clone() }),
            (
                "follow=true&previous=1&timestamps=True",
                LogOptions { follow: true, previous: true, timestamps: true, ..none.clone() },
            ),
            ("follow=false&previous=0&timestamps=FALSE", none.clone()),
            ("stream=All&tailLines=1", LogOptions { tail_lines: Some(1), ..none.clone() }),
            ("stream=Stderr", LogOptions { stream: LogStreams::Stderr, ..none }),
        ] {
            assert_eq!(options(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_log_options_are_refused_with_upstreams_status() {
        for text in [
            "tailLines=x",
            "tailLines=",
            "limitBytes=1.5",
            "sinceSeconds=99999999999999999999",
            "tail=many",
            "sinceTime=now",
        ] {
            assert_eq!(options(text), Err(BadLogQuery::Undecodable), "{text}");
        }
        for text in [
            "tailLines=-1",
            "tail=-1",
            "limitBytes=0",
            "limitBytes=-7",
            "sinceSeconds=0",
            "sinceSeconds=-1",
            "sinceSeconds=1&sinceTime=2026-11-22T07:00:00Z",
            "stream=both",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(options(text), Err(BadLogQuery::Invalid), "{text}");
        }
        assert_eq!((BadLogQuery::Undecodable.code(), BadLogQuery::Invalid.code()), (400, 422));
        assert_eq!(BadLogQuery::Invalid.to_string(), r#"{"message": "Invalid request."}"#);
    }
}

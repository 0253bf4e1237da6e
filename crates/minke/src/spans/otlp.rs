//! OTLP as JSON: spans as the body of a request, and what an answer means. Pure.
//!
//! By the OTLP specification 1.9 and the protocol's definitions: names in camel case, ids in hexadecimal, times and other 64-bit numbers as
//! decimal text, enumerations as numbers.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

/// Longest text in an attribute or status, in bytes: an error may quote anything.
const LONGEST_TEXT: usize = 1024;

/// What an attribute says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Truth(bool),
}

impl Value {
    fn json(&self) -> Json {
        match self {
            Self::Text(text) => json!({"stringValue": shortened(text)}),
            Self::Integer(number) => json!({"intValue": number.to_string()}),
            Self::Number(number) => json!({"doubleValue": number}),
            Self::Truth(truth) => json!({"boolValue": truth}),
        }
    }
}

/// Whose work a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    Internal,
    /// A request to a server.
    Client,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    pub(super) trace: [u8; 16],
    pub(super) id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// By the wall clock.
    pub(super) begun: Timestamp,
    /// By the monotonic clock.
    pub(super) took: Duration,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it did.
    pub(super) error: Option<String>,
}

impl Ended {
    fn json(&self) -> Json {
        let begun = u128::try_from(self.begun.as_nanosecond()).unwrap_or_default();
        let mut span = json!({
            "traceId": hex::encode(self.trace),
            "spanId": hex::encode(self.id),
            "name": self.name,
            "kind": match self.kind {
                Kind::Internal => 1,
                Kind::Client => 3,
            },
            "startTimeUnixNano": begun.to_string(),
            "endTimeUnixNano": (begun + self.took.as_nanos()).to_string(),
            "attributes": attributes(&self.attributes),
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = hex::encode(parent).into();
        }
        if let Some(error) = &self.error {
            // What went well stays unset: saying so is for people to decide, as OpenTelemetry has it.
            span["status"] = json!({"code": 2, "message": shortened(error)});
        }
        span
    }
}

/// The body of a request that delivers these spans of this process.
pub(super) fn request(resource: &[(&'static str, Value)], spans: &[Ended]) -> Json {
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(resource)},
        "scopeSpans": [{
            "scope": {"name": "minke", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans.iter().map(Ended::json).collect::<Vec<_>>(),
        }],
    }]})
}

fn attributes(attributes: &[(&'static str, Value)]) -> Vec<Json> {
    attributes.iter().map(|(key, value)| json!({"key": key, "value": value.json()})).collect()
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What a collector said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has them, but for so many that it refused.
    Taken {
        /// Refused for good.
        rejected: u64,
        /// What it says beside, if anything.
        remark: Option<String>,
    },
    /// The same again, not before this.
    Later {
        /// Zero: when we like.
        at_least: Duration,
        /// In words.
        why: String,
    },
    /// Never the same again.
    Refused(String),
}

/// Reads an answer: the codes that the specification calls retryable are, no others. `retry_after`: the header, of which the form
/// in seconds is understood.
pub(super) fn answer(status: u16, retry_after: Option<&str>, body: &[u8]) -> Answer {
    let said: Json = serde_json::from_slice(body).unwrap_or_default();
    let why = || match said["message"].as_str() {
        Some(message) if !message.is_empty() => format!("it answers {status}: {}", shortened(message)),
        Some(_) | None => format!("it answers {status}"),
    };
    match status {
        200..=299 => {
            let partial = &said["partialSuccess"];
            let rejected = &partial["rejectedSpans"];
            let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
            let remark = partial["errorMessage"].as_str().filter(|text| !text.is_empty());
            Answer::Taken { rejected, remark: remark.map(|text| shortened(text).to_owned()) }
        }
        429 | 502 | 503 | 504 => {
            let seconds = retry_after.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            Answer::Later { at_least: Duration::from_secs(seconds), why: why() }
        }
        _ => Answer::Refused(why()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Ended {
        Ended {
            trace: *b"\x5b\x8e\xff\xf7\x98\x03\x81\x03\xd2\x69\xb6\x33\x81\x3f\xc6\x0c",
            id: *b"\xee\xe1\x9b\x7e\xc3\xc1\xb1\x74",
            parent: None,
            name: "provider.create".to_owned(),
            kind: Kind::Internal,
            begun: Timestamp::from_nanosecond(1_544_712_660_000_000_001).unwrap(),
            took: Duration::from_nanos(1_000_000_007),
            attributes: vec![
                ("k8s.pod.name", Value::Text("web".to_owned())),
                ("tries", Value::Integer(-3)),
                ("share", Value::Number(0.5)),
                ("first", Value::Truth(true)),
            ],
            error: None,
        }
    }

    #[test]
    fn a_span_is_written_as_the_specifications_example_is() {
        let body = request(&[("service.name", Value::Text("minke".to_owned()))], &[ended()]);
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"],
            json!({"attributes": [{"key": "service.name", "value": {"stringValue": "minke"}}]})
        );
        let scope = &resource["scopeSpans"][0];
        assert_eq!(scope["scope"]["name"], "minke");
        let expected = json!({
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": "eee19b7ec3c1b174",
            "name": "provider.create",
            "kind": 1,
            "startTimeUnixNano": "1544712660000000001",
            "endTimeUnixNano": "1544712661000000008",
            "attributes": [
                {"key": "k8s.pod.name", "value": {"stringValue": "web"}},
                {"key": "tries", "value": {"intValue": "-3"}},
                {"key": "share", "value": {"doubleValue": 0.5}},
                {"key": "first", "value": {"boolValue": true}},
            ],
        });
        assert_eq!(scope["spans"], json!([expected]));
    }

    #[test]
    fn a_failure_has_a_status_and_a_child_its_parent() {
        let span = Ended {
            kind: Kind::Client,
            parent: Some([1; 8]),
            error: Some(format!("é{}", "x".repeat(5000))),
            ..ended()
        }
        .json();
        assert_eq!((&span["kind"], &span["parentSpanId"]), (&json!(3), &json!("0101010101010101")));
        assert_eq!(span["status"]["code"], 2);
        assert_eq!(span["status"]["message"].as_str().unwrap().len(), LONGEST_TEXT);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let text = "€".repeat(1000);
        let cut = shortened(&text);
        assert!(cut.len() <= LONGEST_TEXT && cut.len() > LONGEST_TEXT - 3, "{}", cut.len());
    }

    #[test]
    fn answers_mean_what_the_specification_says() {
        let taken = |rejected, remark: Option<&str>| Answer::Taken { rejected, remark: remark.map(str::to_owned) };
        assert_eq!(answer(200, None, b"{}"), taken(0, None));
        assert_eq!(answer(202, None, b""), taken(0, None));
        let partial = br#"{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}"#;
        assert_eq!(answer(200, None, partial), taken(2, Some("too old")));
        assert_eq!(answer(200, None, br#"{"partialSuccess": {"rejectedSpans": 5}}"#), taken(5, None));
        for status in [429, 502, 503, 504] {
            let Answer::Later { at_least, .. } = answer(status, Some(" 7 "), b"") else { panic!("{status}") };
            assert_eq!(at_least, Duration::from_secs(7));
            let date = answer(status, Some("Sun, 06 Nov 1994 08:49:37 GMT"), b"");
            assert!(matches!(date, Answer::Later { at_least: Duration::ZERO, .. }));
        }
        for status in [301, 400, 401, 404, 408, 413, 500, 501] {
            assert!(matches!(answer(status, Some("7"), b"<html>"), Answer::Refused(_)), "{status}");
        }
        let refused = answer(400, None, br#"{"code": 3, "message": "bad span"}"#);
        assert_eq!(refused, Answer::Refused("it answers 400: bad span".to_owned()));
    }
}

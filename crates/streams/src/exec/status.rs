//! How a command ended, as clients read it (pure): text until version 3, a `Status` object since.

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::negotiate::Version;

const NON_ZERO: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";
const INTERNAL: &str = "InternalError";

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With this code.
    Code(i32),
    /// It could not be had, or its end is not known.
    Failed(Failure),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Status {
    #[serde(default)]
    metadata: Metadata,
    status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Metadata {}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Cause {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

/// What is written on the error stream; nothing for a success in the old form.
pub(crate) fn encode(end: &End, version: Version) -> Vec<u8> {
    let status = match end {
        End::Code(0) => Status { status: "Success".to_owned(), ..Status::default() },
        End::Code(code) => Status {
            status: "Failure".to_owned(),
            message: format!("command terminated with non-zero exit code: exit status {code}"),
            reason: NON_ZERO.to_owned(),
            details: Some(Details { causes: vec![Cause { reason: EXIT_CODE.to_owned(), message: code.to_string() }] }),
            ..Status::default()
        },
        End::Failed(failure) => {
            let message = format!("error executing command in container: {}", failure.message);
            Status {
                status: "Failure".to_owned(),
                message: format!("Internal error occurred: {message}"),
                reason: INTERNAL.to_owned(),
                details: Some(Details { causes: vec![Cause { reason: String::new(), message }] }),
                code: Some(500),
                ..Status::default()
            }
        }
    };
    match version {
        Version::V1 | Version::V2 | Version::V3 => status.message.into_bytes(),
        Version::V4 | Version::V5 => serde_json::to_vec(&status).unwrap_or_default(),
    }
}

/// Reads what came on the error stream, in the form of version 4.
pub(crate) fn parse(bytes: &[u8]) -> End {
    let unknown = |what: &str| End::Failed(Failure::new(format!("the server {what}")));
    if bytes.is_empty() {
        return unknown("did not say how the command ended");
    }
    let Ok(status) = serde_json::from_slice::<Status>(bytes) else {
        return unknown(&format!("says {}", String::from_utf8_lossy(&bytes[..bytes.len().min(1024)])));
    };
    match status.status.as_str() {
        "Success" => return End::Code(0),
        "Failure" if status.reason == NON_ZERO => {
            let causes = status.details.iter().flat_map(|d| &d.causes);
            let code = causes.filter(|c| c.reason == EXIT_CODE).find_map(|c| c.message.parse().ok());
            return code.map_or_else(|| unknown("names no exit code"), End::Code);
        }
        _ => {}
    }
    End::Failed(Failure::new(if status.message.is_empty() { status.reason } else { status.message }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(end: &End, version: Version) -> String {
        String::from_utf8(encode(end, version)).unwrap()
    }

    #[test]
    fn ends_are_written_as_upstream_writes_them() {
        assert_eq!(text(&End::Code(0), Version::V4), r#"{"metadata":{},"status":"Success"}"#);
        assert_eq!(
            text(&End::Code(7), Version::V5),
            r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status 7","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#
        );
        let failed = End::Failed(Failure::new("no such container"));
        assert_eq!(
            text(&failed, Version::V4),
            r#"{"metadata":{},"status":"Failure","message":"Internal error occurred: error executing command in container: no such container","reason":"InternalError","details":{"causes":[{"message":"error executing command in container: no such container"}]},"code":500}"#
        );
    }

    #[test]
    fn the_old_form_is_text_and_only_for_failures() {
        assert_eq!(text(&End::Code(0), Version::V3), "");
        assert_eq!(text(&End::Code(1), Version::V1), "command terminated with non-zero exit code: exit status 1");
    }

    #[test]
    fn what_other_servers_say_is_understood() {
        let says = |text: &str| match parse(text.as_bytes()) {
            End::Code(code) => format!("code {code}"),
            End::Failed(failure) => failure.message,
        };
        assert_eq!(says(r#"{"status":"Success"}"#), "code 0");
        assert_eq!(says(r#"{"status":"Failure","reason":"Unknown","message":"m"}"#), "m");
        assert_eq!(says(r#"{"status":"Failure","reason":"NonZeroExitCode"}"#), "the server names no exit code");
        assert_eq!(says("nonsense"), "the server says nonsense");
        assert_eq!(says(""), "the server did not say how the command ended");
    }

    proptest! {
        #[test]
        fn codes_come_back(code in 0..256_i32) {
            prop_assert_eq!(parse(&encode(&End::Code(code), Version::V4)), End::Code(code));
        }

        #[test]
        fn any_bytes_are_an_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            drop(parse(&bytes));
        }
    }
}

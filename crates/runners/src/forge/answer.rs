//! What an answer of GitHub means. Pure.

use jiff::{SignedDuration, Timestamp};

use super::ForgeError;

/// The wait when it is not told how long: what GitHub's documentation asks for.
const SECONDARY: SignedDuration = SignedDuration::from_mins(1);
/// Nobody waits longer, whatever a header says.
const LONGEST: SignedDuration = SignedDuration::from_hours(2);

/// What headers say of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateHeaders {
    /// `x-ratelimit-remaining`.
    pub remaining: Option<u64>,
    /// `x-ratelimit-reset`.
    pub reset: Option<Timestamp>,
    /// `retry-after`, in seconds.
    pub retry_after: Option<i64>,
}

impl RateHeaders {
    /// Reads them; what is not a number is not there.
    #[must_use]
    pub fn read<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Self {
        let number = |name| get(name).and_then(|text| text.trim().parse::<i64>().ok()).filter(|number| *number >= 0);
        Self {
            remaining: number("x-ratelimit-remaining").and_then(|number| u64::try_from(number).ok()),
            reset: number("x-ratelimit-reset").and_then(|second| Timestamp::from_second(second).ok()),
            retry_after: number("retry-after"),
        }
    }
}

/// Whether an answer is one, or why not.
///
/// A 403 is a missing permission only when nothing says that it is the rate limit.
///
/// # Errors
///
/// It is none.
pub fn judge(status: u16, headers: &RateHeaders, body: &[u8], now: Timestamp) -> Result<(), ForgeError> {
    match status {
        200..=299 => Ok(()),
        401 => Err(ForgeError::Unauthorized(message(body))),
        403 | 429 => Err(limited(status, headers, body, now)),
        404 => Err(ForgeError::NotFound),
        409 => Err(ForgeError::Conflict),
        422 => Err(ForgeError::Unprocessable(message(body))),
        _ => Err(ForgeError::Unavailable(status)),
    }
}

fn limited(status: u16, headers: &RateHeaders, body: &[u8], now: Timestamp) -> ForgeError {
    let until = |until: Timestamp| ForgeError::Limited(until.clamp(now + SignedDuration::from_secs(1), now + LONGEST));
    if let Some(seconds) = headers.retry_after {
        return until(now + SignedDuration::from_secs(seconds).min(LONGEST));
    }
    if headers.remaining == Some(0) {
        return until(headers.reset.unwrap_or(now + SECONDARY));
    }
    let message = message(body);
    if status == 429 || message.to_lowercase().contains("rate limit") {
        return until(now + SECONDARY);
    }
    ForgeError::Forbidden(message)
}

/// The `message` of an error, shortened.
fn message(body: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| value["message"].as_str()).unwrap_or("no reason given");
    message.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Refused;
    use crate::life::Removal;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn judged(status: u16, headers: RateHeaders, body: &str) -> ForgeError {
        judge(status, &headers, body.as_bytes(), NOW).unwrap_err()
    }

    #[test]
    fn the_forges_answer_to_a_removal_decides() {
        let none = RateHeaders::default();
        for (status, body, expected) in [
            (404, "", Removal::Gone),
            (422, r#"{"message":"Runner is currently running a job"}"#, Removal::Busy),
            (403, r#"{"message":"Resource not accessible"}"#, Removal::Forbidden),
            (403, r#"{"message":"You have exceeded a secondary rate limit"}"#, Removal::Limited(NOW + SECONDARY)),
            (429, "", Removal::Limited(NOW + SECONDARY)),
            (401, r#"{"message":"Bad credentials"}"#, Removal::NoCredential),
            (500, "", Removal::Failed),
            (302, "", Removal::Failed),
        ] {
            assert_eq!(judged(status, none, body).removal(), expected, "{status} {body}");
        }
        assert!(judge(204, &none, b"", NOW).is_ok());
    }

    #[test]
    fn a_403_is_a_missing_permission_only_after_a_look_at_the_headers() {
        let used_up = RateHeaders { remaining: Some(0), reset: Some(NOW + SECONDARY * 5), retry_after: None };
        let limited = Refused::Limited(NOW + SECONDARY * 5);
        assert_eq!(judged(403, used_up, r#"{"message":"Forbidden"}"#).refused(), limited);
        let asked = RateHeaders { retry_after: Some(17), ..RateHeaders::default() };
        let waited = Refused::Limited(NOW + SignedDuration::from_secs(17));
        assert_eq!(judged(403, asked, "").refused(), waited);
        assert_eq!(judged(403, RateHeaders::default(), "").refused(), Refused::Credential);
        assert_eq!(judged(409, RateHeaders::default(), "").refused(), Refused::Conflict);
    }

    proptest! {
        #[test]
        fn no_answer_breaks_it_and_no_wait_is_longer_than_two_hours(
            status: u16, body: Vec<u8>, remaining in ".{0,12}", reset in "[0-9]{0,20}", after in "[-0-9]{0,20}",
        ) {
            let headers = RateHeaders::read(|name| match name {
                "x-ratelimit-remaining" => Some(remaining.as_str()),
                "x-ratelimit-reset" => Some(reset.as_str()),
                _ => Some(after.as_str()),
            });
            if let Err(ForgeError::Limited(until)) = judge(status, &headers, &body, NOW) {
                prop_assert!(until > NOW && until <= NOW + LONGEST);
            }
        }
    }
}

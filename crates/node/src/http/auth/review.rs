//! Who says who somebody is and what they may: the API server, by TokenReview and SubjectAccessReview. A port, and its
//! patience.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{sleep, timeout};

use super::user::User;

/// What somebody is about to do with the node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Access {
    /// The node's name.
    pub node: String,
    /// `get`, `create`, …
    pub verb: &'static str,
    /// `proxy`, `stats`, …
    pub subresource: &'static str,
}

/// A review that could not be had.
#[derive(Debug, thiserror::Error)]
#[error("can't review {what}")]
pub struct ReviewError {
    /// A token, or an access.
    pub what: &'static str,
    /// Whether the same question may be answered a moment later.
    pub transient: bool,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Reviews. Calls may be dropped; they change nothing.
#[async_trait]
pub trait Reviews: fmt::Debug + Send + Sync + 'static {
    /// Whose token this is; `None`: nobody's.
    async fn token(&self, token: &str) -> Result<Option<User>, ReviewError>;
    /// Whether they may. No opinion is no.
    async fn access(&self, user: &User, access: &Access) -> Result<bool, ReviewError>;
}

/// One try, after which there is another.
const TRY: Duration = Duration::from_secs(10);
/// Upstream's back-off of reviews: half a second, each half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const TRIES: u32 = 5;

/// Asks again where that may help.
pub(crate) async fn patiently<T, Asked>(what: &'static str, mut ask: impl FnMut() -> Asked) -> Result<T, ReviewError>
where
    Asked: Future<Output = Result<T, ReviewError>>,
{
    let mut wait = FIRST_WAIT;
    let mut tried = 1;
    loop {
        let error = match timeout(TRY, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(late) => ReviewError { what, transient: true, source: late.into() },
        };
        if !error.transient || tried == TRIES {
            return Err(error);
        }
        tried += 1;
        sleep(wait).await;
        wait = wait * 3 / 2;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn error(transient: bool) -> ReviewError {
        ReviewError { what: "a token", transient, source: "away".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_asked_again_five_times() {
        let (start, mut asked) = (Instant::now(), 0);
        let outcome = patiently("a token", || {
            asked += 1;
            async { Err::<(), _>(error(true)) }
        });
        assert!(outcome.await.is_err());
        let waited = start.elapsed().as_millis();
        assert!(asked == 5 && (4062..4070).contains(&waited), "{asked} {waited}");
        let mut asked = 0;
        let outcome = patiently("a token", || {
            asked += 1;
            std::future::ready(if asked == 3 { Ok(asked) } else { Err(error(true)) })
        });
        assert_eq!(outcome.await.ok(), Some(3));
        let mut asked = 0;
        let outcome = patiently("a token", || {
            asked += 1;
            async { Err::<(), _>(error(false)) }
        });
        assert!(outcome.await.is_err() && asked == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_hangs_ends() {
        let start = Instant::now();
        let outcome = patiently("a token", std::future::pending::<Result<(), ReviewError>>);
        assert!(outcome.await.is_err_and(|error| error.transient));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

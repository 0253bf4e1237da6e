//! Whether the PLEG works, judged by full relists alone.

use std::time::Duration;

use tokio::time::Instant;

/// Why the PLEG is not healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// The runtime was never listed.
    #[error("pleg has yet to be successful")]
    NeverListed,
    /// Not for too long.
    #[error("pleg was last seen active {} s ago; threshold is {} s", ago.as_secs(), threshold.as_secs())]
    TooLongAgo {
        /// Since the start of the newest relist that succeeded.
        ago: Duration,
        /// What is allowed.
        threshold: Duration,
    },
}

/// Healthy, or why not.
pub type Health = Result<(), Unhealthy>;

/// Judges by the start of the newest full relist that succeeded.
pub(super) fn judge(last: Option<Instant>, now: Instant, threshold: Duration) -> Health {
    let last = last.ok_or(Unhealthy::NeverListed)?;
    let ago = now.saturating_duration_since(last);
    if ago > threshold { Err(Unhealthy::TooLongAgo { ago, threshold }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn healthy() {
        let threshold = Duration::from_secs(180);
        let begin = Instant::now();
        let minutes = |n: u64| begin + Duration::from_secs(60 * n);
        assert_eq!(judge(None, begin, threshold), Err(Unhealthy::NeverListed));
        assert_eq!(judge(None, minutes(10), threshold), Err(Unhealthy::NeverListed));
        let last = Some(minutes(10));
        assert_eq!(judge(last, minutes(11), threshold), Ok(()));
        let ago = Duration::from_secs(240);
        assert_eq!(judge(last, minutes(14), threshold), Err(Unhealthy::TooLongAgo { ago, threshold }));
    }
}

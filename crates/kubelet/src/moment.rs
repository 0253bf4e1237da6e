//! Waiting for a moment that may never come.

use tokio::time::{Instant, sleep_until};

/// Returns at this time; without one, never. Cancel-safe.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

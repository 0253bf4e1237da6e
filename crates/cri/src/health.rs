//! Whether the runtime answers: what calls tell that are made anyway, and a question of its own when there are none. For
//! people, metrics and the Node's condition; decides nothing.
//!
//! ```text
//!            no answer: refused, broken, starting, late
//!  Answers ─────────────────────────────────────────────► Silent(since, why)
//!     ▲                          any answer                     │
//!     └─────────────────────────────────────────────────────────┘
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use minke_core::runtime::{HealthService, Silence};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::runtime::{CriRuntime, Inner};
use crate::{api, deadline};

/// Whether the runtime answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The last call was answered.
    Answers,
    /// The last call was not. What runs goes on, unseen.
    Silent {
        /// Since when.
        since: Instant,
        /// What failed.
        why: String,
    },
}

/// Where calls tell how they went.
#[derive(Debug)]
pub(crate) struct Watchman {
    health: watch::Sender<Health>,
    /// The newest answer.
    heard: Mutex<Instant>,
    /// Questions that have waited too long and still do.
    hanging: AtomicUsize,
}

impl Watchman {
    pub(crate) fn new() -> Self {
        let heard = Mutex::new(Instant::now());
        Self { health: watch::Sender::new(Health::Answers), heard, hanging: AtomicUsize::new(0) }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// A call was answered.
    pub(crate) fn answered(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let back = self.health.send_if_modified(|health| match health {
            Health::Answers => false,
            Health::Silent { .. } => {
                *health = Health::Answers;
                true
            }
        });
        if back {
            tracing::info!("the container runtime answers again");
        }
    }

    /// A call was not answered; the first of these is when it went.
    pub(crate) fn silent(&self, why: impl FnOnce() -> String) {
        let gone = self.health.send_if_modified(|health| match health {
            Health::Silent { .. } => false,
            Health::Answers => {
                *health = Health::Silent { since: Instant::now(), why: why() };
                true
            }
        });
        if gone && let Health::Silent { why, .. } = &*self.health.borrow() {
            tracing::warn!(why, "the container runtime does not answer; what runs is left alone until it does");
        }
    }

    /// A question waits for too long. Until it ends, other answers count and nothing is asked for the sake of asking: a
    /// runtime may answer one question and not another.
    pub(crate) fn hangs(&self, why: impl FnOnce() -> String) -> Hanging<'_> {
        self.hanging.fetch_add(1, Ordering::Relaxed);
        self.silent(why);
        Hanging(self)
    }

    /// Until nothing will have been heard for so long that it should be asked. Zero: ask now.
    fn trusts_for(&self) -> Duration {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let hangs = self.hanging.load(Ordering::Relaxed) > 0;
        if hangs { deadline::PULSE } else { deadline::PULSE.saturating_sub(heard.elapsed()) }
    }
}

/// A question that has waited for too long, until it ends.
#[derive(Debug)]
pub(crate) struct Hanging<'a>(&'a Watchman);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.hanging.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Asks a runtime that nobody has asked anything for a while whether it is there, as long as it is used. A full list comes
/// only each ten seconds while there are events; the kubelet asks for the runtime's status each five seconds.
pub(crate) async fn pulse(runtime: Weak<Inner>) {
    let mut pause = deadline::PULSE;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = runtime.upgrade() else { return };
        pause = inner.watchman.trusts_for();
        if pause.is_zero() {
            ask(&inner).await;
            pause = deadline::PULSE;
        }
    }
}

async fn ask(inner: &Arc<Inner>) {
    let mut client = inner.connection.runtime();
    let asked = client.version(api::VersionRequest { version: "v1".to_owned() });
    // How it went is told to the watchman by the call itself.
    drop(inner.bounded(Some(deadline::PULSE), asked).await);
}

impl HealthService for CriRuntime {
    fn silence(&self) -> Option<Silence> {
        match &*self.health().borrow() {
            Health::Answers => None,
            Health::Silent { since, why } => Some(Silence { lasts: since.elapsed(), why: why.clone() }),
        }
    }
}

impl CriRuntime {
    /// Whether it answers.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.inner.watchman.subscribe()
    }
}

/// Why a call that was given up says nothing about what was asked.
pub(crate) fn late(bound: Duration) -> String {
    format!("no answer within {} s: it hangs, or the machine is very busy", bound.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_silence_counts_until_an_answer() {
        let watchman = Watchman::new();
        let health = watchman.subscribe();
        let since = Instant::now();
        watchman.silent(|| "one".to_owned());
        tokio::time::advance(Duration::from_secs(1)).await;
        watchman.silent(|| panic!("not asked again"));
        assert_eq!(*health.borrow(), Health::Silent { since, why: "one".to_owned() });
        watchman.answered();
        watchman.answered();
        assert_eq!(*health.borrow(), Health::Answers);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_only_when_nothing_was_heard_and_nothing_waits() {
        let watchman = Watchman::new();
        assert_eq!(watchman.trusts_for(), deadline::PULSE);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(watchman.trusts_for(), deadline::PULSE - Duration::from_secs(1));
        tokio::time::advance(deadline::PULSE).await;
        assert_eq!(watchman.trusts_for(), Duration::ZERO);
        let hanging = watchman.hangs(|| "late".to_owned());
        assert_eq!(watchman.trusts_for(), deadline::PULSE, "the answer to one question is none to another");
        drop(hanging);
        assert_eq!(watchman.trusts_for(), Duration::ZERO);
        watchman.answered();
        assert_eq!(watchman.trusts_for(), deadline::PULSE);
    }
}

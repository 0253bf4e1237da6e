//! Whether the runtime answers: what the calls that are made anyway tell, for people and metrics. Decides nothing.

use jiff::Timestamp;
use tokio::sync::watch;

/// Whether the runtime answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The last call was answered.
    Answers,
    /// The last call was not. What runs goes on, unseen.
    Silent {
        /// Since when.
        since: Timestamp,
        /// What failed.
        why: String,
    },
}

/// Where calls tell how they went.
#[derive(Debug)]
pub(crate) struct Watchman {
    health: watch::Sender<Health>,
}

impl Watchman {
    pub(crate) fn new() -> Self {
        Self { health: watch::Sender::new(Health::Answers) }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// A call was answered.
    pub(crate) fn answered(&self) {
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
    pub(crate) fn silent(&self, now: Timestamp, why: impl FnOnce() -> String) {
        let gone = self.health.send_if_modified(|health| match health {
            Health::Silent { .. } => false,
            Health::Answers => {
                *health = Health::Silent { since: now, why: why() };
                true
            }
        });
        if gone && let Health::Silent { why, .. } = &*self.health.borrow() {
            tracing::warn!(why, "the container runtime does not answer; what runs is left alone until it does");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_silence_counts_until_an_answer() {
        let watchman = Watchman::new();
        let health = watchman.subscribe();
        let at = |second| Timestamp::from_second(second).unwrap();
        watchman.silent(at(1), || "one".to_owned());
        watchman.silent(at(2), || panic!("not asked again"));
        assert_eq!(*health.borrow(), Health::Silent { since: at(1), why: "one".to_owned() });
        watchman.answered();
        watchman.answered();
        assert_eq!(*health.borrow(), Health::Answers);
    }
}

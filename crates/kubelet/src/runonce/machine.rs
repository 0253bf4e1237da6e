//! One Pod of a run, as a pure machine.
//!
//! ```text
//!  look ──all run──► success
//!   ▲ └──not──► sync ──► sleep 1, 2, 4, … 512 s ──► look …; after the eleventh sync: time-out
//! ```

use std::time::Duration;

/// Sleeps between syncs, at most.
pub const MAX_RETRIES: u32 = 10;
/// The first sleep; each is twice the one before.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The runtime was asked: whether all containers run.
    Looked {
        /// Every container of `spec.containers` runs.
        all_running: bool,
    },
    /// The runtime did not answer.
    LookFailed,
    /// The sync succeeded.
    Synced,
    /// The sync failed.
    SyncFailed,
    /// The sleep is over.
    Slept,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ask the runtime.
    Look,
    /// Sync the Pod.
    Sync,
    /// Wait.
    Sleep(Duration),
    /// The Pod runs.
    Succeed,
    /// The last event is why it failed.
    Fail,
    /// Its containers did not all run at any moment that was looked at.
    TimeOut,
}

/// The run of one Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodRun {
    retries: u32,
    delay: Duration,
}

impl Default for PodRun {
    fn default() -> Self {
        Self { retries: 0, delay: RETRY_DELAY }
    }
}

impl PodRun {
    /// A run, and what to do first.
    #[must_use]
    pub fn start() -> (Self, Action) {
        (Self::default(), Action::Look)
    }

    /// What to do next.
    #[must_use]
    pub fn step(&mut self, event: Event) -> Action {
        match event {
            Event::Looked { all_running: true } => Action::Succeed,
            Event::Looked { all_running: false } => Action::Sync,
            Event::LookFailed | Event::SyncFailed => Action::Fail,
            Event::Synced if self.retries >= MAX_RETRIES => Action::TimeOut,
            Event::Synced => {
                let delay = self.delay;
                self.retries += 1;
                self.delay *= 2;
                Action::Sleep(delay)
            }
            Event::Slept => Action::Look,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The model knows only which look (counted from 0) comes when: 2ⁿ − 1 seconds after the start.
    fn model(running_from: Option<u64>, sync_fails_at: Option<u32>) -> (Action, u64, u32) {
        for n in 0..=MAX_RETRIES {
            let at = (1_u64 << n) - 1;
            if running_from.is_some_and(|from| from <= at) {
                return (Action::Succeed, at, n);
            }
            if sync_fails_at == Some(n) {
                return (Action::Fail, at, n + 1);
            }
        }
        (Action::TimeOut, (1 << MAX_RETRIES) - 1, MAX_RETRIES + 1)
    }

    fn machine(running_from: Option<u64>, sync_fails_at: Option<u32>) -> (Action, u64, u32) {
        let (mut run, mut action) = PodRun::start();
        let (mut now, mut syncs) = (0, 0);
        loop {
            let event = match action {
                Action::Look => Event::Looked { all_running: running_from.is_some_and(|from| from <= now) },
                Action::Sync => {
                    syncs += 1;
                    if sync_fails_at == Some(syncs - 1) { Event::SyncFailed } else { Event::Synced }
                }
                Action::Sleep(delay) => {
                    now += delay.as_secs();
                    Event::Slept
                }
                Action::Succeed | Action::Fail | Action::TimeOut => return (action, now, syncs),
            };
            action = run.step(event);
        }
    }

    proptest! {
        #[test]
        fn every_run_agrees_with_the_model(
            running_from in prop::option::of(0_u64..1500),
            sync_fails_at in prop::option::of(0_u32..14),
        ) {
            prop_assert_eq!(machine(running_from, sync_fails_at), model(running_from, sync_fails_at));
        }
    }

    #[test]
    fn the_worst_case_is_eleven_syncs_in_1023_seconds() {
        assert_eq!(machine(None, None), (Action::TimeOut, 1023, 11));
    }

    #[test]
    fn a_failed_look_ends_the_pod() {
        let (mut run, first) = PodRun::start();
        assert_eq!((first, run.step(Event::LookFailed)), (Action::Look, Action::Fail));
    }
}

//! When an agent that was started on demand ends: a pure rule over who needs it.
//!
//! ```text
//! Needed ──last client gone, no live Pod──► Lingering(since) ──linger over──► end
//!    ▲                                          │
//!    └──────────── client or live Pod ──────────┘
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// So long an agent waits for the next command before it ends: commands come in bursts.
pub(super) const LINGER: Duration = Duration::from_secs(3);

/// Whether anyone needs the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// Someone does.
    Needed,
    /// Nobody has since then.
    Lingering(Instant),
}

impl Idle {
    /// The state after what is seen now.
    #[must_use]
    pub(super) fn step(self, clients: usize, pods_live: bool, now: Instant) -> Self {
        match (self, clients > 0 || pods_live) {
            (_, true) => Self::Needed,
            (Self::Needed, false) => Self::Lingering(now),
            (Self::Lingering(since), false) => Self::Lingering(since),
        }
    }

    /// When the agent ends if nothing else happens.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Needed => None,
            Self::Lingering(since) => Some(since + LINGER),
        }
    }

    /// Whether the agent ends now.
    pub(super) fn is_over(self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The model: the deadline is the linger after the last moment of need, and there is none while needed.
        #[test]
        fn it_ends_a_linger_after_the_last_need(steps in prop::collection::vec((0_usize..2, any::<bool>(), 0_u64..9), 1..40)) {
            let start = Instant::now();
            let mut now = start;
            let mut idle = Idle::Needed;
            let mut idle_since = None;
            for (clients, live, wait) in steps {
                now += Duration::from_secs(wait);
                idle = idle.step(clients, live, now);
                let needed = clients > 0 || live;
                idle_since = if needed { None } else { idle_since.or(Some(now)) };
                prop_assert_eq!(idle.deadline(), idle_since.map(|s: Instant| s + LINGER));
                prop_assert_eq!(idle.is_over(now), idle_since.is_some_and(|s: Instant| now >= s + LINGER));
            }
        }
    }
}

//! When a worker looks at its Pod again without being told to.

use std::time::Duration;

/// Between two syncs of a Pod about which nothing is heard.
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(60);
/// After a sync that failed.
pub const ERROR_BACKOFF: Duration = Duration::from_secs(10);
/// After the first sandbox that could not be made in a row; each further one doubles it, up to [`ERROR_BACKOFF`].
pub const SANDBOX_BACKOFF: Duration = Duration::from_secs(1);
/// While the network is not ready.
pub const NETWORK_BACKOFF: Duration = Duration::from_secs(1);

/// Why the worker looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// The Pod went from one stage to the next.
    Transition,
    /// The sync succeeded.
    Success,
    /// The network is not ready.
    NetworkNotReady,
    /// A container or image is in back-off; the earliest ends in this time.
    BackOff(Duration),
    /// The sandbox could not be made, after so many failures in a row before.
    Sandbox {
        /// Failures before.
        failures: u32,
    },
    /// The sync failed otherwise.
    Error,
}

/// The delay, stretched by up to a half so that Pods spread out; `spread` is in `0..1`.
#[must_use]
pub fn requeue_delay(why: Requeue, spread: f64) -> Duration {
    let base = match why {
        Requeue::Transition => return Duration::ZERO,
        Requeue::Success => RESYNC_INTERVAL,
        Requeue::NetworkNotReady => NETWORK_BACKOFF,
        Requeue::BackOff(remaining) => remaining.min(RESYNC_INTERVAL),
        Requeue::Sandbox { failures } => {
            SANDBOX_BACKOFF.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(ERROR_BACKOFF)
        }
        Requeue::Error => ERROR_BACKOFF,
    };
    base.mul_f64(1.0 + spread.clamp(0.0, 1.0) / 2.0)
}

/// A spread for this Pod and this time, the same in every run: no two Pods stay in step, and tests repeat.
#[must_use]
pub fn spread(uid: &str, turn: u64) -> f64 {
    // FNV-1a.
    let hash = uid
        .bytes()
        .chain(turn.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    // The upper bits are mixed best; 2^20 steps are plenty.
    f64::from(u32::try_from(hash >> 44).unwrap_or(0)) / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn complete_work_enqueue() {
        let s = Duration::from_secs;
        for (name, why, least, most) in [
            ("phase transition", Requeue::Transition, s(0), s(0)),
            ("success", Requeue::Success, s(60), s(90)),
            ("network not ready", Requeue::NetworkNotReady, s(1), Duration::from_millis(1500)),
            ("back-off that has expired", Requeue::BackOff(s(0)), s(0), s(0)),
            ("back-off of a second", Requeue::BackOff(s(1)), s(1), Duration::from_millis(1500)),
            ("back-off in the middle", Requeue::BackOff(s(40)), s(40), s(60)),
            ("back-off of the resync interval", Requeue::BackOff(s(60)), s(60), s(90)),
            ("back-off longer than the resync interval", Requeue::BackOff(s(300)), s(60), s(90)),
            ("first sandbox that failed", Requeue::Sandbox { failures: 0 }, s(1), Duration::from_millis(1500)),
            ("third in a row", Requeue::Sandbox { failures: 2 }, s(4), s(6)),
            ("and so on", Requeue::Sandbox { failures: 4 }, s(10), s(15)),
            ("for ever", Requeue::Sandbox { failures: u32::MAX }, s(10), s(15)),
            ("other error", Requeue::Error, s(10), s(15)),
            ("other error, again", Requeue::Error, s(10), s(15)),
        ] {
            assert_eq!(requeue_delay(why, 0.0), least, "{name}");
            assert_eq!(requeue_delay(why, 1.0), most, "{name}");
        }
    }

    proptest! {
        #[test]
        fn spreads_are_fractions(uid in "[a-z0-9-]{1,40}", turn in any::<u64>()) {
            let fraction = spread(&uid, turn);
            prop_assert!((0.0..1.0).contains(&fraction));
            prop_assert_eq!(fraction, spread(&uid, turn));
        }
    }
}

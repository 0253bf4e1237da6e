//! How long each call may take: the kubelet's numbers. They are bounds on a runtime that hangs, not expectations.

use std::time::Duration;

/// Most calls.
pub(crate) const CALL: Duration = Duration::from_secs(120);
/// Until a question that is not answered is told as silence. It is waited for as long as any call.
pub(crate) const QUIET: Duration = Duration::from_secs(10);
/// How often a runtime that nobody asks anything is asked whether it is there, as the kubelet does, and how long that may take.
pub(crate) const PULSE: Duration = Duration::from_secs(5);
/// How long the name of a sandbox or container is waited for that an earlier call holds.
pub(crate) const CLAIMED: Duration = Duration::from_secs(30);
/// How much later than a command's own time its runtime may say that it was ended: it counts in whole seconds, kills the
/// command, and waits for its end.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// Making a sandbox: its network may have to be set up by plugins that wait for others.
pub(crate) const RUN_SANDBOX: Duration = Duration::from_secs(240);
/// Until a container that was stopped is shown as ended.
pub(crate) const STOPPED: Duration = Duration::from_secs(15);
/// Until processes are gone that were killed.
pub(crate) const KILLED: Duration = Duration::from_secs(2);
/// The first calls, which a runtime that works answers at once.
pub(crate) const GREETING: Duration = Duration::from_secs(10);

/// Stopping a container with this grace.
pub(crate) fn stop(grace: Duration) -> Duration {
    CALL.saturating_add(grace)
}

/// A command that the runtime itself ends after `timeout`; without one it may take as long as it takes.
pub(crate) fn exec(timeout: Option<Duration>) -> Option<Duration> {
    timeout.map(|timeout| CALL.saturating_add(timeout))
}

/// Until the runtime has said that a command of this timeout was ended. What it says later is not waited for.
pub(crate) fn exec_answer(timeout: Duration) -> Duration {
    Duration::from_secs(u64::try_from(whole_seconds(timeout)).unwrap_or(0)).saturating_add(LATE)
}

/// CRI counts in whole seconds; a part of one is a whole one, so that nothing is cut short.
pub(crate) fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    // Go's durations end at 292 years of nanoseconds; runtimes multiply.
    i64::try_from(seconds).unwrap_or(i64::MAX).min(i64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_the_kubelets() {
        assert_eq!(stop(Duration::from_secs(30)), Duration::from_secs(150));
        assert_eq!(stop(Duration::MAX), Duration::MAX, "no overflow");
        assert_eq!(exec(Some(Duration::from_secs(1))), Some(Duration::from_secs(121)));
        assert_eq!(exec(None), None);
        assert_eq!(exec_answer(Duration::from_millis(1200)), Duration::from_secs(4));
        assert_eq!(RUN_SANDBOX, CALL * 2);
    }

    #[test]
    fn a_part_of_a_second_is_a_whole_one() {
        for (millis, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis} ms");
        }
        assert_eq!(whole_seconds(Duration::MAX), i64::from(u32::MAX), "a runtime may multiply it by 10⁹");
    }
}

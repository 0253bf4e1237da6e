//! When something that failed is tried again: crash loops of containers and failed image pulls.
//!
//! Pure data; callers pass the time in. Two clocks take part: the wall clock says when an exit happened (the runtime's
//! word), the monotonic clock says how long ago that was. A wall clock that jumps can therefore neither prolong a wait
//! beyond the cap nor make it negative: an exit is placed on the monotonic time line once, when it is first seen.
//!
//! Upstream sources: `client-go/util/flowcontrol/backoff.go`, `pkg/kubelet/kuberuntime` (`doBackOff`),
//! `pkg/kubelet/images`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;

use crate::identity::{PodKey, PodUid};

/// First wait.
pub const INITIAL: Duration = Duration::from_secs(10);
/// Longest wait.
pub const MAX: Duration = Duration::from_secs(300);
/// A crash-looping container that ran longer than this starts over with an immediate restart.
pub const RESET_AFTER: Duration = Duration::from_secs(600);

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// The monotonic clock, since any fixed point.
    pub monotonic: Duration,
}

/// It is too early to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackedOff {
    /// How much longer to wait.
    pub remaining: Duration,
    /// The whole wait, as messages name it.
    pub delay: Duration,
}

impl BackedOff {
    /// Upstream's words for a crash loop.
    #[must_use]
    pub fn crash_loop_message(&self, container: &str, pod: &PodKey) -> String {
        format!(
            "back-off {} restarting failed container={container} pod={}_{}({})",
            go_duration(self.delay),
            pod.name,
            pod.namespace,
            pod.uid
        )
    }
}

/// Seconds as Go shows them: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds / 60 {
        0 => format!("{seconds}s"),
        minutes => format!("{minutes}m{}s", seconds % 60),
    }
}

/// What a crash loop is counted by: the container of a Pod with its spec, so that a changed image starts afresh.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CrashKey {
    /// The Pod.
    pub pod: PodUid,
    /// The container's name.
    pub container: String,
    /// Hash of the container's spec.
    pub spec_hash: String,
}

#[derive(Debug, Clone)]
struct Crash {
    delay: Duration,
    /// When it was last let through.
    updated: Duration,
    /// The exit that is being waited for, placed on the monotonic time line.
    exit: Option<(Timestamp, Duration)>,
}

/// Crash-loop back-off of all containers: the first restart is immediate, then 10 s doubling to 300 s, measured from
/// the exit.
#[derive(Debug, Clone, Default)]
pub struct CrashLoops {
    entries: HashMap<CrashKey, Crash>,
}

impl CrashLoops {
    /// Whether the container that ended at `finished_at` must wait; `None`: restart it now.
    pub fn check(&mut self, key: &CrashKey, finished_at: Timestamp, now: Moment) -> Option<BackedOff> {
        let crash = self.entries.get_mut(key)?;
        let exit = crash.exit_at(finished_at, now);
        if exit.saturating_sub(crash.updated) > RESET_AFTER {
            return None;
        }
        let remaining = (exit + crash.delay).saturating_sub(now.monotonic);
        (!remaining.is_zero()).then_some(BackedOff { remaining, delay: crash.delay })
    }

    /// A restart after the exit at `finished_at` is going ahead: the next one waits longer.
    pub fn advance(&mut self, key: CrashKey, finished_at: Timestamp, now: Moment) {
        let fresh = Crash { delay: INITIAL, updated: now.monotonic, exit: None };
        let Some(crash) = self.entries.get_mut(&key) else {
            self.entries.insert(key, fresh);
            return;
        };
        if crash.exit_at(finished_at, now).saturating_sub(crash.updated) > RESET_AFTER {
            *crash = fresh;
        } else {
            *crash = Crash { delay: (crash.delay * 2).min(MAX), ..fresh };
        }
    }

    /// Forgets a Pod.
    pub fn forget(&mut self, pod: &PodUid) {
        self.entries.retain(|key, _| key.pod != *pod);
    }

    /// Forgets what can't matter any more: entries that are older than any wait and reset.
    pub fn collect_garbage(&mut self, now: Duration) {
        self.entries.retain(|_, crash| now.saturating_sub(crash.updated) <= RESET_AFTER + MAX);
    }

    /// How many containers are counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Crash {
    /// The exit on the monotonic time line: not before the restart that it ended, not after now.
    fn exit_at(&mut self, finished_at: Timestamp, now: Moment) -> Duration {
        if let Some((seen, exit)) = self.exit
            && seen == finished_at
        {
            return exit;
        }
        let ago = Duration::try_from(now.wall.duration_since(finished_at)).unwrap_or(Duration::ZERO);
        let exit = now.monotonic.saturating_sub(ago).max(self.updated.min(now.monotonic));
        self.exit = Some((finished_at, exit));
        exit
    }
}

/// Back-off of pulls per key (`<pod uid>_<image>`): 10 s doubling to 300 s after each failure, reset by a success or
/// by [`RESET_AFTER`] without a failure.
#[derive(Debug, Clone)]
pub struct Backoff<K> {
    entries: HashMap<K, Failure>,
}

#[derive(Debug, Clone)]
struct Failure {
    delay: Duration,
    updated: Duration,
    message: String,
}

impl<K: Eq + Hash> Default for Backoff<K> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// Whether `key` must wait, with the message of its last failure.
    #[must_use]
    pub fn check(&self, key: &K, now: Duration) -> Option<(BackedOff, &str)> {
        let failure = self.entries.get(key)?;
        let remaining = (failure.updated + failure.delay).saturating_sub(now);
        (!remaining.is_zero()).then_some((BackedOff { remaining, delay: failure.delay }, failure.message.as_str()))
    }

    /// An attempt failed.
    pub fn failed(&mut self, key: K, message: String, now: Duration) {
        let previous = self.entries.get(&key).filter(|f| now.saturating_sub(f.updated) <= RESET_AFTER);
        let delay = previous.map_or(INITIAL, |failure| (failure.delay * 2).min(MAX));
        self.entries.insert(key, Failure { delay, updated: now, message });
    }

    /// An attempt succeeded.
    pub fn succeeded(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Keeps only what can still matter, and what `keep` wants.
    pub fn retain(&mut self, now: Duration, mut keep: impl FnMut(&K) -> bool) {
        self.entries.retain(|key, failure| now.saturating_sub(failure.updated) <= RESET_AFTER && keep(key));
    }

    /// How many keys are counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use proptest::prelude::*;

    const START: i64 = 1_800_000_000;

    fn at(seconds: u64) -> Moment {
        let wall = Timestamp::from_second(START + i64::try_from(seconds).unwrap()).unwrap();
        Moment { wall, monotonic: Duration::from_secs(seconds) }
    }

    fn key() -> CrashKey {
        CrashKey { pod: PodUid::new("u").unwrap(), container: "c".to_owned(), spec_hash: "h".to_owned() }
    }

    fn delay_of(wait: Option<BackedOff>) -> u64 {
        wait.map_or(0, |w| w.remaining.as_secs())
    }

    #[test]
    fn the_first_restart_is_immediate_then_ten_seconds_doubling_to_three_hundred() {
        let mut loops = CrashLoops::default();
        let mut now = 1000;
        for expected in [0, 10, 20, 40, 80, 160, 300, 300, 300] {
            let exit = at(now);
            assert_eq!(delay_of(loops.check(&key(), exit.wall, exit)), expected);
            now += expected;
            assert_eq!(loops.check(&key(), exit.wall, at(now)), None);
            loops.advance(key(), exit.wall, at(now));
            now += 1; // It runs for a second.
        }
    }

    #[test]
    fn the_wait_is_measured_from_the_exit() {
        let mut loops = CrashLoops::default();
        loops.advance(key(), at(0).wall, at(0));
        assert_eq!(delay_of(loops.check(&key(), at(5).wall, at(12))), 3);
        assert_eq!(loops.check(&key(), at(5).wall, at(15)), None);
    }

    #[test]
    fn ten_minutes_of_running_reset_it() {
        let mut loops = CrashLoops::default();
        for second in 0..6 {
            loops.advance(key(), at(second).wall, at(second));
        }
        assert_eq!(delay_of(loops.check(&key(), at(600).wall, at(600))), 300);
        let exit = at(5 + 601);
        assert_eq!(loops.check(&key(), exit.wall, exit), None);
        loops.advance(key(), exit.wall, exit);
        assert_eq!(delay_of(loops.check(&key(), at(607).wall, at(607))), 10);
    }

    #[test]
    fn another_spec_starts_afresh() {
        let mut loops = CrashLoops::default();
        loops.advance(key(), at(0).wall, at(0));
        let changed = CrashKey { spec_hash: "other".to_owned(), ..key() };
        assert!(loops.check(&key(), at(1).wall, at(1)).is_some());
        assert!(loops.check(&changed, at(1).wall, at(1)).is_none());
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_prolong_the_wait() {
        let mut loops = CrashLoops::default();
        loops.advance(key(), at(100).wall, at(100));
        let hour = SignedDuration::from_hours(1);
        let exit = at(101).wall;
        let before = |second: u64| Moment { wall: at(second).wall - hour, ..at(second) };
        assert_eq!(delay_of(loops.check(&key(), exit, before(101))), 10);
        assert_eq!(loops.check(&key(), exit, before(111)), None);
    }

    #[test]
    fn a_clock_that_jumps_ahead_neither_resets_nor_skips_a_wait_that_began() {
        let mut loops = CrashLoops::default();
        loops.advance(key(), at(100).wall, at(100));
        let exit = at(101).wall;
        assert_eq!(delay_of(loops.check(&key(), exit, at(102))), 9);
        let ahead = Moment { wall: at(102).wall + SignedDuration::from_hours(5), ..at(102) };
        assert_eq!(delay_of(loops.check(&key(), exit, ahead)), 9);
    }

    #[test]
    fn garbage_goes_and_what_matters_stays() {
        let mut loops = CrashLoops::default();
        loops.advance(key(), at(0).wall, at(0));
        loops.collect_garbage(Duration::from_secs(900));
        assert_eq!(loops.len(), 1);
        loops.collect_garbage(Duration::from_secs(901));
        assert!(loops.is_empty());
        loops.advance(key(), at(0).wall, at(0));
        loops.forget(&key().pod);
        assert!(loops.is_empty());
    }

    #[test]
    fn messages_use_upstreams_words() {
        let pod = PodKey::new("ns", "web", PodUid::new("u1").unwrap());
        for (seconds, shown) in [(10, "10s"), (80, "1m20s"), (300, "5m0s")] {
            let wait = BackedOff { remaining: Duration::ZERO, delay: Duration::from_secs(seconds) };
            let expected = format!("back-off {shown} restarting failed container=c pod=web_ns(u1)");
            assert_eq!(wait.crash_loop_message("c", &pod), expected);
        }
    }

    #[test]
    fn pulls_double_and_remember_why_they_failed() {
        let mut pulls = Backoff::<&str>::default();
        let mut now = Duration::ZERO;
        for expected in [10, 20, 40, 80, 160, 300, 300] {
            pulls.failed("k", format!("after {expected}"), now);
            let (wait, message) = pulls.check(&"k", now).unwrap();
            assert_eq!((wait.remaining.as_secs(), message), (expected, format!("after {expected}").as_str()));
            now += wait.remaining;
            assert!(pulls.check(&"k", now).is_none());
        }
        pulls.succeeded(&"k");
        pulls.failed("k", String::new(), now);
        assert_eq!(pulls.check(&"k", now).unwrap().0.delay, INITIAL);
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// The container runs this long and ends; the restart happens as soon as it may.
        Crash(u64),
        /// The wall clock jumps by this many seconds.
        Jump(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![3 => (0_u64..2000).prop_map(Step::Crash), 1 => (-100_000_i64..100_000).prop_map(Step::Jump)]
    }

    proptest! {
        /// A small model: the delay after k restarts in a row is 10·2^(k−1), at most 300; it is reset by a run of more
        /// than ten minutes. Jumps of the wall clock between exits change nothing.
        #[test]
        fn waits_follow_the_model_whatever_the_wall_clock_does(steps in prop::collection::vec(step(), 1..40)) {
            let mut loops = CrashLoops::default();
            let (mut monotonic, mut skew, mut model) = (1_000_000_u64, 0_i64, None::<u64>);
            let moment = |monotonic: u64, skew: i64| Moment {
                wall: Timestamp::from_second(START + i64::try_from(monotonic).unwrap() + skew).unwrap(),
                monotonic: Duration::from_secs(monotonic),
            };
            for step in steps {
                match step {
                    Step::Jump(seconds) => skew += seconds,
                    Step::Crash(ran) => {
                        monotonic += ran;
                        let exit = moment(monotonic, skew);
                        if ran > 600 {
                            model = None;
                        }
                        let expected = model.unwrap_or(0);
                        let wait = loops.check(&key(), exit.wall, exit);
                        prop_assert_eq!(delay_of(wait), expected);
                        monotonic += expected;
                        let now = moment(monotonic, skew);
                        prop_assert_eq!(loops.check(&key(), exit.wall, now), None);
                        loops.advance(key(), exit.wall, now);
                        model = Some(model.map_or(10, |d| (d * 2).min(300)));
                    }
                }
            }
        }

        /// Arbitrary wall times of exits never make a wait negative or longer than the cap.
        #[test]
        fn waits_stay_between_nothing_and_the_cap(exits in prop::collection::vec((-10_000_000_i64..10_000_000, 0_u64..400), 1..30)) {
            let mut loops = CrashLoops::default();
            let mut monotonic = 0;
            for (finished, passes) in exits {
                monotonic += passes;
                let finished = Timestamp::from_second(START + finished).unwrap();
                let now = at(monotonic);
                match loops.check(&key(), finished, now) {
                    Some(wait) => prop_assert!(wait.remaining <= wait.delay && wait.delay <= MAX),
                    None => loops.advance(key(), finished, now),
                }
            }
        }
    }
}

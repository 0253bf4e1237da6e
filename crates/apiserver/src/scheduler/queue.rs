//! Which waiting Pod is decided on next, and when those that failed are tried again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// First wait after a failed attempt; it doubles with each.
const INITIAL: Duration = Duration::from_secs(1);
/// Longest wait.
const MAX: Duration = Duration::from_secs(10);
/// A Pod that nothing seems to help is tried anyway after this long.
const FLUSH: Duration = Duration::from_secs(300);

type Uid = String;

/// Where a Pod without a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Held by its gates.
    Gated,
    /// To be decided on.
    Queued,
    /// To be decided on from then.
    BackingOff {
        /// When.
        until: Duration,
    },
    /// Tried in vain; a change may help.
    Waiting {
        /// Before that it is too early.
        until: Duration,
        /// When it is tried without one.
        flush: Duration,
        /// Whether it would help if other Pods went.
        room: bool,
    },
    /// A node is chosen, and the API is asked to bind.
    Binding {
        /// Which.
        node: String,
    },
}

/// What has changed that may help Pods that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A node came, or offers something else.
    Node,
    /// Something uses less.
    Room,
}

#[derive(Debug, Clone)]
struct Waiter {
    stage: Stage,
    priority: i32,
    arrived: u64,
    attempts: u32,
}

impl Waiter {
    fn rank(&self, uid: &str) -> (Reverse<i32>, u64, Uid) {
        (Reverse(self.priority), self.arrived, uid.to_owned())
    }

    fn timer(&self) -> Option<Duration> {
        match self.stage {
            Stage::BackingOff { until } => Some(until),
            Stage::Waiting { flush, .. } => Some(flush),
            Stage::Gated | Stage::Queued | Stage::Binding { .. } => None,
        }
    }
}

/// Pods without a node, by uid.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    waiters: HashMap<Uid, Waiter>,
    ready: BTreeSet<(Reverse<i32>, u64, Uid)>,
    timers: BTreeSet<(Duration, Uid)>,
    arrivals: u64,
}

impl Queue {
    pub(super) fn stage(&self, uid: &str) -> Option<&Stage> {
        self.waiters.get(uid).map(|waiter| &waiter.stage)
    }

    /// A Pod that is new here. Its place among those of its priority stays what it is.
    pub(super) fn arrive(&mut self, uid: &str, priority: i32, stage: Stage) {
        self.arrivals += 1;
        let waiter = Waiter { stage: Stage::Gated, priority, arrived: self.arrivals, attempts: 0 };
        self.leave(uid);
        self.waiters.insert(uid.to_owned(), waiter);
        self.enter(uid, stage);
    }

    pub(super) fn enter(&mut self, uid: &str, stage: Stage) {
        let Some(waiter) = self.waiters.get_mut(uid) else { return };
        self.ready.remove(&waiter.rank(uid));
        if let Some(at) = waiter.timer() {
            self.timers.remove(&(at, uid.to_owned()));
        }
        waiter.stage = stage;
        if waiter.stage == Stage::Queued {
            self.ready.insert(waiter.rank(uid));
        }
        if let Some(at) = waiter.timer() {
            self.timers.insert((at, uid.to_owned()));
        }
    }

    /// It is placed, or gone.
    pub(super) fn leave(&mut self, uid: &str) {
        self.enter(uid, Stage::Gated);
        self.waiters.remove(uid);
    }

    /// Those whose time has come become ready.
    pub(super) fn tick(&mut self, now: Duration) {
        while let Some((at, uid)) = self.timers.first().cloned() {
            if at > now {
                return;
            }
            self.enter(&uid, Stage::Queued);
        }
    }

    /// The most important Pod that is ready.
    pub(super) fn first(&self) -> Option<&str> {
        self.ready.first().map(|(_, _, uid)| uid.as_str())
    }

    /// An attempt did not work: until when it is too early for another.
    pub(super) fn failed(&mut self, uid: &str, now: Duration) -> Duration {
        let Some(waiter) = self.waiters.get_mut(uid) else { return now };
        let delay = INITIAL.saturating_mul(1_u32.checked_shl(waiter.attempts).unwrap_or(u32::MAX)).min(MAX);
        waiter.attempts = (waiter.attempts + 1).min(31);
        now + delay
    }

    /// No node took it.
    pub(super) fn wait(&mut self, uid: &str, room: bool, now: Duration) {
        let until = self.failed(uid, now);
        self.enter(uid, Stage::Waiting { until, flush: now + FLUSH, room });
    }

    /// Binding was refused.
    pub(super) fn back_off(&mut self, uid: &str, now: Duration) {
        let until = self.failed(uid, now);
        self.enter(uid, Stage::BackingOff { until });
    }

    /// It is tried again, when its back-off is over.
    pub(super) fn retry(&mut self, uid: &str, now: Duration) {
        match self.stage(uid) {
            Some(Stage::Waiting { until, .. }) => {
                let stage = if *until > now { Stage::BackingOff { until: *until } } else { Stage::Queued };
                self.enter(uid, stage);
            }
            Some(Stage::Gated) => self.enter(uid, Stage::Queued),
            Some(Stage::Queued | Stage::BackingOff { .. } | Stage::Binding { .. }) | None => {}
        }
    }

    /// Something has changed: whom it may help is tried again. Nodes change seldom, and cut a back-off short; room comes and
    /// goes all the time, and does not.
    pub(super) fn changed(&mut self, change: Change, now: Duration) {
        let helps = |stage: &Stage| match (stage, change) {
            (Stage::Waiting { .. } | Stage::BackingOff { .. }, Change::Node)
            | (Stage::Waiting { room: true, .. }, Change::Room) => true,
            (Stage::Waiting { room: false, .. } | Stage::BackingOff { .. }, Change::Room)
            | (Stage::Gated | Stage::Queued | Stage::Binding { .. }, Change::Node | Change::Room) => false,
        };
        let helped: Vec<Uid> =
            self.waiters.iter().filter(|(_, waiter)| helps(&waiter.stage)).map(|(uid, _)| uid.clone()).collect();
        for uid in helped {
            match change {
                Change::Node => self.enter(&uid, Stage::Queued),
                Change::Room => self.retry(&uid, now),
            }
        }
    }

    /// When the next becomes ready by itself.
    pub(super) fn wake(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_more_important_first_then_who_came_first() {
        let mut queue = Queue::default();
        for (uid, priority) in [("a", 0), ("b", 5), ("c", 5), ("d", -1)] {
            queue.arrive(uid, priority, Stage::Queued);
        }
        let mut order = Vec::new();
        while let Some(uid) = queue.first().map(str::to_owned) {
            queue.leave(&uid);
            order.push(uid);
        }
        assert_eq!(order, ["b", "c", "a", "d"]);
    }

    #[test]
    fn back_off_doubles_to_ten_seconds_and_room_does_not_cut_it_short() {
        let mut queue = Queue::default();
        queue.arrive("a", 0, Stage::Queued);
        let mut now = s(100);
        for expected in [1, 2, 4, 8, 10, 10] {
            queue.wait("a", true, now);
            queue.changed(Change::Room, now);
            assert_eq!((queue.first(), queue.wake()), (None, Some(now + s(expected))));
            now += s(expected);
            queue.tick(now);
            assert_eq!(queue.first(), Some("a"));
        }
        queue.wait("a", false, now);
        queue.changed(Change::Room, now + s(20));
        assert_eq!(queue.first(), None, "room does not help it");
        queue.changed(Change::Node, now);
        assert_eq!(queue.first(), Some("a"), "a node that changes cuts it short");
        queue.wait("a", false, now);
        assert_eq!(queue.wake(), Some(now + s(300)), "without any change it is tried after five minutes");
    }
}

//! One seeded schedule: what happens next, in which order calls end, which fail, and what must hold after each step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use minke_core::fake::SplitMix;
use minke_core::runtime::RuntimeError;
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::told::Told;
use super::world::{World, content, rank, uid};
use crate::cache::{CacheRead, PodCache, Stamp, WaitExpired, pod_cache};
use crate::pleg::hints::Want;
use crate::pleg::period::{Period, StreamState};
use crate::pleg::record::{Item, Record, State};
use crate::pleg::relister::{Found, Look, Outcome, Relister};
use crate::pleg::stats::Counters;
use crate::pleg::tally::Counts;

/// Longer than any schedule: a wait that reaches it is stuck.
const BOUND: Duration = Duration::from_secs(3600);

/// A full list under way.
struct Full {
    stamp: Stamp,
    sandboxes: Option<Vec<Vec<Item>>>,
}

/// A look under way.
struct Going {
    look: Look,
    record: Option<Record>,
    torn: Option<Vec<Item>>,
}

type Wait = Pin<Box<dyn Future<Output = Result<CacheRead, WaitExpired>>>>;

struct Waiter {
    pod: usize,
    since: u64,
    min: Stamp,
    wait: Wait,
}

pub(super) struct Bed {
    random: SplitMix,
    pods: usize,
    world: World,
    relister: Relister,
    cache: PodCache,
    counters: Arc<Counters>,
    told: Arc<Told>,
    full: Option<Full>,
    going: Vec<Going>,
    late: Vec<usize>,
    waiters: Vec<Waiter>,
    faults: bool,
}

impl Bed {
    pub(super) fn new(seed: u64) -> Self {
        let (cache, writer) = pod_cache();
        let counters = Arc::new(Counters::new(Duration::from_secs(1)));
        let told = Arc::new(Told::default());
        let period = Period::new(Duration::from_secs(1), Duration::from_secs(30));
        let relister = Relister::new(writer, told.clone(), counters.clone(), period);
        let mut random = SplitMix::new(seed);
        let pods = 1 + random.below(3) as usize;
        Self {
            random,
            pods,
            world: World::default(),
            relister,
            cache,
            counters,
            told,
            full: None,
            going: Vec::new(),
            late: Vec::new(),
            waiters: Vec::new(),
            faults: true,
        }
    }

    fn pod(&mut self) -> usize {
        self.random.below(self.pods as u64) as usize
    }

    fn fails(&mut self) -> bool {
        self.faults && self.random.chance(150)
    }

    fn begin(&mut self, looks: impl IntoIterator<Item = Look>) {
        for look in looks {
            assert!(self.going.iter().all(|g| g.look.uid != look.uid), "two looks at {}", look.uid);
            let record = look.listed.clone();
            self.going.push(Going { look, record, torn: None });
        }
    }

    fn hint(&mut self, pod: usize, want: Want) {
        let looks = self.relister.hinted(HashMap::from([(uid(pod), want)]), &HashSet::new());
        self.begin(looks);
    }

    pub(super) fn step(&mut self) {
        match self.random.below(12) {
            0..=2 => {
                let pod = self.pod();
                self.world.change(pod, &mut self.random);
                match self.random.below(4) {
                    0 => {}
                    1 => self.hint(pod, Want::List),
                    2 => self.late.extend([pod, pod]),
                    _ => self.late.push(pod),
                }
            }
            3 => {
                if !self.late.is_empty() {
                    let at = self.random.below(self.late.len() as u64) as usize;
                    let pod = self.late.swap_remove(at);
                    self.hint(pod, Want::List);
                }
            }
            4 => {
                // Of nothing in particular, or of a Pod that never was.
                let pod = self.random.below(self.pods as u64 + 1) as usize;
                let want = if self.random.chance(500) { Want::Inspect } else { Want::List };
                self.hint(pod, want);
            }
            5 | 6 => self.step_full(),
            7 => {
                let looks = self.relister.retry();
                self.begin(looks);
            }
            8 => {
                let pod = self.pod();
                let (cache, min, uid) = (self.cache.clone(), self.cache.stamp(), uid(pod));
                let wait = unconstrained(async move { cache.newer_than(&uid, min, BOUND).await });
                self.waiters.push(Waiter { pod, since: self.world.time, min, wait: Box::pin(wait) });
            }
            _ => self.step_look(),
        }
        if self.random.chance(50) {
            let states = [StreamState::Up, StreamState::Up, StreamState::Down, StreamState::Polling];
            self.counters.set_stream(states[self.random.below(4) as usize]);
        }
        self.poll_waiters();
    }

    fn step_full(&mut self) {
        let Some(full) = self.full.take() else {
            self.full = Some(Full { stamp: self.relister.stamp(), sandboxes: None });
            return;
        };
        if self.fails() {
            return;
        }
        let Some(sandboxes) = full.sandboxes else {
            let sandboxes = (0..self.pods).map(|pod| self.world.items(pod, true)).collect();
            self.full = Some(Full { sandboxes: Some(sandboxes), ..full });
            return;
        };
        let mut listed = HashMap::new();
        for (pod, sandboxes) in sandboxes.into_iter().enumerate() {
            let record = Record { sandboxes, containers: self.world.items(pod, false) };
            if !record.is_empty() {
                listed.insert(uid(pod), record);
            }
        }
        let looks = self.relister.listed(listed, full.stamp, Instant::now());
        self.begin(looks);
    }

    fn step_look(&mut self) {
        if self.going.is_empty() {
            return;
        }
        let at = self.random.below(self.going.len() as u64) as usize;
        let mut going = self.going.swap_remove(at);
        let pod: usize = going.look.uid.as_str()[3..].parse().unwrap();
        let failure = || RuntimeError::failed("pod status", "scripted");
        let outcome = match (going.record.take(), going.torn.take()) {
            (None, None) if self.fails() => Outcome::NotListed(failure()),
            (None, None) => {
                going.torn = Some(self.world.items(pod, true));
                return self.going.push(going);
            }
            (None, Some(sandboxes)) => {
                let record = Record { sandboxes, containers: self.world.items(pod, false) };
                if record != going.look.known || going.look.inspect {
                    going.record = Some(record);
                    return self.going.push(going);
                }
                Outcome::Unchanged
            }
            (Some(record), _) if self.fails() => Outcome::Inspected { record, status: Err(failure()) },
            (Some(record), _) => match self.world.inspect(pod, &record) {
                Some(status) => Outcome::Inspected { record, status: Ok(status) },
                // Listed again.
                None => return self.going.push(going),
            },
        };
        let Look { uid, stamp, listed, .. } = going.look;
        let next = self.relister.found(Found { uid, stamp, alone: listed.is_none(), outcome });
        self.begin(next);
    }

    fn poll_waiters(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.retain_mut(|waiter| match waiter.wait.as_mut().poll(&mut context) {
            Poll::Pending => {
                let missed = self.cache.get_newer_than(&uid(waiter.pod), waiter.min);
                assert!(missed.is_none(), "who asks now is answered, and who waits is not");
                true
            }
            Poll::Ready(read) => {
                let read = read.unwrap();
                if read.error.is_none() {
                    self.check_fresh(waiter.pod, waiter.since, &content(&read.status));
                }
                false
            }
        });
        self.waiters = waiters;
    }

    /// Nothing that was gone by then; everything that was there then and still is, at least as far as it was.
    fn check_fresh(&self, pod: usize, since: u64, seen: &BTreeMap<String, State>) {
        for thing in self.world.things.iter().filter(|t| t.pod == pod) {
            let (id, seen) = (&thing.id, seen.get(&thing.id));
            if thing.removed.is_some_and(|at| at <= since) {
                assert_eq!(seen, None, "{id} was gone at {since}");
            }
            if let (Some(then), None) = (thing.state_at(since), thing.removed) {
                let seen = seen.unwrap_or_else(|| panic!("{id} was there at {since} and was not seen"));
                assert!(rank(*seen) >= rank(then), "{id} was {then:?} at {since} and was seen {seen:?}");
            }
        }
    }

    /// Faults stop; what is under way ends; everything is listed once more.
    pub(super) fn settle(&mut self) {
        self.faults = false;
        self.late.clear();
        for _ in 0..2 {
            while self.full.is_some() {
                self.step_full();
            }
            while !self.going.is_empty() || self.relister.is_failing() {
                let looks = self.relister.retry();
                self.begin(looks);
                self.step_look();
                self.poll_waiters();
            }
            self.step_full();
        }
        while self.full.is_some() {
            self.step_full();
        }
        while !self.going.is_empty() {
            self.step_look();
        }
        self.poll_waiters();
    }

    pub(super) fn check_settled(&self) {
        assert!(!self.relister.is_failing());
        assert_eq!((self.waiters.len(), self.cache.waiting()), (0, 0), "nobody waits for ever");
        let mut counts = Counts::default();
        for pod in 0..self.pods {
            let read = self.cache.get(&uid(pod));
            assert!(read.error.is_none());
            let there: BTreeMap<String, State> =
                self.world.present(pod).filter_map(|t| Some((t.id.clone(), t.state()?))).collect();
            assert_eq!(content(&read.status), there, "the cache is the world");
            let record = Record { sandboxes: self.world.items(pod, true), containers: self.world.items(pod, false) };
            counts.add(&Counts::of(&record), 1);
        }
        let present = (0..self.pods).filter(|pod| self.world.present(*pod).next().is_some()).count();
        assert_eq!(self.cache.len(), present, "nothing is cached of what is gone");
        assert_eq!(self.relister.tracked(), present, "nor remembered");
        assert_eq!(self.relister.counts(), counts, "gauges are right");
        for thing in &self.world.things {
            let last = self.told.last(&thing.id);
            let fits = match thing.state() {
                Some(State::Running) => last == Some("started"),
                Some(State::Exited) => last == Some("died"),
                Some(State::Created) => last.is_none(),
                Some(State::Unknown) => last.is_none() || last == Some("started"),
                // What came and went unseen was never told of.
                None => last.is_none() || last == Some("removed"),
            };
            assert!(fits, "{} is {:?} and was last told to have {last:?}", thing.id, thing.state());
        }
    }
}

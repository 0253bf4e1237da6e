//! The relister against a small world that it can see only through lists, inspections and hints, over seeded
//! schedules: every list is torn between its two halves, looks overlap and end in any order, calls fail, hints are
//! lost, doubled, late and forged.
//!
//! After every step: one look at a time for each Pod; no event twice or out of its order; whoever waited for an
//! observation newer than a moment got nothing that was gone before it and everything that was there. Once faults stop
//! and everything was listed once more: the cache is the world, every change was told, nobody waits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use minke_core::fake::SplitMix;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerId, ContainerState, ContainerStatus, Exit, ExitCode, ImageId, NamespaceOptions, PodRuntimeStatus,
    RuntimeError, SandboxId, SandboxInfo, SandboxState, SandboxStatus,
};
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::hints::Want;
use super::period::{Period, StreamState};
use super::record::{Item, Record, State};
use super::relister::{Found, Look, Outcome, Relister};
use super::stats::Counters;
use super::tally::Counts;
use super::{EventSink, LifecycleEvent};
use crate::cache::{CacheRead, PodCache, Stamp, WaitExpired, pod_cache};

/// Longer than any schedule: a wait that reaches it is stuck.
const BOUND: Duration = Duration::from_secs(3600);

/// A sandbox or container of the world.
#[derive(Debug, Clone)]
struct Thing {
    pod: usize,
    sandbox: bool,
    id: String,
    /// When it came into each state; states only go on.
    states: Vec<(u64, State)>,
    removed: Option<u64>,
}

impl Thing {
    fn state(&self) -> Option<State> {
        self.removed.is_none().then(|| self.states[self.states.len() - 1].1)
    }

    fn state_at(&self, time: u64) -> Option<State> {
        let there = self.removed.is_none_or(|at| at > time);
        self.states.iter().rev().find(|(at, _)| *at <= time).filter(|_| there).map(|(_, state)| *state)
    }
}

fn rank(state: State) -> u8 {
    match state {
        State::Created => 0,
        State::Running => 1,
        State::Unknown => 2,
        State::Exited => 3,
    }
}

fn uid(pod: usize) -> PodUid {
    PodUid::new(format!("pod{pod}")).unwrap()
}

#[derive(Debug, Default)]
struct World {
    time: u64,
    things: Vec<Thing>,
}

impl World {
    fn present(&self, pod: usize) -> impl Iterator<Item = &Thing> {
        self.things.iter().filter(move |t| t.pod == pod && t.removed.is_none())
    }

    fn items(&self, pod: usize, sandboxes: bool) -> Vec<Item> {
        let of_kind = self.present(pod).filter(|t| t.sandbox == sandboxes);
        let mut items: Vec<Item> = of_kind.filter_map(|t| Some(Item { id: t.id.clone(), state: t.state()? })).collect();
        items.sort_by(|a, b| a.id.cmp(&b.id));
        items
    }

    fn add(&mut self, pod: usize, sandbox: bool) {
        let id = format!("{}{:04}", if sandbox { 's' } else { 'c' }, self.things.len());
        let state = if sandbox { State::Running } else { State::Created };
        self.things.push(Thing { pod, sandbox, id, states: vec![(self.time, state)], removed: None });
    }

    /// Something happens in this Pod.
    fn change(&mut self, pod: usize, random: &mut SplitMix) {
        self.time += 1;
        let time = self.time;
        let there: Vec<usize> = (0..self.things.len())
            .filter(|i| self.things[*i].pod == pod && self.things[*i].removed.is_none())
            .collect();
        if there.is_empty() || random.chance(300) {
            return self.add(pod, there.is_empty());
        }
        if random.chance(80) {
            // The whole Pod goes.
            there.into_iter().for_each(|i| self.things[i].removed = Some(time));
            return;
        }
        let thing = &mut self.things[there[random.below(there.len() as u64) as usize]];
        let next = match (thing.state(), thing.sandbox) {
            (Some(State::Created), _) => Some(State::Running),
            (Some(State::Running), false) if random.chance(150) => Some(State::Unknown),
            (Some(State::Running | State::Unknown), _) if random.chance(850) => Some(State::Exited),
            _ => None,
        };
        match next {
            Some(state) => thing.states.push((time, state)),
            None => thing.removed = Some(time),
        }
    }

    /// What an inspection of these things reads now; `None`: one is gone.
    fn inspect(&self, pod: usize, record: &Record) -> Option<PodRuntimeStatus> {
        let state = |item: &Item| self.present(pod).find(|t| t.id == item.id)?.state();
        let sandboxes = record.sandboxes.iter().map(|i| Some(sandbox(pod, &i.id, state(i)?)));
        let containers = record.containers.iter().map(|i| Some(container(pod, &i.id, state(i)?)));
        Some(PodRuntimeStatus {
            sandboxes: sandboxes.collect::<Option<_>>()?,
            containers: containers.collect::<Option<_>>()?,
            ..PodRuntimeStatus::empty(uid(pod))
        })
    }
}

fn sandbox(pod: usize, id: &str, state: State) -> SandboxStatus {
    let state = if state == State::Running { SandboxState::Ready } else { SandboxState::NotReady };
    let key = PodKey::new("default", "p", uid(pod));
    let info = SandboxInfo { id: SandboxId(id.into()), pod: key, attempt: 0, state, created_at: Timestamp::UNIX_EPOCH };
    SandboxStatus {
        info,
        ips: Vec::new(),
        namespaces: NamespaceOptions::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

fn container(pod: usize, id: &str, state: State) -> ContainerStatus {
    let at = Timestamp::UNIX_EPOCH;
    let exit = Exit { code: ExitCode::Known(0), reason: String::new(), message: String::new(), finished_at: at };
    let state = match state {
        State::Created => ContainerState::Created,
        State::Running => ContainerState::Running { started_at: at },
        State::Exited => ContainerState::Exited { started_at: Some(at), exit },
        State::Unknown => ContainerState::Unknown,
    };
    ContainerStatus {
        id: ContainerId(id.into()),
        sandbox: SandboxId(String::new()),
        pod: uid(pod),
        name: id.into(),
        attempt: 0,
        created_at: at,
        state,
        image_name: String::new(),
        image: ImageId(String::new()),
        log_path: PathBuf::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        uid: None,
    }
}

/// What a status says, by id.
fn content(status: &PodRuntimeStatus) -> BTreeMap<String, State> {
    let sandboxes = status.sandboxes.iter().map(|s| (s.info.id.0.clone(), s.info.state.into()));
    let containers = status.containers.iter().map(|c| {
        let phase: minke_core::runtime::ContainerPhase = (&c.state).into();
        (c.id.0.clone(), phase.into())
    });
    sandboxes.chain(containers).collect()
}

/// Believes what it is told, and checks that it can be.
#[derive(Debug, Default)]
struct Told(Mutex<HashMap<String, Vec<&'static str>>>);

impl EventSink for Told {
    fn deliver(&self, _uid: &PodUid, events: &[LifecycleEvent]) {
        assert!(!events.is_empty());
        for event in events {
            let (id, what) = match event {
                LifecycleEvent::Started(id) => (id, "started"),
                LifecycleEvent::Died(id) => (id, "died"),
                LifecycleEvent::Removed(id) => (id, "removed"),
                LifecycleEvent::Changed(_) => panic!("{event:?} is not for workers"),
                LifecycleEvent::Sync => continue,
            };
            let mut told = self.0.lock().unwrap();
            let so_far = told.entry(id.clone()).or_default();
            let fits = match so_far.last() {
                None => what != "removed",
                Some(&"started") => what == "died",
                Some(&"died") => what == "removed",
                Some(_) => false,
            };
            assert!(fits, "{id}: {what} after {so_far:?}");
            so_far.push(what);
        }
    }

    fn listed(&self, _pods: &[PodUid]) {}
}

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

struct Bed {
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
    fn new(seed: u64) -> Self {
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

    fn step(&mut self) {
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
    fn settle(&mut self) {
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

    fn check_settled(&self) {
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
        let told = self.told.0.lock().unwrap();
        for thing in &self.world.things {
            let last = told.get(&thing.id).and_then(|told| told.last().copied());
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

#[tokio::test(start_paused = true)]
async fn the_cache_follows_the_world_over_seeded_schedules() {
    let seeds: u64 = std::env::var("MINKE_PLEG_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        let mut bed = Bed::new(seed);
        let run = std::panic::AssertUnwindSafe(|| {
            for _ in 0..150 {
                bed.step();
            }
            bed.settle();
            bed.check_settled();
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

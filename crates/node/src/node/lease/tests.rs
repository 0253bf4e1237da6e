use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// One API's lease, and agents that renew it.
struct World {
    lease: Option<Lease>,
    version: u64,
    start: Instant,
    elapsed: Duration,
}

impl World {
    fn new() -> Self {
        Self { lease: None, version: 0, start: Instant::now(), elapsed: Duration::ZERO }
    }

    fn now(&self) -> Now {
        let wall = Timestamp::from_second(1_700_000_000).unwrap() + SignedDuration::try_from(self.elapsed).unwrap();
        Now { instant: self.start + self.elapsed, wall }
    }

    fn store(&mut self, mut lease: Lease) -> LeaseEvent {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        LeaseEvent::Wrote(Box::new(lease))
    }

    fn answer(&mut self, call: LeaseCall) -> LeaseEvent {
        match call {
            LeaseCall::Get => LeaseEvent::Fetched(self.lease.clone().map(Box::new)),
            LeaseCall::Create(_) if self.lease.is_some() => LeaseEvent::Changed,
            LeaseCall::Create(lease) => self.store(*lease),
            LeaseCall::Replace(lease) => {
                let here = self.lease.as_ref().and_then(|l| l.metadata.resource_version.clone());
                if here.is_some() && here == lease.metadata.resource_version {
                    self.store(*lease)
                } else {
                    LeaseEvent::Changed
                }
            }
        }
    }

    /// Lets an agent do all that is due.
    fn turn(&mut self, agent: &mut LeaseMachine) -> Option<NameTaken> {
        let mut event = LeaseEvent::Due;
        for _ in 0..50 {
            match agent.step(event, self.now()) {
                LeaseStep::Wait => return None,
                LeaseStep::Taken(taken) => return Some(taken),
                LeaseStep::Call(call) => event = self.answer(call),
            }
        }
        panic!("it asks without end");
    }

    fn holder(&self) -> Option<String> {
        self.lease.as_ref()?.metadata.annotations.as_ref()?.get(AGENT).cloned()
    }
}

fn agent(identity: &str, world: &World) -> LeaseMachine {
    LeaseMachine::new(Arc::new(NodeConfig::new("n", identity)), world.now().instant)
}

/// Lets so many seconds pass, one by one.
fn run(world: &mut World, agents: &mut [&mut LeaseMachine], seconds: u64) -> Vec<Option<NameTaken>> {
    let mut taken = vec![None; agents.len()];
    for _ in 0..seconds {
        for (agent, taken) in agents.iter_mut().zip(&mut taken) {
            if taken.is_none() && agent.due().is_some_and(|due| due <= world.now().instant) {
                *taken = world.turn(agent);
            }
        }
        world.elapsed += SECOND;
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn it_is_upstreams_lease_renewed_at_a_quarter_of_its_duration() {
    let mut world = World::new();
    let mut only = agent("a", &world);
    world.turn(&mut only);
    let lease = world.lease.clone().unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!((lease.metadata.name.as_deref(), spec.holder_identity.as_deref()), (Some("n"), Some("n")));
    assert_eq!((spec.lease_duration_seconds, only.due()), (Some(40), Some(world.start + 10 * SECOND)));
    let before = world.version;
    run(&mut world, &mut [&mut only], 101);
    assert_eq!(world.version - before, 10, "each ten seconds");
}

#[tokio::test(start_paused = true)]
async fn s20_r16_it_belongs_to_the_node_and_to_its_successor() {
    let mut world = World::new();
    let mut only = agent("a", &world);
    world.turn(&mut only);
    let owner = |world: &World| {
        let owners = world.lease.as_ref().unwrap().metadata.owner_references.clone().unwrap_or_default();
        owners.into_iter().map(|o| (o.api_version, o.kind, o.name, o.uid)).collect::<Vec<_>>()
    };
    assert_eq!(owner(&world), []);
    for uid in ["first", "second"] {
        only.step(LeaseEvent::Owner(uid.to_owned()), world.now());
        world.turn(&mut only);
        let whole = ("v1".to_owned(), "Node".to_owned(), "n".to_owned(), uid.to_owned());
        assert_eq!(owner(&world), [whole]);
    }
    let writes = world.version;
    run(&mut world, &mut [&mut only], 10);
    assert_eq!(world.version, writes, "and is not written again for that");
}

#[tokio::test(start_paused = true)]
async fn s20_a_lease_that_was_deleted_or_touched_is_written_again() {
    let mut world = World::new();
    let mut only = agent("a", &world);
    world.turn(&mut only);
    world.lease = None;
    run(&mut world, &mut [&mut only], 11);
    assert_eq!(world.holder().as_deref(), Some("a"));
    let mut touched = world.lease.clone().unwrap();
    touched.metadata.labels.get_or_insert_default().insert("x".to_owned(), "y".to_owned());
    world.store(touched);
    run(&mut world, &mut [&mut only], 11);
    assert!(world.lease.as_ref().unwrap().metadata.labels.is_some(), "what others added stays");
    assert_eq!(only.renewed(), Some(world.start + 20 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn of_two_agents_with_one_name_the_second_is_refused() {
    let mut world = World::new();
    let mut first = agent("a", &world);
    world.turn(&mut first);
    let mut second = agent("b", &world);
    let taken = run(&mut world, &mut [&mut first, &mut second], 60);
    assert_eq!(taken[0], None);
    let refused = taken[1].clone().expect("the second is refused");
    assert!(refused.to_string().contains("agent a") && refused.to_string().contains("--node-name"), "{refused}");
    assert_eq!((second.renewed(), world.holder().as_deref()), (None, Some("a")));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_stands_still_is_taken_over_whatever_its_clock_says() {
    for skew in [-30_i64, 0, 3600] {
        let mut world = World::new();
        let mut first = agent("a", &world);
        world.turn(&mut first);
        let renewed = world.lease.as_mut().unwrap().spec.as_mut().unwrap().renew_time.as_mut().unwrap();
        renewed.0 += SignedDuration::from_secs(skew);
        let mut second = agent("b", &world);
        run(&mut world, &mut [&mut second], 39);
        assert_eq!(second.renewed(), None, "skew {skew}: it may live");
        assert!(second.is_in_doubt());
        run(&mut world, &mut [&mut second], 3);
        assert_eq!(world.holder().as_deref(), Some("b"), "skew {skew}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_agent_goes_on_at_once_and_so_does_one_after_a_long_time() {
    let mut world = World::new();
    let mut first = agent("a", &world);
    world.turn(&mut first);
    let mut again = agent("a", &world);
    world.turn(&mut again);
    assert!(again.renewed().is_some(), "a restart does not wait");
    world.elapsed += Duration::from_secs(400);
    let mut other = agent("b", &world);
    world.turn(&mut other);
    assert!(other.renewed().is_some(), "nobody has renewed for minutes");
}

#[tokio::test(start_paused = true)]
async fn r17_failures_wait_once_and_never_longer_than_a_renewal() {
    let world = World::new();
    let mut agent = agent("a", &world);
    let mut now = world.now();
    for failure in 0..20 {
        assert_eq!(agent.step(LeaseEvent::Due, now), LeaseStep::Call(LeaseCall::Get));
        agent.step(LeaseEvent::Failed { at_least: Duration::ZERO }, now);
        let wait = agent.due().unwrap() - now.instant;
        assert!(wait <= 7 * SECOND && wait >= Duration::from_millis(100), "{failure}: {wait:?}");
        now.instant += wait;
    }
    agent.step(LeaseEvent::Due, now);
    agent.step(LeaseEvent::Failed { at_least: 30 * SECOND }, now);
    assert_eq!(agent.due(), Some(now.instant + 30 * SECOND), "the API asks for patience");
}

proptest! {
    /// However agents of one name come, go and fail: at no time do two of them hold it, and one that stays alone gets it.
    #[test]
    fn a_name_is_one_agents(
        steps in prop::collection::vec((0_usize..3, 1_u64..25, any::<bool>()), 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).build().unwrap();
        let _guard = runtime.enter();
        let mut world = World::new();
        let mut agents: Vec<Option<LeaseMachine>> = vec![None, None, None];
        let names = ["a", "b", "c"];
        for (at, seconds, comes) in steps {
            agents[at] = comes.then(|| agent(names[at], &world));
            for _ in 0..seconds {
                for slot in &mut agents {
                    let due = slot.as_ref().and_then(LeaseMachine::due);
                    if due.is_some_and(|due| due <= world.now().instant)
                        && slot.as_mut().is_some_and(|agent| world.turn(agent).is_some())
                    {
                        *slot = None;
                    }
                }
                world.elapsed += SECOND;
                let fresh = |agent: &&LeaseMachine| {
                    agent.renewed().is_some_and(|at| world.now().instant - at < agent.config.renewal())
                };
                let live = agents.iter().flatten().filter(fresh).count();
                prop_assert!(live <= 1, "{} agents hold the name", live);
            }
        }
        agents[1] = None;
        agents[2] = None;
        agents[0] = Some(agent("a", &world));
        let mut last = agents[0].take().unwrap();
        run(&mut world, &mut [&mut last], 60);
        prop_assert_eq!(world.holder(), Some("a".to_owned()));
    }
}

use super::*;
use crate::life::{EndClass, Ended, Fault, Outlook, PodFacts};
use minke_core::judgement::Cause;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn at(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(seconds)
}

fn pod() -> PodFacts {
    let uid = "u".to_owned();
    PodFacts {
        uid,
        scheduled: true,
        running_since: Some(NOW),
        deleting_since: None,
        ended: None,
        node_lost: false,
        outlook: Outlook::Fine,
    }
}

fn runner(slot: u32, life: Life) -> Runner {
    Runner { slot: Slot(slot), template: "now".to_owned(), life, since: at(-600), looked: NOW, pod: Some(pod()) }
}

fn id(slot: u32) -> RunnerId {
    RunnerId(u64::from(slot) + 100)
}

fn idle(slot: u32) -> Runner {
    runner(slot, Life::Idle { id: id(slot) })
}

fn busy(slot: u32) -> Runner {
    runner(slot, Life::Busy { id: id(slot), job: None })
}

fn draining(slot: u32) -> Runner {
    runner(slot, Life::Draining { id: id(slot), why: Why::Surplus, tries: 1, due: at(30) })
}

fn starting(slot: u32) -> Runner {
    runner(slot, Life::Registered { id: id(slot) })
}

fn failed(slot: u32, ago: i64) -> Runner {
    let why = Why::Ended(EndClass::Runner);
    let ended = Some(Ended { class: EndClass::Runner, at: at(-ago) });
    Runner { pod: Some(PodFacts { ended, ..pod() }), since: at(-ago), ..runner(slot, Life::Deregistered { why }) }
}

fn stale(runner: Runner) -> Runner {
    Runner { template: "then".to_owned(), ..runner }
}

#[derive(Debug)]
struct Case {
    runners: Vec<Runner>,
    scaling: Scaling,
    memory: Memory,
    blocked: Option<Blocked>,
    wanted: Wanted,
}

fn case(runners: Vec<Runner>, queued: u32) -> Case {
    let wanted = Wanted { queued, running: BTreeSet::new() };
    Case { runners, scaling: Scaling::default(), memory: Memory::default(), blocked: None, wanted }
}

impl Case {
    fn at(&self, now: Timestamp) -> Plan {
        let taken = BTreeSet::new();
        let Self { runners, scaling, memory, blocked, wanted } = self;
        plan(&Snapshot { runners, taken: &taken, template: "now", scaling, memory, blocked: *blocked }, wanted, now)
    }

    fn scaling(mut self, change: impl FnOnce(&mut Scaling)) -> Self {
        change(&mut self.scaling);
        self
    }
}

fn slots(plan: &Plan) -> Vec<u32> {
    plan.create.iter().map(|slot| slot.0).collect()
}

fn retired(plan: &Plan) -> Vec<u32> {
    plan.retire.iter().map(|(slot, _)| slot.0).collect()
}

fn reasons(plan: &Plan) -> Vec<HoldReason> {
    plan.holds.iter().map(|hold| hold.reason).collect()
}

#[test]
fn a_burst_is_created_in_one_pass_in_the_lowest_free_slots() {
    let plan = case(vec![busy(1), draining(3)], 4).scaling(|s| s.max = 500).at(NOW);
    assert_eq!((slots(&plan), plan.holds), (vec![0, 2, 4, 5], vec![]));
    let burst = case(vec![], 500).scaling(|s| s.max = 500).at(NOW);
    assert_eq!(burst.create.len(), 500);
}

#[test]
fn wanted_are_the_busy_the_queued_and_the_headroom() {
    let case = case(vec![busy(0), idle(1)], 2).scaling(|s| (s.min, s.min_idle) = (1, 3));
    let plan = case.at(NOW);
    assert_eq!((plan.counts.desired, plan.create.len()), (6, 4));
}

#[test]
fn the_minimum_counts_busy_runners_and_the_headroom_does_not() {
    let three_busy = || vec![busy(0), busy(1), busy(2)];
    assert_eq!(case(three_busy(), 0).scaling(|s| s.min = 3).at(NOW).create.len(), 0);
    assert_eq!(case(three_busy(), 0).scaling(|s| s.min_idle = 2).at(NOW).create.len(), 2);
}

#[test]
fn what_is_too_much_has_a_hold_and_a_time() {
    let plan = case(vec![busy(0), busy(1)], 9).scaling(|s| s.max = 3).at(NOW);
    assert_eq!((slots(&plan), reasons(&plan)), (vec![2], vec![HoldReason::AtMax]));
    assert!(plan.wake_at.is_some_and(|wake| wake > NOW));
}

#[test]
fn a_stuck_runner_stops_nobody_and_counts_nothing() {
    let unscheduled = Runner { pod: None, ..starting(0) };
    let plan = case(vec![unscheduled, draining(1), failed(2, 5)], 3).at(NOW);
    assert_eq!(slots(&plan), [3, 4], "the first may yet come, the others never");
}

#[test]
fn draining_runners_hold_their_slots() {
    let plan = case(vec![draining(0), draining(1)], 3).scaling(|s| s.max = 3).at(NOW);
    assert_eq!((slots(&plan), reasons(&plan)), (vec![2], vec![HoldReason::SlotsTaken]));
}

#[test]
fn all_that_may_go_are_deleted_in_one_pass() {
    let done = |slot| Runner { life: Life::Deregistered { why: Why::Done }, ..failed(slot, 5) };
    let deleted = Runner { pod: Some(PodFacts { deleting_since: Some(NOW), ..pod() }), ..done(2) };
    let plan = case(vec![done(0), done(1), deleted, busy(3)], 1).at(NOW);
    assert_eq!(plan.delete, [Slot(0), Slot(1)]);
    assert_eq!(plan.create.len(), 1, "and it stops nothing else");
}

#[test]
fn the_unscheduled_go_first_then_the_unregistered_then_the_longest_idle() {
    let unscheduled = Runner { pod: Some(PodFacts { scheduled: false, ..pod() }), ..starting(4) };
    let old = Runner { since: at(-9000), ..idle(2) };
    let runners = vec![busy(0), idle(1), old, starting(3), unscheduled];
    for (min_idle, expected) in [(3, &[4][..]), (2, &[4, 3]), (1, &[4, 3, 2]), (0, &[4, 3, 2, 1])] {
        let plan = case(runners.clone(), 0).scaling(|s| s.min_idle = min_idle).at(NOW);
        assert_eq!(retired(&plan), expected);
    }
}

#[test]
fn a_busy_runner_is_never_retired_though_the_maximum_is_lowered() {
    let plan = case(vec![busy(0), busy(5), idle(7)], 0).scaling(|s| s.max = 1).at(NOW);
    assert_eq!(retired(&plan), [7]);
    let plan = case(vec![busy(0), busy(5)], 0).scaling(|s| s.max = 1).at(NOW);
    assert_eq!((retired(&plan), reasons(&plan)[0]), (vec![], HoldReason::AtMax));
}

#[test]
fn a_runner_that_demand_knows_as_busy_is_busy() {
    let mut case = case(vec![idle(0), idle(1)], 0);
    case.wanted.running.insert(id(0));
    assert_eq!(retired(&case.at(NOW)), [1]);
}

#[test]
fn fewer_are_wanted_for_a_minute_before_any_goes() {
    let mut case = case(vec![idle(0), idle(1)], 2);
    case.memory = case.at(NOW).memory;
    case.wanted.queued = 0;
    let held = case.at(at(10));
    assert_eq!((retired(&held), reasons(&held)), (vec![], vec![HoldReason::StabilisingDown]));
    case.memory = held.memory.clone();
    let wake = held.wake_at.unwrap();
    assert_eq!((wake, retired(&case.at(wake)).len()), (at(70), 2));
}

#[test]
fn a_lowered_maximum_waits_for_no_stabilisation() {
    let mut case = case(vec![idle(0), idle(1)], 2);
    case.memory = case.at(NOW).memory;
    let plan = case.scaling(|s| s.max = 1).at(at(1));
    assert_eq!(plan.retire.len(), 1);
}

#[test]
fn finished_jobs_are_not_replaced_while_the_window_remembers_them() {
    let mut case = case(vec![busy(0), busy(1)], 0);
    case.memory = case.at(NOW).memory;
    case.runners.clear();
    assert_eq!(case.at(at(5)).create, []);
}

/// ARC 3581, 3516, 3816: runners whose node had yet to come were taken away before their job began.
#[test]
fn a_runner_that_is_slow_to_start_stays_as_long_as_its_job_waits() {
    let mut case = case(vec![starting(0), starting(1)], 2);
    for minute in 0..9 {
        let plan = case.at(at(minute * 60));
        assert_eq!((plan.retire.len(), plan.create.len(), &plan.holds), (0, 0, &vec![]), "minute {minute}");
        case.memory = plan.memory;
    }
}

#[test]
fn more_are_wanted_for_a_while_before_any_comes_if_so_configured() {
    let mut case = case(vec![], 0).scaling(|s| s.up = SignedDuration::from_secs(20));
    case.memory = case.at(at(-100)).memory;
    case.wanted.queued = 1;
    let held = case.at(NOW);
    assert_eq!((slots(&held), reasons(&held)), (vec![], vec![HoldReason::StabilisingUp]));
    assert_eq!(held.wake_at, Some(at(20)));
    case.memory = held.memory;
    assert_eq!(slots(&case.at(at(20))), [0]);
}

#[test]
fn an_old_template_goes_before_the_new_one_comes_and_busy_ones_finish() {
    let mut case = case(vec![stale(idle(0)), stale(busy(1)), stale(starting(2))], 1);
    let plan = case.at(NOW);
    assert_eq!((retired(&plan), slots(&plan)), (vec![0, 2], vec![]));
    assert_eq!(reasons(&plan), [HoldReason::DrainsFirst]);
    case.runners[0] = stale(draining(0));
    case.runners[2] = stale(draining(2));
    assert_eq!(slots(&case.at(at(1))), [3]);
}

#[test]
fn a_failing_template_waits_longer_and_longer_and_tries_with_one() {
    let mut case = case(vec![failed(0, 1), failed(1, 1)], 5);
    assert_eq!(case.at(NOW).create.len(), 5, "two are bad luck");
    case.runners.push(failed(2, 1));
    let open = case.at(NOW);
    assert_eq!((slots(&open), reasons(&open)), (vec![], vec![HoldReason::CrashLoop]));
    assert_eq!(open.wake_at, Some(at(9)), "ten seconds after the last");
    case.memory = open.memory;
    let canary = case.at(at(9));
    assert_eq!((canary.create.len(), reasons(&canary)), (1, vec![HoldReason::Canary]));
    case.runners.push(Runner { since: at(10), ..starting(3) });
    case.memory = canary.memory;
    assert_eq!(reasons(&case.at(at(10))), [HoldReason::Canary]);
    case.runners[3] = failed(3, -20);
    let again = case.at(at(20));
    assert_eq!((again.wake_at, again.memory.breaker.failures()), (Some(at(40)), 4), "twice as long");
}

/// Its states follow each other, its Pod may be seen late, and be gone before its registration is.
#[test]
fn a_runner_fails_once_whatever_becomes_of_it() {
    let why = Why::NeverStarted;
    let with = |uid: &str, life| {
        Some(Runner { since: at(0), pod: Some(PodFacts { uid: uid.to_owned(), ..pod() }), ..runner(0, life) })
    };
    let without = |since, life| Some(Runner { since: at(since), pod: None, ..runner(0, life) });
    let draining = Life::Draining { id: id(0), why, tries: 1, due: at(60) };
    let gone = Life::Deregistered { why };
    let story = [
        (without(0, draining), 1, "it never started"),
        (without(5, gone), 1, "the forge has let it go"),
        (with("late", gone), 1, "its Pod was made after all"),
        (without(9, gone), 1, "and is gone"),
        (None, 1, "nothing is left of it"),
        (with("next", draining), 2, "the next one fails as well"),
        (with("next", gone), 2, "once"),
        (with("third", gone), 3, "and the one after it, seen late"),
    ];
    let mut case = case(vec![], 0);
    for (second, (runner, failures, what)) in (10..).zip(story) {
        case.runners = runner.into_iter().collect();
        case.memory = case.at(at(second)).memory;
        assert_eq!(case.memory.breaker.failures(), failures, "{what}");
    }
}

fn never_works(slot: u32, cause: Cause) -> Runner {
    let outlook = Outlook::Hopeless(Fault { cause, evidence: format!("of {slot}") });
    let life = Life::Draining { id: id(slot), why: Why::NeverWorks(cause), tries: 1, due: at(30) };
    Runner { pod: Some(PodFacts { running_since: None, outlook, ..pod() }), since: at(-1), ..runner(slot, life) }
}

/// The judgement decides: what the next Pod of the template meets as well holds it back, what the cluster did to this one
/// does not; neither is capacity.
#[test]
fn what_will_never_work_is_no_capacity_and_its_cause_is_kept() {
    let image = (0..3).map(|slot| never_works(slot, Cause::ImageNotFound)).collect();
    let held = case(image, 5).at(NOW);
    assert_eq!((slots(&held), reasons(&held)), (vec![], vec![HoldReason::CrashLoop]));
    let fault = held.memory.breaker.fault().map(|fault| (fault.cause, fault.evidence.as_str()));
    assert_eq!(fault, Some((Cause::ImageNotFound, "of 2")));
    let refused = (0..3).map(|slot| never_works(slot, Cause::OutOfResource)).collect();
    let free = case(refused, 5).at(NOW);
    assert_eq!((slots(&free), free.memory.breaker.fault()), (vec![3, 4, 5, 6, 7], None));
    let mut worked = case(vec![Runner { since: at(0), ..busy(4) }], 0);
    worked.memory = held.memory;
    assert_eq!(worked.at(NOW).memory.breaker.fault(), None, "one that works ends the row");
}

#[test]
fn a_canary_that_lives_closes_the_breaker() {
    let mut case = case(vec![failed(0, 50), failed(1, 50), failed(2, 50)], 5);
    case.memory = case.at(NOW).memory;
    assert_eq!(case.memory.breaker.failures(), 3);
    case.runners.push(Runner { since: at(0), ..busy(3) });
    assert_eq!(case.at(at(5)).create.len(), 5);
}

#[test]
fn what_the_cluster_does_is_no_failure_of_the_template() {
    let evicted = |slot| {
        let why = Why::Ended(EndClass::Infrastructure);
        Runner { life: Life::Deregistered { why }, ..failed(slot, 1) }
    };
    let plan = case((0..6).map(evicted).collect(), 4).at(NOW);
    assert_eq!(plan.create.len(), 4);
}

#[test]
fn a_failing_template_does_not_replace_the_old_one() {
    let plan = case(vec![failed(0, 1), failed(1, 1), failed(2, 1), stale(idle(3))], 1).at(NOW);
    assert_eq!((plan.create.len(), plan.retire.len()), (0, 0));
    assert_eq!(reasons(&plan), [HoldReason::KeepsOldTemplate]);
}

#[test]
fn a_forge_that_is_away_stops_creation_and_says_until_when() {
    let mut case = case(vec![failed(0, 1)], 2);
    case.blocked = Some(Blocked { reason: HoldReason::RateLimited, until: at(300) });
    let plan = case.at(NOW);
    assert_eq!((slots(&plan), plan.wake_at), (vec![], Some(at(300))));
    assert_eq!(plan.delete, [Slot(0)], "what may go goes");
    assert_eq!(case.at(at(300)).create.len(), 2);
}

fn any_runner(slot: u32) -> impl Strategy<Value = Option<Runner>> {
    let why = Why::Surplus;
    let lives = vec![
        Life::Requested,
        Life::Registered { id: id(slot) },
        Life::Idle { id: id(slot) },
        Life::Busy { id: id(slot), job: None },
        Life::Draining { id: id(slot), why, tries: 1, due: at(9) },
        Life::Deregistered { why: Why::Ended(EndClass::Runner) },
    ];
    let life = prop::sample::select(lives);
    let flags = any::<[bool; 3]>();
    prop::option::of((life, flags, -9000_i64..0, prop::bool::weighted(0.2)).prop_map(
        move |(life, flags, since, old)| {
            let ended = flags[0].then_some(Ended { class: EndClass::Runner, at: at(since) });
            let deleting_since = flags[1].then_some(NOW);
            let facts = PodFacts { ended, deleting_since, scheduled: flags[2], ..pod() };
            let pod = (life != Life::Requested).then_some(facts);
            let plain = Runner { since: at(since), pod, ..runner(slot, life) };
            if old { stale(plain) } else { plain }
        },
    ))
}

fn any_case() -> impl Strategy<Value = Case> {
    let runners: Vec<_> = (0..12).map(any_runner).collect();
    let scaling = (0_u32..15, 0_u32..15, 0_u32..5, 0_i64..100, 0_i64..100);
    let history = prop::collection::vec((0_u32..15, 0_i64..200), 0..5);
    let running = prop::collection::btree_set(100_u64..112, 0..4);
    (runners, scaling, 0_u32..20, history, running).prop_map(|(runners, scaling, queued, history, running)| {
        let (min, max, min_idle, up, down) = scaling;
        let (up, down) = (SignedDuration::from_secs(up), SignedDuration::from_secs(down));
        let mut case = case(runners.into_iter().flatten().collect(), queued);
        case.scaling = Scaling { min, max, min_idle, schedules: vec![], up, down };
        case.wanted.running = running.into_iter().map(RunnerId).collect();
        let mut second = -1000;
        for (value, passed) in history {
            second += passed;
            case.memory.window.push(value, at(second));
        }
        case
    })
}

/// What a plan makes of the runners, as far as it can know.
fn applied(mut case: Case, plan: &Plan, now: Timestamp) -> Case {
    for runner in &mut case.runners {
        if let Some((_, why)) = plan.retire.iter().find(|(slot, _)| *slot == runner.slot) {
            let id = runner.life.id().unwrap();
            runner.life = Life::Draining { id, why: *why, tries: 1, due: at(30) };
        }
        if plan.delete.contains(&runner.slot) {
            runner.pod.as_mut().unwrap().deleting_since = Some(now);
        }
    }
    case.runners.extend(plan.create.iter().map(|slot| Runner::requested(*slot, "now".to_owned(), now)));
    case.memory = plan.memory.clone();
    case
}

proptest! {
    #[test]
    fn what_must_always_hold(case in any_case()) {
        let plan = case.at(NOW);
        prop_assert_eq!(&plan, &case.at(NOW), "the same input, the same plan");
        prop_assert!(plan.create.is_empty() || plan.retire.is_empty(), "never both");
        let live = case.runners.iter().filter(|runner| !runner.ended()).count();
        prop_assert!(plan.create.is_empty() || live + plan.create.len() <= case.scaling.max as usize);
        for slot in &plan.create {
            prop_assert!(slot.0 < case.scaling.max && case.runners.iter().all(|runner| runner.slot != *slot));
        }
        for (slot, _) in &plan.retire {
            let runner = case.runners.iter().find(|runner| runner.slot == *slot).unwrap();
            let has_job = runner.life.id().is_some_and(|id| case.wanted.running.contains(&id));
            prop_assert!(runner.available() && !has_job, "{:?}", runner);
        }
        for hold in &plan.holds {
            prop_assert!(hold.wake_at > NOW, "{:?}", hold);
        }
        let idle_after = plan.counts.busy + plan.counts.idle + plan.counts.pending;
        let kept = idle_after - u32::try_from(plan.retire.len()).unwrap();
        let only_surplus = plan.retire.iter().all(|(_, why)| *why == Why::Surplus);
        prop_assert!(!only_surplus || plan.retire.is_empty() || kept >= plan.counts.desired, "keeps what is wanted");
    }

    #[test]
    fn a_plan_that_was_carried_out_is_not_made_again(case in any_case()) {
        let first = case.at(NOW);
        let retired = !first.retire.is_empty();
        let case = applied(case, &first, NOW);
        let second = case.at(NOW);
        prop_assert!(second.retire.is_empty() || !retired, "{:?}", second.retire);
        prop_assert!(second.delete.is_empty());
        prop_assert!(second.create.is_empty() || retired, "new ones follow those that went");
        let third = applied(case, &second, NOW).at(NOW);
        prop_assert!(third.create.is_empty(), "{:?} then {:?}", second, third);
    }

    /// With nothing in the way, a few passes lead to what is wanted and stay there.
    #[test]
    fn it_converges(mut case in any_case()) {
        let mut now = NOW;
        case.runners.retain(|runner| !matches!(runner.life, Life::Deregistered { .. }));
        for _ in 0..12 {
            let plan = case.at(now);
            case = applied(case, &plan, now);
            now += SignedDuration::from_secs(120);
            case.runners.retain(|runner| !runner.ended() && !matches!(runner.life, Life::Draining { .. }) && !runner.deleting());
            for runner in &mut case.runners {
                if matches!(runner.life, Life::Requested | Life::Registered { .. }) {
                    *runner = Runner { since: now, ..idle(runner.slot.0) };
                }
            }
        }
        let plan = case.at(now);
        prop_assert_eq!((plan.create.len(), plan.retire.len()), (0, 0), "{:?}", plan);
        let live = plan.counts.busy + plan.counts.idle;
        prop_assert!(live == plan.counts.desired || plan.counts.busy > plan.counts.desired, "{:?}", plan.counts);
    }
}

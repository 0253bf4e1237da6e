//! Rows of upstream's worker tests, and a property: the verdict is what its definition says.

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);

fn timing(success: u32, failure: u32) -> Timing {
    Timing {
        initial_delay: Duration::ZERO,
        period: S * 10,
        timeout: S,
        success_threshold: success,
        failure_threshold: failure,
    }
}

fn id(name: &str) -> ContainerId {
    ContainerId(name.to_owned())
}

fn running(id: &ContainerId) -> Target<'_> {
    Target { id, running: Some(Duration::ZERO), started: true, delay: Duration::ZERO }
}

/// Runs the probe that is due, with this outcome; returns when.
fn run(machine: &mut Machine, outcome: Outcome) -> Option<Instant> {
    let due = machine.due()?;
    let run = machine.begin()?;
    machine.ran(run, outcome, due);
    Some(due)
}

fn probed(kind: ProbeKind, timing: Timing) -> (Machine, ContainerId, Instant) {
    let (mut machine, id, now) = (Machine::new(kind, timing), id("a"), Instant::now());
    machine.observe(Some(running(&id)), now);
    (machine, id, now)
}

#[test]
fn initial_results() {
    for (kind, expected) in [
        (ProbeKind::Liveness, Verdict::Success),
        (ProbeKind::Readiness, Verdict::Failure),
        (ProbeKind::Startup, Verdict::Unknown),
    ] {
        let (machine, id, _) = probed(kind, timing(1, 1));
        assert_eq!(machine.verdict(&id), expected);
        assert_eq!(machine.condemned(), None);
    }
}

#[test]
fn the_first_run_waits_for_the_initial_delay_counted_from_the_start() {
    for (delay, ran_for, expected) in [(0, 0, 0), (10, 0, 10), (10, 4, 6), (10, 25, 0)] {
        let timing = Timing { initial_delay: S * delay, ..timing(1, 1) };
        let (mut machine, id, now) = (Machine::new(ProbeKind::Liveness, timing), id("a"), Instant::now());
        machine.observe(Some(Target { running: Some(S * ran_for), ..running(&id) }), now);
        assert_eq!(machine.due(), Some(now + S * expected), "{delay} s, runs for {ran_for} s");
    }
}

#[test]
fn runs_keep_their_period_and_a_late_one_is_followed_at_once() {
    let (mut machine, _, now) = probed(ProbeKind::Readiness, timing(1, 1));
    let first = machine.begin().unwrap();
    assert_eq!((machine.begin(), machine.due()), (None, None), "one at a time");
    assert_eq!(machine.ran(first, Outcome::Success, now + S * 4), Some(true));
    assert_eq!(machine.due(), Some(now + S * 10), "the time that it took does not shift the next");
    let second = machine.begin().unwrap();
    assert_eq!(machine.ran(second, Outcome::Success, now + S * 27), Some(false));
    assert_eq!(machine.due(), Some(now + S * 27));
}

#[test]
fn failure_threshold() {
    let (mut machine, id, _) = probed(ProbeKind::Readiness, timing(1, 3));
    run(&mut machine, Outcome::Success);
    for (outcome, expected) in [
        (Outcome::Failure, Verdict::Success),
        (Outcome::Failure, Verdict::Success),
        (Outcome::Success, Verdict::Success),
        (Outcome::Failure, Verdict::Success),
        (Outcome::Failure, Verdict::Success),
        (Outcome::Failure, Verdict::Failure),
        (Outcome::Failure, Verdict::Failure),
        (Outcome::Success, Verdict::Success),
    ] {
        run(&mut machine, outcome);
        assert_eq!(machine.verdict(&id), expected);
    }
}

#[test]
fn success_threshold() {
    let (mut machine, a, now) = probed(ProbeKind::Readiness, timing(3, 1));
    for expected in [Verdict::Failure, Verdict::Failure, Verdict::Success] {
        run(&mut machine, Outcome::Success);
        assert_eq!(machine.verdict(&a), expected);
    }
    run(&mut machine, Outcome::Failure);
    assert_eq!(machine.verdict(&a), Verdict::Failure);
    run(&mut machine, Outcome::Success);
    run(&mut machine, Outcome::Success);
    let b = id("b");
    machine.observe(Some(running(&b)), now);
    run(&mut machine, Outcome::Success);
    assert_eq!(machine.verdict(&b), Verdict::Failure, "another container begins from nothing");
}

#[test]
fn errors_change_nothing() {
    for kind in ProbeKind::ALL {
        let (mut machine, id, now) = probed(kind, timing(1, 2));
        let before = machine.verdict(&id);
        for _ in 0..10 {
            run(&mut machine, Outcome::Error);
        }
        assert_eq!(machine.verdict(&id), before);
        assert_eq!(machine.due(), Some(now + S * 100), "it is asked again a period later");
        run(&mut machine, Outcome::Failure);
        run(&mut machine, Outcome::Error);
        run(&mut machine, Outcome::Failure);
        assert_eq!(machine.verdict(&id), Verdict::Failure, "an error does not break a row of failures");
    }
}

#[test]
fn on_hold_after_a_failure_that_kills_until_there_is_a_new_container() {
    for kind in [ProbeKind::Liveness, ProbeKind::Startup] {
        let (mut machine, a, now) = probed(kind, timing(1, 1));
        run(&mut machine, Outcome::Failure);
        assert_eq!((machine.state(), machine.condemned()), (State::Settled, Some(&a)));
        machine.observe(Some(running(&a)), now);
        machine.observe(Some(Target { running: None, ..running(&a) }), now);
        machine.observe(None, now);
        assert_eq!((machine.due(), machine.condemned()), (None, Some(&a)));
        let b = id("b");
        machine.observe(Some(running(&b)), now);
        assert_eq!((machine.due(), machine.condemned()), (Some(now), None), "{kind:?}");
        assert_eq!(machine.verdict(&b), initial(kind));
    }
}

#[test]
fn a_startup_probe_stops_once_started_and_begins_again_with_a_new_container() {
    let (mut machine, a, now) = probed(ProbeKind::Startup, timing(1, 3));
    run(&mut machine, Outcome::Failure);
    assert_eq!(machine.verdict(&a), Verdict::Unknown);
    run(&mut machine, Outcome::Success);
    assert_eq!((machine.verdict(&a), machine.due()), (Verdict::Success, None));
    let b = id("b");
    machine.observe(Some(running(&b)), now);
    assert_eq!((machine.verdict(&b), machine.due()), (Verdict::Unknown, Some(now)));
}

#[test]
fn liveness_and_readiness_are_disabled_until_started() {
    for (kind, disabled) in [(ProbeKind::Liveness, true), (ProbeKind::Readiness, true), (ProbeKind::Startup, false)] {
        let (mut machine, id, now) = (Machine::new(kind, timing(1, 1)), id("a"), Instant::now());
        machine.observe(Some(Target { started: false, ..running(&id) }), now);
        assert_eq!(machine.due().is_none(), disabled, "{kind:?}");
        machine.observe(Some(running(&id)), now + S);
        assert!(machine.due().is_some(), "{kind:?}");
    }
}

#[test]
fn a_container_that_does_not_run_is_not_probed_and_not_ready() {
    let (mut machine, a, now) = probed(ProbeKind::Readiness, timing(1, 1));
    run(&mut machine, Outcome::Success);
    let late = machine.begin().unwrap();
    machine.observe(Some(Target { running: None, ..running(&a) }), now);
    assert_eq!((machine.verdict(&a), machine.due()), (Verdict::Failure, None));
    assert_eq!(machine.ran(late, Outcome::Success, now), None, "a late answer no longer counts");
    assert_eq!(machine.verdict(&a), Verdict::Failure);
}

#[test]
fn an_answer_about_another_instance_does_not_count() {
    let (mut machine, _, now) = probed(ProbeKind::Liveness, timing(1, 1));
    let old = machine.begin().unwrap();
    let b = id("b");
    machine.observe(Some(running(&b)), now);
    let new = machine.begin().unwrap();
    assert_eq!(machine.ran(old, Outcome::Failure, now), None);
    assert_eq!(machine.ran(new, Outcome::Success, now), Some(false));
    assert_eq!(machine.condemned(), None);
}

#[test]
fn after_a_restart_of_the_agent_what_was_ready_stays_ready_until_it_fails() {
    let (mut machine, a, now) = (Machine::new(ProbeKind::Readiness, timing(1, 2)), id("a"), Instant::now());
    machine.recover(a.clone(), Verdict::Success);
    machine.observe(Some(Target { delay: S * 7, ..running(&a) }), now);
    assert_eq!((machine.verdict(&a), machine.due()), (Verdict::Success, Some(now + S * 7)));
    run(&mut machine, Outcome::Failure);
    assert_eq!(machine.verdict(&a), Verdict::Success);
    run(&mut machine, Outcome::Failure);
    assert_eq!(machine.verdict(&a), Verdict::Failure);
}

#[test]
fn a_startup_result_survives_a_restart_of_the_agent() {
    let (mut machine, a, now) = (Machine::new(ProbeKind::Startup, timing(1, 1)), id("a"), Instant::now());
    machine.recover(a.clone(), Verdict::Success);
    machine.observe(Some(running(&a)), now);
    assert_eq!((machine.verdict(&a), machine.due()), (Verdict::Success, None));
    let b = id("b");
    machine.observe(Some(running(&b)), now);
    assert_eq!(machine.verdict(&b), Verdict::Unknown, "another instance has to start by itself");
}

#[test]
fn a_condemned_container_stays_condemned_over_a_restart_of_the_agent() {
    let (mut machine, a, now) = (Machine::new(ProbeKind::Liveness, timing(1, 1)), id("a"), Instant::now());
    machine.recover(a.clone(), Verdict::Failure);
    machine.observe(Some(running(&a)), now);
    assert_eq!((machine.condemned(), machine.due()), (Some(&a), None));
}

#[test]
fn a_poke_runs_a_readiness_probe_without_a_result_at_once() {
    let timing = Timing { initial_delay: S * 3, ..timing(1, 1) };
    let (mut machine, a, now) = (Machine::new(ProbeKind::Readiness, timing), id("a"), Instant::now());
    machine.observe(Some(Target { delay: S * 9, ..running(&a) }), now);
    assert_eq!(machine.due(), Some(now + S * 12));
    machine.poke(now);
    assert_eq!(machine.due(), Some(now + S * 3), "but not before the initial delay");
    machine.poke(now + S * 5);
    assert_eq!(machine.due(), Some(now + S * 3), "nor later than it would be anyway");
    run(&mut machine, Outcome::Failure);
    let next = machine.due();
    machine.poke(now + S * 4);
    assert_eq!(machine.due(), next, "once there is a result it keeps its period");
}

#[test]
fn stopping_forgets_what_would_kill_and_keeps_the_rest() {
    for (kind, outcome, kept) in [
        (ProbeKind::Liveness, Outcome::Failure, Verdict::Success),
        (ProbeKind::Startup, Outcome::Failure, Verdict::Unknown),
        (ProbeKind::Startup, Outcome::Success, Verdict::Success),
        (ProbeKind::Readiness, Outcome::Success, Verdict::Success),
    ] {
        let (mut machine, a, now) = probed(kind, timing(1, 1));
        run(&mut machine, outcome);
        machine.stop();
        assert_eq!((machine.verdict(&a), machine.condemned(), machine.due()), (kept, None, None));
        let b = id("b");
        machine.observe(Some(running(&b)), now);
        assert_eq!(machine.due(), None, "for good");
    }
}

/// Something that happens to a probe.
#[derive(Debug, Clone)]
enum Happens {
    Observe {
        container: Option<u8>,
        runs: bool,
        started: bool,
        delay: u64,
    },
    /// The probe that is due next runs to this end.
    Run(Outcome),
    /// It begins, and does not end before something else happens.
    Begin,
    /// What began ends.
    End(Outcome),
    Poke,
    Stop,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![3 => Just(Outcome::Success), 3 => Just(Outcome::Failure), 1 => Just(Outcome::Error)]
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (prop::option::weighted(0.9, 0..3_u8), any::<bool>(), prop::bool::weighted(0.8), 0..20_u64)
            .prop_map(|(container, runs, started, delay)| Happens::Observe { container, runs, started, delay }),
        12 => outcome().prop_map(Happens::Run),
        1 => Just(Happens::Begin),
        1 => outcome().prop_map(Happens::End),
        1 => Just(Happens::Poke),
        1 => prop::bool::weighted(0.05).prop_map(|stop| if stop { Happens::Stop } else { Happens::Poke }),
    ]
}

/// The definition: the last row of equal answers that was long enough decides; a fatal or final verdict ends it.
fn defined(kind: ProbeKind, timing: &Timing, answers: &[Outcome]) -> Verdict {
    let mut verdict = initial(kind);
    for end in 1..=answers.len() {
        let ends_with = |outcome: Outcome, count: u32| {
            let row = answers[..end].iter().rev().take_while(|a| **a == outcome).count();
            row >= usize::try_from(count).unwrap()
        };
        if ends_with(Outcome::Success, timing.success_threshold) {
            verdict = Verdict::Success;
        } else if ends_with(Outcome::Failure, timing.failure_threshold) {
            verdict = Verdict::Failure;
        }
        let fatal = kind != ProbeKind::Readiness && verdict == Verdict::Failure;
        if fatal || (kind == ProbeKind::Startup && verdict == Verdict::Success) {
            return verdict;
        }
    }
    verdict
}

proptest! {
    #[test]
    fn the_verdict_is_what_its_definition_says(
        kind in prop::sample::select(ProbeKind::ALL.to_vec()),
        success in 1..4_u32,
        failure in 1..4_u32,
        delay in 0..30_u32,
        steps in prop::collection::vec(happens(), 1..60),
    ) {
        let success = if kind == ProbeKind::Readiness { success } else { 1 };
        let timing = Timing { initial_delay: S * delay, ..timing(success, failure) };
        let mut machine = Machine::new(kind, timing);
        let mut now = Instant::now();
        // The model: the container, when it was first seen to run, its answers since it was last seen not to run.
        let mut container: Option<ContainerId> = None;
        let (mut first_seen, mut answers, mut begun, mut stopped) = (None, Vec::new(), None, false);
        let mut reset = false;
        for step in steps {
            match step {
                Happens::Observe { container: seen, runs, started, delay } => {
                    let seen = seen.map(|n| id(&n.to_string()));
                    if !stopped && seen.is_some() && seen != container {
                        (container, first_seen, answers, reset) = (seen.clone(), None, Vec::new(), false);
                    }
                    if !stopped && seen.is_some() && runs && first_seen.is_none() {
                        first_seen = Some(now);
                    }
                    let target = seen.as_ref().map(|id| {
                        let running = runs.then(|| first_seen.map_or(Duration::ZERO, |at| now - at));
                        Target { id, running, started, delay: S * u32::try_from(delay).unwrap() }
                    });
                    machine.observe(target, now);
                    let asked = runs && (started || kind == ProbeKind::Startup) && seen.is_some();
                    if !asked {
                        // A readiness that can't be asked for is none; its row of answers goes on.
                        reset |= seen.is_some() && kind == ProbeKind::Readiness && !stopped;
                        prop_assert!(machine.due().is_none(), "nothing is asked of what can't answer");
                    }
                }
                Happens::Run(outcome) => if let Some(due) = machine.due() {
                    prop_assert!(!stopped);
                    now = now.max(due);
                    prop_assert!(now >= first_seen.unwrap() + timing.initial_delay, "before the initial delay");
                    let run = machine.begin().unwrap();
                    prop_assert!(machine.ran(run, outcome, now).is_some());
                    if outcome != Outcome::Error {
                        answers.push(outcome);
                        let row = answers.iter().rev().take_while(|a| **a == outcome).count();
                        let threshold = if outcome == Outcome::Success { success } else { failure };
                        reset &= row < usize::try_from(threshold).unwrap();
                    }
                    prop_assert!(machine.due().is_none_or(|next| next >= now));
                },
                Happens::Begin => begun = machine.begin().or(begun),
                Happens::End(outcome) => if let Some(run) = begun.take() {
                    // Whether it still counts is the machine's to say: only one that it waits for.
                    let waited = matches!(machine.state(), State::Running { run: current, .. } if current == run);
                    let counted = machine.ran(run, outcome, now).is_some();
                    prop_assert_eq!(waited, counted);
                    if counted && outcome != Outcome::Error {
                        answers.push(outcome);
                        let row = answers.iter().rev().take_while(|a| **a == outcome).count();
                        let threshold = if outcome == Outcome::Success { success } else { failure };
                        reset &= row < usize::try_from(threshold).unwrap();
                    }
                },
                Happens::Poke => machine.poke(now),
                Happens::Stop => {
                    machine.stop();
                    stopped = true;
                    prop_assert!(machine.condemned().is_none());
                }
            }
            if let Some(id) = container.as_ref().filter(|_| !stopped) {
                let expected = if reset { Verdict::Failure } else { defined(kind, &timing, &answers) };
                prop_assert_eq!(machine.verdict(id), expected);
                prop_assert_eq!(machine.condemned().is_some(), kind != ProbeKind::Readiness && expected == Verdict::Failure);
            }
        }
    }
}

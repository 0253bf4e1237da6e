//! Whatever happens to lists, watches, questions and rights: in the end the verdict is that of an observer with perfect
//! sight.

mod faults;
mod world;

use std::time::Duration;

use minke_core::judgement::Verdict;
use proptest::prelude::*;

use super::tests::now;
use super::*;
use faults::{Faults, Outage};
use world::{Change, essence, lives, perfect, world};

const END: Duration = Duration::from_secs(300);

/// Runs a machine through a world; the newest report of each subscriber.
fn simulate(
    world: &[Change],
    machine: &mut Machine,
    mut faults: Faults,
    subscribe: Vec<(Duration, Input)>,
) -> BTreeMap<SubscriberId, Report> {
    let mut queue: BTreeMap<(Duration, u64), Input> = BTreeMap::new();
    let mut number = 0;
    for (at, input) in subscribe.into_iter().chain([(Duration::ZERO, Input::Tick)]) {
        queue.insert((at, number), input);
        number += 1;
    }
    let mut reports = BTreeMap::new();
    let mut ends: BTreeMap<SubscriberId, Verdict> = BTreeMap::new();
    let mut steps = 0;
    let mut at = Duration::ZERO;
    loop {
        steps += 1;
        assert!(steps < 200_000, "it does not come to rest");
        let queued = queue.first_key_value().map(|((at, _), _)| *at);
        let wake = machine.next_wake().map(|wake| wake.max(at));
        let input = match (queued, wake) {
            (Some(queued), wake) if wake.is_none_or(|wake| queued <= wake) => {
                at = at.max(queued);
                queue.pop_first().map(|(_, input)| input)
            }
            (_, Some(wake)) => {
                at = wake;
                Some(Input::Tick)
            }
            (_, None) => None,
        };
        let Some(input) = input.filter(|_| at <= END) else { break };
        for action in machine.handle(input, now(at)) {
            if let Action::Publish { id, report } = action {
                // What is final is never taken back, whatever goes wrong.
                let verdict = report.verdict.as_ref();
                if let Some(end) = ends.get(&id) {
                    assert_eq!(essence(verdict), essence(Some(end)));
                }
                ends.extend(verdict.filter(|v| v.is_final()).map(|v| (id, v.clone())));
                reports.insert(id, *report);
                continue;
            }
            for (when, input) in faults.answers(world, &action, at) {
                number += 1;
                queue.insert((when, number), input);
            }
        }
    }
    reports
}

fn outages() -> impl Strategy<Value = Vec<Outage>> {
    let outage = (0..35_000_u64, 1..20_000_u64, any::<bool>());
    let outage = outage.prop_map(|(from, lasts, all)| Outage {
        from: Duration::from_millis(from),
        lasts: Duration::from_millis(lasts),
        all,
    });
    prop::collection::vec(outage, 0..3)
}

fn faults(numbers: Vec<u8>, outages: Vec<Outage>, selective: bool) -> Faults {
    Faults { numbers, next: 0, outages, calm: Duration::from_secs(40), selective }
}

fn scope(selective: bool) -> Scope {
    if selective { Scope::labelled("ns", "in=yes") } else { Scope::namespace("ns") }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Relists, deletions that nobody saw, versions that expired, half-open watches, rights lost and given back, names used
    /// again, labels changed: by uid.
    #[test]
    fn the_verdict_is_that_of_perfect_sight(
        chosen in prop::collection::vec(0..64_usize, 1..6),
        numbers in prop::collection::vec(any::<u8>(), 0..40),
        outages in outages(),
        selective in any::<bool>(),
        subscribe_at in 0..6000_u64,
    ) {
        let world = world(&chosen);
        let mut machine = Machine::new(scope(selective), Settings::default());
        let subscribe = (0..chosen.len() as u64).map(|place| {
            let target = Target::Uid { namespace: "ns".into(), name: format!("p{place}"), uid: format!("u1-{place}") };
            // A uid is known once there is a Pod.
            let at = Duration::from_millis(140 + 37 * place + subscribe_at);
            (at, Input::Subscribe { id: place, target, attempt: 1 })
        });
        let reports = simulate(&world, &mut machine, faults(numbers, outages, selective), subscribe.collect());
        for place in 0..chosen.len() as u64 {
            let found = essence(reports.get(&place).and_then(|report| report.verdict.as_ref()));
            let perfect = perfect(&world, &format!("p{place}"), &format!("u1-{place}"), END);
            prop_assert_eq!(found, perfect, "p{} of life {}", place, chosen[place as usize] % lives().len());
        }
    }

    /// The same for those who know a name alone: whoever is seen first under it is judged as by perfect sight.
    #[test]
    fn by_name_whoever_is_seen_first_is_judged(
        chosen in prop::collection::vec(0..64_usize, 1..5),
        numbers in prop::collection::vec(any::<u8>(), 0..40),
        outages in outages(),
        subscribe_at in 0..12_000_u64,
    ) {
        let world = world(&chosen);
        let mut machine = Machine::new(scope(false), Settings::default());
        let subscribe = (0..chosen.len() as u64).map(|place| {
            let target = Target::named("ns", format!("p{place}"));
            (Duration::from_millis(subscribe_at), Input::Subscribe { id: place, target, attempt: 1 })
        });
        let reports = simulate(&world, &mut machine, faults(numbers, outages, false), subscribe.collect());
        for place in 0..chosen.len() as u64 {
            let report = &reports[&place];
            let found = essence(report.verdict.as_ref());
            match &report.uid {
                Some(uid) => prop_assert_eq!(found, perfect(&world, &format!("p{place}"), uid, END)),
                // Nobody ever saw it, and now it is not there.
                None => {
                    let last = world.iter().rev().find(|change| change.name == format!("p{place}"));
                    prop_assert!(last.is_some_and(|change| change.pod.is_none()));
                    prop_assert_eq!(report.whereabouts, Whereabouts::Missing);
                }
            }
        }
    }

    /// A scope that is followed: each uid that was ever seen has its verdict, and what is gone is forgotten.
    #[test]
    fn a_followed_scope_judges_every_uid_and_forgets_the_gone(
        chosen in prop::collection::vec(0..64_usize, 1..5),
        numbers in prop::collection::vec(any::<u8>(), 0..40),
        outages in outages(),
        selective in any::<bool>(),
    ) {
        let world = world(&chosen);
        let mut machine = Machine::new(scope(selective), Settings { follow_all: true, ..Settings::default() });
        let reports = simulate(&world, &mut machine, faults(numbers, outages, selective), Vec::new());
        let left = world::snapshot(&world, END).0;
        let alive = |uid: &String| left.values().any(|(pod, _)| pod.metadata.uid.as_ref() == Some(uid));
        for report in reports.values() {
            let uid = report.uid.as_ref().unwrap();
            prop_assert_eq!(essence(report.verdict.as_ref()), perfect(&world, &report.name.1, uid, END));
        }
        let living = reports.values().filter(|report| report.uid.as_ref().is_some_and(alive)).count();
        prop_assert_eq!(machine.subscribers(), living);
        // Whoever is in the scope in the end has been found.
        for (pod, inside) in left.values() {
            let uid = pod.metadata.uid.as_ref();
            prop_assert!(!*inside || reports.values().any(|report| report.uid.as_ref() == uid));
        }
    }
}

//! What holds in every run, against a small model of a machine: Pods use memory and disk, and evicting one frees what
//! it used.

use minke_core::priority::is_critical;
use proptest::prelude::*;

use super::*;

const CAPACITY: u64 = 10_000;
const HARD: u64 = 500;

#[derive(Debug, Clone)]
struct ModelPod {
    priority: i32,
    asks: u64,
    uses: u64,
}

fn any_pod() -> impl Strategy<Value = ModelPod> {
    let priorities = prop::sample::select(vec![0, 0, 0, 7, 1_000_000, 2_000_000_000]);
    (priorities, 0_u64..500, 0_u64..2500).prop_map(|(priority, asks, uses)| ModelPod { priority, asks, uses })
}

fn candidate(at: usize, pod: &ModelPod, disk: bool) -> Candidate {
    let name = format!("p{at}");
    let ModelPod { priority, asks, uses } = *pod;
    if disk { disk_user(&name, priority, asks, uses, 1) } else { memory_user(&name, priority, asks, uses) }
}

fn used(pods: &[Candidate], disk: bool) -> u64 {
    let of = |c: &Candidate| c.used.as_ref().map_or(0, |u| if disk { u.storage().bytes } else { u.memory_bytes });
    pods.iter().map(of).sum()
}

proptest! {
    /// From any load the machine comes to rest within one eviction a Pod: what is left is above the threshold, or
    /// only critical Pods are left. No round evicts two, nobody goes for a resource that is not short, and each
    /// victim is the first of its rank that is not critical.
    #[test]
    fn evictions_converge_and_take_no_more_than_needed(
        model in prop::collection::vec(any_pod(), 0..10), disk: bool, reclaim in 0_u64..800, min_reclaim in 0_u64..400,
    ) {
        let signal = if disk { Signal::Nodefs } else { Signal::Memory };
        let threshold = Threshold {
            min_reclaim: Some(ThresholdValue::Quantity(min_reclaim * MIB)),
            ..Threshold::hard(signal, ThresholdValue::Quantity(HARD * MIB))
        };
        let config = config(vec![threshold]);
        let mut pods: Vec<Candidate> = model.iter().enumerate().map(|(at, p)| candidate(at, p, disk)).collect();
        let (mut freed, mut state, mut now) = (0, EvictionState::default(), start());
        let left = |pods: &[Candidate], freed: u64| {
            levels(&[(signal, (CAPACITY * MIB + freed).saturating_sub(used(pods, disk)), CAPACITY * MIB)])
        };
        let mut short_before = false;
        for _ in 0..=pods.len() {
            let observed = left(&pods, freed);
            let short = threshold.is_met(&observed, short_before);
            short_before = short;
            let mut actions = state.step(&config, Event::Observed { observations: &observed, limited: &[] }, now);
            prop_assert_eq!(!actions.is_empty(), short);
            let mut evicted = Vec::new();
            while let Some(action) = actions.pop() {
                prop_assert!(actions.is_empty(), "one thing at a time");
                actions = match action {
                    Action::Reclaim(_) => {
                        prop_assert!(disk, "nothing can be reclaimed of memory");
                        freed = reclaim * MIB;
                        state.step(&config, Event::Reclaimed(&left(&pods, freed)), now)
                    }
                    Action::Measure(_) => {
                        prop_assert!(threshold.is_met(&left(&pods, freed), true));
                        state.step(&config, Event::Measured(&pods), now)
                    }
                    Action::Evict(verdict) => {
                        evicted.push(verdict);
                        vec![]
                    }
                };
            }
            prop_assert!(evicted.len() <= 1);
            if let Some(verdict) = evicted.first() {
                let ranked = rank(&pods, signal, false);
                let first = ranked.iter().find(|c| !is_critical(&c.pod)).unwrap();
                prop_assert_eq!(&first.uid, &verdict.uid);
                let victim = pods.iter().position(|p| p.uid == verdict.uid).unwrap();
                pods.remove(victim);
            }
            now += config.period;
        }
        let only_critical = pods.iter().all(|p| is_critical(&p.pod));
        prop_assert!(!threshold.is_met(&left(&pods, freed), false) || only_critical);
    }

    /// Conditions follow what is observed: they begin with the first threshold that is met and end a transition
    /// period after the last.
    #[test]
    fn conditions_last_from_the_first_sight_to_a_transition_after_the_last(
        seen in prop::collection::vec((any::<bool>(), 1_u64..200), 1..40),
    ) {
        let config = config(vec![hard_memory()]);
        let (mut state, mut now, mut last) = (EvictionState::default(), start(), None);
        for (short, seconds) in seen {
            now += Duration::from_secs(seconds);
            if short {
                last = Some(now);
            }
            drop(round(&mut state, &config, &memory(if short { 10 } else { 900 }), &[], now));
            let expected = last.is_some_and(|last| now - last < config.pressure_transition);
            prop_assert_eq!(!state.pressure().is_empty(), expected);
        }
    }
}

/// Any moment; only differences count.
fn start() -> Instant {
    Instant::now()
}

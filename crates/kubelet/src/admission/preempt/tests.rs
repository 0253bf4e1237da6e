//! Which Pods make room: upstream's cases, and what must hold of every choice.

use std::collections::BTreeMap;

use minke_core::resources::Amount;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::admission::Machine;
use crate::admission::fit::shortages;

const CRITICAL: i32 = 2_000_000_000;

/// Asks for CPU (thousandths) and memory (MiB); with limits equal to that it is Guaranteed.
fn pod(name: &str, cpu: i64, memory: i64, class: QosClass, priority: i32) -> Pod {
    let amounts = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    let resources = match class {
        QosClass::Guaranteed => json!({"requests": amounts, "limits": amounts}),
        QosClass::Burstable => json!({"requests": amounts}),
        QosClass::BestEffort => json!({}),
    };
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": resources}]},
    }))
    .unwrap()
}

fn best_effort(name: &str) -> Pod {
    pod(name, 0, 0, QosClass::BestEffort, 0)
}
fn burstable(name: &str, cpu: i64, memory: i64) -> Pod {
    pod(name, cpu, memory, QosClass::Burstable, 0)
}
fn guaranteed(name: &str, cpu: i64, memory: i64) -> Pod {
    pod(name, cpu, memory, QosClass::Guaranteed, 0)
}

fn machine(cpu: i64, memory: i64, max_pods: usize) -> Machine {
    let amounts = [("cpu", format!("{cpu}m")), ("memory", format!("{memory}Mi"))];
    let allocatable = amounts.map(|(n, a)| (n.to_owned(), Amount::parse(&a).unwrap())).into();
    Machine { name: "here".to_owned(), allocatable, max_pods, labels: BTreeMap::new() }
}

/// Who goes for a critical Pod that asks for so much, on a machine that is full.
fn go(pods: &[Pod], cpu: i64, memory: i64) -> Result<Vec<String>, String> {
    let used = |resource: &str| pods.iter().map(|p| requested(p, resource)).sum::<i64>();
    let full = machine(used("cpu"), used("memory") >> 20, 100);
    chosen(pods, &pod("critical", cpu, memory, QosClass::Burstable, CRITICAL), &full)
}

fn chosen(pods: &[Pod], critical: &Pod, machine: &Machine) -> Result<Vec<String>, String> {
    let others: Vec<&Pod> = pods.iter().collect();
    let found = victims(critical, &others, &shortages(critical, &others, machine));
    let names = |pods: Vec<&Pod>| pods.iter().filter_map(|p| p.metadata.name.clone()).collect();
    found.map(names).map_err(|e| e.to_string())
}

fn names(names: &[&str]) -> Result<Vec<String>, String> {
    Ok(names.iter().map(|n| (*n).to_owned()).collect())
}

#[test]
fn get_pods_to_preempt() {
    let [b, u, g] = [best_effort("b"), burstable("u", 100, 100), guaranteed("g", 100, 100)];
    assert_eq!(go(&[b.clone(), u.clone(), g.clone()], 0, 0), names(&[]), "nothing is short");
    assert_eq!(go(&[b.clone(), u.clone(), g.clone()], 50, 0), names(&["u"]), "a burstable before a guaranteed one");
    assert_eq!(go(&[b, g.clone()], 50, 50), names(&["g"]), "best effort frees nothing that is asked for");
    assert_eq!(go(&[u, g], 150, 0), names(&["u", "g"]), "both when one is not enough");
}

#[test]
fn the_pod_closest_to_the_need_goes_first() {
    let pods = [burstable("small", 50, 10), burstable("fitting", 100, 10), burstable("large", 400, 10)];
    assert_eq!(go(&pods, 90, 0), names(&["fitting"]), "of those that are enough, the one that asks for less");
    assert_eq!(go(&pods, 300, 0), names(&["large"]));
    assert_eq!(go(&pods, 450, 0), names(&["large", "small"]), "the largest part first, then what fits the rest");
}

#[test]
fn of_equals_the_one_that_asks_for_less_memory_then_less_cpu() {
    let pods = [burstable("a", 100, 300), burstable("b", 100, 200), burstable("c", 200, 200)];
    assert_eq!(go(&pods, 100, 0), names(&["b"]));
}

#[test]
fn distances_add_up_over_resources() {
    // "both" misses half of each need (0.25 + 0.25), "cpu" all of the memory (0 + 1).
    let pods = [burstable("cpu", 200, 0), burstable("both", 100, 100), burstable("rest", 200, 200)];
    assert_eq!(go(&pods, 200, 200), names(&["rest"]));
    let pods = [burstable("cpu", 200, 0), burstable("both", 100, 100), burstable("memory", 0, 150)];
    assert_eq!(go(&pods, 200, 200), names(&["both", "cpu", "memory"]));
}

#[test]
fn guaranteed_pods_are_spared_when_burstable_ones_are_enough() {
    let pods = [guaranteed("exact", 100, 100), burstable("u1", 60, 60), burstable("u2", 60, 60)];
    assert_eq!(go(&pods, 100, 100).map(|v| v.len()), Ok(2));
    assert!(!go(&pods, 100, 100).unwrap().contains(&"exact".to_owned()));
}

#[test]
fn best_effort_pods_make_room_for_the_number_of_pods() {
    let pods = [guaranteed("g", 1, 1), best_effort("b"), burstable("u", 1, 1)];
    let critical = pod("critical", 0, 0, QosClass::BestEffort, CRITICAL);
    assert_eq!(chosen(&pods, &critical, &machine(100, 100, 3)), names(&["b"]));
}

#[test]
fn what_is_critical_itself_stays_unless_it_is_less_so() {
    let lower = pod("lower", 100, 100, QosClass::Burstable, CRITICAL);
    let more = pod("more", 100, 100, QosClass::Burstable, CRITICAL + 5);
    let machine = machine(200, 200, 100);
    let critical = |priority| pod("critical", 100, 100, QosClass::Burstable, priority);
    let pods = [lower, more];
    assert_eq!(chosen(&pods, &critical(CRITICAL + 1), &machine), names(&["lower"]));
    let words = "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim \
                 resources: [(res: cpu, q: 100), (res: memory, q: 104857600), ]";
    assert_eq!(chosen(&pods, &critical(CRITICAL), &machine), Err(words.to_owned()));
}

fn any_pod() -> impl Strategy<Value = (i64, i64, u8, i32)> {
    (1_i64..300, 1_i64..300, 0_u8..3, prop::sample::select(vec![0, 10, CRITICAL, CRITICAL + 9]))
}

proptest! {
    /// Whoever is chosen may be preempted, is enough, and no Pod of a better class is there for a need that those of
    /// the worse classes meet alone. When nobody is found, all together would not have been enough.
    #[test]
    fn the_chosen_are_enough_and_allowed(
        others in prop::collection::vec(any_pod(), 0..12), cpu in 1_i64..800, memory in 1_i64..800,
    ) {
        let class = |c: u8| [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed][usize::from(c)];
        let pods: Vec<Pod> =
            others.iter().enumerate().map(|(i, o)| pod(&format!("p{i}"), o.0, o.1, class(o.2), o.3)).collect();
        let refs: Vec<&Pod> = pods.iter().collect();
        let critical = pod("critical", cpu, memory, QosClass::Burstable, CRITICAL + 1);
        let total = |resource: &str, pods: &[&Pod]| pods.iter().map(|p| requested(p, resource)).sum::<i64>();
        let machine = machine(total("cpu", &refs), total("memory", &refs) >> 20, 100);
        let short = shortages(&critical, &refs, &machine);
        let allowed: Vec<&Pod> = refs.iter().copied().filter(|p| may_preempt(&critical, p)).collect();
        match victims(&critical, &refs, &short) {
            Ok(chosen) => {
                prop_assert!(chosen.iter().all(|c| may_preempt(&critical, c)));
                let left: Vec<&Pod> = refs.iter().copied().filter(|p| !chosen.contains(p)).collect();
                prop_assert_eq!(shortages(&critical, &left, &machine), vec![]);
                let worse: Vec<&Pod> =
                    allowed.iter().copied().filter(|p| qos_class(p) != QosClass::Guaranteed).collect();
                let needs: Vec<Need> =
                    short.iter().map(|s| Need { resource: s.resource.clone(), quantity: s.missing() }).collect();
                if without(&needs, &worse).is_empty() {
                    prop_assert!(chosen.iter().all(|c| qos_class(c) != QosClass::Guaranteed));
                }
            }
            Err(Impossible(unmet)) => {
                prop_assert!(!unmet.is_empty());
                let left: Vec<&Pod> = refs.iter().copied().filter(|p| !allowed.contains(p)).collect();
                prop_assert!(!shortages(&critical, &left, &machine).is_empty());
            }
        }
    }
}

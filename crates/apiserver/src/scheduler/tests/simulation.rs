//! The scheduler beside an API that loses time, answers wrongly, and restarts it: seeded, without a clock.
//!
//! Events arrive late, in order within a resource and in any order between them. A bind may be refused, may work and be
//! answered as refused after it was seen, or take long. Now and then the scheduler is started anew. After every step the truth is checked: no
//! node is given more than it has. In the end, when nothing fails any more, every Pod that fits has a node.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use super::{node_facts, node_object, pod_facts, pod_object};
use crate::scheduler::{Action, Event, PodRef, Scheduler};

/// xorshift: the same for a seed on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct World {
    random: Random,
    scheduler: Scheduler,
    now: Duration,
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    /// Not told yet, by resource.
    node_events: VecDeque<Event>,
    pod_events: VecDeque<Event>,
    /// Asked for and not done yet.
    actions: Vec<Action>,
    answers: Vec<Event>,
    created: u64,
    faults: bool,
}

const CPU: i64 = 1000;

fn cpu(pod: &Value) -> i64 {
    let text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap();
    text.trim_end_matches('m').parse().unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            scheduler: Scheduler::default(),
            now: Duration::from_secs(1),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            node_events: VecDeque::new(),
            pod_events: VecDeque::new(),
            actions: Vec::new(),
            answers: Vec::new(),
            created: 0,
            faults: true,
        };
        for name in ["n1", "n2"] {
            let node = node_object(name, &format!("{CPU}m"), "1Gi", 8);
            world.node_events.push_back(Event::Node(node_facts(&node)));
            world.nodes.insert(name.to_owned(), node);
        }
        world
    }

    fn tell_pod(&mut self, name: &str) {
        let facts = pod_facts(&self.pods[name]);
        self.pod_events.push_back(Event::Pod(Box::new(facts)));
    }

    fn some_pod(&mut self) -> Option<String> {
        let at = self.random.below(self.pods.len().max(1) as u64);
        self.pods.keys().nth(usize::try_from(at).unwrap()).cloned()
    }

    /// Somebody does something, or time passes.
    fn happen(&mut self) {
        match self.random.below(10) {
            0..4 => {
                self.created += 1;
                let name = format!("p{}", self.created);
                let size = [0, 100, 300, 700][usize::try_from(self.random.below(4)).unwrap()];
                let mut pod = pod_object(&name, size);
                pod["spec"]["priority"] = json!(self.random.below(3));
                self.pods.insert(name.clone(), pod);
                self.tell_pod(&name);
            }
            4..6 => {
                if let Some(name) = self.some_pod() {
                    self.remove(&name);
                }
            }
            6 => {
                // A node is cordoned or let go; what is there stays.
                let name = if self.random.one_in(2) { "n1" } else { "n2" };
                let node = self.nodes.get_mut(name).unwrap();
                node["spec"]["unschedulable"] = json!(node["spec"]["unschedulable"] != true);
                self.node_events.push_back(Event::Node(node_facts(node)));
            }
            _ => self.now += Duration::from_millis(self.random.below(3000)),
        }
    }

    fn remove(&mut self, name: &str) {
        self.pods.remove(name);
        self.pod_events.push_back(Event::PodGone(format!("uid-{name}")));
    }

    /// The API does one of the actions that wait.
    fn write(&mut self) {
        if self.actions.is_empty() {
            return;
        }
        let at = usize::try_from(self.random.below(self.actions.len() as u64)).unwrap();
        let action = self.actions.swap_remove(at);
        let refused = self.faults && self.random.one_in(8);
        match action {
            Action::Bind { pod, node } => {
                // The API does not know what fits; it refuses who is gone or has a node.
                let free = self.pods.get(&pod.name).is_some_and(|object| object["spec"]["nodeName"].is_null());
                if !free || refused {
                    self.answers.push(Event::BindFailed(pod.uid));
                    return;
                }
                self.pods.get_mut(&pod.name).unwrap()["spec"]["nodeName"] = node.into();
                self.tell_pod(&pod.name);
                if self.faults && self.random.one_in(8) {
                    // It worked, was seen, and is answered as refused.
                    self.pod_events.push_back(Event::BindFailed(pod.uid));
                }
            }
            Action::Report { pod, report, nominated } => self.report(&pod, &report, nominated.as_deref(), refused),
            Action::Preempt { victim, .. } => {
                if !refused && self.pods.contains_key(&victim.name) {
                    self.remove(&victim.name);
                }
            }
            Action::Tell { .. } => {}
        }
    }

    fn report(&mut self, pod: &PodRef, report: &crate::scheduler::Report, nominated: Option<&str>, refused: bool) {
        let Some(object) = self.pods.get_mut(&pod.name) else { return };
        if refused || !object["spec"]["nodeName"].is_null() {
            return;
        }
        object["status"]["nominatedNodeName"] = json!(nominated);
        object["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": report.reason, "message": report.message}]);
        self.tell_pod(&pod.name);
    }

    /// The scheduler hears some of what has happened.
    fn hear(&mut self, all: bool) {
        if self.faults && self.random.one_in(60) {
            // A new process: what it asked for before may still be done; what it knew is gone.
            self.scheduler = Scheduler::default();
            self.answers.clear();
            self.actions.clear();
            self.node_events.clear();
            self.pod_events.clear();
            let nodes = self.nodes.values().map(node_facts).collect();
            let pods = self.pods.values().map(pod_facts).collect();
            let actions = self.scheduler.step(vec![Event::Nodes(nodes), Event::Pods(pods)], self.now);
            self.actions.extend(actions);
            return;
        }
        let mut events: Vec<Event> = std::mem::take(&mut self.answers);
        let share = |random: &mut Random, length: usize| match all {
            true => length,
            false => usize::try_from(random.below(length as u64 + 1)).unwrap(),
        };
        let (nodes, pods) =
            (share(&mut self.random, self.node_events.len()), share(&mut self.random, self.pod_events.len()));
        events.extend(self.node_events.drain(..nodes));
        events.extend(self.pod_events.drain(..pods));
        self.actions.extend(self.scheduler.step(events, self.now));
    }

    fn check(&self, seed: u64) {
        for node in self.nodes.keys() {
            let on: Vec<&Value> = self.pods.values().filter(|pod| pod["spec"]["nodeName"] == **node).collect();
            let used: i64 = on.iter().map(|pod| cpu(pod)).sum();
            assert!(used <= CPU && on.len() <= 8, "seed {seed}: {node} has {} Pods with {used}m", on.len());
        }
    }

    /// Nothing fails any more, and everything is heard.
    fn settle(&mut self) {
        self.faults = false;
        for node in self.nodes.values_mut() {
            node["spec"]["unschedulable"] = json!(false);
        }
        self.node_events.extend(self.nodes.values().map(node_facts).map(Event::Node));
        for _ in 0..200 {
            self.hear(true);
            while !self.actions.is_empty() {
                self.write();
            }
            self.now += Duration::from_secs(11);
        }
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..300 {
        world.happen();
        if world.random.one_in(2) {
            world.write();
        }
        world.hear(false);
        world.check(seed);
    }
    world.settle();
    world.check(seed);
    let waiting: Vec<&Value> = world.pods.values().filter(|pod| pod["spec"]["nodeName"].is_null()).collect();
    for pod in waiting {
        for node in world.nodes.keys() {
            let on: Vec<&Value> = world.pods.values().filter(|other| other["spec"]["nodeName"] == **node).collect();
            let used: i64 = on.iter().map(|pod| cpu(pod)).sum();
            let fits = on.len() < 8 && (cpu(pod) == 0 || used + cpu(pod) <= CPU);
            assert!(!fits, "seed {seed}: {} waits, and {node} has room", pod["metadata"]["name"]);
            assert_eq!(pod["status"]["conditions"][0]["reason"], "Unschedulable", "seed {seed}");
        }
    }
}

/// `MINKE_SIM_SEED` runs one seed, `MINKE_SIM_SEEDS` that many.
#[test]
fn no_node_is_given_more_than_it_has_and_no_pod_is_forgotten() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("MINKE_SIM_SEED") {
        Some(seed) => run(seed),
        None => (0..number("MINKE_SIM_SEEDS").unwrap_or(25)).for_each(run),
    }
}

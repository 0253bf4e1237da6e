//! Property tests against a model that keeps nothing but lists and recomputes everything.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{node_facts, node_object, pod_facts, pod_object};
use crate::scheduler::{Action, Event, Scheduler};

#[derive(Debug, Clone)]
enum Step {
    /// A Pod comes: CPU, priority, a port of the host.
    Come(i64, i64, bool),
    /// The nth Pod goes.
    Go(usize),
    /// The nth Pod ends.
    End(usize),
    /// The nth bind that was asked for works, and is seen.
    Bound(usize),
    /// It does not.
    Refused(usize),
    /// A node comes, or changes: which, CPU, Pods, cordoned.
    Node(usize, i64, i64, bool),
    /// A node goes.
    NodeGone(usize),
    /// Everything is told anew.
    Resync,
    /// Time passes, in seconds.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_i64..800, 0_i64..3, any::<bool>()).prop_map(|(cpu, priority, port)| Step::Come(cpu, priority, port)),
        2 => (0_usize..20).prop_map(Step::Go),
        1 => (0_usize..20).prop_map(Step::End),
        4 => (0_usize..4).prop_map(Step::Bound),
        1 => (0_usize..4).prop_map(Step::Refused),
        2 => (0_usize..3, 0_i64..2000, 0_i64..5, any::<bool>())
            .prop_map(|(node, cpu, pods, cordoned)| Step::Node(node, cpu, pods, cordoned)),
        1 => (0_usize..3).prop_map(Step::NodeGone),
        1 => Just(Step::Resync),
        2 => (0_u64..15).prop_map(Step::Pass),
    ]
}

/// The truth: objects as the API has them, and binds on their way.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    binds: Vec<(String, String)>,
    count: usize,
}

fn cpu(pod: &Value) -> i64 {
    let text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap();
    text.trim_end_matches('m').parse().unwrap()
}

fn has_port(pod: &Value) -> bool {
    pod["spec"]["containers"][0].get("ports").is_some()
}

impl Model {
    /// The Pods that use a node, on it or on their way to it.
    fn on(&self, node: &str) -> Vec<&Value> {
        let bound = |(name, pod): &(&String, &Value)| {
            let there = pod["spec"]["nodeName"] == node && pod["status"]["phase"] != "Succeeded";
            there || self.binds.iter().any(|(bound, to)| bound == *name && to == node)
        };
        self.pods.iter().filter(bound).map(|(_, pod)| pod).collect()
    }

    /// Whether the Pod fits there beside what is there already.
    fn fits(&self, pod: &Value, node: &str) -> bool {
        let (spec, on) = (&self.nodes[node], self.on(node));
        let allocatable: i64 =
            spec["status"]["allocatable"]["cpu"].as_str().unwrap().trim_end_matches('m').parse().unwrap();
        let most: usize = spec["status"]["allocatable"]["pods"].as_str().unwrap().parse().unwrap();
        let used: i64 = on.iter().map(|pod| cpu(pod)).sum();
        let port = has_port(pod) && on.iter().any(|other| has_port(other));
        let room = cpu(pod) == 0 || used + cpu(pod) <= allocatable;
        spec["spec"]["unschedulable"] != true && on.len() < most && room && !port
    }

    fn everything(&self) -> Vec<Event> {
        let nodes = self.nodes.values().map(node_facts).collect();
        vec![Event::Nodes(nodes), Event::Pods(self.pods.values().map(pod_facts).collect())]
    }

    /// What happened, as the scheduler is told.
    fn apply(&mut self, step: &Step) -> Vec<Event> {
        let nth = |model: &Self, at: usize| model.pods.keys().nth(at % model.pods.len().max(1)).cloned();
        let changed = |pod: &Value| vec![Event::Pod(Box::new(pod_facts(pod)))];
        match step {
            Step::Come(cpu, priority, port) => {
                self.count += 1;
                let name = format!("p{:03}", self.count);
                let mut pod = pod_object(&name, *cpu);
                pod["spec"]["priority"] = json!(priority);
                if *port {
                    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
                }
                self.pods.insert(name, pod.clone());
                changed(&pod)
            }
            Step::Go(at) => {
                let Some(name) = nth(self, *at) else { return Vec::new() };
                self.pods.remove(&name);
                self.binds.retain(|(bound, _)| *bound != name);
                vec![Event::PodGone(format!("uid-{name}"))]
            }
            Step::End(at) => {
                let Some(pod) = nth(self, *at).and_then(|name| self.pods.get_mut(&name)) else { return Vec::new() };
                if pod["spec"]["nodeName"].is_null() {
                    return Vec::new();
                }
                pod["status"]["phase"] = "Succeeded".into();
                changed(pod)
            }
            Step::Bound(at) => {
                if self.binds.is_empty() {
                    return Vec::new();
                }
                let (name, node) = self.binds.remove(at % self.binds.len());
                let Some(pod) = self.pods.get_mut(&name) else { return Vec::new() };
                pod["spec"]["nodeName"] = node.into();
                changed(pod)
            }
            Step::Refused(at) => {
                if self.binds.is_empty() {
                    return Vec::new();
                }
                let (name, _) = self.binds.remove(at % self.binds.len());
                vec![Event::BindFailed(format!("uid-{name}"))]
            }
            Step::Node(at, cpu, pods, cordoned) => {
                let name = format!("n{at}");
                let mut node = node_object(&name, &format!("{cpu}m"), "1Gi", *pods);
                node["spec"]["unschedulable"] = json!(cordoned);
                self.nodes.insert(name, node.clone());
                vec![Event::Node(node_facts(&node))]
            }
            Step::NodeGone(at) => {
                let name = format!("n{at}");
                self.nodes.remove(&name);
                vec![Event::NodeGone(name)]
            }
            Step::Resync => self.everything(),
            Step::Pass(_) => Vec::new(),
        }
    }
}

proptest! {
    /// Whatever happens: a Pod is bound once at a time, only where it fits by the model's own count, and after enough time no
    /// Pod waits that fits somewhere and has not been promised away.
    #[test]
    fn pods_are_bound_where_they_fit_and_none_is_forgotten(steps in prop::collection::vec(step(), 1..60)) {
        let (mut scheduler, mut model) = (Scheduler::default(), Model::default());
        let mut now = Duration::from_secs(1);
        for step in &steps {
            if let Step::Pass(seconds) = step {
                now += Duration::from_secs(*seconds);
            }
            let events = model.apply(step);
            for action in scheduler.step(events, now) {
                take(&mut model, action)?;
            }
        }
        // Everything that was asked for works, victims go, and time passes.
        for _ in 0..60 {
            now += Duration::from_secs(11);
            let mut events = Vec::new();
            while !model.binds.is_empty() {
                events.extend(model.apply(&Step::Bound(0)));
            }
            let mut victims = Vec::new();
            for action in scheduler.step(events, now) {
                if let Action::Preempt { victim, .. } = &action {
                    victims.push(victim.name.clone());
                }
                take(&mut model, action)?;
            }
            let mut events = Vec::new();
            for name in victims {
                model.pods.remove(&name);
                model.binds.retain(|(bound, _)| *bound != name);
                events.push(Event::PodGone(format!("uid-{name}")));
            }
            for action in scheduler.step(events, now) {
                take(&mut model, action)?;
            }
        }
        prop_assert!(model.binds.is_empty(), "it comes to rest");
        for (name, pod) in model.pods.iter().filter(|(_, pod)| pod["spec"]["nodeName"].is_null()) {
            for node in model.nodes.keys() {
                prop_assert!(!model.fits(pod, node), "{name} waits and fits on {node}");
            }
        }
    }
}

/// Performs an action on the model, and checks that it may be.
fn take(model: &mut Model, action: Action) -> Result<(), TestCaseError> {
    match action {
        Action::Bind { pod, node } => {
            let object = model.pods.get(&pod.name);
            prop_assert!(object.is_some_and(|object| object["spec"]["nodeName"].is_null()), "{} has a node", pod.name);
            prop_assert!(!model.binds.iter().any(|(bound, _)| *bound == pod.name), "{} is being bound", pod.name);
            prop_assert!(model.fits(&model.pods[&pod.name], &node), "{} does not fit on {node}", pod.name);
            model.binds.push((pod.name, node));
        }
        Action::Preempt { victim, preemptor, .. } => {
            let priority = |name: &str| model.pods.get(name).map(|pod| pod["spec"]["priority"].as_i64());
            prop_assert!(priority(&victim.name) < priority(&preemptor.name), "{} is no less important", victim.name);
        }
        Action::Report { pod, nominated, report } => {
            let object = model.pods.get_mut(&pod.name);
            let Some(object) = object else { return Err(TestCaseError::fail("a report about nobody")) };
            prop_assert!(object["spec"]["nodeName"].is_null());
            object["status"]["nominatedNodeName"] = json!(nominated);
            object["status"]["conditions"] = json!([
                {"type": "PodScheduled", "status": "False", "reason": report.reason, "message": report.message},
            ]);
        }
        Action::Tell { .. } => {}
    }
    Ok(())
}

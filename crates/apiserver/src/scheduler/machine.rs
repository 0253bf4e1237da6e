//! The scheduler's state and its steps. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::decide::{Candidate, Decision, decide};
use super::facts::{PodFacts, PodRef};
use super::message::Report;
use super::node::NodeFacts;
use super::preempt::MAKING_ROOM;
use super::queue::{Change, Queue, Stage};
use super::usage::Usage;

/// The same news is told again after this long, if it is still true.
const TELL_AGAIN: Duration = Duration::from_secs(300);

const NOTHING: &Usage = &Usage::NONE;

/// What has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// These nodes are all there are.
    Nodes(Vec<NodeFacts>),
    /// A node is there, or has changed.
    Node(NodeFacts),
    /// A node is gone.
    NodeGone(String),
    /// These Pods are all there are.
    Pods(Vec<PodFacts>),
    /// A Pod is there, or has changed.
    Pod(Box<PodFacts>),
    /// A Pod is gone.
    PodGone(String),
    /// The API refused to bind this Pod, or nobody knows whether it did; its uid.
    BindFailed(String),
}

/// News for an event of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// `Scheduled`, `FailedScheduling`, `Preempted`.
    pub reason: &'static str,
    /// Upstream's words.
    pub message: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Bind a Pod to a node, and tell so.
    Bind {
        /// Which Pod.
        pod: PodRef,
        /// To which node.
        node: String,
    },
    /// Write the condition `PodScheduled` and the nominated node of a Pod that has no node.
    Report {
        /// Which Pod.
        pod: PodRef,
        /// The condition.
        report: Report,
        /// The node that is being made free for it.
        nominated: Option<String>,
    },
    /// Tell about a Pod.
    Tell {
        /// About which Pod.
        pod: PodRef,
        /// What.
        note: Note,
    },
    /// Delete a Pod, so that a more important one has room.
    Preempt {
        /// Which.
        victim: PodRef,
        /// For whom.
        preemptor: PodRef,
        /// Where.
        node: String,
    },
}

/// Who uses a node, and how much.
#[derive(Debug, Clone, Default)]
struct Occupied {
    usage: Usage,
    pods: HashSet<String>,
}

/// What the scheduler knows. Time is monotonic, since any fixed point.
#[derive(Debug, Clone, Default)]
pub struct Scheduler {
    nodes: BTreeMap<String, NodeFacts>,
    pods: HashMap<String, PodFacts>,
    /// By node, also nodes that are not there: Pods of theirs may be.
    occupied: HashMap<String, Occupied>,
    queue: Queue,
    /// Which node is being made free for whom.
    nominated: BTreeMap<String, String>,
    /// By Pod: what was told of it last, and when.
    told: HashMap<String, (String, Duration)>,
}

impl Scheduler {
    /// Hears what happened, then decides on every Pod that is ready, the most important first.
    pub fn step(&mut self, events: Vec<Event>, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        for event in events {
            self.hear(event, now, &mut actions);
        }
        self.queue.tick(now);
        while let Some(uid) = self.queue.first().map(str::to_owned) {
            self.attempt(&uid, now, &mut actions);
        }
        actions
    }

    /// When there is something to do without any event.
    #[must_use]
    pub fn wake(&self) -> Option<Duration> {
        self.queue.wake()
    }

    fn hear(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        match event {
            Event::Nodes(nodes) => {
                let there: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
                self.nodes.retain(|name, _| there.contains(name.as_str()));
                nodes.into_iter().for_each(|node| self.node(node, now));
            }
            Event::Node(node) => self.node(node, now),
            Event::NodeGone(name) => drop(self.nodes.remove(&name)),
            Event::Pods(pods) => {
                let there: HashSet<&str> = pods.iter().map(|pod| pod.id.uid.as_str()).collect();
                let gone: Vec<String> = self.pods.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect();
                gone.iter().for_each(|uid| self.gone(uid, now));
                pods.into_iter().for_each(|pod| self.pod(pod, now, actions));
            }
            Event::Pod(pod) => self.pod(*pod, now, actions),
            Event::PodGone(uid) => self.gone(&uid, now),
            Event::BindFailed(uid) => {
                let node = match self.queue.stage(&uid) {
                    Some(Stage::Binding { node }) => node.clone(),
                    Some(Stage::Gated | Stage::Queued | Stage::BackingOff { .. } | Stage::Waiting { .. }) | None => {
                        return;
                    }
                };
                self.queue.back_off(&uid, now);
                self.release(&uid, &node, now);
            }
        }
    }

    fn node(&mut self, node: NodeFacts, now: Duration) {
        if self.nodes.get(&node.name) != Some(&node) {
            self.nodes.insert(node.name.clone(), node);
            self.queue.changed(Change::Node, now);
        }
    }

    /// Where a Pod uses room: on its node, or on that which it is being bound to.
    fn place(&self, uid: &str) -> Option<String> {
        match self.queue.stage(uid) {
            Some(Stage::Binding { node }) => Some(node.clone()),
            Some(Stage::Gated | Stage::Queued | Stage::BackingOff { .. } | Stage::Waiting { .. }) | None => {
                self.pods.get(uid)?.uses().map(str::to_owned)
            }
        }
    }

    fn release(&mut self, uid: &str, node: &str, now: Duration) {
        if let (Some(pod), Some(occupied)) = (self.pods.get(uid), self.occupied.get_mut(node)) {
            occupied.usage.remove(&pod.demand);
            occupied.pods.remove(uid);
            if occupied.pods.is_empty() {
                self.occupied.remove(node);
            }
            self.queue.changed(Change::Room, now);
        }
    }

    fn occupy(&mut self, uid: &str, node: &str) {
        if let Some(pod) = self.pods.get(uid) {
            let occupied = self.occupied.entry(node.to_owned()).or_default();
            occupied.usage.add(&pod.demand);
            occupied.pods.insert(uid.to_owned());
        }
    }

    /// It waits no more: what was remembered for it goes, and so does what was promised to it.
    fn settle(&mut self, uid: &str, now: Duration) {
        self.queue.leave(uid);
        self.told.remove(uid);
        if self.nominated.remove(uid).is_some() {
            self.queue.changed(Change::Room, now);
        }
    }

    fn gone(&mut self, uid: &str, now: Duration) {
        let place = self.place(uid);
        self.settle(uid, now);
        if let Some(node) = place {
            self.release(uid, &node, now);
        }
        self.pods.remove(uid);
    }

    fn pod(&mut self, pod: PodFacts, now: Duration, actions: &mut Vec<Action>) {
        let uid = pod.id.uid.clone();
        let old = self.pods.get(&uid);
        let same = old.is_some_and(|old| old.asks_the_same(&pod));
        let priority_changed = old.is_some_and(|old| old.priority != pod.priority);
        let before = self.place(&uid);
        // Being bound ends when the node is seen, or when it is no one to bind any more.
        let after = if pod.waits() { before.clone() } else { pod.uses().map(str::to_owned) };
        let moved = before != after || !same;
        if let Some(node) = before.filter(|_| moved) {
            self.release(&uid, &node, now);
        }
        if !pod.waits() {
            self.settle(&uid, now);
        }
        let (waits, priority, gated) = (pod.waits(), pod.priority, !pod.rules.gates.is_empty());
        if waits && gated && pod.reported.is_none() {
            let report = Report::gated();
            actions.push(Action::Report { pod: pod.id.clone(), report, nominated: None });
        }
        if waits && self.queue.stage(&uid).is_none() {
            self.nominated.extend(pod.nominated.clone().map(|node| (uid.clone(), node)));
        }
        self.pods.insert(uid.clone(), pod);
        if let Some(node) = after {
            if moved {
                self.occupy(&uid, &node);
            }
        } else if waits {
            match (self.queue.stage(&uid).cloned(), gated) {
                (None, true) => self.queue.arrive(&uid, priority, Stage::Gated),
                (None, false) => self.queue.arrive(&uid, priority, Stage::Queued),
                (Some(_), true) => self.queue.enter(&uid, Stage::Gated),
                (Some(_), false) if priority_changed => self.queue.arrive(&uid, priority, Stage::Queued),
                (Some(stage), false) if !same || stage == Stage::Gated => self.queue.retry(&uid, now),
                (Some(_), false) => {}
            }
        }
    }

    /// Nodes as this Pod finds them: what is promised to others that are no less important counts as used.
    fn candidates(&self, pod: &PodFacts) -> Vec<Candidate<'_>> {
        let promised = |node: &str| -> Vec<&PodFacts> {
            let here = self.nominated.iter().filter(|(uid, wanted)| **uid != pod.id.uid && *wanted == node);
            let others = here.filter(|(uid, _)| self.place(uid).is_none()).filter_map(|(uid, _)| self.pods.get(uid));
            others.filter(|other| other.priority >= pod.priority).collect()
        };
        let usage = |node: &str| {
            let used = self.occupied.get(node).map_or(NOTHING, |occupied| &occupied.usage);
            let mut usage = Cow::Borrowed(used);
            for other in promised(node) {
                usage.to_mut().add(&other.demand);
            }
            usage
        };
        self.nodes.values().map(|node| Candidate { node, usage: usage(&node.name) }).collect()
    }

    fn on(&self, node: &str) -> Vec<&PodFacts> {
        let pods = self.occupied.get(node).into_iter().flat_map(|occupied| &occupied.pods);
        pods.filter_map(|uid| self.pods.get(uid)).collect()
    }

    fn attempt(&mut self, uid: &str, now: Duration, actions: &mut Vec<Action>) {
        let Some(pod) = self.pods.get(uid) else {
            self.queue.leave(uid);
            return;
        };
        let before = self.nominated.get(uid).cloned();
        let (candidates, on) = (self.candidates(pod), |node: &str| self.on(node));
        let decision = decide(pod, before.as_deref(), &candidates, on);
        let (message, room, instead) = match decision {
            Decision::Place { node } => {
                actions.push(Action::Bind { pod: pod.id.clone(), node: node.clone() });
                self.queue.enter(uid, Stage::Binding { node: node.clone() });
                self.occupy(uid, &node);
                return;
            }
            Decision::Nowhere { message, room, instead } => (message, room, instead),
        };
        let pod = pod.id.clone();
        let nominated = match &instead {
            Some((node, _)) => Some(node.clone()),
            // Until those that go are gone.
            None => before.filter(|_| message.ends_with(MAKING_ROOM)),
        };
        let report = Report::unschedulable(message.clone());
        let known = self.pods.get(uid);
        if known.is_none_or(|known| known.reported.as_ref() != Some(&report) || known.nominated != nominated) {
            let nominated = nominated.clone();
            actions.push(Action::Report { pod: pod.clone(), report, nominated });
        }
        if self.is_news(uid, &message, now) {
            let note = Note { reason: "FailedScheduling", message };
            actions.push(Action::Tell { pod: pod.clone(), note });
        }
        for victim in instead.iter().flat_map(|(_, victims)| victims) {
            let node = nominated.clone().unwrap_or_default();
            actions.push(Action::Preempt { victim: victim.clone(), preemptor: pod.clone(), node });
        }
        match nominated {
            Some(node) => drop(self.nominated.insert(uid.to_owned(), node)),
            None => drop(self.nominated.remove(uid)),
        }
        self.queue.wait(uid, room, now);
    }

    /// Whether it is time to tell this; then it counts as told.
    fn is_news(&mut self, uid: &str, message: &str, now: Duration) -> bool {
        let told = self.told.get(uid);
        let news = told.is_none_or(|(told, at)| told != message || now >= *at + TELL_AGAIN);
        if news {
            self.told.insert(uid.to_owned(), (message.to_owned(), now));
        }
        news
    }
}
